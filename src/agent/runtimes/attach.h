/*
 * attach.h - gives processes their runtimes: looks which of the files that they map are a
 * runtime's, asks it to attach, again later where it was too early, and tells BPF.
 *
 * Memory: in struct process. Threads: the trace thread.
 */
#pragma once
#include "agent/process/table.h"

struct attach_stats {
	uint64_t attached, refused, later;
};

/* A sample of p has come: does it have a runtime that we do not know yet? Costs a comparison where
 * nothing has changed. */
void runtimes_attach(struct process_table *t, struct process *p, uint64_t now_ns,
		     struct attach_stats *stats);
