/*
 * trace.h - one sample as the unwinder leaves it: who ran, when, and the stack, not yet named.
 *
 * The way of a sample: bpf/ writes a record into the ring -> sample/ reads it -> process/ resolves
 * the pid to a process and its mappings as they were at the sample's time -> struct trace, here ->
 * report/ names its frames (symbolize/, runtimes/) and adds it to the next struct profiles.
 *
 * Memory: a trace and its frames belong to whoever made them and live only during the call of the
 * sink; process_info and executable are counted references that a sink may keep. Threads: the sink
 * is called on the agent's one trace thread.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

/* What a frame is: also the value of OTLP's profile.frame.type (semantic conventions, profile). */
enum frame_kind {
	FRAME_KERNEL,  /* address: pc in the kernel */
	FRAME_NATIVE,  /* executable, address: elf_vaddr */
	FRAME_GO,      /* as FRAME_NATIVE, in an executable with a gopclntab */
	FRAME_UNKNOWN, /* address: raw pc that no mapping held: shown, never dropped */
	FRAME_CPYTHON, /* address: code object, extra: what the runtime's namer needs */
	FRAME_HOTSPOT,
	FRAME_V8,
	FRAME_PHP,
	FRAME_RUBY,
	FRAME_END, /* the marker of a stack that ended early: address is an enum unwind_end */
	FRAME_KIND_COUNT,
};

struct executable; /* process/executable.h: one ELF file by identity (build id, else file hash) */

struct trace_frame {
	enum frame_kind kind;
	bool return_address; /* the call is before `address`: look names up at address - 1 */
	struct executable
		*executable; /* FRAME_NATIVE, FRAME_GO and interpreters in a file; else NULL */
	uint64_t address;
	uint64_t extra;
};

struct process_info; /* process/process_info.h: immutable facts of one process image (pid, start,
			executable, container.id, chosen environment) */

/* Why the sample was taken: one OTLP profile type each. */
enum trace_origin { TRACE_ON_CPU, TRACE_ORIGIN_COUNT };

struct trace {
	enum trace_origin origin;
	uint64_t time_unix_nano;
	uint32_t pid, tid; /* in the agent's pid namespace */
	uint32_t cpu;
	char comm[16];
	int64_t value; /* of the origin's unit; on-CPU: 1 sample */
	struct process_info *process;
	struct str labels;                /* labels.h's text; "" = none */
	const struct trace_frame *frames; /* leaf first, kernel frames before user frames */
	uint32_t frame_count;
};

/* Who takes traces: the reporter, a test, `record`. */
struct trace_sink {
	void (*trace)(void *ctx, const struct trace *trace);
	void *ctx;
};
