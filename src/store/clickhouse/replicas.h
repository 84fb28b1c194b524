/*
 * replicas.h - may what a replica does not have be taken for missing?
 *
 * Of replicas one takes an insert and the others fetch it; when that one dies before they did, what
 * is asked of another says nothing about the insert. Every insert that was taken is in the log that
 * all replicas of a table share, so one that has all of the log has all of the rows.
 *
 * Threads: the server's. Source: ClickHouse documentation, system.replicas.
 */
#pragma once
#include "store/clickhouse/schema.h"

/* Has the replica that answers (in a cluster: those of all shards) all samples and requests that
 * any of its like took? ERR_UNAVAILABLE: not now, with how many have not. Tables that are not
 * replicated always have. settings: as ch_query(). */
bool ch_replicas_have_all(struct ch_server *server, const struct ch_schema *s, const char *settings,
			  struct err *err) MUST_CHECK;
