/*
 * web.h - the page and its API on one address (127.0.0.1:4040).
 *
 *   GET /                      the page; /span/TRACE/SPAN is the same page
 *   GET /api/v1/...            what the page asks (docs/api.md)
 *
 * Questions are answered on `threads` threads of the server's own; those that find no free thread
 * wait in a queue, and are refused (503) when it is full or they waited too long. Each question
 * opens the source anew through `sources`, so that it sees a state of its own.
 *
 * Guarded: the Host header must name an address that was listened on (DNS rebinding), POST needs
 * an Origin of ours, a token if one is set; answers carry a strict Content-Security-Policy.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/metrics.h"
#include "net/loops.h"

struct source;
struct store_failing;
struct uploads;

/* Where samples are asked for. Any thread, several at once. */
struct web_sources {
	bool (*open)(void *ctx, struct source **out, struct err *err);
	void *ctx;
	const char *kind, *path; /* "sqlite", "/var/lib/flametap/flametap.db": shown */
	/* Whether it does not take what comes (pipeline/failing.h). NULL: nothing comes. */
	bool (*failing)(void *ctx, struct store_failing *out);
};

struct web_options {
	const char *address;       /* "127.0.0.1:4040" */
	const char *allowed_hosts; /* comma list of further Host names; NULL = none */
	/* Who may ask: any of those that are set. The files hold a line each ("user:password"; a
	 * token), '#' begins a comment. */
	const char *token, *basic_file, *bearer_file;
	const char *tls_cert_file, *tls_key_file; /* PEM; NULL = no TLS */
	bool read_only;                           /* nothing can be sent to it: files in memory */
	struct web_sources sources;
	/* Files that are dropped onto the page (uploads.h). NULL: kept in memory. Zeros: the
	 * defaults there. */
	const char *upload_folder;
	const char *source_folder; /* where the text of source files is (source_text.h); NULL:
				      nowhere */
	uint64_t upload_retention_ns, upload_most_bytes;
	struct uploads *uploads; /* the server's own */
	uint64_t born_ns;        /* the server's own: when it started */
	struct metrics *metrics; /* may be NULL */
	uint32_t threads;        /* 0 = 2 */
	uint32_t queue_most;     /* 0 = 64 */
	uint64_t timeout_ns;     /* of one question, waiting included; 0 = 30 s */
};

struct web_server;

struct web_server *web_start(struct net_loops *loops, const struct web_options *options,
			     struct err *err) MUST_CHECK;
/* Reads the files of secrets and certificates again; on failure the old ones hold. */
bool web_reload(struct web_server *s, struct err *err) MUST_CHECK;
/* Is "host:port" reached from this machine alone? */
bool web_is_loopback(const char *address);
/* The bound address with the real port. */
const char *web_address(const struct web_server *s);
/* Ends what runs, answers it, and joins the threads. NULL is fine. */
void web_stop(struct web_server *s, uint64_t deadline_ns);
