/*
 * code_cache.h - where one Java virtual machine has its code: heaps and template interpreter.
 * Threads: no state.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/runtimes/hotspot/layout.h"

/* All of *out. ERR_UNAVAILABLE: the machine is only just starting, or its memory cannot be read;
 * ERR_INVALID: what was read makes no sense. */
bool hotspot_code_cache_read(const struct hotspot_layout *l, uint64_t load_bias,
			     const struct hotspot_memory *memory, struct unwind_hotspot *out,
			     struct err *err) MUST_CHECK;
