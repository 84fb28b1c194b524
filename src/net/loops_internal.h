/*
 * loops_internal.h - what the files of src/net share of a loop: libuv's handle, scratch memory, who
 * lives on it.
 *
 * Scratch buffers belong to whoever runs on the loop's thread, until it returns to the loop: they
 * hold no state.
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>
#include "net/loops.h"

/* Big enough that the usual request of 100 kB comes with one or two recv(2); touched only as far as
 * used. */
enum { NET_LOOP_SCRATCH = 128 * 1024 };

/* Something that must be closed when its loop stops. */
struct net_member {
	struct net_member *prev, *next;
	void (*stop)(struct net_member *m); /* on the loop's thread; removes itself */
};

struct net_loop {
	uv_loop_t uv;
	struct net_loops *owner;
	pthread_t thread;
	uv_async_t wake;
	struct net_member *members; /* loop's thread only */
	char *recv_scratch, *plain_scratch,
		*send_scratch; /* NET_LOOP_SCRATCH each; mapped on demand by the system */
	atomic_uint connections;

	pthread_mutex_t lock; /* guards the next three */
	struct net_task *first, **last;
	bool stopped;
};

struct net_loop *net_loops_at(struct net_loops *l, unsigned i);
struct budget *net_loop_budget(const struct net_loop *loop); /* may be NULL */
void net_loop_add_member(struct net_loop *loop, struct net_member *m);
void net_loop_remove_member(struct net_loop *loop, struct net_member *m);
