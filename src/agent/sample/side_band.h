/*
 * side_band.h - one record of the side band, taken apart: what a process did, and when.
 *
 * Layout (linux/perf_event.h), behind struct perf_event_header, for our sample_type TID | TIME:
 *
 *   MMAP2  pid tid | addr | len | pgoff | {maj min | ino | ino_generation} or {u8 size, 3 bytes,
 *          build_id[20]} | prot flags | file name, NUL, padding | pid tid | time
 *   COMM   pid tid | comm, NUL, padding | pid tid | time
 *   FORK, EXIT   pid ppid | tid ptid | time | pid tid | time
 *   LOST   id | count | pid tid | time
 *   KSYMBOL      addr | len | type flags | name, NUL, padding | pid tid | time
 *
 * Memory: names point into the record. Threads: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

enum side_kind {
	SIDE_FORK, /* a thread or, when pid != ppid, a process */
	SIDE_EXIT, /* of a thread; of the process when tid == pid */
	SIDE_EXEC, /* comm is the new name; all mappings are gone */
	SIDE_COMM,
	SIDE_MMAP, /* executable memory */
	SIDE_KSYMBOL,
	SIDE_LOST,  /* `lost` records before this one */
	SIDE_OTHER, /* nothing for us */
};

enum { SIDE_BUILD_ID_MOST = 20 };

struct side_record {
	enum side_kind kind;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t pid, tid, ppid;
	uint64_t start, length, file_offset; /* SIDE_MMAP, SIDE_KSYMBOL */
	uint64_t device, inode; /* 0: not known; then there is a build id, or no file */
	uint8_t build_id[SIDE_BUILD_ID_MOST];
	uint8_t build_id_bytes;
	bool executable;   /* SIDE_MMAP: PROT_EXEC */
	bool unregistered; /* SIDE_KSYMBOL: it went away */
	struct str name;   /* file, comm or symbol */
	uint64_t lost;
};

/* False: cut short, or lengths that do not fit. */
bool side_record_parse(struct str record, struct side_record *out);
