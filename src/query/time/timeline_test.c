/* timeline_test.c - moments and what lasts as long as its profile, in one timeline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "model/builder.h"
#include "query/profiles_source.h"
#include "query/query.h"

enum { SECONDS = 10 };
#define SECOND UINT64_C(1000000000)
#define BEGIN  (1700000000 * SECOND)

/* Of a profile of ten seconds one sample at its second second, and one of no time. */
static struct profiles *message(bool moment_first)
{
	struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	const int64_t moment = 5, lasting = 100;
	const uint64_t at = BEGIN + SECOND;
	struct profile *p;
	struct profiles *out;
	struct err err;

	builder_begin_resource(b);
	builder_begin_scope(b);
	p = builder_begin_profile(b);
	p->time_unix_nano = BEGIN;
	p->duration_nano = SECONDS * SECOND;
	p->sample_type.type = builder_string(b, STR("bytes"));
	p->sample_type.unit = builder_string(b, STR("bytes"));
	for (unsigned i = 0; i < 2; i++) {
		bool timed = (i == 0) == moment_first;

		builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, NULL, 0,
			       timed ? &moment : &lasting, 1, timed ? &at : NULL, timed);
	}
	out = builder_finish(b, &err);
	if (!out)
		fail_msg("%s", err.msg);
	return out;
}

static void draw(bool moment_first, bool spread, const int64_t *want)
{
	struct profiles *p = message(moment_first);
	struct source *source = profiles_source_new(p);
	struct query_request r = { .source = source, .range = { BEGIN, BEGIN + SECONDS * SECOND } };
	struct query_timeline_options o = { .steps = SECONDS, .spread = spread };
	struct query_timeline t;
	struct err err;
	struct query *q = query_begin(&r, &err);

	if (!q || !query_timeline(q, &o, &t, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(t.group_count, 1);
	assert_int_equal(t.bucket_count, SECONDS);
	assert_int_equal(t.groups[0].total, 105);
	assert_int_equal(query_facts(q).events, 2);
	for (uint32_t i = 0; i < SECONDS; i++)
		if (t.groups[0].values[i] != want[i])
			fail_msg("second %u, spread %d, moment first %d: %lld, not %lld", i, spread,
				 moment_first, (long long)t.groups[0].values[i],
				 (long long)want[i]);
	query_end(q);
	source_free(source);
	profiles_free(p);
}

static void moments_lie_beside_what_lasts(void **state)
{
	static const int64_t spread[SECONDS] = { 10, 15, 10, 10, 10, 10, 10, 10, 10, 10 };
	static const int64_t begins[SECONDS] = { 100, 5 };

	(void)state;
	for (unsigned first = 0; first < 2; first++) {
		draw(first, true, spread);
		draw(first, false, begins);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(moments_lie_beside_what_lasts) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
