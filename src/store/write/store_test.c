/* store_test.c - what goes into an SQLite store comes out of it: whole requests, dedup, ids,
 * refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "model/equal.h"
#include "store/db.h"
#include "store/store.h"
#include "store/store_for_tests.h"
#include "wire/message_for_tests.h"
#include "wire_fixtures.h"

static void assert_same(const struct profiles *got, const struct profiles *want, const char *name)
{
	struct err why;

	if (!profiles_equal(want, got, 0, &why))
		fail_msg("%s: %s", name, why.msg);
	assert_int_equal(got->source_version, want->source_version);
	assert_int_equal(got->unknown_field_count, want->unknown_field_count);
}

/* Every fixture in one store, twice opened, gives back each as it came, in order. */
static void test_fixtures_come_back(void **state)
{
	struct test_store t;
	struct err err;
	struct profiles *in[ARRAY_LEN(wire_fixtures)];
	struct source *snap;
	uint64_t seq = 0;

	(void)state;
	test_store_make(&t);
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		in[i] = test_fixture(wire_fixtures[i]);
		test_store_put(&t, in[i], 1000 + i);
		if (i % 7 == 0)
			test_store_reopen(&t);
	}
	snap = test_store_read(&t);
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		struct profiles *out;

		if (!snap->ops->next_request(snap, seq, &seq, &out, &err))
			fail_msg("%s: %s", wire_fixtures[i], err.msg);
		assert_non_null(out);
		assert_same(out, in[i], wire_fixtures[i]);
		profiles_free(out);
		profiles_free(in[i]);
	}
	test_store_end(&t, snap);
	test_store_remove(&t);
}

/* Of each bad index its text, and whether the model has a slot for it. */
static void append_bad_texts(struct buf *b, const struct profiles *p)
{
	for (uint32_t i = 0; i < p->bad_index_count; i++) {
		bad_index_append_text(b, p, &p->bad_indices[i]);
		buf_printf(b, " %d\n", p->bad_indices[i].apart);
	}
	buf_char(b, '\0');
}

/* Bad indices of old versions are named as the sender's message had them, but for those of table
 * entries, which are the store's. */
static void test_bad_indices_keep_their_place(void **state)
{
	static const char want_format[] =
		"resource_profiles[0].scope_profiles[0].profiles[0].sample_type[0].unit_strindex "
		"is 55, string_table has 2 0\n"
		"resource_profiles[0].scope_profiles[0].profiles[0].comment_strindices[1] is 44, "
		"string_table has 2 1\n"
		"resource_profiles[0].scope_profiles[0].profiles[0].sample[1]."
		"locations_start_index is 9, location_indices has 1 0\n"
		"dictionary.attribute_units[0].unit_strindex is 66, string_table has 2 1\n"
		"%s.filename_strindex is 33, string_table has 2 0\n";
	struct msg request = { .len = 0 }, profile = { .len = 0 }, dict = { .len = 0 },
		   m = { .len = 0 };
	struct buf before, after;
	struct test_store t;
	struct source *snap;
	struct profiles *in, *out;
	struct err err;
	char wanted[1024];
	uint64_t seq = 0;

	(void)state;
	num(&m, 1, 1);
	num(&m, 2, 55);
	sub(&profile, 1, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 2, 1);
	list(&m, 3, L(N(1)));
	sub(&profile, 2, &m);
	num(&m, 1, 9);
	sub(&profile, 2, &m);
	list(&profile, 3, L(N(0)));
	list(&profile, 8, L(N(1), N(44)));
	num(&profile, 4, 1000);
	request_add_profile(&request, &profile);
	text(&dict, 5, "");
	text(&dict, 5, "name");
	m = (struct msg){ .len = 0 };
	num(&m, 4, 33);
	sub(&dict, 1, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 1, 0);
	sub(&dict, 2, &m);
	m = (struct msg){ .len = 0 };
	num(&m, 1, 1);
	num(&m, 2, 66);
	sub(&dict, 7, &m);
	key_string(&dict, 6, "k", "v");
	sub(&request, 2, &dict);
	in = decode(&request, WIRE_V1_7);

	test_store_make(&t);
	test_store_put(&t, in, 1);
	snap = test_store_read(&t);
	if (!snap->ops->next_request(snap, 0, &seq, &out, &err))
		fail_msg("%s", err.msg);
	buf_init(&before, 0);
	buf_init(&after, 0);
	append_bad_texts(&before, in);
	append_bad_texts(&after, out);
	snprintf(wanted, sizeof(wanted), want_format, "dictionary.mapping_table[0]");
	assert_string_equal(before.ptr, wanted);
	snprintf(wanted, sizeof(wanted), want_format, "dictionary.mapping_table[1]");
	assert_string_equal(after.ptr, wanted);
	buf_release(&before);
	buf_release(&after);
	profiles_free(in);
	profiles_free(out);
	test_store_end(&t, snap);
	test_store_remove(&t);
}

