/*
 * chance.h - probabilistic profiling: in how many of 100 intervals this machine samples.
 *
 * Each interval is drawn by itself, so that of a fleet about that share samples at any time. One
 * thread of its own; none at a threshold of 100. Threads: the owner's.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct chance;
struct chance_options {
	uint32_t threshold; /* 1..100 */
	uint64_t interval_ns;
	void (*enable)(void *ctx, bool on); /* only when it changes; begins as on */
	void *ctx;
};
struct chance *chance_new(const struct chance_options *options);
void chance_free(struct chance *c); /* NULL is fine */
