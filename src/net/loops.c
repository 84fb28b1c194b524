#include "net/loops.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/loops_internal.h"

enum { LOOPS_USUAL_MOST = 4, LOOPS_MOST = 64 };

struct net_loops {
	atomic_uint refs; /* one of the owner, one of each net_loop_ref() */
	struct budget *budget;
	unsigned count;
	struct net_loop loops[];
};

struct net_timer {
	uv_timer_t handle;
	void (*fire)(void *arg);
	void *arg;
};

struct budget *net_loop_budget(const struct net_loop *loop)
{
	return loop->owner->budget;
}

struct net_loop *net_loops_at(struct net_loops *l, unsigned i)
{
	return &l->loops[i];
}

unsigned net_loops_count(const struct net_loops *l)
{
	return l->count;
}

bool net_loop_is_current(const struct net_loop *loop)
{
	return pthread_equal(pthread_self(), loop->thread);
}

/* Tasks. */

static void loop_run_tasks(struct net_loop *loop)
{
	struct net_task *task, *next;

	pthread_mutex_lock(&loop->lock);
	task = loop->first;
	loop->first = NULL;
	loop->last = &loop->first;
	pthread_mutex_unlock(&loop->lock);
	for (; task; task = next) {
		next = task->next; /* the task may be gone once it has run */
		task->run(task);
	}
}

static void loop_woken(uv_async_t *wake)
{
	loop_run_tasks(wake->data);
}

void net_loop_post(struct net_loop *loop, struct net_task *task)
{
	bool stopped, first;

	task->next = NULL;
	pthread_mutex_lock(&loop->lock);
	stopped = loop->stopped;
	first = !loop->first;
	if (!stopped) {
		*loop->last = task;
		loop->last = &task->next;
		/* Under the lock: the handle is closed only after `stopped` was set under it. Only
		 * the first task of a queue needs to wake the loop. */
		if (first)
			uv_async_send(&loop->wake);
	}
	pthread_mutex_unlock(&loop->lock);
	if (stopped)
		task->run(task);
}

/* Members. */

void net_loop_add_member(struct net_loop *loop, struct net_member *m)
{
	m->prev = NULL;
	m->next = loop->members;
	if (m->next)
		m->next->prev = m;
	loop->members = m;
}

void net_loop_remove_member(struct net_loop *loop, struct net_member *m)
{
	if (m->next)
		m->next->prev = m->prev;
	if (m->prev)
		m->prev->next = m->next;
	else
		loop->members = m->next;
	m->prev = m->next = NULL;
}

/* Timers. */

static void timer_fired(uv_timer_t *handle)
{
	struct net_timer *t = handle->data;

	t->fire(t->arg);
}

static void timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

struct net_timer *net_timer_new(struct net_loop *loop, void (*fire)(void *arg), void *arg)
{
	struct net_timer *t = calloc(1, sizeof(*t));
	int rc;

	assert(t);
	t->fire = fire;
	t->arg = arg;
	rc = uv_timer_init(&loop->uv, &t->handle);
	assert(rc == 0);
	t->handle.data = t;
	return t;
}

void net_timer_start(struct net_timer *t, uint64_t delay_ns)
{
	uint64_t delay_ms = delay_ns / MILLI_NS + (delay_ns % MILLI_NS != 0);

	/* libuv counts from its cached time, which is as old as the batch of events being worked
	 * on. */
	uv_update_time(t->handle.loop);
	uv_timer_start(&t->handle, timer_fired, delay_ms, 0);
}

void net_timer_stop(struct net_timer *t)
{
	uv_timer_stop(&t->handle);
}

void net_timer_free(struct net_timer *t)
{
	if (t)
		uv_close((uv_handle_t *)&t->handle, timer_closed);
}

/* Life. */

static void handle_close_left(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, handle->type == UV_TIMER ? timer_closed : NULL);
}

struct loop_stop {
	struct net_task task; /* first */
	struct net_loop *loop;
};

static void loop_stop(struct net_task *task)
{
	struct net_loop *loop = ((struct loop_stop *)task)->loop;

	pthread_mutex_lock(&loop->lock);
	loop->stopped = true;
	pthread_mutex_unlock(&loop->lock);
	loop_run_tasks(loop); /* what was posted between our taking of the list and the flag */
	while (loop->members)
		loop->members->stop(loop->members);
	uv_walk(&loop->uv, handle_close_left, NULL);
}

