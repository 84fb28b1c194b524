/* traces_for_tests.h - hand-made processes, executables and traces, and a namer that knows a few
 * addresses. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/report/namer.h"
#include "base/cleanup.h"

#define TEST_GNU_ID "6b65c8a5c7d4f3a1"
#define TEST_HASH   "00112233445566778899aabbccddeeff"

static inline struct executable *test_executable(const char *filename)
{
	static const struct executable_segment segments[] = {
		{ 0x1000, 0x5000, 0x1000 },
		{ 0x7000, 0x9000, 0x6000 },
	};
	struct executable facts = { .id = 7,
				    .filename = str_cstr(filename),
				    .build_id_gnu = STR(TEST_GNU_ID),
				    .htlhash = STR(TEST_HASH),
				    .segments = segments,
				    .segment_count = ARRAY_LEN(segments) };

	return executable_new(&facts);
}

static inline struct process_info *test_process(uint32_t pid, const char *path, const char *name)
{
	struct process_info facts = { .pid = pid,
				      .start_unix_nano = 1,
				      .executable_path = str_cstr(path),
				      .executable_name = str_cstr(name) };

	return process_info_new(&facts);
}

static inline struct trace test_trace(struct process_info *p, uint64_t time_ns,
				      const struct trace_frame *frames, uint32_t count)
{
	struct trace t = { .origin = TRACE_ON_CPU,
			   .time_unix_nano = time_ns,
			   .pid = p->pid,
			   .tid = p->pid + 1,
			   .cpu = 3,
			   .comm = "worker",
			   .value = 1,
			   .process = p,
			   .frames = frames,
			   .frame_count = count };

	return t;
}

/* Knows the kernel at 0xffff1000 and native code at 0x1200 (with one inlined function); counts how
 * often it is asked, and says of 0x1300 that it may know it later. */
struct test_namer {
	struct namer namer;
	unsigned asked, begun;
	uint64_t budget_ns;
};

static inline bool test_namer_name(void *ctx, const struct trace_frame *f,
				   struct process_info *process, struct frame_name *out)
{
	static const struct name_line kernel[] = { { .function = { "do_work", 7 } } };
	static const struct name_line native[] = {
		{ .function = { "inner", 5 }, .file = { "a.c", 3 }, .line = 12, .column = 4 },
		{ .function = { "outer()", 7 },
		  .system_name = { "_Z5outerv", 9 },
		  .file = { "b.c", 3 },
		  .line = 40,
		  .start_line = 38 },
	};
	static const struct name_line script[] = {
		{ .function = { "main.run", 8 }, .file = { "x.py", 4 }, .line = 3 }
	};
	struct test_namer *n = ctx;

	n->asked++;
	*out = (struct frame_name){ .final = true };
	switch (f->kind) {
	case FRAME_KERNEL:
		out->lines = kernel;
		out->line_count = 1;
		out->module = STR("vmlinux");
		out->module_build_id_gnu = STR("0123456789abcdef");
		out->module_start = 0xffff0000;
		return true;
	case FRAME_CPYTHON:
		assert_non_null(process);
		out->lines = script;
		out->line_count = 1;
		out->address = 24;
		return true;
	default:
		break;
	}
	if (f->kind != FRAME_UNKNOWN && f->address == 0x1200) {
		out->lines = native;
		out->line_count = 2;
		return true;
	}
	out->final = f->address != 0x1300;
	return false;
}

static inline void test_namer_begin(void *ctx, uint64_t budget_ns)
{
	struct test_namer *n = ctx;

	n->begun++;
	n->budget_ns = budget_ns;
}

static inline void test_namer_init(struct test_namer *n)
{
	*n = (struct test_namer){
		.namer = { .name = test_namer_name, .begin = test_namer_begin, .ctx = n }
	};
}

static inline const char *test_end_name(uint64_t reason)
{
	return reason == 2 ? "no_rows" : NULL;
}
