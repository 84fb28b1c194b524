#include "agent/report/traces_for_tests.h"

#include "agent/report/frame_cache.h"

static struct trace_frame native(struct executable *e, uint64_t address)
{
	return (struct trace_frame){ .kind = FRAME_NATIVE, .executable = e, .address = address };
}

static void put(struct frame_cache *c, const struct trace_frame *f, const struct process_info *p,
		const char *function)
{
	char copied_from[32];
	struct name_line line = { .line = 7 };
	struct frame_name name = { .line_count = 1, .lines = &line, .final = true };

	snprintf(copied_from, sizeof(copied_from), "%s", function);
	line.function = str_cstr(copied_from);
	frame_cache_put(c, f, p, &name);
	memset(copied_from, 'x', sizeof(copied_from));
}

static bool holds(struct frame_cache *c, const struct trace_frame *f, const struct process_info *p,
		  const char *function)
{
	const struct frame_name *n = frame_cache_find(c, f, p);

	return n && n->line_count == 1 && n->lines[0].line == 7 &&
	       str_is(n->lines[0].function, function);
}

static void test_least_recently_used_goes(void **state)
{
	struct frame_cache *c = frame_cache_new(3);
	struct executable *e = test_executable("prog");
	struct trace_frame f[4];

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		f[i] = native(e, i);
	put(c, &f[0], NULL, "zero");
	put(c, &f[1], NULL, "one");
	put(c, &f[2], NULL, "two");
	assert_true(holds(c, &f[0], NULL, "zero")); /* used: now `one` is the oldest */
	put(c, &f[3], NULL, "three");
	assert_int_equal(frame_cache_count(c), 3);
	assert_true(holds(c, &f[0], NULL, "zero"));
	assert_null(frame_cache_find(c, &f[1], NULL));
	assert_true(holds(c, &f[2], NULL, "two"));
	assert_true(holds(c, &f[3], NULL, "three"));
	frame_cache_free(c);
	executable_unref(e);
}

/* The same build in another struct (mapped again after all was unmapped) finds its names. */
static void test_identity_is_the_build(void **state)
{
	struct frame_cache *c = frame_cache_new(16);
	struct executable *first = test_executable("prog"), *again;
	struct executable other_facts = { .id = 7, .filename = STR("prog") };
	struct executable *other = executable_new(&other_facts);
	struct trace_frame f = native(first, 0x10);

	(void)state;
	put(c, &f, NULL, "main");
	executable_unref(first);
	again = test_executable("prog");
	f = native(again, 0x10);
	assert_true(holds(c, &f, NULL, "main"));
	f = native(other, 0x10);
	assert_null(frame_cache_find(c, &f, NULL));
	frame_cache_free(c);
	executable_unref(again);
	executable_unref(other);
}

static void test_process_frames(void **state)
{
	struct frame_cache *c = frame_cache_new(16);
	struct process_info *a = test_process(1, "/a", "a"), *b = test_process(2, "/b", "b");
	struct process_info facts = { .pid = 1, .start_unix_nano = 2 };
	struct process_info *reused_pid = process_info_new(&facts);
	struct trace_frame f = { .kind = FRAME_CPYTHON, .address = 0x10 };

	(void)state;
	put(c, &f, a, "of a");
	assert_true(holds(c, &f, a, "of a"));
	assert_null(frame_cache_find(c, &f, b));
	assert_null(frame_cache_find(c, &f, reused_pid));
	f.extra = 1;
	assert_null(frame_cache_find(c, &f, a));
	frame_cache_free(c);
	process_info_unref(a);
	process_info_unref(b);
	process_info_unref(reused_pid);
}

/* Against a plain model: the last `most` used of many, through growth and reuse of places. */
static void test_many(void **state)
{
	enum { MOST = 600, ADDRESSES = 1500, ROUNDS = 20000 };
	static uint32_t used_at[ADDRESSES];
	struct frame_cache *c = frame_cache_new(MOST);
	struct executable *e = test_executable("prog");
	uint32_t seed = 5, newer;
	char name[16];

	(void)state;
	memset(used_at, 0, sizeof(used_at));
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uint32_t at = (seed = seed * 1664525 + 1013904223) >> 8;
		struct trace_frame f = native(e, at %= ADDRESSES);

		snprintf(name, sizeof(name), "f%u", at);
		newer = 0;
		for (uint32_t i = 0; i < ADDRESSES; i++)
			newer += used_at[i] > used_at[at];
		if (used_at[at] && newer < MOST)
			assert_true(holds(c, &f, NULL, name));
		else
			assert_null(frame_cache_find(c, &f, NULL));
		put(c, &f, NULL, name);
		used_at[at] = round;
	}
	assert_int_equal(frame_cache_count(c), MOST);
	frame_cache_free(c);
	executable_unref(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least_recently_used_goes),
		cmocka_unit_test(test_identity_is_the_build),
		cmocka_unit_test(test_process_frames),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
