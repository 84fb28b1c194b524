/* select_test.c - which samples a selector means, and what type is answered about. */
#include "base/cleanup.h"
#include "query/rows_for_tests.h"

/* Values are powers of two: a total says which rows are in it. */
static const struct test_row rows[] = {
	{ "shop", "web-1", "main;a", 1, 0, NULL },  { "shop", "web-2", "main;b", 2, 1, NULL },
	{ "shop", NULL, "main;c", 4, 2, NULL },     { "depot", "web-1", "main;d", 8, 3, NULL },
	{ NULL, "gc", "main;e", 16, 4, NULL },      { "shop", NULL, "main;f", 32, 5, "heap" },
	{ "depot", NULL, "main;g", 64, 6, "heap" },
};

static const struct {
	const char *selector, *type;
	struct source_range seconds; /* after BEGIN; zero: all */
	int64_t want;
} selections[] = {
	{ "", "cpu", { 0 }, 31 },
	{ "", "heap", { 0 }, 96 },
	{ "{service.name=\"shop\"}", "cpu", { 0 }, 7 },
	{ "{service_name=\"shop\"}", "cpu", { 0 }, 7 },
	{ "{service.name!=\"shop\"}", "cpu", { 0 }, 24 },
	{ "{service.name=~\"sh.*|dep.*\"}", "cpu", { 0 }, 15 },
	{ "{service.name!~\"sh.*\"}", "cpu", { 0 }, 24 },
	{ "{service.name=\"unknown_service\"}", "cpu", { 0 }, 16 },
	{ "{thread.name=\"web-1\"}", "cpu", { 0 }, 9 },
	{ "{thread.name=\"\"}", "cpu", { 0 }, 4 },
	{ "{thread.name!=\"\"}", "cpu", { 0 }, 27 },
	{ "{thread.name=~\"web-.*\", service.name=\"shop\"}", "cpu", { 0 }, 3 },
	{ "{nobody.says=\"this\"}", "cpu", { 0 }, 0 },
	{ "{nobody.says=\"\"}", "cpu", { 0 }, 31 },
	{ "", "cpu", { 1, 3 }, 6 },
	{ "{service.name=\"shop\"}", "cpu", { 2, 100 }, 4 },
	{ "", "cpu", { 50, 60 }, 0 },
};

static void selectors_mean_rows(void **state)
{
	struct profiles *p = test_rows(rows, ARRAY_LEN(rows));
	struct source *source = profiles_source_new(p);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(selections); i++) {
		struct source_range s = selections[i].seconds;
		struct query_request r = { .source = source,
					   .selector = str_cstr(selections[i].selector),
					   .profile_type = str_cstr(selections[i].type) };
		struct query_top top;
		struct query *q;
		struct err err;

		if (s.to)
			r.range = (struct source_range){ BEGIN + s.from * SECOND,
							 BEGIN + s.to * SECOND };
		q = query_begin(&r, &err);
		if (!q || !query_top(q, &top, &err))
			fail_msg("%s %s: %s", selections[i].selector, selections[i].type, err.msg);
		if (top.total[0] != selections[i].want)
			fail_msg("row %zu, %s: %lld, not %lld", i, selections[i].selector,
				 (long long)top.total[0], (long long)selections[i].want);
		query_end(q);
	}
	source_free(source);
	profiles_free(p);
}

static const struct {
	const char *selector, *type;
	const char *says; /* of the error */
} refused[] = {
	{ "{service.name}", "", "" },
	{ "{service.name=~\"(\"}", "", "" },
	{ "", "no_such_type", "no_such_type" },
	{ "{span_id=\"12\"}", "", "16 hex digits" },
};

static void what_means_nothing_is_refused(void **state)
{
	struct profiles *p = test_rows(rows, ARRAY_LEN(rows));
	struct source *source = profiles_source_new(p);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct query_request r = { .source = source,
					   .selector = str_cstr(refused[i].selector),
					   .profile_type = str_cstr(refused[i].type) };
		struct err err = { 0 };
		struct query *q = query_begin(&r, &err);

		if (q || str_search(str_cstr(err.msg), str_cstr(refused[i].says)) < 0)
			fail_msg("%s %s: %s", refused[i].selector, refused[i].type,
				 q ? "not refused" : err.msg);
	}
	source_free(source);
	profiles_free(p);
}

static const struct {
	const char *key, *want;
} label_values[] = {
	{ "thread.name", "gc 16|web-1 9|web-2 2" },
	{ "service.name", "depot 8|shop 7|unknown_service 16" },
	{ "nobody.says", "" },
};

static int by_label(const void *a, const void *b)
{
	return str_compare(((const struct query_label *)a)->text,
			   ((const struct query_label *)b)->text);
}

static void labels_have_values_with_weights(void **state)
{
	struct profiles *p = test_rows(rows, ARRAY_LEN(rows));
	struct query_request r = { .source = profiles_source_new(p), .profile_type = STR("cpu") };
	struct query *q = test_begin(&r);
	AUTO(buf_release) struct buf got = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(label_values); i++) {
		struct query_values_options o = { .key = str_cstr(label_values[i].key) };
		struct query_label sorted[8];
		struct query_labels l;
		struct err err;

		if (!query_label_values(q, &o, &l, &err))
			fail_msg("%s: %s", label_values[i].key, err.msg);
		assert_true(l.count <= ARRAY_LEN(sorted));
		if (l.count)
			memcpy(sorted, l.ptr, l.count * sizeof(*sorted));
		qsort(sorted, l.count, sizeof(*sorted), by_label);
		for (uint32_t k = 0; k < l.count; k++)
			buf_printf(&got, "%s%.*s %lld", k ? "|" : "", STR_ARG(sorted[k].text),
				   (long long)sorted[k].value);
		test_same_text(label_values[i].key, &got, label_values[i].want);
	}
	query_end(q);
	source_free(r.source);
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selectors_mean_rows),
		cmocka_unit_test(what_means_nothing_is_refused),
		cmocka_unit_test(labels_have_values_with_weights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
