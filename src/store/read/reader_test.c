/* reader_test.c - what the walks of source.h give, against the messages that went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "model/builder.h"
#include "store/salvage/check.h"
#include "store/id_list.h"
#include "store/store.h"
#include "store/schema/schema.h"
#include "store/store_for_tests.h"
#include "wire_fixtures.h"

struct sums {
	uint64_t samples, events, seq_before;
	int64_t value;
	uint64_t bucket;
	bool disordered;
	uint64_t link, stack;
	uint64_t seq;
};

static bool add(void *arg, const struct source_row *s, struct err *err)
{
	const uint64_t bucket_ns = 600 * (uint64_t)1000000000;
	struct sums *x = arg;
	uint64_t bucket = s->time / bucket_ns;

	(void)err;
	x->disordered |= bucket < x->bucket || (bucket == x->bucket && s->sample < x->seq);
	x->bucket = bucket;
	x->samples++;
	x->events += s->timestamp_count ? s->timestamp_count : 1;
	x->value += s->total;
	x->link = s->link ? s->link : x->link;
	x->stack = s->stack;
	x->seq = s->sample;
	return true;
}

static struct sums scan(struct source *snap, struct source_scan what)
{
	struct sums x = { 0 };
	struct err err;

	if (!source_scan(snap, &what, add, &x, &err))
		fail_msg("%s", err.msg);
	assert_false(x.disordered);
	return x;
}

static struct sums expected(const struct profiles *p)
{
	struct sums x = { 0 };

	for (uint32_t i = 0; i < p->profile_count; i++)
		for (uint32_t k = 0; k < p->profiles[i].samples.count; k++) {
			struct sample_total t = sample_total(
				p, &p->profiles[i], &p->samples[p->profiles[i].samples.first + k]);

			x.samples++;
			x.events += t.events;
			x.value += t.value;
		}
	return x;
}

/* Samples that reach into [from, to). */
static uint64_t touching(const struct profiles *p, uint64_t from, uint64_t to)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		uint64_t t0 = UINT64_MAX, t1 = 0;

		for (uint32_t k = 0; k < s->timestamps.count; k++) {
			uint64_t t = p->timestamps[s->timestamps.first + k];

			t0 = t < t0 ? t : t0;
			t1 = t > t1 ? t : t1;
		}
		count += t0 < to && t1 >= from;
	}
	return count;
}

static bool count_series(void *arg, const struct source_series *s, struct err *err)
{
	(void)err;
	++*(uint32_t *)arg;
	assert_true(s->sample_type.len > 0);
	return true;
}

static bool take_series(void *arg, const struct source_series *s, struct err *err)
{
	(void)err;
	*(uint64_t *)arg = s->id;
	return true;
}

static void test_scans(void **state)
{
	struct profiles *p = test_fixture("v1.11.0-oncpu-big");
	struct sums want = expected(p), all, one, rest;
	struct source *snap;
	struct test_store t;
	uint64_t low = UINT64_MAX, high = 0;
	uint32_t series = 0;
	uint64_t last = 0;
	struct err err;

	(void)state;
	test_store_make(&t);
	test_store_put(&t, p, 1);
	snap = test_store_read(&t);
	all = scan(snap, (struct source_scan){ .range = SOURCE_ALWAYS, .asof = SOURCE_NEWEST });
	assert_int_equal(all.samples, want.samples);
	assert_int_equal(all.events, want.events);
	assert_int_equal(all.value, want.value);
	for (uint32_t i = 0; i < p->timestamp_count; i++) {
		low = p->timestamps[i] < low ? p->timestamps[i] : low;
		high = p->timestamps[i] > high ? p->timestamps[i] : high;
	}
	for (uint64_t i = 0; i < 10; i++) {
		uint64_t from = low + (high - low) / 10 * i, to = from + (high - low) / 10;

		assert_int_equal(scan(snap, (struct source_scan){ .range = { from, to },
								  .asof = SOURCE_NEWEST })
					 .samples,
				 touching(p, from, to));
	}
	static const struct source_series_ask all_series = { .range = SOURCE_ALWAYS };

	assert_true(source_series(snap, &all_series, count_series, &series, &err));
	assert_int_equal(series, 24);
	assert_true(source_series(snap, &all_series, take_series, &last, &err));
	one = scan(snap, (struct source_scan){ .range = SOURCE_ALWAYS,
					       .asof = SOURCE_NEWEST,
					       .series = &last,
					       .series_count = 1 });
	assert_true(one.samples > 0 && one.samples < all.samples);
	rest = scan(snap, (struct source_scan){ .range = SOURCE_ALWAYS, .asof = all.samples / 2 });
	one = scan(snap, (struct source_scan){ .range = SOURCE_ALWAYS,
					       .asof = SOURCE_NEWEST,
					       .after = all.samples / 2 });
	assert_int_equal(rest.samples + one.samples, all.samples);
	assert_int_equal(
		scan(snap, (struct source_scan){ .range = { 0, low }, .asof = SOURCE_NEWEST })
			.samples,
		0);
	test_store_end(&t, snap);
	profiles_free(p);
	test_store_remove(&t);
}

