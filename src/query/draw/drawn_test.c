/* drawn_test.c - formats are found by name and by a file's ending. */
#include "query/draw/drawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"

static const struct {
	const char *file, *want;
} endings[] = {
	{ "out.pb.gz", "pprof" },
	{ "out.pprof", "pprof" },
	{ "out.pb", "otlp" },
	{ "a.b.otlp", "otlp" },
	{ "out.json", "otlp-json" },
	{ "out.speedscope.json", "speedscope" },
	{ "x.firefox.json", "firefox" },
	{ "out.folded", "folded" },
	{ "out.txt", "folded" },
	{ "default.pgo", "pgo" },
	{ "flames.svg", "svg" },
	{ "calls.dot", "dot" },
	{ "out.doc", NULL },
	{ "pb", NULL },
	{ "", NULL },
};

static void the_longest_ending_decides(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
		const struct format *f = export_format_of_file(str_cstr(endings[i].file));

		if (!f != !endings[i].want || (f && strcmp(f->name, endings[i].want) != 0))
			fail_msg("%s: %s", endings[i].file, f ? f->name : "none");
	}
}

static void every_listed_name_is_found(void **state)
{
	AUTO(buf_release) struct buf names = { 0 };
	struct str rest, name;
	uint32_t count = 0;

	(void)state;
	export_format_append_names(&names);
	rest = buf_view(&names);
	while (str_split(&rest, ',', &name)) {
		const struct format *f = export_format_find(str_trim(name));

		if (!f || !f->write || !f->file_name || !f->content_type)
			fail_msg("%.*s", STR_ARG(name));
		count++;
	}
	assert_int_equal(count, 9);
	assert_null(export_format_find(STR("cpuprofile"))); /* only read */
	assert_null(export_format_find(STR("html")));
}

static void pictures_show_what_is_there(void **state)
{
	struct blob *b = blob_copy(STR("main;work 3\nmain;rest 1\n"));
	static const char *const names[] = { "svg", "dot" };
	struct profiles *p;
	struct err err;

	(void)state;
	if (!format_read(b, &p, &err))
		fail_msg("%s", err.msg);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO(buf_release) struct buf out = { 0 };

		if (!export_format_find(str_cstr(names[i]))->write(p, NULL, &out, &err))
			fail_msg("%s: %s", names[i], err.msg);
		assert_true(str_search(buf_view(&out), STR("main")) > 0);
		assert_true(str_search(buf_view(&out), STR("work")) > 0);
		assert_true(str_search(buf_view(&out), STR("rest")) > 0);
	}
	profiles_free(p);
	blob_unref(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_ending_decides),
		cmocka_unit_test(every_listed_name_is_found),
		cmocka_unit_test(pictures_show_what_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
