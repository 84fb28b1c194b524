/* type_watch_test.c - what is said of sample types that nobody sends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "components/exporters/type_watch.h"
#include "model/builder.h"

/* A message with a profile of each type. */
static struct profiles *message(const char *const *types)
{
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct profiles *p;
	struct err err;

	builder_begin_resource(b);
	builder_begin_scope(b);
	for (; *types; types++) {
		struct strindex type = builder_string(b, str_cstr(*types));

		builder_begin_profile(b)->sample_type.type = type;
		builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, NULL, 0,
			       NULL, 0, NULL, 0);
	}
	p = builder_finish(b, &err);
	assert_non_null(p);
	return p;
}

static const struct {
	const char *wanted[4], *sent[8];
	const char *said; /* NULL: nothing */
} cases[] = {
	{ { "samples" }, { "samples", "off_cpu" }, NULL },
	{ { NULL }, { "samples" }, NULL },
	{ { "nope" },
	  { "samples", "off_cpu", "samples" },
	  "no profile has the sample type \"nope\"; not asked for came \"samples\", \"off_cpu\"" },
	{ { "samples", "nope", "cpu" },
	  { "samples" },
	  "no profile has the sample type \"nope\", \"cpu\"" },
	{ { "nope" }, { NULL }, "no profile has the sample type \"nope\"" },
	{ { "x" },
	  { "a", "b", "c", "d", "e", "f", "g" },
	  "no profile has the sample type \"x\"; not asked for came "
	  "\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"" },
	{ { "x" },
	  { "\x1b[2J" },
	  "no profile has the sample type \"x\"; not asked for came \"\\x1b[2J\"" },
};

static void test_what_is_said(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *wanted[4] = { cases[i].wanted[0], cases[i].wanted[1],
					  cases[i].wanted[2] };
		struct config_strings list = { .items = wanted };
		struct profiles *p = message(cases[i].sent);
		AUTO(buf_release) struct buf text = { 0 };
		struct type_watch w = { 0 };
		bool said;

		while (wanted[list.count])
			list.count++;
		type_watch_note(&w, &list, p);
		said = type_watch_append(&w, &list, &text);
		assert_int_equal(said, cases[i].said != NULL);
		if (said && !str_is(buf_view(&text), cases[i].said))
			fail_msg("case %zu: %.*s", i, STR_ARG(buf_view(&text)));
		profiles_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
