/*
 * resolve.h - from a record in the ring to a trace: whose it is, which mapping each address was in,
 * and, where BPF had to stop, the rest of the stack by the twin.
 *
 * Memory: frames and labels live until the next call. Threads: the trace thread.
 */
#pragma once
#include "agent/labels.h"
#include "agent/process/table.h"
#include "agent/sample/cost.h"
#include "agent/trace.h"
#include "agent/unwind/twin.h"
#include "base/str.h"

struct resolver {
	struct process_table *table;
	struct modules *modules;
	struct unwind_store *store;
	struct twin *twin;
	bool frames_of_ends;
	struct trace_frame *frames; /* room for RESOLVE_FRAMES_MOST */
	uint32_t frame_count;
	uint64_t resumed, bad_records, held_dropped;
	uint64_t ended[UNWIND_END_COUNT];
	struct sample_costs costs;
	struct labels labels; /* of the sample that was resolved last */
};

enum { RESOLVE_FRAMES_MOST = UNWIND_KERNEL_FRAMES_MAX + UNWIND_FRAMES_MAX + 2 };

void resolver_init(struct resolver *r, struct process_table *table, struct modules *modules,
		   struct unwind_store *store);
void resolver_release(struct resolver *r);
/* `record` is a RECORD_SAMPLE, `stack` the RECORD_STACK and `labels` the RECORD_LABELS that belong
 * to it, or "". False: nothing is
 * to be handed on (refused by the filter, or senseless); all of trace but its time is filled in. */
bool resolve_sample(struct resolver *r, struct str record, struct str stack, struct str labels,
		    struct trace *trace);
