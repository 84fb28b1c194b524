/* labels_test.c - what a series' row says of its profiler, and that a series whose row does not say
 * it is read in full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "model/builder.h"
#include "store/schema/labels.h"
#include "store/store.h"
#include "store/store_for_tests.h"

enum { MOST = 3 };

static const struct {
	const char *keys[MOST], *values[MOST]; /* NULL: a number */
	const char *told_by;                   /* "": nothing */
} cases[] = {
	{ { "host.name", "host.id" }, { "a", "b" }, "host.id" },
	{ { "host.id", "service.name" }, { "b", "s" }, "host.id" },
	{ { "host.name", "service.name" }, { "a", "s" }, "host.name" },
	{ { "host.name", "host.id" }, { "a", "" }, "host.name" },
	{ { "host.name", "host.id" }, { "a", NULL }, "host.name" },
	{ { "host.id", "host.id", "host.name" }, { NULL, "b", "a" }, "host.id" },
	{ { "host.name", "host.id", "telemetry.sdk.name" }, { "a", "b", "otel" }, "" },
	{ { "host.name", "telemetry.sdk.name" }, { "a", "" }, "host.name" },
	{ { "service.name" }, { "s" }, "" },
};

static uint32_t attributes_of(size_t i, struct key_value *out)
{
	uint32_t n = 0;

	for (; n < MOST && cases[i].keys[n]; n++) {
		const char *text = cases[i].values[n];

		out[n] = (struct key_value){ .key = str_cstr(cases[i].keys[n]),
					     .value = { .kind = ANY_INT, .integer = 7 } };
		if (text)
			out[n].value =
				(struct any_value){ .kind = ANY_STRING, .string = str_cstr(text) };
	}
	return n;
}

static struct profiles *message(size_t i)
{
	struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	uint64_t time = 1700000000000000000;
	struct key_value attributes[MOST];
	uint32_t count = attributes_of(i, attributes);
	struct profiles *out;
	struct err err;

	builder_begin_resource(b)->attributes = builder_key_values(b, attributes, count);
	builder_begin_scope(b)->name = STR("a profiler");
	builder_begin_profile(b)->time_unix_nano = time;
	builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, NULL, 0, NULL, 0,
		       &time, 1);
	out = builder_finish(b, &err);
	if (!out)
		fail_msg("%s", err.msg);
	return out;
}

struct told {
	char key[32], scope[32];
	uint32_t attributes, series;
	bool brief;
};

static bool take_series(void *arg, const struct source_series *s, struct err *err)
{
	struct told *t = arg;
	const struct source_attribute *a = s->resource.ptr;

	(void)err;
	t->series++;
	t->brief = s->brief;
	t->attributes = s->resource.count;
	snprintf(t->key, sizeof(t->key), "%.*s", STR_ARG(t->attributes ? a->key : STR("")));
	snprintf(t->scope, sizeof(t->scope), "%.*s", STR_ARG(s->scope_name));
	return true;
}

static struct told ask(struct test_store *store)
{
	const struct source_series_ask ask = { .range = SOURCE_ALWAYS,
					       .brief = true,
					       .profiler = true };
	struct source *snap = test_store_read(store);
	struct told t = { 0 };
	struct err err;

	if (!source_series(snap, &ask, take_series, &t, &err))
		fail_msg("%s", err.msg);
	test_store_end(store, snap);
	return t;
}

static void put(struct test_store *store, size_t i)
{
	struct profiles *p = message(i);

	assert_true(test_store_put(store, p, i + 1));
	profiles_free(p);
}

static void a_row_tells_its_profiler(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct test_store store;
		struct told t;

		test_store_make(&store);
		put(&store, i);
		t = ask(&store);
		if (t.series != 1 || !t.brief || strcmp(t.key, cases[i].told_by) != 0 ||
		    t.attributes != (cases[i].told_by[0] != 0) ||
		    strcmp(t.scope, "a profiler") != 0)
			fail_msg("case %zu: %u series, brief %d, %u attributes, told by \"%s\", "
				 "scope \"%s\"",
				 i, t.series, t.brief, t.attributes, t.key, t.scope);
		test_store_remove(&store);
	}
}

/* Of both series, then only of the second. */
static void a_row_without_labels_is_read_in_full(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct test_store store;
		char sql[100];
		struct told t;

		test_store_make(&store);
		put(&store, 2);
		put(&store, 0);
		snprintf(sql, sizeof(sql), "UPDATE series SET labels=NULL WHERE id>%d", i);
		test_store_sql(store.path, sql);
		t = ask(&store);
		if (t.series != 2 || t.brief || t.attributes != 2 ||
		    strcmp(t.scope, "a profiler") != 0)
			fail_msg("%d: %u series, brief %d, %u attributes, scope \"%s\"", i,
				 t.series, t.brief, t.attributes, t.scope);
		test_store_remove(&store);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_tells_its_profiler),
		cmocka_unit_test(a_row_without_labels_is_read_in_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
