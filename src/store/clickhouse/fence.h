/*
 * fence.h - after an insert without an answer: makes sure that it has ended and cannot arrive
 * later, before the rows that it left are counted.
 *
 * Where tables know a block again (ReplicatedMergeTree of every version, MergeTree with
 * non_replicated_deduplication_window), the very same rows are sent once more. Whether the first
 * copy has arrived, is on its way or sits in a proxy: from then on the block is there once, and a
 * later copy changes nothing. This goes on for a minute, during which the table still remembers the
 * block.
 *
 * Elsewhere (MergeTree before 21.8) inserts run in an HTTP session, which must exist and which the
 * server locks for one insert at a time. Then the session is made read-only: getting it proves that
 * no insert is running in it, and a later one is refused. Sessions are not used where they do not
 * last (a load balancer in front of several servers).
 *
 * Where neither is possible, and for the shards of a cluster, the server is asked to kill what it
 * is still doing for us, and watched until it has stopped.
 *
 * A process that is killed in the middle of an insert also leaves one without an answer, and the
 * next process does not have its rows. So every insert runs in a session whose name is kept in a
 * file (ch_fence_keep()); the next process closes that session and waits for inserts that are
 * running.
 *
 * Threads: one at a time. Source: ClickHouse documentation, HTTP interface (session_id,
 * session_check), ReplicatedMergeTree (deduplication of blocks); tried with 18.16 and 26.9.
 */
#pragma once
#include "store/clickhouse/server.h"

enum { CH_SESSION_NAME = 48 };

struct ch_fence {
	bool again; /* the tables know a block again */
	bool open;  /* an insert's end was not seen */
	bool first; /* what the process before this one did has not been asked for */
	int file;   /* with the name of the session in use; -1: there is none */
	char name[CH_SESSION_NAME], before[CH_SESSION_NAME]; /* of ours; of that process's */
	uint64_t opened_ns;
	const char *sql; /* of it; static */
	struct buf rows;
	bool in_session;        /* there is one now */
	unsigned session, lost; /* its number; sessions in a row that did not last */
	uint64_t prefix, used_ns;
};

void ch_fence_init(struct ch_fence *f);
/* Reads what session the process before this one had, and keeps ours there from now on. Once is
 * enough, before the first insert; where the file cannot be made that session is not known. */
void ch_fence_keep(struct ch_fence *f, const char *path);
/* Inserts, behind the fence; f is closed. sql is static. When it fails, f is open. */
bool ch_fence_insert(struct ch_fence *f, struct ch_server *server, const char *sql,
		     const char *settings, struct str rows, struct err *err) MUST_CHECK;
/* Closes it, or says why it cannot be closed now. cluster: as ch_settled(); settings: of inserts.
 */
bool ch_fence_close(struct ch_fence *f, struct ch_server *server, const char *cluster,
		    const char *settings, struct err *err) MUST_CHECK;
void ch_fence_release(struct ch_fence *f);
