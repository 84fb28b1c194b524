/*
 * graph.h - a running set of pipelines: instances, how they are wired, and their life cycle.
 *
 *   graph_new()    one receiver and one exporter instance per id, one processor instance per
 * pipeline; nothing is opened graph_start()  extensions, exporters, processors, receivers; on
 * failure what started is stopped again graph_reload() all or nothing: the old graph goes on when
 * the new configuration is bad graph_stop()   receivers, processors, exporters, extensions; each
 * drains into the next until the deadline
 *
 * Threads: all calls from the one thread that owns the graph; batches flow on any.
 */
#pragma once
#include "pipeline/config.h"

struct net_loops;

struct graph_env {
	struct net_loops *loops; /* may be NULL (tests) */
	struct budget
		*budget; /* the one memory total; its limit is config->engine.max_inflight_bytes */
	struct metrics *metrics;
	/* An instance found that it cannot go on. Any thread; the owner then stops the graph. */
	void (*fail)(void *arg, const struct err *err);
	void *fail_arg;
	struct handover *handover; /* the graph's own */
};

struct graph;

/* Takes over config in any case. NULL when problems got an error. */
struct graph *graph_new(struct config *config, const struct graph_env *env,
			struct problems *problems) MUST_CHECK;
/* err: `failed to start "otlp" receiver: ...`. */
bool graph_start(struct graph *g, struct err *err) MUST_CHECK;
/*
 * For SIGHUP; takes over config in any case. Where the configuration is unchanged, components
 * re-read their certificates and filters (component_ops.reload). Otherwise the new graph is built
 * and checked while the old one runs, then the old one is stopped and the new one started; when
 * that fails, the old configuration is started again. False: the old one runs on, err says why - or
 * nothing runs any more, when even that failed (graph_running() is false).
 */
bool graph_reload(struct graph *g, struct config *config, uint64_t deadline_ns,
		  struct err *err) MUST_CHECK;
bool graph_running(const struct graph *g);
const struct config *graph_config(const struct graph *g);
void graph_stop(struct graph *g, uint64_t deadline_ns); /* deadline: monotonic ns */
void graph_free(struct graph *g); /* stops at once when still running; NULL is fine */
