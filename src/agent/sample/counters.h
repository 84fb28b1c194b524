/*
 * counters.h - what BPF counts, one struct sample_counters per possible CPU, read through a
 * mapping. Threads: any; each word is read as a whole, not all of one moment.
 */
#pragma once
#include <stdint.h>
#include "base/err.h"
#include "bpf/records.h"

/* NULL and err. Unmapped by counters_unmap() with the same count. */
const struct sample_counters *counters_map(int fd, uint32_t cpu_count, struct err *err);
void counters_unmap(const struct sample_counters *counters, uint32_t cpu_count);
/* The sums over all CPUs; those of what is no count make no sense. */
void counters_sum(const struct sample_counters *counters, uint32_t cpu_count,
		  struct sample_counters *sum);
