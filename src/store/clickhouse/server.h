/*
 * server.h - a ClickHouse server over HTTP: one blocking call at a time, and what its version can
 * do.
 *
 * Both generations that we support, 18.16 and 20 to 26, speak this; what differs is a bit in
 * `features`, chosen by the version that the server names. Names and values come into SQL through
 * ch_quote() only.
 *
 * Threads: a server, one at a time; ch_server_end_by() any.
 * Source: ClickHouse documentation, HTTP interface; change logs for the versions.
 */
#pragma once
#include <stdatomic.h>
#include "base/blob.h"
#include "base/buf.h"
#include "net/client.h"

/* What not every version has. */
enum ch_feature {
	CH_CODECS = 1 << 0,          /* column CODEC(...) */
	CH_TTL = 1 << 1,             /* table TTL */
	CH_LOW_CARDINALITY = 1 << 2, /* LowCardinality(String) */
	CH_SKIP_INDEX = 1 << 3,      /* INDEX ... TYPE bloom_filter */
	CH_ZSTD_BODY = 1 << 4,       /* Content-Encoding: zstd of a request */
	CH_ASYNC_INSERT = 1 << 5,    /* the settings async_insert, wait_for_async_insert */
	CH_DEDUP_WINDOW = 1 << 6     /* MergeTree's non_replicated_deduplication_window */
};

struct ch_version {
	uint32_t major, minor;
	unsigned features; /* of enum ch_feature */
};
/* "18.16.1", "26.9.2.1". ERR_UNSUPPORTED: older than 18.16; ERR_INVALID: no version. */
bool ch_version_parse(struct str text, struct ch_version *out, struct err *err) MUST_CHECK;

/* Where: taken apart from "http://user@host:8123/database?setting=value". */
struct ch_endpoint {
	char *base;     /* "http://host:8123/" */
	char *user;     /* NULL = not said */
	char *database; /* NULL = not said */
	char *settings; /* "a=1&b=2" as they stood, or NULL */
};
/* ERR_INVALID for tcp:// and the like, with the port to take instead, and for a password in it. */
bool ch_endpoint_parse(const char *text, struct ch_endpoint *out, struct err *err) MUST_CHECK;
void ch_endpoint_release(struct ch_endpoint *e);
/* An endpoint, even a refused one, as messages may show it: with *** for a password. From malloc().
 */
char *ch_endpoint_shown(const char *text);
/* "http://host:8123/database", from malloc(): by which one store is the same for its exporter and
 * for who reads it (pipeline/failing.h). database: wins over the endpoint's; NULL = it says. */
char *ch_endpoint_store(const struct ch_endpoint *e, const char *database);

struct ch_options {
	const struct ch_endpoint *endpoint;
	const char *user, *password,
		*database; /* win over the endpoint's; NULL = "default", "", "default" */
	struct tls_options tls;
	uint64_t timeout_ns;         /* of one call; 0 = 30 s */
	uint64_t connect_timeout_ns; /* 0 = 5 s */
	size_t answer_most_bytes;    /* 0 = 64 MiB */
	bool compress;               /* bodies of inserts: zstd where the server can, else gzip */
	const char *more_settings;   /* "&a=1" behind every call, or NULL */
};

struct ch_server;
/* Makes no connection yet. */
struct ch_server *ch_server_new(const struct ch_options *options, struct err *err) MUST_CHECK;
void ch_server_free(struct ch_server *s); /* NULL is fine */
/* Asks for the version, once. */
bool ch_server_connect(struct ch_server *s, struct ch_version *out, struct err *err) MUST_CHECK;
const char *ch_server_database(const struct ch_server *s);
/* Makes the server's database where there is none; on a cluster when one is named. */
bool ch_server_make_database(struct ch_server *s, const char *cluster, struct err *err) MUST_CHECK;
/* Calls that are under way at that time (monotonic ns), and all that follow, fail with
 * ERR_CANCELLED; UINT64_MAX: none does. Any thread. */
void ch_server_end_by(struct ch_server *s, uint64_t deadline_ns);

/*
 * Runs `sql` (a SELECT answers whole or not at all). `out`, when not NULL, gets the answer's bytes:
 * its buffer is reset first. Kinds of err: UNAVAILABLE and TIMEOUT when there was no answer,
 * UNAUTHENTICATED, NOT_FOUND (no such table, database or session), BUSY (too much to do), LIMIT
 * (the answer is too large), INTERNAL for what else the server says. settings: "&max_threads=2",
 * may be NULL.
 */
bool ch_query(struct ch_server *s, struct str sql, const char *settings, struct buf *out,
	      struct err *err) MUST_CHECK;
/* INSERT: `sql` names table, columns and format, `rows` are its data. A failure says nothing about
 * whether the rows are there, or come there yet. */
bool ch_insert(struct ch_server *s, struct str sql, const char *settings, struct str rows,
	       struct err *err) MUST_CHECK;
/* Ends all inserts made through s, and waits until the server, and the first replica of each shard
 * of a cluster (NULL: there is none), works on none any more: then what they left can be counted.
 */
bool ch_settled(struct ch_server *s, const char *cluster, struct err *err) MUST_CHECK;
/* Waits for the inserts of any flametap that the server works on now: those of a process before
 * this one are among them. */
bool ch_others_settled(struct ch_server *s, const char *cluster, struct err *err) MUST_CHECK;

/* Quoted for SQL: 'text' with everything that is special escaped; `name` with backquotes. */
void ch_quote(struct buf *b, struct str text);
void ch_quote_name(struct buf *b, struct str name);
