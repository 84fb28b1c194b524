/*
 * component.h - the contract of everything that a pipeline is made of: receivers, processors,
 * exporters, extensions.
 *
 * The pipeline allocates `state_size` zeroed bytes per instance, fills them from YAML by `fields`,
 * calls check(), starts components from the exporters back to the receivers, and stops them the
 * other way round. A batch is handed on with consumer_consume(); whoever gets it answers exactly
 * once through its completion, then or later, on any thread.
 *
 * Acknowledged means kept: an exporter completes with OUTCOME_OK only when the batch is where it
 * shall be (committed, written, accepted by the peer, or in its spool). A processor completes with
 * what its successor says, unless it is `memory` (batch): then success on enqueue, and the whole
 * pipeline is called a memory pipeline.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/metrics.h"
#include "base/budget.h"
#include "pipeline/batch.h"
#include "pipeline/options.h"

enum component_kind {
	COMPONENT_RECEIVER,
	COMPONENT_PROCESSOR,
	COMPONENT_EXPORTER,
	COMPONENT_EXTENSION
};

enum outcome_kind {
	OUTCOME_OK,        /* kept */
	OUTCOME_RETRY,     /* not kept; the sender may try again (err.kind says why: ERR_BUSY,
			      ERR_UNAVAILABLE, ERR_IO, ...) */
	OUTCOME_PERMANENT, /* not kept and never will be: the sender must not repeat it */
};

struct outcome {
	enum outcome_kind kind;
	struct err err;             /* for people; kind for the status mapping */
	uint64_t retry_after_ns;    /* 0 = no hint */
	uint64_t rejected_profiles; /* OUTCOME_OK: partial success */
	char warning[240];          /* OUTCOME_OK: partial success message, "" = none */
	uint64_t lost_samples; /* OUTCOME_OK: of the batch, refused for good though the rest was
				  kept: counted as failed */
};

/* Embedded in the waiting side's own struct; CONTAINER_OF() gets back to it. */
struct completion {
	void (*done)(struct completion *c, const struct outcome *o);
};

static inline void completion_done(struct completion *c, const struct outcome *o)
{
	c->done(c, o);
}
/* The outcome of a failure: RETRY or PERMANENT by err_retryable(err->kind). */
struct outcome outcome_of(const struct err *err);
static inline struct outcome outcome_ok(void)
{
	return (struct outcome){ .kind = OUTCOME_OK };
}

/* Where a receiver or processor hands batches on to; embedded in what is behind it: fan-out,
 * metrics, a component, a test. */
struct consumer {
	void (*consume)(struct consumer *self, struct batch *batch, struct completion *done);
};
/* Takes over one reference of the batch. */
static inline void consumer_consume(struct consumer *next, struct batch *batch,
				    struct completion *done)
{
	next->consume(next, batch, done);
}

struct net_loops; /* net/loops.h; the pipeline only passes it on */

struct component_ops;
struct problems;
struct config_node;

/* What an instance is given at start; valid until stop() returned. */
struct component_host {
	const char *id;          /* "otlp", "otlp/2" */
	const char *pipeline_id; /* processors: "profiles/2"; others: NULL */
	struct consumer *next;   /* receivers and processors */
	struct net_loops *loops;
	struct budget *budget; /* the one memory total */
	struct metrics *metrics;
	const char *spool_dir;    /* NULL: no durable queues */
	uint64_t spool_max_bytes; /* of all spools */
	bool durable;             /* the graph's default: `backend`, `up`, `agent` */
	bool strict; /* refuse profiles with bad indices (collector) or keep them (backend): the
			default for receivers */
	bool profiles_pipeline; /* receivers: false when it feeds no profiles pipeline */
	/* The state of an extension that has started, by type and id ("web", "web/2"); it outlives
	 * the caller's stop(). NULL: there is none. */
	void *(*extension)(const struct component_host *host, const struct component_ops *ops,
			   const char *id);
	const void *graph; /* the pipeline's own, for extension() */
	/* Open while the graph is replaced: what stop() leaves there, start() of the same kind and
	 * id finds. NULL: never. */
	struct handover *handover;
	/* Called once when an instance finds that it can't go on (any thread): the process stops
	 * with this error. */
	void (*fail)(const struct component_host *host, const struct err *err);
};

/* Where a remote exporter sends, as its metrics name it: server_address, server_port, url_path;
 * empty: no such label. */
struct component_destination {
	struct str address, port, path;
};

struct component_ops {
	const char *type;       /* "stdout" */
	const char *aliases[4]; /* other spellings, NULL-terminated; deprecated ones start with '!'
				   and warn */
	const char *summary;    /* one line for --help and `components` */
	enum component_kind kind;
	size_t state_size;
	const struct config_field *fields;
	bool mutates; /* processors: changes batches, so it gets its own copy */
	bool memory;  /* acknowledges before its successors kept the batch */
	/*
	 * Exporters: may be away for long; a queue, a spool in durable pipelines, stands before it
	 * and does the retries: one consume() is one attempt. Its fields hold SENDING_FIELDS() of
	 * pipeline/sending.h, its state a struct sending_options at sending_offset; it keeps to
	 * that one's timeout_ns itself.
	 */
	bool remote;
	size_t sending_offset;
	/* A remote one that puts what waits into one call of its own: it is given more than
	 * num_consumers requests at once, as far as memory has room. */
	bool gathers;

	/* All below run on the main thread unless said otherwise. NULL = nothing to do. */
	/* After options were filled from `node` without an error: reads what the table cannot
	 * (CONFIG_ANY), and
	 * reports all that is wrong with its place. What it allocates lies in `arena`, or is
	 * release()'s to free. No side effects. */
	void (*read)(void *state, const struct config_node *node, const char *path,
		     struct arena *arena, struct problems *problems);
	bool (*check)(void *state,
		      struct err *err); /* after options were filled; no side effects */
	bool (*start)(void *state, const struct component_host *host, struct err *err);
	/* Processors and exporters; any thread, concurrently. Owns one reference of batch. */
	void (*consume)(void *state, struct batch *batch, struct completion *done);
	/* Before any stop(), the same deadline: who may wait for others without end gives up early
	 * enough that the senders can still be answered. */
	void (*stopping)(void *state, uint64_t deadline_ns);
	/* Receivers: stop taking in. Processors, exporters: finish or give up what is pending until
	 * the deadline (monotonic ns), every completion called before it returns. Not called when
	 * start failed. */
	void (*stop)(void *state, uint64_t deadline_ns);
	/* SIGHUP without a changed configuration: re-read certificates and filters, keep the old on
	 * error. */
	bool (*reload)(void *state, struct err *err);
	void (*release)(void *state); /* frees what check() or start() made */
	/* Remote exporters, once checked; borrows from the state. */
	struct component_destination (*destination)(const void *state);
	/* Extensions that give storage to queues (`sending_queue: {storage: ID}`): the directory,
	 * once checked. */
	const char *(*storage_directory)(const void *state);
	/* Extensions: every component has started (true), or is about to be stopped (false). */
	void (*ready)(void *state, bool ready);
};

/* components/all.c; NULL-terminated. The pipeline itself only knows the list that it is given. */
extern const struct component_ops *const components_all[];
/* By type or alias; *deprecated (may be NULL) when the spelling is an old one. NULL: no such
 * component. */
const struct component_ops *component_find(const struct component_ops *const *components,
					   enum component_kind kind, struct str type,
					   bool *deprecated);
const char *component_kind_name(enum component_kind kind); /* "receiver" */
