/*
 * loops.h - N worker threads, each with one event loop, that all listeners, connections, clients
 * and timers live on.
 *
 * A connection belongs to one loop for life; its callbacks run on that loop's thread.
 * net_loop_post() is the only way in from other threads. The loop's library stays inside src/net
 * (loops_internal.h).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/budget.h"
#include "base/err.h"

struct net_loops;
struct net_loop;

struct net_loops_options {
	unsigned count;        /* 0 = one per CPU, at most 4 */
	struct budget *budget; /* bodies are charged here; may be NULL */
};

struct net_loops *net_loops_new(const struct net_loops_options *options,
				struct err *err) MUST_CHECK;
/*
 * Stops and joins all threads; what still runs on them is closed, timers not yet freed are freed.
 * Tasks posted before are run first. NULL is fine. Not from a loop's thread.
 */
void net_loops_free(struct net_loops *l);
unsigned net_loops_count(const struct net_loops *l);
/* The loop with the fewest connections. */
struct net_loop *net_loops_pick(struct net_loops *l);

/* Runs task->run on the loop's thread, in order of posting. The task is the caller's and must live
 * until it has run. */
struct net_task {
	void (*run)(struct net_task *task);
	struct net_task *next;
};
/* Once the loop has stopped (which takes a reference to be seen: net_loop_ref()) the task runs at
 * once, on this thread. */
void net_loop_post(struct net_loop *loop, struct net_task *task);
/* True on the loop's own thread. */
bool net_loop_is_current(const struct net_loop *loop);
/* Keep the loop's memory (not its thread) beyond net_loops_free(), for who may post late. */
void net_loop_ref(struct net_loop *loop);
void net_loop_unref(struct net_loop *loop);

/* One-shot timers; callbacks on the loop's thread. All of these from the loop's thread only. */
struct net_timer;
struct net_timer *net_timer_new(struct net_loop *loop, void (*fire)(void *arg), void *arg);
void net_timer_start(struct net_timer *t,
		     uint64_t delay_ns); /* again = anew; rounded up to milliseconds */
void net_timer_stop(struct net_timer *t);
void net_timer_free(struct net_timer *t); /* NULL is fine */