static void test_long_samples_are_found_from_later_windows(void **state)
{
	struct profiles *p = test_fixture("v1.11.0-oncpu-start");
	uint64_t hour = 3600 * (uint64_t)1000000000, base = p->timestamps[0];
	struct source *snap;
	struct test_store t;

	(void)state;
	p->samples[0].timestamps = (struct range){ 0, 2 };
	p->timestamps[1] = base + 3 * hour;
	test_store_make(&t);
	test_store_put(&t, p, 1);
	snap = test_store_read(&t);
	assert_int_equal(
		scan(snap, (struct source_scan){ .range = { base + 2 * hour, base + 2 * hour + 1 },
						 .asof = SOURCE_NEWEST })
			.samples,
		1);
	test_store_end(&t, snap);
	profiles_free(p);
	test_store_remove(&t);
}

static bool see_stack(void *arg, uint64_t id, const uint64_t *locations, uint32_t count,
		      struct err *err)
{
	(void)id, (void)err;
	assert_true(count > 0);
	*(uint64_t *)arg = locations[count - 1];
	return true;
}

static bool see_location(void *arg, const struct source_location *l, struct err *err)
{
	(void)err;
	assert_true(l->frame_type.len > 0);
	assert_true(l->address || l->line_count);
	++*(uint32_t *)arg;
	return true;
}

static bool see_link(void *arg, const struct source_link *l, struct err *err)
{
	(void)err;
	*(struct source_link *)arg = *l;
	return true;
}

static void test_links_stacks_profiles(void **state)
{
	struct profiles *p = test_fixture("v1.11.0-synthetic-offcpu-links");
	struct source_scan everything = { .range = SOURCE_ALWAYS, .asof = SOURCE_NEWEST };
	struct source *snap;
	struct source_link link, found = { 0 };
	struct sums all, linked = { 0 };
	struct test_store t;
	uint64_t location = 0;
	uint32_t locations = 0;
	struct err err;

	(void)state;
	test_store_make(&t);
	test_store_put(&t, p, 1);
	snap = test_store_read(&t);
	all = scan(snap, everything);
	assert_true(all.link);
	assert_true(source_links(snap, &all.link, 1, see_link, &link, &err));
	assert_true(snap->ops->find_links(snap, NULL, link.span_id, see_link, &found, &err));
	assert_int_equal(found.id, all.link);
	found.id = 0;
	assert_true(
		snap->ops->find_links(snap, link.trace_id, link.span_id, see_link, &found, &err));
	assert_int_equal(found.id, all.link);
	everything.links = &found.id;
	everything.link_count = 1;
	assert_true(source_scan(snap, &everything, add, &linked, &err));
	assert_true(linked.samples >= 1 && linked.samples < all.samples);
	assert_true(source_stacks(snap, &all.stack, 1, see_stack, &location, &err));
	assert_true(source_locations(snap, &location, 1, see_location, &locations, &err));
	assert_int_equal(locations, 1);
	test_store_end(&t, snap);
	profiles_free(p);
	test_store_remove(&t);
}

