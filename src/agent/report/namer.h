/*
 * namer.h - who gives frames their names: the seam between the reporter and symbolize/, runtimes/.
 *
 * The reporter asks once per distinct frame and report, off the sampling path, and keeps what is
 * `final` in its frame cache. Memory: what a name points at holds until the next call of the same
 * namer. Threads: the reporter's one thread.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/trace.h"

struct name_line {
	struct str function;    /* demangled; "" = not known */
	struct str system_name; /* as linked, where it differs; else "" */
	struct str file;        /* "" = not known */
	uint32_t line, column;  /* 1-based, 0 = not known */
	uint32_t start_line;    /* of the function; 0 = not known */
};

struct frame_name {
	const struct name_line *lines; /* innermost inlined function first */
	uint32_t line_count;           /* 0: no name is known */
	/* FRAME_KERNEL: what holds the address: "vmlinux", a module; "" for a BPF program or where
	 * nothing is known. */
	struct str module;
	struct str module_build_id_gnu; /* hex; "" = not known */
	uint64_t module_start;          /* FRAME_KERNEL: subtracted from the address on the wire */
	/* Interpreters: the address to send (a byte-code index, or 0). */
	uint64_t address;
	bool fallback; /* the one line only says where, as in "libc.so.6+0x2724a": counted as
			  unnamed */
	bool final;    /* asking again gives the same; else it may be named better later */
};

struct namer {
	/* False: nothing at all is known; `out` is then zero but for `final`. */
	bool (*name)(void *ctx, const struct trace_frame *frame, struct process_info *process,
		     struct frame_name *out);
	/* A runtime's frame was seen for the first time in this report, just now: what its name
	 * needs of the process's memory may be gone when name() is asked. Called on the trace
	 * thread, while the reporter's may be in name(). May be NULL. */
	void (*prepare)(void *ctx, const struct trace_frame *frame, struct process_info *process);
	/* A report begins: what CPU time naming may take until the next one. May be NULL. */
	void (*begin)(void *ctx, uint64_t budget_ns);
	void *ctx;
};