/* ---- retention ---- */

static int64_t rows_of(struct test_store *t, const char *table)
{
	char sql[96];

	snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
	return test_store_number(t, sql);
}

/* All of a message's times, moved. */
static void shift(struct profiles *p, uint64_t ns)
{
	for (uint32_t i = 0; i < p->timestamp_count; i++)
		p->timestamps[i] += ns;
	for (uint32_t i = 0; i < p->profile_count; i++)
		p->profiles[i].time_unix_nano += ns;
}

static const char *const all_tables[] = {
	"chunk",    "chunk_link", "profile", "request", "note",      "bucket",   "stack",
	"location", "function",   "mapping", "attrset", "attribute", "string",   "series",
	"resource", "scope",      "link",    "lookup",  "coverage",  "link_key",
};

/* What arrived too long ago goes with all that only it needed; what its sender calls old but came
 * lately stays. */
static void test_retention_by_arrival(void **state)
{
	uint64_t now = 1800000000 * (uint64_t)1000000000, hour = 3600 * (uint64_t)1000000000;
	struct profiles *old = test_fixture("v1.11.0-oncpu-big");
	struct profiles *kept = test_fixture("v1.7.0-oncpu-mixed"), *out;
	struct source *snap;
	struct test_store t;
	uint64_t seq = 0;
	struct err err;

	(void)state;
	shift(kept, 100 * hour);
	test_store_make(&t);
	t.options.retention_ns = 24 * hour;
	t.options.now_unix_ns = test_store_now;
	t.options.now_arg = &now;
	test_store_reopen(&t);
	test_store_put_at(&t, old, 1, now);
	now += 23 * hour;
	test_store_put_at(&t, kept, 2, now);
	test_store_upkeep(&t);
	assert_int_equal(rows_of(&t, "request"), 2);
	now += 2 * hour;
	test_store_reopen(&t); /* the next look is due at once */
	test_store_upkeep(&t);
	assert_int_equal(rows_of(&t, "request"), 1);
	assert_int_equal(rows_of(&t, "samples"), kept->sample_count);
	snap = test_store_read(&t);
	if (!snap->ops->next_request(snap, 0, &seq, &out, &err))
		fail_msg("%s", err.msg);
	assert_same(out, kept, "what stays");
	profiles_free(out);
	test_store_end(&t, snap);

	/* What was swept comes again as new rows, and is whole. */
	test_store_put_at(&t, old, 3, now);
	snap = test_store_read(&t);
	if (!snap->ops->next_request(snap, seq, &seq, &out, &err))
		fail_msg("%s", err.msg);
	assert_same(out, old, "what came again");
	profiles_free(out);
	test_store_end(&t, snap);

	/* Nothing at all is left of everything. */
	now += 48 * hour;
	test_store_reopen(&t);
	test_store_upkeep(&t);
	for (size_t i = 0; i < ARRAY_LEN(all_tables); i++)
		if (rows_of(&t, all_tables[i]))
			fail_msg("%s has %d rows", all_tables[i], (int)rows_of(&t, all_tables[i]));
	profiles_free(old);
	profiles_free(kept);
	test_store_remove(&t);
}

/* Samples without times are all of one bucket, which always gets more: it is cut by arrival, and
 * what only the older ones needed goes, too. */
