/*
 * code.h - compiled code: which functions an instruction belongs to, since V8 compiles callees into
 * their callers, and where in their scripts. Memory: values. Threads: any.
 */
#pragma once
#include "agent/runtimes/v8/heap.h"

enum { V8_INLINED_MOST = 31 };

/* Innermost first; the last one is the function that was compiled. */
struct v8_code_place {
	uint64_t shared;  /* SharedFunctionInfo, tagged; 0: the function that was compiled */
	int32_t position; /* character of its script; -1: not known */
};

/* The places of an instruction of the function `shared`, at most V8_INLINED_MOST + 1; 0: its code
 * was not found. */
uint32_t v8_code_places(const struct v8_heap *h, uint64_t shared, uint64_t pc,
			struct v8_code_place places[V8_INLINED_MOST + 1]);
