#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/clock.h"
#include "store/clickhouse/encode.h"
#include "store/clickhouse/schema.h"
#include "store/clickhouse/server.h"
#include "store/clickhouse/snapshot.h"
#include "store/store_for_tests.h"

static const struct {
	const char *text;
	bool ok;
	unsigned features;
} versions[] = {
	{ "18.16.1\n", true, 0 },
	{ "18.16", true, 0 },
	{ "20.3.21.2", true, CH_CODECS | CH_LOW_CARDINALITY | CH_TTL | CH_SKIP_INDEX },
	{ "26.9.2.1", true,
	  CH_CODECS | CH_LOW_CARDINALITY | CH_TTL | CH_SKIP_INDEX | CH_ZSTD_BODY | CH_ASYNC_INSERT |
		  CH_DEDUP_WINDOW },
	{ "18.15.9", false, 0 },
	{ "1.1.54388", false, 0 },
	{ "", false, 0 },
	{ "26", false, 0 },
	{ "<html>", false, 0 },
	{ "99999.1", false, 0 },
};

static void test_versions(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct ch_version v;
		struct err err;
		bool ok = ch_version_parse(str_cstr(versions[i].text), &v, &err);

		if (ok != versions[i].ok || (ok && v.features != versions[i].features))
			fail_msg("%s: %d, features %x", versions[i].text, ok, ok ? v.features : 0);
	}
}

static const struct {
	const char *text, *base, *user, *database,
		*settings; /* base NULL: refused, with `user` in the message */
} endpoints[] = {
	{ "http://127.0.0.1:8123", "http://127.0.0.1:8123/", NULL, NULL, NULL },
	{ "https://ch.example/prof/", "https://ch.example/", NULL, "prof", NULL },
	{ "http://me@[::1]:8123/db?max_threads=2", "http://[::1]:8123/", "me", "db",
	  "max_threads=2" },
	{ "http://h:1?a=b", "http://h:1/", NULL, NULL, "a=b" },
	{ "tcp://h:9000", NULL, "8123", NULL, NULL },
	{ "native://h", NULL, "8123", NULL, NULL },
	{ "h:8123", NULL, "http://", NULL, NULL },
	{ "", NULL, "http://", NULL, NULL },
	{ "http://me:pw@h", NULL, "password", NULL, NULL },
	{ "http://", NULL, "no host", NULL, NULL },
	{ "http://me@/db", NULL, "no host", NULL, NULL },
};

static void same_text(const char *got, const char *want)
{
	if (want)
		assert_string_equal(got, want);
	else
		assert_null(got);
}

static void test_endpoints(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
		struct ch_endpoint e;
		struct err err;

		print_message("%s\n", endpoints[i].text);
		if (!endpoints[i].base) {
			assert_false(ch_endpoint_parse(endpoints[i].text, &e, &err));
			assert_non_null(strstr(err.msg, endpoints[i].user));
			assert_null(strstr(err.msg, "pw"));
			continue;
		}
		assert_true(ch_endpoint_parse(endpoints[i].text, &e, &err));
		same_text(e.base, endpoints[i].base);
		same_text(e.user, endpoints[i].user);
		same_text(e.database, endpoints[i].database);
		same_text(e.settings, endpoints[i].settings);
		ch_endpoint_release(&e);
	}
}

/* A refused URL is said, in a log, say: not its password. */
static void test_a_refused_password_is_not_repeated(void **state)
{
	static const struct {
		const char *text, *shown;
	} rows[] = {
		{ "http://me:secret@h:8123/db", "http://me:***@h:8123/db" },
		{ "http://me:sec/r@e:t@h", "http://me:***@h" },
		{ "http://me@h:8123/db", "http://me@h:8123/db" },
		{ "http://h:8123/db", "http://h:8123/db" },
		{ "me:secret@h", "me:***@h" },
	};
	const struct store_open_options options = { .location = rows[0].text };
	struct store *store;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *shown = ch_endpoint_shown(rows[i].text);

		assert_string_equal(shown, rows[i].shown);
		free(shown);
	}
	assert_false(ch_open(&options, &store, &err));
	assert_non_null(strstr(err.msg, "http://me:***@h:8123/db: there is a password"));
}

static void test_quoting(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	ch_quote(&b, STR("it's \\ `\0"));
	ch_quote_name(&b, STR("a`b'"));
	assert_true(str_equal(buf_view(&b), STR("'it\\'s \\\\ `\\0'`a\\`b'`")));
	buf_release(&b);
}

