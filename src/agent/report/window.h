/*
 * window.h - the samples between two reports, counted together while they come.
 *
 * Equal frames, stacks, sets of labels and samples are kept once: a sample is (process, stack,
 * origin, thread, cpu, labels), and what repeats only adds its timestamp. A process is (container,
 * executable, pid, service), so that one seen again is one resource. Frames are kept as the wire
 * has them: a return address less one, so that a call and a sample in it are one frame.
 *
 * Memory: bounded by limit_bytes; what finds no room is refused and the caller counts it. The
 * window holds references of processes and executables.
 * Threads: one at a time.
 */
#pragma once
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/trace.h"
#include "model/intern.h"

enum { WINDOW_REASONS = 64 }; /* of stacks that end early: the last one is for all above it */

struct window_frame {
	struct trace_frame frame; /* its executable is a reference; return_address is false */
	uint64_t uses;            /* how many events have it */
	uint32_t process;         /* that its address belongs to, else UINT32_MAX */
};

struct window_stack {
	uint32_t first, count; /* of stack_frames */
};

struct window_labels {
	uint32_t first, bytes; /* of label_text: labels.h's text */
};

struct window_sample {
	uint32_t process, stack;
	uint32_t labels; /* place in label_sets, and one; 0 = none */
	uint32_t tid, cpu;
	uint32_t event_count;
	enum trace_origin origin;
	char comm[16]; /* may fill all 16 bytes */
};

struct window_event {
	uint64_t time_unix_nano;
	int64_t value;
	uint32_t sample;
};

struct window {
	struct process_info **processes;
	struct window_frame *frames; /* distinct */
	uint32_t *stack_frames;      /* places in `frames`, leaf first */
	struct window_stack *stacks;
	struct window_sample *samples;
	struct window_event *events; /* as they came */
	struct window_labels *label_sets;
	char *label_text;
	uint32_t label_set_count, label_text_count;
	uint32_t process_count, frame_count, stack_frame_count, stack_count, sample_count,
		event_count;

	uint32_t process_cap, frame_cap, stack_frame_cap, stack_cap, sample_cap, event_cap;
	uint32_t label_set_cap, label_text_cap;
	struct intern_table label_ids;
	struct intern_table process_ids, frame_ids, stack_ids, sample_ids;
	bool go_as_native;     /* set by the owner: Go's frames are sent as any native code */
	bool keep_end_markers; /* else they are counted only, but where nothing else is */
	uint64_t cut[WINDOW_REASONS];  /* events by their stack's end marker */
	uint64_t oldest_ns, newest_ns; /* of the events; 0 when there is none */
	uint32_t *scratch;             /* the frames of the trace that is being added */
	uint32_t scratch_cap;
	size_t bytes, limit_bytes;
};

void window_init(struct window *w, size_t limit_bytes, bool keep_end_markers);
void window_release(struct window *w);
/* Empty again; keeps what memory the last windows needed, gives back what was much more. */
void window_reset(struct window *w);
/* False: no room is left, and nothing was added. */
bool window_add(struct window *w, const struct trace *trace) __attribute__((warn_unused_result));

/* The text of window_sample.labels (labels.h); "" of 0. */
struct str window_labels(const struct window *w, uint32_t labels);

/* True for the kinds whose addresses mean something in one process only. */
bool frame_kind_is_of_process(enum frame_kind kind);