/* ---- coverage ---- */

static struct profiles *report(void)
{
	struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	struct key_value host = { .key = STR("host.name"),
				  .value = { .kind = ANY_STRING, .string = STR("box") } };
	struct attribute_index at[2];
	struct attribute a = { .value = { .kind = ANY_INT, .integer = 7 } };
	struct profiles *p;
	struct profile *f;
	struct err err;

	builder_begin_resource(b)->attributes = builder_key_values(b, &host, 1);
	builder_begin_scope(b);
	f = builder_begin_profile(b);
	f->time_unix_nano = 1000;
	f->duration_nano = 500;
	a.key = builder_string(b, STR("flametap.dropped.ring_full"));
	at[0] = builder_attribute(b, &a);
	a.key = builder_string(b, STR("other"));
	at[1] = builder_attribute(b, &a);
	builder_profile_attributes(b, at, 2);
	p = builder_finish(b, &err);
	assert_non_null(p);
	return p;
}

static bool see_coverage(void *arg, const struct source_coverage *c, struct err *err)
{
	(void)err;
	++*(uint32_t *)arg;
	assert_true(str_is(c->host, "box"));
	assert_true(str_is(c->reason, "dropped.ring_full"));
	assert_int_equal(c->range.from, 1000);
	assert_int_equal(c->range.to, 1500);
	assert_int_equal(c->n, 7);
	return true;
}

static void print_finding(void *arg, const char *finding)
{
	++*(uint32_t *)arg;
	print_message("%s\n", finding);
}

static void test_coverage(void **state)
{
	struct profiles *p = report();
	struct source *snap;
	struct test_store t;
	uint32_t count = 0;
	struct err err;

	(void)state;
	test_store_make(&t);
	test_store_put(&t, p, 1);
	snap = test_store_read(&t);
	assert_true(snap->ops->coverage(snap, (struct source_range){ 0, UINT64_MAX }, see_coverage,
					&count, &err));
	assert_int_equal(count, 1);
	assert_true(snap->ops->coverage(snap, (struct source_range){ 1600, UINT64_MAX },
					see_coverage, &count, &err));
	assert_int_equal(count, 1);
	test_store_end(&t, snap);
	/* SQLite 3.40 calls each t1 NULL. */
	count = 0;
	assert_true(store_check(t.path, print_finding, &count, &err));
	assert_int_equal(count, 0);
	profiles_free(p);
	test_store_remove(&t);
}

static void widen(const struct profiles *p, uint64_t *from, uint64_t *to)
{
	for (uint32_t i = 0; i < p->profile_count; i++)
		for (uint32_t k = 0; k < p->profiles[i].samples.count; k++) {
			const struct sample *s = &p->samples[p->profiles[i].samples.first + k];
			uint64_t t = p->profiles[i].time_unix_nano;

			for (uint32_t n = 0; n < (s->timestamps.count ? s->timestamps.count : 1);
			     n++) {
				if (s->timestamps.count)
					t = p->timestamps[s->timestamps.first + n];
				*from = t < *from ? t : *from;
				*to = t > *to ? t : *to;
			}
		}
}

/* To the nanosecond, whatever order bodies come in, and of samples that last. */
static void test_extent_is_exact(void **state)
{
	static const char *const names[] = { "v1.11.0-oncpu-big", "v1.8.0-oncpu-mixed-a",
					     "v1.11.0-oncpu-start", "v1.4.0-oncpu-mixed" };
	uint64_t from = UINT64_MAX, to = 0;
	struct source_range extent;
	struct source *snap;
	struct test_store t;
	struct err err;

	(void)state;
	test_store_make(&t);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct profiles *p = test_fixture(names[i]);

		widen(p, &from, &to);
		assert_true(test_store_put(&t, p, i + 1));
		profiles_free(p);
		snap = test_store_read(&t);
		assert_true(snap->ops->extent(snap, &extent, &err));
		assert_int_equal(extent.from, from);
		assert_int_equal(extent.to, to + 1);
		test_store_end(&t, snap);
	}
	test_store_remove(&t);
}

