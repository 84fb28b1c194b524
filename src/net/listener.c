/*
 * listener.c - one listening socket on one loop; each connection is handed to the loop that has the
 * fewest.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/address.h"
#include "net/server_internal.h"

enum { ACCEPTS_PER_EVENT = 64 };
#define REST_WITHOUT_FILES_NS (100 * MILLI_NS)

struct net_listener {
	struct net_loops *loops;
	struct net_app *app; /* counted */
	struct tls_context *tls;
	struct net_loop *loop; /* that accepts */
	char address[ADDRESS_TEXT];
	char *unix_path; /* unlinked at the end */
	int fd, spare_fd;
	uv_poll_t poll;
	struct net_timer *rest; /* after running out of file descriptors */
	struct net_member member;

	pthread_mutex_t lock; /* guards the next two */
	pthread_cond_t changed;
	unsigned conns;   /* open or on their way to their loop */
	bool poll_closed; /* accepts no more */

	unsigned home_count;
	struct listener_loop homes[];
};

static void listener_event(uv_poll_t *poll, int status, int events);

/* Connections. */

static void conns_add(struct net_listener *l, int n)
{
	pthread_mutex_lock(&l->lock);
	l->conns += (unsigned)n;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	atomic_fetch_add(&l->app->connections, (unsigned)n);
	if (l->app->metrics.connections)
		metric_add(l->app->metrics.connections, n);
}

/* On the connection's loop; the last that touches the listener. */
void listener_conn_closed(struct listener_loop *home)
{
	struct net_listener *l = home->listener;
	struct net_app *app = l->app;

	atomic_fetch_sub(&home->loop->connections, 1);
	atomic_fetch_sub(&app->connections, 1);
	if (app->metrics.connections)
		metric_add(app->metrics.connections, -1);
	pthread_mutex_lock(&l->lock);
	l->conns--;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

static void conn_arrive(struct net_task *task)
{
	conn_start(CONTAINER_OF(task, struct conn, task));
}

static struct listener_loop *home_of(struct net_listener *l, struct net_loop *loop)
{
	for (unsigned i = 0; i < l->home_count; i++)
		if (l->homes[i].loop == loop)
			return &l->homes[i];
	return &l->homes[0];
}

static void take_connection(struct net_listener *l, int fd, const struct sockaddr *sa,
			    socklen_t len)
{
	struct tls_session *tls = NULL;
	char peer[ADDRESS_TEXT];
	struct conn *c;
	struct err err;

	if (atomic_load(&l->app->connections) >= l->app->options.max_connections) {
		app_count_refusal(l->app, REFUSED_CONNECTIONS);
		close(fd);
		return;
	}
	if (l->tls && !(tls = tls_session_new(l->tls, NULL, &err))) {
		app_count_refusal(l->app, REFUSED_TLS);
		close(fd);
		return;
	}
	c = calloc(1, sizeof(*c));
	assert(c);
	c->app = l->app;
	c->fd = fd;
	c->stream.tls = tls;
	c->home = home_of(l, net_loops_pick(l->loops));
	address_format(sa, len, peer);
	snprintf(c->peer, sizeof(c->peer), "%.*s", (int)sizeof(c->peer) - 1, peer);
	c->task.run = conn_arrive;
	/* Counted here, not on arrival: of a burst each should see those before it. */
	atomic_fetch_add(&c->home->loop->connections, 1);
	conns_add(l, 1);
	if (l->app->metrics.connections_total)
		metric_add(l->app->metrics.connections_total, 1);
	if (c->home->loop == l->loop)
		conn_start(c);
	else
		net_loop_post(c->home->loop, &c->task);
}

static void rest_over(void *arg)
{
	struct net_listener *l = arg;

	if (!uv_is_closing((uv_handle_t *)&l->poll))
		uv_poll_start(&l->poll, UV_READABLE, listener_event);
}

/* No descriptor left: the spare one takes the caller, who then sees the end at once rather than
 * hang, and we rest. */
static void turn_away(struct net_listener *l)
{
	int fd;

	if (l->spare_fd >= 0) {
		close(l->spare_fd);
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			close(fd);
		l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	app_count_refusal(l->app, REFUSED_FILES);
	uv_poll_stop(&l->poll);
	net_timer_start(l->rest, REST_WITHOUT_FILES_NS);
}

static void listener_event(uv_poll_t *poll, int status, int events)
{
	struct net_listener *l = poll->data;

	(void)events;
	if (status < 0)
		return;
	for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
		struct sockaddr_storage sa;
		socklen_t len = sizeof(sa);
		int fd = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take_connection(l, fd, (struct sockaddr *)&sa, len);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			   errno == ENOMEM) {
			turn_away(l);
			return;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			return;
		} /* else that one caller is gone: ECONNABORTED and the like */
	}
}

/* Life. */

