/* schema_test.c - a store of another version is refused; what series say in full and in brief; and
 * the keys of samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "model/builder.h"
#include "model/equal.h"
#include "store/schema/codec.h"
#include "store/db.h"
#include "store/salvage/check.h"
#include "store/schema/schema.h"
#include "store/store.h"
#include "store/store_for_tests.h"

/* Of some of these the store keeps what a series says in its row (labels.h). */
static const struct str label_keys[] = { { "service.name", 12 },
					 { "process.executable.name", 23 },
					 { "host.name", 9 },
					 { "container.id", 12 },
					 { "k8s.pod.name", 12 } };

struct seen {
	uint64_t process[512];
	uint64_t labels[512]; /* hash of what they say under label_keys */
	uint32_t count, brief;
};

static void put_label(struct buf *out, const struct source_series *s, struct str key)
{
	const struct source_attributes lists[] = { s->lifted, s->resource, s->scope };

	buf_char(out, '\n');
	for (size_t l = 0; l < ARRAY_LEN(lists); l++)
		for (uint32_t i = 0; i < lists[l].count; i++)
			if (str_equal(lists[l].ptr[i].key, key)) {
				any_value_append_text(out, &lists[l].ptr[i].value);
				return;
			}
}

static bool take_series(void *arg, const struct source_series *s, struct err *err)
{
	struct seen *seen = arg;
	struct buf text;

	(void)err;
	assert_true(seen->count < ARRAY_LEN(seen->process));
	buf_init(&text, 0);
	for (size_t i = 0; i < ARRAY_LEN(label_keys); i++)
		put_label(&text, s, label_keys[i]);
	seen->labels[seen->count] = hash64(buf_view(&text));
	seen->process[seen->count++] = s->process;
	seen->brief += s->brief;
	buf_release(&text);
	return true;
}

static bool count_key(void *arg, struct str key, struct err *err)
{
	(void)err;
	(void)key;
	++*(uint32_t *)arg;
	return true;
}

enum { IN_FULL, BRIEF_WITH_LABELS };

static struct seen series_of(struct source *snap, int way)
{
	struct source_series_ask ask = { .range = SOURCE_ALWAYS, .brief = way != IN_FULL };
	struct seen seen = { 0 };
	struct err err;

	if (way == BRIEF_WITH_LABELS) {
		ask.keys = label_keys;
		ask.key_count = ARRAY_LEN(label_keys);
	}
	if (!source_series(snap, &ask, take_series, &seen, &err))
		fail_msg("%s", err.msg);
	return seen;
}

static void assert_whole(struct source *snap, struct profiles *const *in, size_t count)
{
	uint64_t seq = 0;
	struct err err;

	for (size_t i = 0; i < count; i++) {
		struct profiles *out;

		if (!snap->ops->next_request(snap, seq, &seq, &out, &err) ||
		    !profiles_equal(in[i], out, 0, &err))
			fail_msg("%s: %s", wire_fixtures[i], err.msg);
		profiles_free(out);
	}
}

static void assert_keys(struct source *snap)
{
	uint32_t count = 0;
	struct err err;
	bool known;

	assert_true(snap->ops->sample_keys(snap, count_key, &count, &known, &err));
	assert_true(known && count > 0);
}

static void assert_same_labels(const struct seen *a, const struct seen *b)
{
	assert_int_equal(a->count, b->count);
	assert_memory_equal(a->labels, b->labels, a->count * sizeof(a->labels[0]));
	assert_memory_equal(a->process, b->process, a->count * sizeof(a->process[0]));
}

static void series_say_the_same_in_full_and_in_brief(void **state)
{
	const size_t count = ARRAY_LEN(wire_fixtures);
	struct profiles *in[ARRAY_LEN(wire_fixtures)];
	struct seen brief, full;
	struct source *snap;
	struct test_store t;

	(void)state;
	test_store_make(&t);
	for (size_t i = 0; i < count; i++) {
		in[i] = test_fixture(wire_fixtures[i]);
		test_store_put(&t, in[i], i + 1);
	}
	snap = test_store_read(&t);
	brief = series_of(snap, BRIEF_WITH_LABELS);
	assert_true(brief.brief > brief.count / 2);
	full = series_of(snap, IN_FULL);
	assert_same_labels(&full, &brief);
	assert_int_equal(full.brief, 0);
	assert_keys(snap);
	assert_whole(snap, in, count);
	test_store_end(&t, snap);
	for (size_t i = 0; i < count; i++)
		profiles_free(in[i]);
	test_store_remove(&t);
}

static void ignore_finding(void *arg, const char *finding)
{
	(void)arg;
	(void)finding;
}

static void a_store_of_another_version_is_refused(void **state)
{
	static const char *const versions[] = { "0", "2", "6" };
	struct test_store t;
	struct err err;

	(void)state;
	test_store_make(&t);
	store_writer_close(t.w);
	t.w = NULL;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct store_open_options options = { .location = t.path };
		struct store *reader;
		char sql[64], wanted[64];

		snprintf(sql, sizeof(sql), "PRAGMA user_version=%s", versions[i]);
		snprintf(wanted, sizeof(wanted),
			 "has schema version %s, this program reads version 1", versions[i]);
		test_store_sql(t.path, sql);
		assert_false(store_open(&options, &reader, &err));
		assert_non_null(strstr(err.msg, wanted));
		assert_int_equal(err.kind, ERR_UNSUPPORTED);
		assert_false(store_writer_open(&t.options, &t.w, t.aside, &err));
		assert_non_null(strstr(err.msg, wanted));
		assert_string_equal(t.aside, "");
		assert_false(store_check(t.path, ignore_finding, NULL, &err));
		assert_non_null(strstr(err.msg, wanted));
	}
	t.w = NULL;
	test_store_sql(t.path, "PRAGMA user_version=1");
	test_store_open(&t);
	test_store_remove(&t);
}

