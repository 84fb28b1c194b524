/* grpc_health.c - grpc.health.v1.Health: Check, List and Watch, for "" and each service the app
 * has. */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "net/proto_text.h"
#include "net/server_internal.h"

/* grpc/health/v1/health.proto */
enum {
	REQUEST_SERVICE = 1,
	RESPONSE_STATUS = 1,
	LIST_STATUSES = 1,
	ENTRY_KEY = 1,
	ENTRY_VALUE = 2
};
enum { STATUS_SERVING = 1, STATUS_NOT_SERVING = 2, STATUS_SERVICE_UNKNOWN = 3 };

struct watcher {
	struct net_task task; /* first: a change, on the stream's loop */
	struct grpc_health *health;
	struct net_request *request; /* NULL once the stream is closed; loop's thread only */
	struct net_loop *loop;
	struct watcher *prev, *next;
	bool known;          /* the service asked for */
	bool queued, closed; /* guarded by the lock */
	int told;            /* what the client knows */
};

struct grpc_health {
	struct net_app *app;
	struct grpc_stream_method watch;
	atomic_bool serving;
	pthread_mutex_t lock; /* guards the watchers' list */
	struct watcher *watchers;
};

static bool service_known(const struct net_app *app, struct str service)
{
	if (!service.len)
		return true;
	for (uint32_t i = 0; i < app->method_count; i++) {
		struct str path = str_cstr(app->methods[i].path);

		if (path.len > service.len + 1 && path.ptr[service.len + 1] == '/' &&
		    str_equal(str_head(str_skip(path, 1), service.len), service))
			return true;
	}
	return false;
}

static bool parse_request(struct str message, struct str *service)
{
	struct proto_field f;

	*service = STR("");
	while (proto_next(&message, &f))
		if (f.number == REQUEST_SERVICE && f.is_bytes)
			*service = f.bytes;
	return message.len == 0;
}

static int status_of(const struct grpc_health *h, bool known)
{
	if (!known)
		return STATUS_SERVICE_UNKNOWN;
	return atomic_load(&h->serving) ? STATUS_SERVING : STATUS_NOT_SERVING;
}

static struct str response(char out[2], int status)
{
	out[0] = RESPONSE_STATUS << 3;
	out[1] = (char)status;
	return str_from(out, 2);
}

static void check(struct net_request *r, struct blob *body, void *ctx)
{
	struct grpc_health *h = ctx;
	struct str service;
	char out[2];

	if (!parse_request(blob_view(body), &service))
		net_reply_grpc_error(r, GRPC_INVALID_ARGUMENT,
				     STR("HealthCheckRequest is cut short"), STR(""));
	else if (!service_known(h->app, service))
		net_reply_grpc_error(r, GRPC_NOT_FOUND, STR("unknown service"), STR(""));
	else
		net_reply_grpc(r, response(out, status_of(h, true)));
	blob_unref(body);
}

/* "pkg.Service" of "/pkg.Service/Method" */
static struct str service_of(const char *path)
{
	struct str service = str_skip(str_cstr(path), 1);
	ptrdiff_t slash = str_find(service, '/');

	return slash < 0 ? service : str_head(service, (size_t)slash);
}

static bool listed_before(const struct net_app *app, uint32_t method)
{
	for (uint32_t i = 0; i < method; i++)
		if (str_equal(service_of(app->methods[i].path),
			      service_of(app->methods[method].path)))
			return true;
	return false;
}

/* map<string, HealthCheckResponse> statuses */
static void put_status(struct buf *out, struct str service, int status)
{
	struct buf entry;
	char value[2];

	buf_init(&entry, 0);
	proto_put_bytes(&entry, ENTRY_KEY, service);
	proto_put_bytes(&entry, ENTRY_VALUE, response(value, status));
	proto_put_bytes(out, LIST_STATUSES, buf_view(&entry));
	buf_release(&entry);
}

