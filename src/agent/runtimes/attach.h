/*
 * attach.h - gives processes their runtimes: looks which of the files that they map are a
 * runtime's, asks it to attach, again later where it was too early, and tells BPF.
 *
 * Memory: in struct process. Threads: the trace thread.
 */
#pragma once
#include "agent/process/table.h"

/* Does p have a runtime that we do not know yet? To be called with each sample of it, and before
 * BPF is told of it; costs a comparison where nothing has changed. */
void runtimes_attach(struct process_table *t, struct process *p, uint64_t now_ns);
