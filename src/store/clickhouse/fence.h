/*
 * fence.h - after an insert whose end nobody saw: makes sure that it has ended, and comes no more,
 * before what it left is counted.
 *
 * Where tables know a block again (ReplicatedMergeTree of every version, MergeTree with
 * non_replicated_deduplication_window), the very same rows are sent once more. Whether the first
 * copy is there, is under way or still lies in some proxy: from then on the block is there once,
 * and a copy that comes later changes nothing. That is done for a minute, in which a table does not
 * forget the block for those of others.
 *
 * Elsewhere (MergeTree before 21.8) inserts run in an HTTP session, which must exist and which the
 * server locks for one of them at a time. The session is made read-only: that it can be had says
 * that no insert is in it, and one that comes later is refused. Where sessions do not last (a
 * balancer before several servers) there are none.
 *
 * Where neither is possible, and for what shards do in a cluster, the server is told to end what it
 * still does for us and is watched until it does nothing any more.
 *
 * A process that was killed in the middle of an insert leaves one whose end nobody saw, too, and
 * the next one does not have its rows. So inserts run in sessions everywhere, which stand in a file
 * that the next process finds (ch_fence_keep()); it closes the one before it, and what the server
 * works on at its start is waited for.
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
