/*
 * The configuration reader: YAML, merging, expansion, option tables. Whatever comes is refused with
 * a problem or loaded; what is loaded is printed, and that loads and prints the same.
 */
#include <stdlib.h>
#include "fuzz/fuzz.h"
#include "pipeline/config.h"
#include "tests/support/pipeline_fakes.h"

static struct config *load(const char *yaml)
{
	struct config_source source = { CONFIG_FROM_TEXT, yaml, "fuzz" };
	struct problems problems;
	struct buf text;
	struct config *c;

	problems_init(&problems);
	c = config_load(&source, 1, fake_components, &problems);
	if (!c != (problems.error_count > 0))
		abort(); /* refused without a word, or loaded in spite of one */
	buf_init(&text, 0);
	problems_write(&problems, true, &text);
	buf_release(&text);
	problems_release(&problems);
	return c;
}

static char *print(const struct config *c)
{
	struct buf out;
	size_t len;

	buf_init(&out, 0);
	config_print(c, &out);
	buf_char(&out, 0);
	return buf_take(&out, &len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *c, *again;
	char *yaml, *first, *second;

	/* No input may make this read files. */
	if (size > 1 << 16 || memmem(data, size, "file:", 5))
		return 0;
	yaml = malloc(size + 1);
	memcpy(yaml, data, size);
	yaml[size] = 0;
	c = load(yaml);
	free(yaml);
	if (!c)
		return 0;
	first = print(c);
	again = load(first);
	if (!again)
		abort(); /* what we print we read */
	second = print(again);
	if (strcmp(first, second) != 0)
		abort();
	free(first);
	free(second);
	config_free(again);
	config_free(c);
	return 0;
}
