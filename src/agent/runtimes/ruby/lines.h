/*
 * lines.h - the line of an instruction of an iseq (Ruby's iseq.c). Memory: values. Threads: any.
 */
#pragma once
#include "agent/runtimes/ruby/heap.h"

/* What a body says of its lines. */
struct ruby_lines {
	uint64_t entries, index; /* pc-space */
	uint32_t count;
};

/* 0: not known. */
uint32_t ruby_line(const struct ruby_heap *h, const struct ruby_lines *l, uint32_t position);
