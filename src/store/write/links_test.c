/* links_test.c - links are found by trace and span: those in link_key, and those that came since.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "model/builder.h"
#include "store/salvage/check.h"
#include "store/store.h"
#include "store/store_for_tests.h"

enum { TRACES = 5, MANY = 5000, FEW = 20 };

/* Link `i`: its span is its own, its trace one of five. */
static struct link link_of(uint32_t i)
{
	struct link l = { 0 };
	uint64_t span = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	memset(l.trace_id, (int)(1 + i % TRACES), sizeof(l.trace_id));
	memcpy(l.span_id, &span, sizeof(span));
	return l;
}

/* A sample for each link. */
static struct profiles *message(uint32_t first, uint32_t count)
{
	struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	uint64_t time = UINT64_C(1800000000000000000);
	struct profiles *p;
	struct err err;

	builder_begin_resource(b);
	builder_begin_scope(b);
	builder_begin_profile(b)->time_unix_nano = time;
	for (uint32_t i = first; i < first + count; i++) {
		struct link l = link_of(i);

		builder_sample(b, (struct stack_index){ 0 }, builder_link(b, &l), NULL, 0, NULL, 0,
			       &time, 1);
	}
	p = builder_finish(b, &err);
	if (!p)
		fail_msg("%s", err.msg);
	return p;
}

static void put(struct test_store *t, uint32_t first, uint32_t count, uint64_t now)
{
	struct profiles *p = message(first, count);

	test_store_put_at(t, p, first, now);
	profiles_free(p);
}

struct found_links {
	size_t count;
	uint64_t first;
};

static bool see_link(void *arg, const struct source_link *l, struct err *err)
{
	struct found_links *f = arg;

	(void)err;
	f->first = f->count++ ? f->first : l->id;
	return true;
}

static size_t find(struct source *snap, const uint8_t *trace, const uint8_t *span, uint64_t *first)
{
	struct found_links found = { 0 };
	struct err err;

	if (!snap->ops->find_links(snap, trace, span, see_link, &found, &err))
		fail_msg("%s", err.msg);
	*first = found.first;
	return found.count;
}

/* All of the first `count` links are found, each way, and no other. */
static void assert_found(struct test_store *t, uint32_t count)
{
	struct source *snap = test_store_read(t);
	struct link other = link_of(count);
	uint64_t id;

	for (uint32_t i = 0; i < count; i += i < 3 || i > count - 4 ? 1 : 97) {
		struct link l = link_of(i);

		assert_int_equal(find(snap, NULL, l.span_id, &id), 1);
		assert_int_equal(id, i + 1);
		assert_int_equal(find(snap, l.trace_id, l.span_id, &id), 1);
		assert_int_equal(id, i + 1);
		assert_int_equal(find(snap, link_of(i + 1).trace_id, l.span_id, &id), 0);
	}
	assert_int_equal(find(snap, NULL, other.span_id, &id), 0);
	for (uint32_t i = 0; i < TRACES; i++) {
		assert_int_equal(find(snap, link_of(i).trace_id, NULL, &id), count / TRACES);
		assert_int_equal(id, i + 1);
	}
	test_store_end(t, snap);
}

static void print_finding(void *arg, const char *finding)
{
	(void)arg;
	fail_msg("%s", finding);
}

static void assert_whole(struct test_store *t)
{
	struct err err;

	if (!store_check(t->path, print_finding, NULL, &err))
		fail_msg("%s", err.msg);
}

static int64_t keys(const struct test_store *t)
{
	return test_store_number(t, "SELECT count(*) FROM link_key");
}

static void links_are_keyed_many_at_a_time(void **state)
{
	uint64_t now = UINT64_C(1800000000000000000), day = UINT64_C(86400000000000);
	struct test_store t;

	(void)state;
	test_store_make(&t);
	t.options.retention_ns = day;
	t.options.now_unix_ns = test_store_now;
	t.options.now_arg = &now;
	test_store_reopen(&t);
	put(&t, 0, FEW, now);
	assert_int_equal(keys(&t), 0);
	assert_found(&t, FEW);
	put(&t, FEW, MANY, now);
	assert_int_equal(keys(&t), 2 * (FEW + MANY));
	assert_found(&t, FEW + MANY);
	put(&t, FEW + MANY, FEW, now);
	test_store_reopen(&t);
	assert_int_equal(keys(&t), 2 * (FEW + MANY));
	assert_found(&t, FEW + MANY + FEW);
	assert_whole(&t);

	/* They go with their links. */
	now += 2 * day;
	put(&t, 0, 1, now);
	test_store_reopen(&t);
	test_store_upkeep(&t);
	assert_int_equal(test_store_number(&t, "SELECT count(*) FROM link"), 1);
	assert_int_equal(keys(&t), 0); /* and what came since waits */
	assert_whole(&t);
	test_store_remove(&t);
}

/* Every sample has a link of its own, so what goes has keys all over link_key, as what comes. */
static void max_size_counts_the_log_of_what_goes(void **state)
{
	uint64_t limit = 16 << 20, largest = 0;
	struct test_store t;
	struct err err;

	(void)state;
	test_store_make(&t);
	t.options.max_size_bytes = limit;
	test_store_reopen(&t);
	for (uint32_t i = 0; i < 220; i++) {
		uint64_t size;
		bool more;

		put(&t, i * 1200, 1200, i + 1);
		size = store_writer_facts(t.w).file_bytes;
		largest = size > largest ? size : largest;
		if (!store_writer_upkeep(t.w, 0, &more, &err))
			fail_msg("%s", err.msg);
		size = store_writer_facts(t.w).file_bytes;
		largest = size > largest ? size : largest;
	}
	if (largest > limit / 5 * 6)
		fail_msg("%llu bytes of %llu", (unsigned long long)largest,
			 (unsigned long long)limit);
	assert_true(store_writer_facts(t.w).swept_samples > 1200 * 50);
	test_store_upkeep(&t);
	assert_whole(&t);
	test_store_remove(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_are_keyed_many_at_a_time),
		cmocka_unit_test(max_size_counts_the_log_of_what_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
