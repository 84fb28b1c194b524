/*
 * component_for_tests.h - runs one exporter as the pipeline does: options from YAML, start, batches
 * with a completion to wait for, stop.
 */
#pragma once
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "pipeline/component.h"
#include "pipeline/node.h"
#include "pipeline/problems.h"

struct test_component {
	const struct component_ops *ops;
	void *state;
	struct arena arena;
	struct component_host host;
	struct metrics *metrics;
	bool failed; /* host.fail() was called */
	struct err failure;
};

static inline void test_component_fail(const struct component_host *host, const struct err *err)
{
	struct test_component *c = (struct test_component *)((char *)(uintptr_t)host -
							     offsetof(struct test_component, host));

	c->failed = true;
	c->failure = *err;
}

/* Fills the options; false and the problem's text when check() refuses them. */
static inline bool test_component_init(struct test_component *c, const struct component_ops *ops,
				       const char *yaml, struct err *err)
{
	uint32_t nodes_left = NODES_MOST;
	struct config_node *node;
	struct problems problems;

	*c = (struct test_component){ .ops = ops };
	arena_init(&c->arena, 4096, 0);
	c->state = calloc(1, ops->state_size);
	c->metrics = metrics_new();
	c->host = (struct component_host){ .id = ops->type,
					   .metrics = c->metrics,
					   .fail = test_component_fail };
	problems_init(&problems);
	node = node_parse(&c->arena, str_cstr(yaml), "test", &nodes_left, &problems);
	options_fill(ops->fields, c->state, node, "exporters::test", &c->arena, &problems);
	if (problems.error_count)
		fail_msg("options: %s", yaml);
	problems_release(&problems);
	return !ops->check || ops->check(c->state, err);
}

static inline void test_component_start(struct test_component *c, const struct component_ops *ops,
					const char *yaml)
{
	struct err err = { 0 };

	if (!test_component_init(c, ops, yaml, &err) ||
	    (ops->start && !ops->start(c->state, &c->host, &err)))
		fail_msg("%s: %s", ops->type, err.msg);
}

static inline void test_component_release(struct test_component *c)
{
	if (c->ops->release)
		c->ops->release(c->state);
	metrics_free(c->metrics);
	free(c->state);
	arena_release(&c->arena);
}

static inline void test_component_stop(struct test_component *c)
{
	if (c->ops->stop)
		c->ops->stop(c->state, clock_monotonic_ns() + 5 * SECOND_NS);
	test_component_release(c);
}

struct test_answer {
	struct completion completion; /* first */
	pthread_mutex_t lock;
	pthread_cond_t come;
	bool done;
	struct outcome outcome;
};

static inline void test_answer_done(struct completion *c, const struct outcome *o)
{
	struct test_answer *a = (struct test_answer *)c;

	pthread_mutex_lock(&a->lock);
	a->outcome = *o;
	a->done = true;
	pthread_cond_signal(&a->come);
	pthread_mutex_unlock(&a->lock);
}

static inline void test_answer_wait(struct test_answer *a)
{
	pthread_mutex_lock(&a->lock);
	while (!a->done)
		pthread_cond_wait(&a->come, &a->lock);
	pthread_mutex_unlock(&a->lock);
}

static inline struct outcome test_consume(struct test_component *c, struct batch *batch)
{
	struct test_answer a = { .completion = { test_answer_done },
				 .lock = PTHREAD_MUTEX_INITIALIZER,
				 .come = PTHREAD_COND_INITIALIZER };

	c->ops->consume(c->state, batch, &a.completion);
	test_answer_wait(&a);
	return a.outcome;
}
