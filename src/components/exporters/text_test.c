/* text_test.c - layout 2026 against what the lazy backend printed for the same bodies. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "components/exporters/fixtures_for_tests.h"
#include "components/exporters/text.h"

static const char *const bodies[] = {
	"v1.11.0-oncpu-big",
	"v1.11.0-oncpu-errframes-env",
	"v1.11.0-oncpu-mixed",
	"v1.11.0-oncpu-start",
	"v1.11.0-synthetic-offcpu-links",
	"v1.11.0-synthetic-offcpu-links-strindex",
};

static bool collect(void *ctx, struct str text, struct err *err)
{
	(void)err;
	buf_str(ctx, text);
	return true;
}

static void render(struct text_renderer *t, const struct profiles *p, size_t chunk_bytes,
		   struct buf *all)
{
	struct buf chunk;
	struct render_out out = {
		.buf = &chunk, .chunk_bytes = chunk_bytes, .write = collect, .ctx = all
	};
	struct err err;

	buf_init(&chunk, 0);
	assert_true(text_render(t, p, &out, &err));
	assert_true(render_out_finish(&out, &err));
	if (chunk_bytes)
		assert_true(chunk.cap < 2 * chunk_bytes + 16384);
	buf_release(&chunk);
}

static void assert_golden(const char *name, size_t chunk_bytes, bool want_hidden)
{
	struct text_options options = text_options_default(TEXT_2026);
	struct text_renderer *t = text_renderer_new(&options);
	struct profiles *p = fixture_profiles(name);
	struct buf got, want;
	char path[256];

	buf_init(&got, 0);
	buf_init(&want, 0);
	snprintf(path, sizeof(path), "tests/fixtures/stdout/%s.txt.gz", name);
	fixture_gunzip(path, &want);
	for (int round = 0; round < 2; round++) { /* the second one meets used caches */
		buf_reset(&got);
		render(t, p, chunk_bytes, &got);
		assert_text_equal(buf_view(&got), buf_view(&want));
	}
	assert_int_equal(text_renderer_hid_references(t), want_hidden);
	buf_release(&got);
	buf_release(&want);
	text_renderer_free(t);
	profiles_free(p);
}

static void test_golden(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		print_message("%s\n", bodies[i]);
		assert_golden(bodies[i], 0, strstr(bodies[i], "strindex") != NULL);
		assert_golden(bodies[i], 4096, strstr(bodies[i], "strindex") != NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
	};

	setenv("TZ", "UTC", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
