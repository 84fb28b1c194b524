/*
 * supervise.h - the processes of an agent: a supervisor that starts, watches and counts, a worker
 * that does the work without privileges, and samplers that hold the privileges.
 *
 *   supervisor ── control socket ── worker          one; started again when a signal ends it
 *        └─ forks on request ─ sampler ── seam ── worker   one per running agent; ends with its
 * seam
 *
 * The supervisor takes SIGTERM, SIGINT and SIGHUP and hands them to the worker; a second SIGTERM or
 * SIGINT, a second or more later, ends it at once. A worker that ends by itself ends everything,
 * with its status: a bad configuration is not tried again and again. Call it before there is any
 * thread.
 */
#pragma once
#include <sys/types.h>

#include "agent/seam.h"
#include "agent/supervise/confine.h"

struct metrics;

struct supervise_options {
	int (*worker)(void *ctx); /* in a process of its own; gives its exit status */
	void *ctx;
	struct confine_user user; /* of the worker */
	pid_t other;              /* a child that the caller had before; 0 = none */
	int *other_status;        /* as of wait(2), once that child has ended; else untouched */
};

/* Runs until the worker has ended; its exit status, or 1 when nothing could be started (err is
 * logged). */
int supervise_run(const struct supervise_options *options);

/* In the worker: a sampler behind a seam. Elsewhere (no supervisor): the sampler in this process.
 * Any thread. */
struct seam *supervise_seam(struct err *err) MUST_CHECK;
/* True in a worker. */
bool supervised(void);
/* Registers flametap_supervisor_restarts (gauges, per process). Nothing without a supervisor. */
void supervise_metrics(struct metrics *m);