static bool ddl_says(const struct ch_schema *s, const char *what)
{
	struct buf b;
	bool says;

	buf_init(&b, 0);
	ch_schema_ddl(s, &b);
	says = str_search(buf_view(&b), str_cstr(what)) >= 0;
	buf_release(&b);
	return says;
}

static void test_ddl(void **state)
{
	struct ch_schema old = { .database = "db" },
			 new = { .database = "db", .ttl_ns = 36 * 3600 * SECOND_NS },
			 cluster = { .database = "db", .cluster = "c1" }, odd = { .engine = "Log" };
	struct ch_version v;
	struct err err;

	(void)state;
	assert_true(ch_version_parse(STR("26.9.2.1"), &v, &err));
	new.features = v.features;
	assert_true(ch_schema_check(&old, &err) && ch_schema_check(&cluster, &err));
	assert_false(ch_schema_check(&odd, &err));
	assert_false(ddl_says(&old, "CODEC") || ddl_says(&old, "TTL") || ddl_says(&old, "INDEX"));
	assert_false(ddl_says(&old, "CLUSTER") || ddl_says(&old, "Distributed"));
	assert_true(ddl_says(&old, "ENGINE = ReplacingMergeTree(seen)"));
	assert_true(ddl_says(&old, "ORDER BY (bitShiftRight(series, 16), bucket, series, base, "
				   "place)\nSETTINGS index_granularity = 8192"));
	assert_true(ddl_says(&old, "ORDER BY (kind, id_high, id_low, hash_hi)\nSETTINGS "
				   "index_granularity = 1024"));
	/* A day and a half are two days, and the day of arrival must be over. */
	assert_true(ddl_says(&new, "TTL date + INTERVAL 3 DAY") &&
		    ddl_says(&new, "TTL seen + INTERVAL 5 DAY"));
	assert_true(ddl_says(&new, "bloom_filter") && ddl_says(&new, "CODEC("));
	assert_true(ddl_says(&cluster, "ON CLUSTER `c1`"));
	assert_true(ddl_says(
		&cluster,
		"ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/db/flametap_dictionary', "
		"'{replica}', seen)"));
	assert_true(ddl_says(&cluster, "AS `db`.flametap_samples_local ENGINE"));
	assert_true(ddl_says(&cluster, "FROM `db`.flametap_dictionary WHERE"));
	assert_true(ddl_says(&cluster, "Distributed(`c1`, `db`, flametap_samples_local, request)"));
}

static uint64_t first_u64(const struct buf *b, size_t at)
{
	uint64_t v;

	memcpy(&v, b->ptr + at, sizeof(v));
	return v;
}

static void test_requests_have_numbers_of_their_own(void **state)
{
	struct profiles *p = test_fixture("v1.11.0-oncpu-mixed");
	uint64_t now = UINT64_C(1763900000) * SECOND_NS, before = 0;
	struct ch_encoder e;

	(void)state;
	ch_encoder_init(&e, NULL);
	ch_encoder_writer(&e, 7);
	for (int i = 0; i < 300; i++) {
		struct ch_request r = { .profiles = p,
					.hash = { (uint64_t)i + 1, 7 },
					.arrived_unix_ns = now };
		uint64_t seq, last;

		ch_encoder_reset(&e);
		ch_encoder_put(&e, &r, now);
		seq = first_u64(&e.requests, 2);
		last = first_u64(&e.requests, 10);
		assert_true(seq > before && last == seq + p->profile_count + p->sample_count);
		/* At most two turns of 2^24 ns away from the time, while requests are not made
		 * faster than numbers. */
		if (i == 0)
			assert_true(seq < now + (1 << 25) && seq + (1 << 25) > now);
		before = last;
		assert_int_equal(e.sample_rows, p->sample_count);
		assert_true(i == 0 ? e.dictionary_rows > 100 : e.dictionary_rows == 0);
		now += i % 3 ? 0 : 1000000;
	}
	ch_encoder_release(&e);
	profiles_free(p);
}

static size_t bytes_apart(const struct buf *a, const struct buf *b)
{
	size_t apart = 0;

	assert_int_equal(a->len, b->len);
	for (size_t i = 0; i < a->len; i++)
		apart += a->ptr[i] != b->ptr[i];
	return apart;
}

/* On the next day entries are written again, with the numbers that they had; another writer's
 * entries have others. */