/* ---- keys ---- */

static const struct {
	const char *resource_key, *resource_value, *scope_key, *sample_key;
	bool service_is_odd, kept; /* kept: sample_key is in the table */
	int labels;                /* how many the series' row says; -1: it does not */
} cases[] = {
	{ "service.name", "a", "x", "thread.name", false, true, 1 },
	{ "service.name", "a", "x", "service.name", true, true, 1 }, /* the sample's wins */
	/* Lifted into its series; the host is its profiler's, too. */
	{ "host.name", "a", "x", "service.name", false, false, 3 },
	{ "service.name", "", "x", "thread.name", true, true, 1 },
	{ "service-name", "a", "x", "thread.name", true, true, -1 },
	{ "service_name", "a", "x", "thread.name", true, true, -1 },
	{ "host.name", "a", "service.name", "thread.name", true, true, -1 },
	{ "process.executable.name", "a", "x", "process.pid", false, false, 1 },
	{ "process.executable.name", "", "x", "process.pid", true, false, 1 },
	{ "process.pid", "a", "x", "process.pid", false, true, 0 },
	{ "k8s.pod.name", "a", "x", "container.id", false, false, 2 },
	{ "k8s.pod.name", "a", "x", "k8s.pod.name", false, true, 1 },
	{ "k8s.pod.name", "a", "x", "container_id", false, true, 1 },
	{ "k8s_pod-name", "a", "x", "thread.name", false, true, -1 },
	{ "thread.name", "a", "host_name", "thread.name", false, true, -1 },
};

static struct profiles *message(size_t i)
{
	struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	struct any_value text = { .kind = ANY_STRING, .string = STR("v") };
	struct key_value resource = { .key = str_cstr(cases[i].resource_key), .value = text };
	struct key_value scope_value = { .key = str_cstr(cases[i].scope_key), .value = text };
	struct attribute a = { .value = builder_any(b, &text) };
	struct attribute_index at;
	struct scope_profiles *scope;
	struct profile *p;
	struct profiles *out;
	struct err err;
	uint64_t time = 1700000000000000000;

	resource.value.string = str_cstr(cases[i].resource_value);
	builder_begin_resource(b)->attributes = builder_key_values(b, &resource, 1);
	scope = builder_begin_scope(b);
	scope->attributes = builder_key_values(b, &scope_value, 1);
	p = builder_begin_profile(b);
	p->time_unix_nano = time;
	a.key = builder_string(b, str_cstr(cases[i].sample_key));
	at = builder_attribute(b, &a);
	builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, &at, 1, NULL, 0,
		       &time, 1);
	out = builder_finish(b, &err);
	if (!out)
		fail_msg("%s", err.msg);
	return out;
}

struct keys {
	struct str wanted;
	bool service, found;
};

static bool look_at_key(void *arg, struct str key, struct err *err)
{
	struct keys *k = arg;

	(void)err;
	k->service |= str_is(key, "service.name");
	k->found |= str_equal(key, k->wanted);
	return true;
}

/* Of the one series of a sample: the varints that are not 0. */
static int count_labels(struct test_store *t)
{
	struct codec c;
	sqlite3_stmt *s;
	struct err err;
	sqlite3 *db;
	int count = -1;
	bool row;

	assert_int_equal(sqlite3_open_v2(t->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (!db_prepare(db, "SELECT labels FROM series ORDER BY id DESC LIMIT 1", &s, &err) ||
	    !db_step(db, s, &row, &err, "labels"))
		fail_msg("%s", err.msg);
	assert_true(row);
	if (sqlite3_column_type(s, 0) != SQLITE_NULL)
		for (c = codec_of(db_bytes(s, 0)), count = 0; codec_more(&c);)
			count += codec_get(&c) > 0;
	sqlite3_finalize(s);
	sqlite3_close(db);
	return count;
}

static void keys_of_samples(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct keys k = { .wanted = str_cstr(cases[i].sample_key) };
		struct profiles *p = message(i);
		struct source *snap;
		struct test_store t;
		struct err err;
		bool known;

		test_store_make(&t);
		test_store_put(&t, p, 1);
		snap = test_store_read(&t);
		assert_true(snap->ops->sample_keys(snap, look_at_key, &k, &known, &err));
		if (!known || k.found != cases[i].kept || k.service != cases[i].service_is_odd)
			fail_msg("case %zu: known %d, found %d, service %d", i, known, k.found,
				 k.service);
		if (count_labels(&t) != cases[i].labels)
			fail_msg("case %zu: %d labels, not %d", i, count_labels(&t),
				 cases[i].labels);
		test_store_end(&t, snap);
		test_store_remove(&t);
		profiles_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(series_say_the_same_in_full_and_in_brief),
		cmocka_unit_test(a_store_of_another_version_is_refused),
		cmocka_unit_test(keys_of_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
