/* tree_write()'s bytes, read again by what tree.h and docs/api.md say of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "web/tree.h"

/*
 *   all 10 -+- main 7 -+- work 4
 *           |          `- other 2
 *           `- idle 3 --- main 3
 */
static const struct query_frame FRAMES[] = {
	{ .key = 0x1122334455667788,
	  .function = { "main", 4 },
	  .file = { "m.c", 3 },
	  .line = 5,
	  .binary = { "app", 3 },
	  .type = { "native", 6 } },
	{ .key = 2,
	  .function = { "work", 4 },
	  .binary = { "app", 3 },
	  .type = { "native", 6 },
	  .inlined = true,
	  .found = true,
	  .line = -1 },
	{ .key = 3,
	  .function = { "idle", 4 },
	  .binary = { "vmlinux", 7 },
	  .type = { "kernel", 6 } },
};

static const struct query_node NODES[] = {
	{ QUERY_FRAME_ROOT, 0, { 10, 1 }, { 0, 0 } },
	{ 0, 1, { 7, 1 }, { 1, 1 } },
	{ 1, 2, { 4, 0 }, { 4, 0 } },
	{ QUERY_FRAME_OTHER, 2, { 2, 0 }, { 2, 0 } },
	{ 2, 1, { 3, 0 }, { 0, 0 } },
	{ 0, 2, { 3, 0 }, { 3, 0 } },
};

struct decoded {
	char header[4096];
	const char *at, *end;
};

static void decode(struct decoded *d, const struct buf *b)
{
	uint32_t n;

	assert_memory_equal(b->ptr, "FTT1", 4);
	memcpy(&n, b->ptr + 4, 4);
	assert_true(n < sizeof(d->header));
	memcpy(d->header, b->ptr + 8, n);
	d->header[n] = 0;
	assert_int_equal(d->header[n - 1], '}');
	d->at = b->ptr + 8 + (n + 7) / 8 * 8;
	d->end = b->ptr + b->len;
}

/* The next array must be the one that the header names so. */
static const void *next(struct decoded *d, const char *named, size_t bytes)
{
	const char *at = d->at;

	if (!strstr(d->header, named))
		fail_msg("no %s in %s", named, d->header);
	d->at += (bytes + 7) / 8 * 8;
	assert_true(d->at <= d->end);
	return at;
}

static void check_u32(struct decoded *d, const char *named, const uint32_t *want, size_t count)
{
	const void *at = next(d, named, count * 4);

	if (memcmp(at, want, count * 4) != 0)
		fail_msg("%s differs", named);
}

static void check_f64(struct decoded *d, const char *named, const double *want, size_t count)
{
	const void *at = next(d, named, count * 8);

	if (memcmp(at, want, count * 8) != 0)
		fail_msg("%s differs", named);
}

static void check_strings(struct decoded *d, const char *const *want, size_t count)
{
	uint32_t offsets[16];
	const char *bytes;

	memcpy(offsets, next(d, "[\"string_offset\",\"u32\",10]", (count + 1) * 4),
	       (count + 1) * 4);
	bytes = next(d, "[\"string_bytes\",\"u8\",", offsets[count]);
	for (size_t i = 0; i < count; i++) {
		struct str s = str_from(bytes + offsets[i], offsets[i + 1] - offsets[i]);

		if (!str_is(s, want[i]))
			fail_msg("string %zu is %.*s", i, STR_ARG(s));
	}
}

static void test_bytes(void **state)
{
	static const uint32_t parent[] = { 0, 0, 0, 1, 1, 2 }, frame[] = { 0, 2, 4, 3, 1, 2 };
	static const double self[] = { 0, 1, 0, 4, 2, 3 }, total[] = { 10, 7, 3, 4, 2, 3 };
	static const double self2[] = { 0, 1, 0, 0, 0, 0 }, total2[] = { 1, 1, 0, 0, 0, 0 };
	/* Frames: all, other, main, work, idle. */
	static const char *const strings[] = { "all", "",     "other", "main",   "m.c",
					       "app", "work", "idle",  "vmlinux" };
	static const uint32_t name[] = { 0, 2, 3, 6, 7 }, file[] = { 1, 1, 4, 1, 1 };
	static const uint32_t binary[] = { 1, 1, 5, 5, 8 }, line[] = { 0, 0, 5, 0, 0 };
	static const uint32_t flags[] = { 0, 1 << 9, 1, 1 | 1 << 8 | 1 << 11, 2 };
	static const uint64_t keys[] = { 0, 0, 0x1122334455667788, 2, 3 };
	struct query_loss loss = { STR("cut"), 7 };
	struct query_tree tree = {
		.nodes = NODES,
		.node_count = ARRAY_LEN(NODES),
		.frames = { FRAMES, ARRAY_LEN(FRAMES) },
		.total = { 10, 1 },
		.matched = { 4, 0 },
		.pruned_nodes = 3,
		.stacks = 4,
	};
	struct tree_out out = {
		.tree = &tree,
		.facts = { .range = { 5, UINT64_MAX },
			   .asof = 9,
			   .events = 12,
			   .processes = 2,
			   .partial = true,
			   .reason = "too \"many\"",
			   .type = { .id = STR("a:b:c:d:e") } },
		.unit = STR("nanoseconds"),
		.sides = 2,
		.searched = true,
		.seconds = { 1.5, 0 },
		.losses = { &loss, 1 },
	};
	AUTO(buf_release) struct buf bytes = { 0 };
	struct decoded d;
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096, 0);
	tree_write(&out, &arena, &bytes);
	arena_release(&arena);
	decode(&d, &bytes);
	next(&d, "{\"unit\":\"nanoseconds\",\"type\":\"a:b:c:d:e\",\"sides\":2,\"from\":\"5\",", 0);
	next(&d,
	     "\"to\":\"18446744073709551615\",\"asof\":\"9\",\"total\":[10,1],\"matched\":[4,0],",
	     0);
	next(&d,
	     "\"seconds\":[1.5,0],\"stacks\":4,\"samples\":12,\"processes\":2,\"pruned\":3,"
	     "\"partial\":\"too \\\"many\\\"\",",
	     0);
	next(&d, "\"coverage\":{\"cut\":7},\"frame_types\":[\"\",\"native\",\"kernel\"]", 0);
	check_u32(&d, "[\"parent\",\"u32\",6]", parent, 6);
	check_u32(&d, "[\"frame\",\"u32\",6]", frame, 6);
	check_f64(&d, "[\"self\",\"f64\",6]", self, 6);
	check_f64(&d, "[\"total\",\"f64\",6]", total, 6);
	check_u32(&d, "[\"name\",\"u32\",5]", name, 5);
	check_u32(&d, "[\"file\",\"u32\",5]", file, 5);
	check_u32(&d, "[\"binary\",\"u32\",5]", binary, 5);
	check_u32(&d, "[\"line\",\"u32\",5]", line, 5);
	check_u32(&d, "[\"flags\",\"u32\",5]", flags, 5);
	assert_memory_equal(next(&d, "[\"key\",\"u64\",5]", sizeof(keys)), keys, sizeof(keys));
	check_strings(&d, strings, ARRAY_LEN(strings));
	check_f64(&d, "[\"self2\",\"f64\",6]", self2, 6);
	check_f64(&d, "[\"total2\",\"f64\",6]", total2, 6);
	assert_ptr_equal(d.at, d.end);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_bytes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