static void test_numbers_last(void **state)
{
	struct profiles *p = test_fixture("v1.11.0-oncpu-mixed");
	struct ch_request r = { .profiles = p, .hash = { 1, 7 }, .base = 4711 };
	uint64_t day = 86400 * SECOND_NS, now = 20000 * day;
	struct ch_encoder e;
	struct buf first;

	(void)state;
	ch_encoder_init(&e, NULL);
	ch_encoder_writer(&e, 7);
	ch_encoder_put(&e, &r, now);
	first = e.dictionary;
	buf_init(&e.dictionary, 0);
	for (uint64_t i = 1; i < 3; i++) {
		uint64_t rows = e.dictionary_rows;

		ch_encoder_reset(&e);
		ch_encoder_put(&e, &r, now + i * day - 1);
		assert_int_equal(e.dictionary_rows, 0);
		ch_encoder_put(&e, &r, now + i * day);
		assert_int_equal(e.dictionary_rows, rows);
		assert_int_equal(bytes_apart(&first, &e.dictionary),
				 rows); /* of `seen`, the first */
	}
	ch_encoder_writer(&e, 8);
	ch_encoder_reset(&e);
	ch_encoder_put(&e, &r, now);
	assert_true(bytes_apart(&first, &e.dictionary) >= e.dictionary_rows);
	assert_false(ch_encoder_is_spent(&e));
	e.pages_used = CH_PAGES_MOST + 1;
	assert_true(ch_encoder_is_spent(&e));
	buf_release(&first);
	ch_encoder_release(&e);
	profiles_free(p);
}

static void test_only_missing_samples_are_written(void **state)
{
	struct profiles *p = test_fixture("v1.11.0-oncpu-mixed");
	uint32_t have[] = { 2, 3, 5 };
	struct ch_request r = {
		.profiles = p, .hash = { 1, 7 }, .base = 4711, .have = have, .have_count = 3
	};
	struct ch_encoder e;

	(void)state;
	ch_encoder_init(&e, "t");
	ch_encoder_writer(&e, 7);
	ch_encoder_put(&e, &r, SECOND_NS);
	assert_int_equal(e.sample_rows + 3, p->sample_count);
	assert_int_equal(first_u64(&e.requests, 2), 4711);
	ch_encoder_release(&e);
	profiles_free(p);
}

/* A sample's columns as a server answers them; times: 3 in `times` or from t0, as the shape says.
 */
static void put_answer(struct buf *b, enum ch_shape shape)
{
	row_u64(b, 7);              /* base */
	row_u32(b, 7);              /* place */
	row_u64(b, 7);              /* t0 */
	for (int i = 0; i < 5; i++) /* series, stack, attributes, link, value */
		row_u64(b, 7);
	row_u8(b, (uint8_t)shape);
	row_count(b, 2);
	row_u64(b, 1);
	row_u64(b, 2);
	row_count(b, shape == CH_OFFSETS ? 2 : 0);
	for (uint32_t i = 0; shape == CH_OFFSETS && i < 2; i++)
		row_u32(b, UINT32_MAX * i);
	row_count(b, shape == CH_LISTS ? 2 : 0);
	for (uint64_t i = 0; shape == CH_LISTS && i < 2; i++)
		row_u64(b, 7 + UINT32_MAX * i);
}

/* Cut anywhere: a fault, and nothing read past the end. */
static void test_a_cut_answer(void **state)
{
	static const enum ch_shape cases[] = { CH_LISTS, CH_OFFSETS };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ch_snapshot snap = { 0 };
		struct source_row s;
		struct buf b;

		buf_init(&b, 0);
		put_answer(&b, cases[i]);
		for (size_t len = 0; len <= b.len; len++) {
			char *copy = malloc(len + 1);
			struct codec c;

			memcpy(copy, b.ptr, len);
			c = codec_of(str_from(copy, len));
			assert_int_equal(ch_read_sample(&snap, &c, &s), len == b.len);
			free(copy);
		}
		assert_int_equal(s.value_count, 2);
		assert_int_equal(s.timestamp_count, 2);
		assert_int_equal(s.timestamps[0], 7);
		assert_int_equal(s.timestamps[1], 7 + (uint64_t)UINT32_MAX);
		assert_int_equal(s.last, 7 + (uint64_t)UINT32_MAX);
		free(snap.values);
		free(snap.times);
		buf_release(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_endpoints),
		cmocka_unit_test(test_a_refused_password_is_not_repeated),
		cmocka_unit_test(test_quoting),
		cmocka_unit_test(test_ddl),
		cmocka_unit_test(test_requests_have_numbers_of_their_own),
		cmocka_unit_test(test_numbers_last),
		cmocka_unit_test(test_only_missing_samples_are_written),
		cmocka_unit_test(test_a_cut_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
