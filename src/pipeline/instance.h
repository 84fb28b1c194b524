/*
 * instance.h - one component in a graph, with what stands before it. Between graph*.c and
 * instance.c only.
 *
 * Processors and exporters are consumers: an instance counts what comes in, gives a mutating
 * processor a batch of its own, and leads a remote exporter's batches through its sender. A
 * processor and a receiver hand on to `out`, which counts what leaves.
 */
#pragma once
#include "pipeline/graph.h"
#include "pipeline/sender.h"
#include "pipeline/fanout.h"

struct instance {
	const struct config_component *component;
	const struct component_ops *ops;
	void *state;
	struct component_host host;
	const struct graph_env *env;
	struct consumer in;                 /* of a processor or a local exporter */
	struct consumer out;                /* of a processor */
	struct consumer *next;              /* behind out */
	struct sender *sender;              /* of a remote exporter */
	struct fanout *fanout;              /* of a receiver that feeds several pipelines */
	struct metric *incoming, *outgoing; /* processors */
	struct metric *sent, *failed;       /* local exporters */
	bool memory;                        /* remote exporter: answers once queued in memory */
	bool started;
};

/* state is taken over. */
struct instance *instance_new(const struct config_component *component, void *state,
			      const struct graph_env *env);
void instance_metrics(struct instance *i);
struct consumer *instance_consumer(struct instance *i);
bool instance_start(struct instance *i, struct err *err) MUST_CHECK;
void instance_stop(struct instance *i, uint64_t deadline_ns);
void instance_free(struct instance *i); /* NULL is fine */
