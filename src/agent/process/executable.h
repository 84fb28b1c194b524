/*
 * executable.h - one ELF file by identity: what a native frame points at, and what its mapping
 * becomes on the wire.
 *
 * Two mappings of the same build are one executable. Immutable once made. Memory: counted
 * references; strings and segments belong to it. Threads: any.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

/* A PT_LOAD that is executable, in the file's own addresses. */
struct executable_segment {
	uint64_t vaddr_start,
		vaddr_limit;  /* [start, limit), cut to pages as the loader maps them */
	uint64_t file_offset; /* of vaddr_start */
};

enum { EXECUTABLE_BPF_ID_BITS = 24 };

struct executable {
	atomic_uint refs;
	uint64_t id; /* unique while any reference lives; its low bits are what BPF calls it */
	struct str filename;     /* base name; "[vdso]" */
	struct str build_id_gnu; /* lower-case hex; "" = none, as the next two */
	struct str build_id_go;  /* as it is in the note: text */
	struct str htlhash;      /* 32 hex digits: SHA-256 of first and last 4 KiB and the size */
	const struct executable_segment *segments;
	uint32_t segment_count;
	bool go; /* has a gopclntab */
	/* Of a language runtime: enum unwind_step_kind (0: none), and what is known of it
	 * (runtimes/runtime.h). */
	uint32_t runtime_step;
	uint32_t runtime_bytes;
	const void *runtime;
};

static inline uint32_t executable_bpf_id(const struct executable *e)
{
	return (uint32_t)e->id & ((1u << EXECUTABLE_BPF_ID_BITS) - 1);
}

/* Copies everything of `facts` (its refs is ignored); one reference. */
struct executable *executable_new(const struct executable *facts);
struct executable *executable_ref(struct executable *e);
void executable_unref(struct executable *e); /* NULL is fine */