static void test_retention_within_a_bucket(void **state)
{
	uint64_t now = 1800000000 * (uint64_t)1000000000, hour = 3600 * (uint64_t)1000000000;
	struct profiles *old = test_fixture("v1.11.0-oncpu-big");
	struct profiles *kept = test_fixture("v1.11.0-oncpu-mixed"), *out;
	struct source *snap;
	struct test_store t, alone;
	uint64_t seq = 0;
	struct err err;

	(void)state;
	memset(old->timestamps, 0, old->timestamp_count * sizeof(*old->timestamps));
	memset(kept->timestamps, 0, kept->timestamp_count * sizeof(*kept->timestamps));
	test_store_make(&alone);
	test_store_put_at(&alone, kept, 1, now);
	test_store_make(&t);
	t.options.retention_ns = 24 * hour;
	t.options.now_unix_ns = test_store_now;
	t.options.now_arg = &now;
	test_store_reopen(&t);
	test_store_put_at(&t, old, 1, now);
	now += 23 * hour;
	test_store_put_at(&t, kept, 2, now);
	now += hour + hour / 12; /* five minutes too old: not worth a look yet */
	test_store_reopen(&t);
	test_store_upkeep(&t);
	assert_int_equal(rows_of(&t, "samples"), kept->sample_count + old->sample_count);
	now += hour;
	test_store_reopen(&t);
	test_store_upkeep(&t);
	assert_int_equal(rows_of(&t, "bucket"), 1);
	assert_int_equal(rows_of(&t, "samples"), kept->sample_count);
	for (size_t i = 0; i < ARRAY_LEN(all_tables); i++) {
		const char *x = all_tables[i];

		if (strcmp(x, "lookup") != 0) /* goes in many at a time */
			assert_int_equal(rows_of(&t, x), rows_of(&alone, x));
	}
	assert_true(store_writer_facts(t.w).swept_samples == old->sample_count);
	snap = test_store_read(&t);
	if (!snap->ops->next_request(snap, 0, &seq, &out, &err))
		fail_msg("%s", err.msg);
	assert_same(out, kept, "what stays");
	profiles_free(out);
	test_store_end(&t, snap);
	test_store_put_at(&t, old, 3, now);
	assert_int_equal(rows_of(&t, "samples"), kept->sample_count + old->sample_count);
	snap = test_store_read(&t);
	if (!snap->ops->next_request(snap, seq, &seq, &out, &err))
		fail_msg("%s", err.msg);
	assert_same(out, old, "what came again");
	profiles_free(out);
	test_store_end(&t, snap);
	test_store_remove(&t);
	test_store_remove(&alone);
	profiles_free(old);
	profiles_free(kept);
}

/* A writer that ends in between leaves upkeep to the next one: pages to give back, names to sweep.
 */
static void test_upkeep_goes_on_after_a_restart(void **state)
{
	static const uint64_t hour = UINT64_C(3600) * 1000000000;
	struct profiles *p = test_fixture("v1.11.0-oncpu-big");
	uint64_t now = 1700000000 * UINT64_C(1000000000);
	struct test_store t;
	bool more = true;
	struct err err;

	(void)state;
	test_store_make(&t);
	t.options.retention_ns = 24 * hour;
	t.options.now_unix_ns = test_store_now;
	t.options.now_arg = &now;
	test_store_reopen(&t);
	test_store_put_at(&t, p, 1, now);
	now += 26 * hour;
	test_store_reopen(&t);
	while (more && !store_writer_facts(t.w).swept_samples)
		if (!store_writer_upkeep(t.w, 0, &more, &err))
			fail_msg("%s", err.msg);
	assert_int_equal(store_writer_facts(t.w).swept_samples, p->sample_count);
	assert_true(test_store_number(&t, "SELECT count(*) FROM stack") > 0);
	test_store_reopen(&t);
	test_store_upkeep(&t);
	assert_int_equal(test_store_number(&t, "SELECT count(*) FROM stack"), 0);

	store_writer_close(t.w);
	t.w = NULL;
	test_store_sql(t.path, "CREATE TABLE scrap(v); INSERT INTO scrap "
			       "VALUES(zeroblob(1000000)); DROP TABLE scrap");
	test_store_open(&t);
	assert_true(test_store_number(&t, "PRAGMA freelist_count") > 0);
	test_store_upkeep(&t);
	assert_int_equal(test_store_number(&t, "PRAGMA freelist_count"), 0);
	profiles_free(p);
	test_store_remove(&t);
}