static void poll_closed(uv_handle_t *handle)
{
	struct net_listener *l = handle->data;

	close(l->fd);
	l->fd = -1;
	if (l->unix_path)
		unlink(l->unix_path);
	pthread_mutex_lock(&l->lock);
	l->poll_closed = true;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

static void listener_stop(struct net_listener *l)
{
	if (uv_is_closing((uv_handle_t *)&l->poll))
		return;
	net_loop_remove_member(l->loop, &l->member);
	net_timer_free(l->rest);
	l->rest = NULL;
	uv_close((uv_handle_t *)&l->poll, poll_closed);
}

static void member_stop(struct net_member *m)
{
	listener_stop(CONTAINER_OF(m, struct net_listener, member));
}

/* What a thread asks of a loop and waits for. */
struct listener_task {
	struct net_task task; /* first */
	struct net_listener *listener;
	struct listener_loop *home;
	unsigned *left; /* tasks that have not run, guarded by the listener's lock */
};

static void task_done(struct listener_task *t)
{
	struct net_listener *l = t->listener;

	pthread_mutex_lock(&l->lock);
	(*t->left)--;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

static void start_run(struct net_task *task)
{
	struct listener_task *t = (struct listener_task *)task;
	struct net_listener *l = t->listener;
	int rc = uv_poll_init(&l->loop->uv, &l->poll, l->fd);

	assert(rc == 0);
	l->poll.data = l;
	l->rest = net_timer_new(l->loop, rest_over, l);
	l->member.stop = member_stop;
	net_loop_add_member(l->loop, &l->member);
	uv_poll_start(&l->poll, UV_READABLE, listener_event);
	task_done(t);
}

static void stop_run(struct net_task *task)
{
	struct listener_task *t = (struct listener_task *)task;

	if (!t->listener->poll_closed)
		listener_stop(t->listener);
	task_done(t);
}

static void drain_run(struct net_task *task)
{
	struct listener_task *t = (struct listener_task *)task;
	struct conn *c, *next;

	for (c = t->home->conns; c; c = next) {
		next = c->next;
		conn_drain(c);
	}
	task_done(t);
}

static void abort_run(struct net_task *task)
{
	struct listener_task *t = (struct listener_task *)task;

	for (struct conn *c = t->home->conns; c; c = c->next)
		conn_close(c); /* leaves the list later */
	task_done(t);
}

static void wait_for(struct net_listener *l, const unsigned *left)
{
	pthread_mutex_lock(&l->lock);
	while (*left)
		pthread_cond_wait(&l->changed, &l->lock);
	pthread_mutex_unlock(&l->lock);
}

static void run_on(struct net_listener *l, struct net_loop *loop, void (*run)(struct net_task *))
{
	unsigned left = 1;
	struct listener_task t = { .task.run = run, .listener = l, .left = &left };

	net_loop_post(loop, &t.task);
	wait_for(l, &left);
}

static void run_on_each(struct net_listener *l, void (*run)(struct net_task *))
{
	struct listener_task tasks[64];
	unsigned left = l->home_count;

	assert(l->home_count <= ARRAY_LEN(tasks));
	for (unsigned i = 0; i < l->home_count; i++) {
		tasks[i] = (struct listener_task){
			.task.run = run, .listener = l, .home = &l->homes[i], .left = &left
		};
		net_loop_post(l->homes[i].loop, &tasks[i].task);
	}
	wait_for(l, &left);
}

/* False: the deadline passed first. */
static bool wait_closed(struct net_listener *l, uint64_t deadline_ns)
{
	const struct timespec until = { .tv_sec = (time_t)(deadline_ns / SECOND_NS),
					.tv_nsec = (long)(deadline_ns % SECOND_NS) };
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	while ((l->conns || !l->poll_closed) && rc != ETIMEDOUT)
		rc = deadline_ns == UINT64_MAX
			     ? pthread_cond_wait(&l->changed, &l->lock)
			     : pthread_cond_timedwait(&l->changed, &l->lock, &until);
	rc = l->conns || !l->poll_closed;
	pthread_mutex_unlock(&l->lock);
	return rc == 0;
}

static void listener_free(struct net_listener *l)
{
	if (l->spare_fd >= 0)
		close(l->spare_fd);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->changed);
	app_unref(l->app);
	free(l->unix_path);
	free(l);
}

static void locks_init(struct net_listener *l)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&l->lock, NULL);
}

static void note_address(struct net_listener *l)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);

	getsockname(l->fd, (struct sockaddr *)&sa, &len);
	address_format((struct sockaddr *)&sa, len, l->address);
	if (sa.ss_family == AF_UNIX) {
		l->unix_path = strdup(((struct sockaddr_un *)&sa)->sun_path);
		assert(l->unix_path);
	}
}

struct net_listener *net_listen(struct net_loops *loops, struct net_app *app, const char *address,
				struct tls_context *tls, struct err *err)
{
	unsigned count = net_loops_count(loops);
	int fd = address_listen(address, err);
	struct net_listener *l;

	if (fd < 0)
		return NULL;
	l = calloc(1, sizeof(*l) + count * sizeof(l->homes[0]));
	assert(l);
	l->loops = loops;
	l->app = app;
	atomic_fetch_add(&app->refs, 1);
	l->tls = tls;
	l->fd = fd;
	l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	l->home_count = count;
	for (unsigned i = 0; i < count; i++)
		l->homes[i] =
			(struct listener_loop){ .loop = net_loops_at(loops, i), .listener = l };
	l->loop = net_loops_pick(loops);
	locks_init(l);
	note_address(l);
	run_on(l, l->loop, start_run);
	return l;
}

const char *net_listener_address(const struct net_listener *l)
{
	return l->address;
}

void net_listener_close(struct net_listener *l, uint64_t deadline_ns)
{
	if (!l)
		return;
	run_on(l, l->loop, stop_run);
	/* Those on their way were posted before this. */
	run_on_each(l, drain_run);
	if (!wait_closed(l, deadline_ns)) {
		run_on_each(l, abort_run);
		wait_closed(l, UINT64_MAX);
	}
	listener_free(l);
}
