/*
 * debuginfod.h - debug files by build id from the servers of DEBUGINFOD_URLS, fetched by a thread
 * of its own, one after another.
 *
 * The variables are those of elfutils' client: DEBUGINFOD_URLS (base addresses, separated by
 * blanks; http and https), DEBUGINFOD_TIMEOUT (seconds without progress, 90), DEBUGINFOD_MAXTIME
 * (seconds a file, none), DEBUGINFOD_MAXSIZE (bytes a file, 1 GiB here). A file is asked for as
 * BASE/buildid/HEX/debuginfo, from each server in turn until one has it. "Not there" is remembered
 * for this run, other failures for ten minutes.
 *
 * Files are kept in the cache folder as HEX.debug, written whole or not at all; without a folder
 * they have no name and go with their last descriptor. What comes is not trusted: the caller
 * compares the build id.
 *
 * Threads: debuginfod_get() from one; the fetching is inside.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

struct debuginfod;

struct debuginfod_options {
	const char *urls;           /* as in the variable; NULL, "": none */
	int cache_folder;           /* -1: none. Stays the caller's, open until debuginfod_free() */
	uint64_t stall_ns, most_ns; /* 0: 90 s, none */
	uint64_t most_bytes;        /* a file; 0: 1 GiB */
};

struct debuginfod_stats {
	uint64_t fetched, absent, failed, bytes;
	char problem[160]; /* of the last failure; "" = none */
};

enum debuginfod_answer {
	DEBUGINFOD_ABSENT, /* no server has it, or asking failed */
	DEBUGINFOD_LATER,
	DEBUGINFOD_HERE,
};

/* What the environment says. */
struct debuginfod_options debuginfod_environment(void);
/* NULL: no server is named. */
struct debuginfod *debuginfod_new(const struct debuginfod_options *options);
void debuginfod_free(struct debuginfod *d); /* ends a running fetch; NULL is fine */
/* Asks for a file, at first, and says how it went, later. HERE: *fd is the caller's. Waits for
 * `wait_ns` at most, 0: not at all. */
enum debuginfod_answer debuginfod_get(struct debuginfod *d, struct str build_id_hex,
				      uint64_t wait_ns, int *fd);
void debuginfod_stats(struct debuginfod *d, struct debuginfod_stats *out);
