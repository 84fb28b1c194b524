/* Files that are kept to look at: in a folder and in memory, by their limits, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "query/query.h"
#include "web/uploads.h"

static const uint64_t DAY_NS = 24ull * 3600 * 1000000000, NOW = 1767225600ull * 1000000000;

static struct upload add(struct uploads *u, const char *text, const char *name, uint64_t now)
{
	struct blob *b = blob_copy(str_cstr(text));
	struct upload one;
	struct err err;

	if (!uploads_add(u, b, str_cstr(name), now, &one, &err))
		fail_msg("%s: %s", name, err.msg);
	blob_unref(b);
	return one;
}

/* The total of everything in it; -1: it is not there. */
static int64_t total_of(struct uploads *u, const char *id, const char *selector)
{
	struct source *source;
	struct query_request r = { .selector = str_cstr(selector) };
	struct query_top top = { 0 };
	struct query *q;
	struct err err;

	if (!uploads_open(u, str_cstr(id), &source, &err)) {
		assert_int_equal(err.kind, ERR_NOT_FOUND);
		return -1;
	}
	r.source = source;
	q = query_begin(&r, &err);
	if (!q || !query_top(q, &top, &err))
		fail_msg("%s", err.msg);
	query_end(q);
	source_free(source);
	return top.total[0];
}

static struct uploads *with_folder(const char *folder)
{
	return uploads_new(&(struct uploads_options){ .folder = folder });
}

static void they_outlive_the_program(void **state)
{
	char folder[] = "/tmp/flametap-uploads-XXXXXX", inside[64], path[200], selector[80];
	struct upload one, list[UPLOADS_MOST];
	struct uploads *u;
	struct stat st;
	int64_t total;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(inside, sizeof(inside), "%s/new", folder);
	u = with_folder(inside);
	one = add(u, "a;b 3\na;c 4\n", "../../etc/.pass wd", clock_realtime_ns());
	assert_string_equal(one.name, "_pass_wd");
	snprintf(path, sizeof(path), "%s/%s_%s", inside, one.id, one.name);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(inside, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	snprintf(selector, sizeof(selector), "{upload.id=\"%s\"}", one.id);
	total = total_of(u, one.id, selector);
	assert_true(total > 0);
	uploads_free(u);

	u = with_folder(inside);
	assert_int_equal(uploads_list(u, one.time_ns, list), 1);
	assert_string_equal(list[0].id, one.id);
	assert_int_equal(total_of(u, one.id, selector), total);
	assert_int_equal(total_of(u, one.id, "{upload.id=\"other\"}"), 0);
	unlink(path);
	uploads_free(u);
	rmdir(inside);
	rmdir(folder);
}

static void the_oldest_go_first(void **state)
{
	struct uploads *u =
		uploads_new(&(struct uploads_options){ .most_bytes = 20, .retention_ns = DAY_NS });
	struct upload a, b, c, list[UPLOADS_MOST];

	(void)state;
	a = add(u, "a;b 11\n", "a", NOW);
	b = add(u, "a;b 22\n", "b", NOW + 1);
	assert_int_equal(uploads_list(u, NOW + 2, list), 2);
	assert_string_equal(list[0].id, b.id);
	assert_string_equal(add(u, "a;b 11\n", "again", NOW + 2).id, a.id);
	assert_int_equal(uploads_list(u, NOW + 2, list), 2);
	c = add(u, "a;b 33\n", "c", NOW + 3);
	assert_int_equal(uploads_list(u, NOW + 3, list), 2);
	assert_string_equal(list[0].id, c.id);
	assert_string_equal(list[1].id, a.id); /* it came anew */
	assert_int_equal(uploads_list(u, NOW + 2 * DAY_NS, list), 0);
	assert_int_equal(total_of(u, a.id, ""), -1);
	uploads_free(u);
}

static void what_is_no_profile_is_refused(void **state)
{
	static const struct {
		const char *text;
		enum err_kind kind;
	} cases[] = {
		{ "\x1f\x8b\x08 not gzip", ERR_INVALID },
		{ "{\"resourceProfiles\":[]}", ERR_INVALID }, /* nothing in it */
		{ "\xff\xff\xff\xff", ERR_INVALID },
		{ "a;b 1\na;b 2\na;b 3\na;b 4\na;b 5\na;b 6\n",
		  ERR_LIMIT }, /* more than 30 bytes */
	};
	struct uploads *u = uploads_new(&(struct uploads_options){ .most_bytes = 30 });

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct blob *b = blob_copy(str_cstr(cases[i].text));
		struct upload one;
		struct err err;

		if (uploads_add(u, b, STR("x"), NOW, &one, &err) || err.kind != cases[i].kind)
			fail_msg("case %zu: kind %d: %s", i, err.kind, err.msg);
		blob_unref(b);
	}
	assert_int_equal(total_of(u, "../../../etc/pas", ""), -1);
	assert_int_equal(total_of(u, "0123", ""), -1);
	uploads_free(u);
}

static void more_are_looked_at_than_are_cached(void **state)
{
	struct uploads *u = uploads_new(&(struct uploads_options){ 0 });
	struct upload all[12];
	char text[40];

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(all); i++) {
		snprintf(text, sizeof(text), "a;b %u\n", i + 1);
		all[i] = add(u, text, "x", clock_realtime_ns());
	}
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < ARRAY_LEN(all); i++)
			assert_int_equal(total_of(u, all[i].id, ""),
					 total_of(u, all[0].id, "") * (i + 1));
	uploads_free(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_outlive_the_program),
		cmocka_unit_test(the_oldest_go_first),
		cmocka_unit_test(what_is_no_profile_is_refused),
		cmocka_unit_test(more_are_looked_at_than_are_cached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
