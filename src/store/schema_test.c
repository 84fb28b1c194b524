/* schema_test.c - a store of an older schema: read as it is, brought up to date by a writer; and
 * the keys of samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "model/builder.h"
#include "model/equal.h"
#include "store/db.h"
#include "store/reader.h"
#include "store/schema.h"
#include "store/store_for_tests.h"

static void run_sql(const char *path, const char *sql)
{
	struct err err;
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	if (!db_exec(db, sql, &err))
		fail_msg("%s: %s", sql, err.msg);
	sqlite3_close(db);
}

struct seen {
	uint64_t process[512];
	uint32_t count;
};

static bool take_series(void *arg, const struct store_series *s)
{
	struct seen *seen = arg;

	assert_true(seen->count < ARRAY_LEN(seen->process));
	seen->process[seen->count++] = s->process;
	return true;
}

static bool count_key(void *arg, struct str key)
{
	(void)key;
	++*(uint32_t *)arg;
	return true;
}

static struct seen series_of(struct store_snapshot *snap, bool brief)
{
	struct store_series_ask ask = { .to = UINT64_MAX, .brief = brief };
	struct seen seen = { .count = 0 };
	struct err err;

	if (!store_each_series(snap, &ask, take_series, &seen, &err))
		fail_msg("%s", err.msg);
	return seen;
}

static void assert_whole(struct store_snapshot *snap, struct profiles *const *in, size_t count)
{
	uint64_t seq = 0;
	struct err err;

	for (size_t i = 0; i < count; i++) {
		struct profiles *out;

		if (!store_next_request(snap, seq, 0, &seq, &out, &err) ||
		    !profiles_equal(in[i], out, 0, &err))
			fail_msg("%s: %s", wire_fixtures[i], err.msg);
		profiles_free(out);
	}
}

static void assert_keys(struct store_snapshot *snap, bool known_wanted)
{
	uint32_t count = 0;
	struct err err;
	bool known;

	assert_true(store_each_sample_key(snap, &known, count_key, &count, &err));
	assert_int_equal(known, known_wanted);
	assert_true(!known || count > 0);
}

static void an_older_store_is_read_and_brought_up_to_date(void **state)
{
	static const char to_version_1[] = "DROP TABLE sample_key; ALTER TABLE series DROP COLUMN "
					   "process; PRAGMA user_version=1";
	const size_t count = ARRAY_LEN(wire_fixtures), half = count / 2;
	struct profiles *in[ARRAY_LEN(wire_fixtures)];
	struct seen now, older;
	struct store_snapshot *snap;
	struct test_store t;

	(void)state;
	test_store_make(&t);
	for (size_t i = 0; i < count; i++)
		in[i] = test_fixture(wire_fixtures[i]);
	for (size_t i = 0; i < half; i++)
		test_store_put(&t, in[i], i + 1);
	store_writer_close(t.w);
	t.w = NULL;
	snap = test_store_read(&t);
	now = series_of(snap, true);
	assert_keys(snap, true);
	test_store_end(&t, snap);

	run_sql(t.path, to_version_1);
	snap = test_store_read(&t); /* as it is: nobody who only reads may change it */
	assert_whole(snap, in, half);
	for (int brief = 0; brief < 2; brief++) {
		older = series_of(snap, brief);
		assert_int_equal(older.count, now.count);
		assert_memory_equal(older.process, now.process, now.count * sizeof(uint64_t));
	}
	assert_keys(snap, false);
	test_store_end(&t, snap);

	test_store_open(&t);
	for (size_t i = half; i < count; i++)
		test_store_put(&t, in[i], i + 1);
	snap = test_store_read(&t);
	assert_whole(snap, in, count);
	older = series_of(snap, true);
	assert_true(older.count > now.count);
	assert_memory_equal(older.process, now.process, now.count * sizeof(uint64_t));
	assert_keys(snap, false); /* nobody knows which the older samples have */
	test_store_end(&t, snap);
	for (size_t i = 0; i < count; i++)
		profiles_free(in[i]);
	test_store_remove(&t);
}

static void an_upgrade_is_all_or_nothing(void **state)
{
	struct test_store t;
	struct err err;

	(void)state;
	test_store_make(&t);
	store_writer_close(t.w);
	t.w = NULL;
	/* Somebody's table stands in the way of the second step. */
	run_sql(t.path, "ALTER TABLE series DROP COLUMN process; PRAGMA user_version=1");
	assert_false(store_writer_open(&t.options, &t.w, t.aside, &err));
	assert_non_null(strstr(err.msg, "schema version 1 to"));
	t.w = NULL;
	run_sql(t.path, "DROP TABLE sample_key");
	test_store_open(&t);
	test_store_remove(&t);
}

/* ---- keys ---- */

static const struct {
	const char *resource_key, *resource_value, *scope_key, *sample_key;
	bool service_is_odd, kept; /* kept: sample_key is in the table */
} cases[] = {
	{ "service.name", "a", "x", "thread.name", false, true },
	{ "service.name", "a", "x", "service.name", true, true }, /* the sample's wins */
	{ "host.name", "a", "x", "service.name", false, false },  /* lifted into its series */
	{ "service.name", "", "x", "thread.name", true, true },
	{ "service-name", "a", "x", "thread.name", true, true },
	{ "service_name", "a", "x", "thread.name", true, true },
	{ "host.name", "a", "service.name", "thread.name", true, true },
	{ "process.executable.name", "a", "x", "process.pid", false, false },
	{ "process.executable.name", "", "x", "process.pid", true, false },
	{ "process.pid", "a", "x", "process.pid", false, true },
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

static bool look_at_key(void *arg, struct str key)
{
	struct keys *k = arg;

	k->service |= str_is(key, "service.name");
	k->found |= str_equal(key, k->wanted);
	return true;
}

static void keys_of_samples(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct keys k = { .wanted = str_cstr(cases[i].sample_key) };
		struct profiles *p = message(i);
		struct store_snapshot *snap;
		struct test_store t;
		struct err err;
		bool known;

		test_store_make(&t);
		test_store_put(&t, p, 1);
		snap = test_store_read(&t);
		assert_true(store_each_sample_key(snap, &known, look_at_key, &k, &err));
		if (!known || k.found != cases[i].kept || k.service != cases[i].service_is_odd)
			fail_msg("case %zu: known %d, found %d, service %d", i, known, k.found,
				 k.service);
		test_store_end(&t, snap);
		test_store_remove(&t);
		profiles_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_older_store_is_read_and_brought_up_to_date),
		cmocka_unit_test(an_upgrade_is_all_or_nothing),
		cmocka_unit_test(keys_of_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
