#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/server_internal.h"

static uint64_t or_ns(uint64_t value, uint64_t usual)
{
	return value ? value : usual;
}

static void metrics_init(struct app_metrics *m, struct metrics *registry)
{
	static const char *const reason[] = { "reason", NULL };
	static const char *const transport[] = { "transport", NULL };
	static const char *const transports[] = { "http1", "http2", "grpc" };
	struct metric_family *f;

	f = metrics_family(registry, METRIC_GAUGE, "flametap_net_connections",
			   "Open connections of the servers.", NULL, 0);
	m->connections = metric_get(f, NULL);
	f = metrics_family(registry, METRIC_COUNTER, "flametap_net_connections_total",
			   "Connections accepted by the servers.", NULL, 0);
	m->connections_total = metric_get(f, NULL);
	f = metrics_family(registry, METRIC_COUNTER, "flametap_net_requests_total",
			   "Requests whose head was read.", transport, 0);
	for (int i = 0; i < 3; i++)
		m->requests[i] =
			metric_get(f, &(struct str){ transports[i], strlen(transports[i]) });
	f = metrics_family(registry, METRIC_COUNTER, "flametap_net_refused_total",
			   "Requests and connections that the server itself refused.", reason, 0);
	for (int i = 0; i < REFUSED_COUNT; i++) {
		struct str name = str_cstr(net_refusal_name((enum net_refusal)i));

		m->refused[i] = metric_get(f, &name);
	}
	f = metrics_family(registry, METRIC_COUNTER, "flametap_net_late_replies_total",
			   "Answers that nobody took any more.", reason, 0);
	for (int i = 0; i < LATE_COUNT; i++) {
		struct str name = str_cstr(net_late_name((enum net_late)i));

		m->late[i] = metric_get(f, &name);
	}
}

struct net_app *net_app_new(const struct net_app_options *options)
{
	struct net_app *app = calloc(1, sizeof(*app));
	struct net_app_options *o;

	assert(app);
	atomic_init(&app->refs, 1);
	app->options = *options;
	o = &app->options;
	if (!o->max_body_bytes)
		o->max_body_bytes = (size_t)64 << 20;
	if (!o->max_concurrent_streams)
		o->max_concurrent_streams = 100;
	if (!o->max_connections)
		o->max_connections = 4096;
	o->retry_hint_ns = or_ns(o->retry_hint_ns, SECOND_NS);
	o->keepalive_time_ns = or_ns(o->keepalive_time_ns, 120 * MINUTE_NS);
	o->keepalive_timeout_ns = or_ns(o->keepalive_timeout_ns, 20 * SECOND_NS);
	o->progress_timeout_ns = or_ns(o->progress_timeout_ns, 30 * SECOND_NS);
	o->header_timeout_ns = or_ns(o->header_timeout_ns, 10 * SECOND_NS);
	o->idle_timeout_ns = or_ns(o->idle_timeout_ns, 15 * MINUTE_NS);
	if (o->metrics)
		metrics_init(&app->metrics, o->metrics);
	return app;
}

static void app_release(struct net_app *app)
{
	for (uint32_t i = 0; i < app->route_count; i++) {
		free(app->routes[i].method);
		free(app->routes[i].path);
		free(app->routes[i].content_types);
	}
	for (uint32_t i = 0; i < app->method_count; i++)
		free(app->methods[i].path);
	free(app->routes);
	free(app->methods);
	health_free(app->health);
	reflection_free(app->reflection);
	free(app);
}

void app_unref(struct net_app *app)
{
	if (atomic_fetch_sub(&app->refs, 1) == 1)
		app_release(app);
}

void net_app_free(struct net_app *app)
{
	if (app)
		app_unref(app);
}

static void *grown(void *array, uint32_t count, size_t size)
{
	void *p = realloc(array, (count + 1) * size);

	assert(p);
	return p;
}

static char *copy(const char *text)
{
	char *p = text ? strdup(text) : NULL;

	assert(p || !text);
	return p;
}

void net_app_route(struct net_app *app, const char *method, const char *path,
		   const char *content_types, struct net_handler handler)
{
	size_t len = strlen(path);

	app->routes = grown(app->routes, app->route_count, sizeof(*app->routes));
	app->routes[app->route_count++] = (struct route){
		.method = copy(method),
		.path = copy(path),
		.path_len = len,
		.prefix = len && path[len - 1] == '/',
		.content_types = copy(content_types),
		.handler = handler,
	};
}

void app_add_method(struct net_app *app, const char *path, struct net_handler handler,
		    const struct grpc_stream_method *stream)
{
	app->methods = grown(app->methods, app->method_count, sizeof(*app->methods));
	app->methods[app->method_count++] =
		(struct grpc_method){ .path = copy(path), .handler = handler, .stream = stream };
}

void net_app_grpc_method(struct net_app *app, const char *path, struct net_handler handler)
{
	app_add_method(app, path, handler, NULL);
}

void net_app_grpc_fallback(struct net_app *app, struct net_handler handler)
{
	app->grpc_fallback = handler;
}

const struct grpc_method *app_find_method(const struct net_app *app, struct str path)
{
	for (uint32_t i = 0; i < app->method_count; i++)
		if (str_is(path, app->methods[i].path))
			return &app->methods[i];
	return NULL;
}

void app_count_refusal(struct net_app *app, enum net_refusal reason)
{
	if (app->metrics.refused[reason])
		metric_add(app->metrics.refused[reason], 1);
}

void app_count_late(struct net_app *app, enum net_late reason)
{
	if (app->metrics.late[reason])
		metric_add(app->metrics.late[reason], 1);
}