static void list(struct net_request *r, struct blob *body, void *ctx)
{
	struct grpc_health *h = ctx;
	int status = status_of(h, true);
	struct buf out;

	blob_unref(body); /* HealthListRequest has no field */
	buf_init(&out, 0);
	put_status(&out, STR(""), status);
	for (uint32_t i = 0; i < h->app->method_count; i++)
		if (!listed_before(h->app, i))
			put_status(&out, service_of(h->app->methods[i].path), status);
	net_reply_grpc(r, buf_view(&out));
	buf_release(&out);
}

/* A watcher holds the app, in which its health lives. */
static void watcher_free(struct watcher *w)
{
	struct net_app *app = w->health->app;

	free(w);
	app_unref(app);
}

static void watcher_tell(struct watcher *w)
{
	int status = status_of(w->health, w->known);
	char out[2];

	if (status == w->told)
		return;
	w->told = status;
	grpc_stream_send(w->request, response(out, status));
}

static void watcher_changed(struct net_task *task)
{
	struct watcher *w = (struct watcher *)task;
	bool closed;

	pthread_mutex_lock(&w->health->lock);
	w->queued = false;
	closed = w->closed;
	pthread_mutex_unlock(&w->health->lock);
	if (closed)
		watcher_free(w);
	else
		watcher_tell(w);
}

static void watch_message(struct net_request *r, struct str message, void *ctx)
{
	struct grpc_health *h = ctx;
	struct str service;
	struct watcher *w;

	if (r->stream_state || !parse_request(message, &service)) {
		grpc_stream_finish(r, GRPC_INVALID_ARGUMENT,
				   STR("Watch takes one HealthCheckRequest"));
		return;
	}
	w = calloc(1, sizeof(*w));
	assert(w);
	w->task.run = watcher_changed;
	w->health = h;
	atomic_fetch_add(&h->app->refs, 1);
	w->request = r;
	w->loop = r->loop;
	w->known = service_known(h->app, service);
	r->stream_state = w;
	pthread_mutex_lock(&h->lock);
	w->next = h->watchers;
	if (w->next)
		w->next->prev = w;
	h->watchers = w;
	pthread_mutex_unlock(&h->lock);
	watcher_tell(w);
}

static void watch_ended(struct net_request *r, void *ctx)
{
	(void)ctx;
	if (!r->stream_state)
		grpc_stream_finish(r, GRPC_INVALID_ARGUMENT,
				   STR("Watch takes one HealthCheckRequest"));
}

static void watch_closed(struct net_request *r, void *ctx)
{
	struct watcher *w = r->stream_state;
	struct grpc_health *h = ctx;
	bool queued;

	if (!w)
		return;
	pthread_mutex_lock(&h->lock);
	if (w->next)
		w->next->prev = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		h->watchers = w->next;
	w->closed = true;
	queued = w->queued;
	pthread_mutex_unlock(&h->lock);
	if (!queued)
		watcher_free(w); /* else watcher_changed() does */
}

static struct grpc_health *health_add(struct net_app *app)
{
	struct grpc_health *h = calloc(1, sizeof(*h));

	assert(h);
	h->app = app;
	pthread_mutex_init(&h->lock, NULL);
	h->watch = (struct grpc_stream_method){
		.message = watch_message, .ended = watch_ended, .closed = watch_closed, .ctx = h
	};
	app->health = h;
	app_add_method(app, "/grpc.health.v1.Health/Check", (struct net_handler){ check, h }, NULL);
	app_add_method(app, "/grpc.health.v1.Health/List", (struct net_handler){ list, h }, NULL);
	app_add_method(app, "/grpc.health.v1.Health/Watch", (struct net_handler){ 0 }, &h->watch);
	return h;
}

void net_app_grpc_health(struct net_app *app, bool serving)
{
	struct grpc_health *h = app->health ? app->health : health_add(app);

	if (atomic_exchange(&h->serving, serving) == serving)
		return;
	pthread_mutex_lock(&h->lock);
	for (struct watcher *w = h->watchers; w; w = w->next)
		if (!w->queued) {
			w->queued = true;
			net_loop_post(w->loop, &w->task);
		}
	pthread_mutex_unlock(&h->lock);
}

void health_free(struct grpc_health *h)
{
	if (!h)
		return;
	pthread_mutex_destroy(&h->lock);
	free(h);
}
