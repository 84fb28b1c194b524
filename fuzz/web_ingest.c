/* What Pyroscope's clients send: a URL's query, a content type and a body, by lines, or a push;
 * read or refused. */
#include <stdlib.h>
#include "fuzz/fuzz.h"
#include "web/ingest.h"

static void ingest(const struct ingest_context *c, struct str text)
{
	struct str query = { 0 }, type = { 0 };
	struct profiles *p = NULL;
	struct params params;
	struct blob *body;
	struct err err = { 0 };

	if (!str_split(&text, '\n', &query) || !str_split(&text, '\n', &type) ||
	    !params_parse(c->arena, query, &params, &err))
		return;
	body = blob_copy(text);
	if (!ingest_read(c, &params, type, body, &p, &err) && err.kind == ERR_NONE)
		abort();
	profiles_free(p);
	blob_unref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena;
	struct ingest_context c = { .arena = &arena, .now_ns = UINT64_C(1767225600000000000) };
	struct str text = str_from(data, size);
	struct profiles *p = NULL;
	struct err err = { 0 };

	arena_init(&arena, 4096, 0);
	if (size && data[0] == 'p') {
		if (!push_read(&c, str_skip(text, 1), &p, &err) && err.kind == ERR_NONE)
			abort();
		profiles_free(p);
	} else {
		ingest(&c, text);
	}
	arena_release(&arena);
	return 0;
}