static void *loop_main(void *arg)
{
	struct net_loop *loop = arg;
	char name[16];

	snprintf(name, sizeof(name), "net-%u", (unsigned)(loop - loop->owner->loops) % 100);
	pthread_setname_np(pthread_self(), name);
	uv_run(&loop->uv, UV_RUN_DEFAULT); /* until loop_stop() has closed every handle */
	return NULL;
}

static char *scratch_map(void)
{
	void *p = mmap(NULL, NET_LOOP_SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	assert(p != MAP_FAILED);
	return p;
}

static void loop_release(struct net_loop *loop)
{
	int rc = uv_loop_close(&loop->uv);

	assert(rc == 0); /* every handle was closed and its callback has run */
	munmap(loop->recv_scratch, NET_LOOP_SCRATCH);
	munmap(loop->plain_scratch, NET_LOOP_SCRATCH);
	munmap(loop->send_scratch, NET_LOOP_SCRATCH);
}

static bool loop_init(struct net_loop *loop, struct net_loops *owner, struct err *err)
{
	int rc = uv_loop_init(&loop->uv);

	if (rc)
		return err_set(err, ERR_IO, "cannot make an event loop: %s", uv_strerror(rc));
	rc = uv_async_init(&loop->uv, &loop->wake, loop_woken);
	if (rc) {
		uv_loop_close(&loop->uv);
		return err_set(err, ERR_IO, "cannot make an event loop: %s", uv_strerror(rc));
	}
	loop->wake.data = loop;
	loop->owner = owner;
	loop->last = &loop->first;
	pthread_mutex_init(&loop->lock, NULL);
	loop->recv_scratch = scratch_map();
	loop->plain_scratch = scratch_map();
	loop->send_scratch = scratch_map();
	return true;
}

/* The loop's thread does not exist: its handles are closed from here. */
static void loop_abandon(struct net_loop *loop)
{
	uv_close((uv_handle_t *)&loop->wake, NULL);
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	loop_release(loop);
}

/* Signals belong to the main thread, which waits for them. */
static int thread_start(struct net_loop *loop)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&loop->thread, NULL, loop_main, loop);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static bool loop_start(struct net_loop *loop, struct net_loops *owner, struct err *err)
{
	int rc;

	if (!loop_init(loop, owner, err))
		return false;
	rc = thread_start(loop);
	if (rc) {
		loop_abandon(loop);
		return err_set(err, ERR_IO, "cannot start a network thread: %s", strerror(rc));
	}
	return true;
}

static unsigned loops_usual_count(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		return 1;
	return cpus > LOOPS_USUAL_MOST ? LOOPS_USUAL_MOST : (unsigned)cpus;
}

struct net_loops *net_loops_new(const struct net_loops_options *options, struct err *err)
{
	unsigned count = options->count ? options->count : loops_usual_count();
	struct net_loops *l;

	if (count > LOOPS_MOST) {
		err_set(err, ERR_LIMIT, "%u network threads asked for, at most %d", count,
			LOOPS_MOST);
		return NULL;
	}
	l = calloc(1, sizeof(*l) + count * sizeof(l->loops[0]));
	assert(l);
	atomic_init(&l->refs, 1);
	l->budget = options->budget;
	while (l->count < count) {
		if (!loop_start(&l->loops[l->count], l, err)) {
			net_loops_free(l);
			return NULL;
		}
		l->count++;
	}
	return l;
}

static void loops_unref(struct net_loops *l)
{
	if (atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	for (unsigned i = 0; i < l->count; i++)
		pthread_mutex_destroy(&l->loops[i].lock);
	free(l);
}

void net_loops_free(struct net_loops *l)
{
	struct loop_stop stops[LOOPS_MOST];

	if (!l)
		return;
	for (unsigned i = 0; i < l->count; i++) {
		stops[i] = (struct loop_stop){ .task.run = loop_stop, .loop = &l->loops[i] };
		net_loop_post(&l->loops[i], &stops[i].task);
	}
	for (unsigned i = 0; i < l->count; i++) {
		pthread_join(l->loops[i].thread, NULL);
		loop_release(&l->loops[i]);
	}
	loops_unref(l);
}

void net_loop_ref(struct net_loop *loop)
{
	atomic_fetch_add(&loop->owner->refs, 1);
}

void net_loop_unref(struct net_loop *loop)
{
	loops_unref(loop->owner);
}

struct net_loop *net_loops_pick(struct net_loops *l)
{
	struct net_loop *best = &l->loops[0];

	for (unsigned i = 1; i < l->count; i++)
		if (atomic_load(&l->loops[i].connections) < atomic_load(&best->connections))
			best = &l->loops[i];
	return best;
}
