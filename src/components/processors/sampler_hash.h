/*
 * sampler_hash.h - the decisions of the Collector's probabilistic_sampler, so that samples and
 * spans of one trace are kept or dropped together, here and there.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

/* hash_seed: 14 bits of FNV-1a over the seed (4 bytes, low first) and the bytes. */
uint32_t sampler_hash(struct str bytes, uint32_t seed);
bool sampler_keeps_hash(struct str bytes, uint32_t seed, double percentage);
/* proportional, equalizing: the last 56 bits of a trace_id as a number, against a threshold (W3C
 * Trace Context level 2). */
bool sampler_keeps_trace(const uint8_t trace_id[16], double percentage);