/* ---- events ---- */

struct event_sums {
	uint64_t from, to;
	unsigned parts;        /* that are compared; 0: all */
	uint64_t count, mixed; /* mixed: of all that is said of each, in any order */
};

static uint64_t part(const struct event_sums *x, unsigned which, uint64_t v)
{
	return !x->parts || x->parts & which ? v : 0;
}

static void add_one(struct event_sums *x, uint64_t series, const uint64_t *one)
{
	uint64_t parts[] = { series,
			     part(x, ROW_TIMES, one[0]),
			     one[1],
			     part(x, ROW_STACK, one[2]),
			     part(x, ROW_ATTRIBUTES, one[3]),
			     one[4] };

	x->count++;
	x->mixed += hash64(str_from(parts, sizeof(parts)));
}

static bool add_sample_events(void *arg, const struct source_row *s, struct err *err)
{
	const struct event_sums *x = arg;
	uint32_t n = s->timestamp_count;
	bool ones = !s->value_count ||
		    (s->value_count == 1 && n > 1 && s->values[0] == 1 && s->total == (int64_t)n);
	int64_t sum = 0;

	(void)err;
	for (uint32_t i = 0; i < s->value_count; i++)
		sum += s->values[i];
	if (!n && s->time >= x->from && s->time < x->to)
		add_one(arg, s->series,
			(uint64_t[]){ s->time, (uint64_t)sum, s->stack, s->attributes, 0 });
	for (uint32_t i = 0; i < n; i++) {
		int64_t v = ones ? 1 : s->value_count == n ? s->values[i] : value_share(sum, n, i);

		if (s->timestamps[i] < x->from || s->timestamps[i] >= x->to)
			continue;
		add_one(arg, s->series,
			(uint64_t[]){ s->timestamps[i], (uint64_t)v, s->stack, s->attributes, 1 });
	}
	return true;
}

static bool add_events(void *arg, const struct source_events *e, struct err *err)
{
	uint32_t run = 0;

	(void)err;
	assert_true(e->run_count > 0 && e->ends[e->run_count - 1] == e->count);
	for (uint32_t i = 0; i < e->count; i++) {
		while (e->ends[run] <= i)
			run++;
		add_one(arg, e->series[run],
			(uint64_t[]){ e->times[i], (uint64_t)e->values[i], e->stacks[i],
				      e->attributes[i], e->timed });
	}
	return true;
}

static void compare_events(struct source *snap, struct source_scan what)
{
	static const unsigned parts[] = { 0, ROW_STACK, ROW_TIMES,
					  ROW_STACK | ROW_ATTRIBUTES | ROW_TIMES };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		struct event_sums samples = { what.range.from, what.range.to, parts[i], 0, 0 },
				  events = samples;
		struct err err;

		what.parts = 0;
		assert_true(source_scan(snap, &what, add_sample_events, &samples, &err));
		what.parts = parts[i];
		if (!source_events(snap, &what, add_events, &events, &err))
			fail_msg("%s", err.msg);
		assert_int_equal(events.count, samples.count);
		assert_true(events.mixed == samples.mixed);
	}
}

