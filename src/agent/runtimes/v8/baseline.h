/*
 * baseline.h - code of V8's baseline compiler (Sparkplug): which byte code an instruction belongs
 * to. Memory: values. Threads: any.
 */
#pragma once
#include "agent/runtimes/v8/heap.h"

/* `table` has how many bytes of instructions each byte code of `array` became. False: no byte code
 * is that far. */
bool v8_baseline_offset(const struct v8_heap *h, uint64_t array, uint64_t table, uint64_t pc_offset,
			uint32_t *offset);
