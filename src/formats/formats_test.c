/* formats_test.c - content tells its format, and what we write we read again. */
#include "formats/formats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/cleanup.h"

static const struct {
	const char *content;
	enum format_row want;
} contents[] = {
	{ "main;work 3\n", FORMAT_FOLDED },
	{ "# a comment\nmain 1\n", FORMAT_FOLDED },
	{ "prog 12/34 [000] 1.500000: 1 cycles:\n\tffff main (/bin/prog)\n", FORMAT_PERF_SCRIPT },
	{ "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\"}",
	  FORMAT_SPEEDSCOPE },
	{ "{\"shared\":{\"frames\":[]},\"profiles\":[]}", FORMAT_SPEEDSCOPE },
	{ "{\"nodes\":[],\"samples\":[]}", FORMAT_CPUPROFILE },
	{ "{\"meta\":{},\"shared\":{},\"threads\":[]}", FORMAT_FIREFOX },
	{ "{\"resourceProfiles\":[]}", FORMAT_OTLP_JSON },
	{ "\x32\x04main", FORMAT_PPROF },              /* a string table at the top */
	{ "\x0a\x02\x0a\x01\x32\x01x", FORMAT_PPROF }, /* behind a value type */
	{ "\x0a\x02\x0a\x01", FORMAT_OTLP },
};

static void content_tells_its_format(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
		const struct format *f = format_tell(str_cstr(contents[i].content));

		if (f != &formats[contents[i].want])
			fail_msg("row %zu, %s: told as %s, not %s", i, contents[i].content, f->name,
				 formats[contents[i].want].name);
	}
}

static int64_t total_of(const struct profiles *p, uint32_t *samples)
{
	int64_t sum = 0;

	*samples = 0;
	for (uint32_t i = 0; i < p->profile_count; i++) {
		struct range r = p->profiles[i].samples;

		for (uint32_t k = r.first; k < r.first + r.count; k++, ++*samples)
			sum += sample_total(p, &p->profiles[i], &p->samples[k]).value;
	}
	return sum;
}

static struct profiles *read_bytes(struct str bytes, const char *name)
{
	struct blob *b = blob_copy(bytes);
	struct profiles *p;
	struct err err;

	if (!format_read(b, &p, &err))
		fail_msg("%s: %s", name, err.msg);
	blob_unref(b);
	return p;
}

static void what_is_written_is_read(void **state)
{
	struct profiles *p = read_bytes(STR("main;work;copy 3\nmain;work 2\nmain 4\n"), "folded");
	uint32_t samples;

	(void)state;
	assert_int_equal(total_of(p, &samples), 9);
	for (int i = 0; i < FORMATS; i++) {
		const struct format *f = &formats[i];
		AUTO(buf_release) struct buf out = { 0 };
		struct profiles *again;
		struct err err;

		if (!f->write || !f->read)
			continue;
		if (!f->write(p, NULL, &out, &err))
			fail_msg("%s: %s", f->name, err.msg);
		if (format_tell(buf_view(&out)) != f)
			fail_msg("%s is told as %s", f->name, format_tell(buf_view(&out))->name);
		again = read_bytes(buf_view(&out), f->name);
		if (total_of(again, &samples) != 9 || samples != 3)
			fail_msg("%s: %lld in %u samples, not 9 in 3", f->name,
				 (long long)total_of(again, &samples), samples);
		profiles_free(again);
	}
	profiles_free(p);
}

static void a_full_buffer_is_an_error(void **state)
{
	struct profiles *p = read_bytes(STR("main;work 3\n"), "folded");

	(void)state;
	for (int i = 0; i < FORMATS; i++) {
		struct buf out;
		struct err err;

		if (!formats[i].write)
			continue;
		buf_init(&out, 4);
		if (formats[i].write(p, NULL, &out, &err))
			fail_msg("%s fits 4 bytes", formats[i].name);
		assert_int_equal(err.kind, ERR_LIMIT);
		buf_release(&out);
	}
	profiles_free(p);
}

static void what_is_no_profile_is_refused(void **state)
{
	static const char *const texts[] = { "PERFILE2 and more", "\x89PNG\r\n", "hello" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct blob *b = blob_copy(str_cstr(texts[i]));
		struct profiles *p;
		struct err err;

		if (format_read(b, &p, &err))
			fail_msg("%s is read", texts[i]);
		blob_unref(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(content_tells_its_format),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_full_buffer_is_an_error),
		cmocka_unit_test(what_is_no_profile_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