static void test_events_are_those_of_the_samples(void **state)
{
	static const char *const names[] = {
		"v1.11.0-oncpu-big",   "v1.11.0-synthetic-offcpu-links",
		"v1.11.0-oncpu-start", "v1.8.0-oncpu-mixed-a",
		"v1.7.0-oncpu-mixed",  "v1.4.0-oncpu-mixed"
	};
	struct source_range extent;
	struct source *snap;
	struct test_store t;
	struct err err;

	(void)state;
	test_store_make(&t);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct profiles *p = test_fixture(names[i]);

		assert_true(test_store_put(&t, p, i + 1));
		profiles_free(p);
	}
	snap = test_store_read(&t);
	assert_non_null(snap->ops->events);
	assert_true(snap->ops->extent(snap, &extent, &err));
	compare_events(snap, (struct source_scan){ .range = SOURCE_ALWAYS, .asof = SOURCE_NEWEST });
	for (uint64_t i = 0; i < 8; i++) { /* windows that cut chunks and lists */
		uint64_t step = (extent.to - extent.from) / 8 + 1, from = extent.from + i * step;
		uint64_t some[] = { 1 + i, 3 + 2 * i, 1000000 };

		compare_events(snap, (struct source_scan){ .range = { from, from + step },
							   .asof = SOURCE_NEWEST });
		compare_events(snap, (struct source_scan){ .range = { from, UINT64_MAX },
							   .asof = SOURCE_NEWEST,
							   .series = some,
							   .series_count = ARRAY_LEN(some) });
		compare_events(snap, (struct source_scan){ .range = SOURCE_ALWAYS,

							   .asof = 40 + 70 * i,
							   .after = 30 * i });
	}
	test_store_end(&t, snap);
	test_store_remove(&t);
}

/* ---- series that lie close together, apart, and thinly ---- */

struct seen_series {
	uint64_t count, sum, last;
	bool ascending;
};

static bool see_series(void *arg, const struct source_series *s, struct err *err)
{
	struct seen_series *x = arg;

	(void)err;
	x->ascending = x->ascending && s->id > x->last;
	x->last = s->id;
	x->sum += s->id;
	x->count++;
	assert_true(s->sample_type.len > 0);
	return true;
}

static void ask_series(struct source *snap, const struct source_series_ask *ask, uint64_t count,
		       uint64_t sum)
{
	struct seen_series x = { .ascending = true };
	struct err err;

	if (!source_series(snap, ask, see_series, &x, &err))
		fail_msg("%s", err.msg);
	assert_true(x.ascending);
	assert_int_equal(x.count, count);
	assert_int_equal(x.sum, sum);
}

/* Copies of the first one: 1000 to 1599, 3000, 5000 and 6000, and each twentieth from 8000 to 9980;
 * each with a chunk, in a bucket of their own. Thirty of the first 600 are of a service of their
 * own. */
static const char spread_series[] =
	"CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n "
	"WHERE i < 9999) SELECT i FROM n WHERE i < 1600 OR i IN (3000, 5000, 6000) OR (i >= 8000 "
	"AND "
	"i % 20 = 0);"
	"INSERT INTO series(id, tenant_id, resource_id, scope_id, sample_type_id, sample_unit_id, "
	"period_type_id, period_unit_id, period, lifted_id, service_id, process, labels) SELECT i, "
	"tenant_id, resource_id, scope_id, sample_type_id, sample_unit_id, period_type_id, "
	"period_unit_id, period, lifted_id, service_id, process, labels FROM n, series WHERE id=1;"
	"INSERT INTO bucket VALUES(100, 0, 1, 1, 1);"
	"INSERT INTO chunk(seq, bucket, n, runs, series0, series) SELECT 1000000 + i, 100, 1, 1, i "
	"- 1, "
	"x'01' FROM n;"
	"INSERT INTO string(id, v) VALUES(90000, 'few');"
	"UPDATE series SET service_id=90000 WHERE id BETWEEN 1000 AND 1599 AND id % 20 = 0;";

