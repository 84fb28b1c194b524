/*
 * walkers.h - which BPF program walks the stacks of a process (bpf/records.h, enum unwind_walker),
 * and that it is loaded before it is needed for the first time.
 *
 * Threads: the trace thread. The sampler loads on a thread of its own: nobody waits.
 */
#pragma once
#include "agent/process/table.h"

/* The walker of a process with these runtimes (UNWIND_PROCESS_RUNTIMES of them, 0: none). */
uint8_t walkers_for(struct process_table *t, const uint16_t *runtimes);