/* A limit below what one bucket holds is kept to, and one below what a request holds is said. */
static void test_max_size_within_a_bucket(void **state)
{
	struct profiles *big = test_fixture("v1.11.0-oncpu-big"), *out = NULL;
	struct source *snap;
	struct test_store t;
	uint64_t seq = 0, requests = 0, gone = 0;
	struct err err;

	(void)state;
	test_store_make(&t);
	t.options.max_size_bytes = 1 << 20;
	test_store_reopen(&t);
	for (uint64_t i = 1; i <= 40; i++) {
		struct store_writer_facts facts;

		test_store_put_at(&t, big, i, i);
		if (i % 10)
			continue;
		test_store_reopen(&t); /* the next look is due at once */
		test_store_upkeep(&t);
		facts = store_writer_facts(t.w);
		assert_false(facts.nothing_older);
		assert_true(facts.file_bytes <= t.options.max_size_bytes * 11 / 10);
		gone += facts.swept_samples;
	}
	assert_true(gone >= 15 * (uint64_t)big->sample_count);
	snap = test_store_read(&t);
	for (;;) {
		struct profiles *p;

		if (!snap->ops->next_request(snap, seq, &seq, &p, &err))
			fail_msg("%s", err.msg);
		if (!p)
			break;
		profiles_free(out);
		out = p;
		requests++;
	}
	assert_true(requests > 1);
	assert_same(out, big, "the newest");
	profiles_free(out);
	test_store_end(&t, snap);

	t.options.max_size_bytes = 1 << 16;
	test_store_reopen(&t);
	test_store_upkeep(&t);
	assert_true(store_writer_facts(t.w).nothing_older);
	assert_int_equal(rows_of(&t, "samples"), big->sample_count);
	test_store_remove(&t);
	profiles_free(big);
}

/* What comes without a pause waits for what goes: after each, at most an eighth too much is there.
 */
static void test_max_size_of_one_fast_sender(void **state)
{
	struct profiles *big = test_fixture("v1.11.0-oncpu-big");
	struct test_store t;
	uint64_t limit = 1 << 20, largest = 0;
	struct err err;

	(void)state;
	test_store_make(&t);
	t.options.max_size_bytes = limit;
	test_store_reopen(&t);
	for (uint64_t i = 1; i <= 100; i++) {
		struct store_writer_facts facts;
		bool more;

		test_store_put_at(&t, big, i, i);
		if (!store_writer_upkeep(t.w, 0, &more, &err))
			fail_msg("%s", err.msg);
		facts = store_writer_facts(t.w);
		if (facts.file_bytes > largest)
			largest = facts.file_bytes;
	}
	if (largest > limit / 8 * 9)
		fail_msg("%llu bytes of %llu", (unsigned long long)largest,
			 (unsigned long long)limit);
	assert_true(store_writer_facts(t.w).swept_samples > 40 * (uint64_t)big->sample_count);
	test_store_remove(&t);
	profiles_free(big);
}

/* While rows are swept slice by slice, new samples that need some of them come in between. */
static void test_sweep_beside_writing(void **state)
{
	uint64_t now = 1800000000 * (uint64_t)1000000000, hour = 3600 * (uint64_t)1000000000;
	struct profiles *in[ARRAY_LEN(wire_fixtures)], *out;
	struct source *snap;
	struct test_store t;
	uint64_t seq = 0, number = 100;
	size_t next = 0;
	bool more = true;
	struct err err;

	(void)state;
	test_store_make(&t);
	t.options.retention_ns = 24 * hour;
	t.options.now_unix_ns = test_store_now;
	t.options.now_arg = &now;
	test_store_reopen(&t);
	for (size_t i = 0; i < ARRAY_LEN(wire_fixtures); i++) {
		in[i] = test_fixture(wire_fixtures[i]);
		test_store_put_at(&t, in[i], i + 1, now);
	}
	now += 25 * hour;
	store_writer_close(t.w);
	test_store_open(&t);
	while (more) {
		if (!store_writer_upkeep(t.w, 0, &more, &err))
			fail_msg("%s", err.msg);
		if (next < ARRAY_LEN(wire_fixtures) && store_writer_facts(t.w).swept_samples) {
			shift(in[next], 200 * hour);
			test_store_put_at(&t, in[next++], number++, now);
		}
	}
	assert_int_equal(next, ARRAY_LEN(wire_fixtures));
	snap = test_store_read(&t);
	for (size_t i = 0; i < next; i++) {
		if (!snap->ops->next_request(snap, seq, &seq, &out, &err))
			fail_msg("%s: %s", wire_fixtures[i], err.msg);
		assert_non_null(out);
		assert_same(out, in[i], wire_fixtures[i]);
		profiles_free(out);
		profiles_free(in[i]);
	}
	test_store_end(&t, snap);
	test_store_remove(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures_come_back),
		cmocka_unit_test(test_bad_indices_keep_their_place),
		cmocka_unit_test(test_retention_by_arrival),
		cmocka_unit_test(test_retention_within_a_bucket),
		cmocka_unit_test(test_upkeep_goes_on_after_a_restart),
		cmocka_unit_test(test_max_size_within_a_bucket),
		cmocka_unit_test(test_max_size_of_one_fast_sender),
		cmocka_unit_test(test_sweep_beside_writing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