static void test_series_are_found_however_they_lie(void **state)
{
	struct profiles *p = test_fixture("v1.11.0-oncpu-start");
	const uint64_t count = 600 + 3 + 100;
	const uint64_t sum = (1000 + 1599) * 300 + 14000 + (8000 + 9980) * 50;
	struct source_series_ask ask = { .range = { 100 * STORE_BUCKET_NS,
						    101 * STORE_BUCKET_NS } };
	struct source *snap;
	struct test_store t;
	struct seen_series seen = { .ascending = true };
	struct err err;

	(void)state;
	test_store_make(&t);
	assert_true(test_store_put(&t, p, 1));
	profiles_free(p);
	test_store_sql(t.path, spread_series);
	snap = test_store_read(&t);
	ask_series(snap, &ask, count, sum);
	ask.brief = true;
	ask_series(snap, &ask, count, sum);
	ask.service = STR("none has this name");
	ask_series(snap, &ask, 0, 0);
	ask.brief = false;
	ask_series(snap, &ask, 0, 0);
	ask.service = STR("few");
	ask_series(snap, &ask, 30, (1000 + 1580) * 15);
	ask.brief = true;
	ask_series(snap, &ask, 30, (1000 + 1580) * 15);
	test_store_end(&t, snap);
	test_store_sql(t.path, "DELETE FROM series WHERE id=1100");
	snap = test_store_read(&t);
	assert_false(source_series(snap, &ask, see_series, &seen, &err));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	test_store_end(&t, snap);
	test_store_remove(&t);
}

/* ---- stacks that lie close together, and apart ---- */

enum { STACKS_MOST = 1024 };

struct seen_stacks {
	uint64_t hash[STACKS_MOST], last;
	size_t count;
};

static bool hash_stack(void *arg, uint64_t id, const uint64_t *locations, uint32_t count,
		       struct err *err)
{
	struct seen_stacks *x = arg;

	(void)err;
	assert_true(id > x->last && x->count < STACKS_MOST);
	x->last = id;
	x->hash[x->count++] = hash64(str_from(locations, count * sizeof(*locations)));
	return true;
}

static void test_stacks_are_found_however_they_lie(void **state)
{
	static const char copies[] =
		"INSERT INTO stack(id, hash, depth, locations) SELECT 100000 + id * 1000, hash, "
		"depth, locations FROM stack; INSERT INTO stack(id, hash) VALUES(50000, x'00')";
	struct profiles *p = test_fixture("v1.11.0-oncpu-big");
	struct seen_stacks close = { .count = 1 }, apart = { 0 };
	uint64_t ids[STACKS_MOST], others[STACKS_MOST] = { 50000 };
	struct source *snap;
	struct test_store t;
	struct err err;
	int64_t count;

	(void)state;
	test_store_make(&t);
	assert_true(test_store_put(&t, p, 1));
	profiles_free(p);
	count = test_store_number(&t, "SELECT max(id) FROM stack");
	assert_true(count > 16);
	count = count < STACKS_MOST - 1 ? count : STACKS_MOST - 1;
	test_store_sql(t.path, copies);
	for (int64_t i = 0; i < count; i++) {
		ids[i] = (uint64_t)i + 1;
		others[i + 1] = 100000 + ids[i] * 1000;
	}
	close.hash[0] = hash64(STR(""));
	snap = test_store_read(&t);
	assert_true(source_stacks(snap, ids, (size_t)count, hash_stack, &close, &err));
	assert_true(source_stacks(snap, others, (size_t)count + 1, hash_stack, &apart, &err));
	assert_int_equal(close.count, apart.count);
	assert_memory_equal(close.hash, apart.hash, apart.count * sizeof(*apart.hash));
	others[count]++;
	apart = (struct seen_stacks){ 0 };
	assert_false(source_stacks(snap, others, (size_t)count + 1, hash_stack, &apart, &err));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
	assert_int_equal(apart.count, count);
	test_store_end(&t, snap);
	test_store_remove(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_series_are_found_however_they_lie),
		cmocka_unit_test(test_stacks_are_found_however_they_lie),
		cmocka_unit_test(test_scans),
		cmocka_unit_test(test_long_samples_are_found_from_later_windows),
		cmocka_unit_test(test_extent_is_exact),
		cmocka_unit_test(test_links_stacks_profiles),
		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_events_are_those_of_the_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
