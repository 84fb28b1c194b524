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

/* Processes whose runtime was not ready and could not be guessed: asks again, where it is time to.
 * To be called at runtimes_due_ns(), 0: never. */
void runtimes_retry(struct process_table *t, uint64_t now_ns);
uint64_t runtimes_due_ns(const struct process_table *t);

/* Builds rows of files that stacks of runtimes go through, for so long. True: there is more to do.
 */
bool runtimes_build(struct process_table *t, uint64_t budget_ns);

/* The same data, guessed or found. */
bool runtimes_alike(const struct unwind_runtime *a, const struct unwind_runtime *b);
