#include "web/intake.h"

#include <pthread.h>
#include <stdlib.h>

#include "components/receivers/otlp.h"
#include "web/ingest.h"

struct web_door {
	const struct web_options *options;
	struct web_guard *guard;
	pthread_rwlock_t lock;
	struct web_intake intake; /* lock */
	bool open, settled;       /* lock */
};

/* What is said where nobody takes. */
static bool explain(const struct web_door *d, struct err *err)
{
	if (d->settled)
		return err_set(err, ERR_UNSUPPORTED,
			       "nothing is taken here: no receiver `pyroscope` feeds this page");
	return err_set(err, ERR_UNAVAILABLE, "flametap is starting or stopping");
}

/* Under the lock, which stays held when it is true. */
static bool enter(struct web_door *d, struct net_request *r, struct err *err)
{
	if (!web_guard_let_in(d->guard, r, err))
		return false;
	pthread_rwlock_rdlock(&d->lock);
	if (d->open)
		return true;
	explain(d, err);
	pthread_rwlock_unlock(&d->lock);
	return false;
}

static void handle_otlp(struct net_request *r, struct blob *body, void *ctx)
{
	struct web_door *d = ctx;
	struct err err;

	if (enter(d, r, &err)) {
		d->intake.take_otlp(d->intake.ctx, r, body);
		pthread_rwlock_unlock(&d->lock);
		return;
	}
	blob_unref(body);
	otlp_reply_error(r, otlp_grpc_code(err.kind, err_retryable(err.kind)), str_cstr(err.msg),
			 err_retryable(err.kind) ? 1000000000 : 0);
}

static void handle_sent(struct web_door *d, struct net_request *r, struct blob *body,
			enum web_sent what)
{
	const struct web_form *form = what == WEB_SENT_PUSH ? &connect_form : &web_plain_form;
	struct web_question *q = web_question_new(d->options, r, NULL, form);
	struct err err;

	if (!q) {
		blob_unref(body);
	} else if (!enter(d, r, &err)) {
		web_question_refuse(q, &err);
		blob_unref(body);
	} else {
		d->intake.take(d->intake.ctx, q, what, body);
		pthread_rwlock_unlock(&d->lock);
	}
}

static void handle_ingest(struct net_request *r, struct blob *body, void *ctx)
{
	handle_sent(ctx, r, body, WEB_SENT_INGEST);
}

static void handle_push(struct net_request *r, struct blob *body, void *ctx)
{
	handle_sent(ctx, r, body, WEB_SENT_PUSH);
}

static void add_routes(struct web_door *d, struct net_app *app)
{
	static const char *const methods[] = {
		"/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
		"/opentelemetry.proto.collector.profiles.v1experimental.ProfilesService/Export",
	};
	static const char *const paths[] = { "/v1development/profiles", "/v1experimental/profiles",
					     "/v1/profiles" };
	const struct net_handler otlp = { handle_otlp, d };

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		net_app_grpc_method(app, methods[i], otlp);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		net_app_route(app, "POST", paths[i], "application/json, application/x-protobuf",
			      otlp);
	net_app_route(app, "POST", "/ingest", NULL, (struct net_handler){ handle_ingest, d });
	net_app_route(app, "POST", push_method.path, "application/proto, application/json",
		      (struct net_handler){ handle_push, d });
	net_app_grpc_method(app, push_method.path, (struct net_handler){ handle_push, d });
}

struct web_door *web_door_new(struct net_app *app, const struct web_options *options,
			      struct web_guard *guard)
{
	struct web_door *d = calloc(1, sizeof(*d));

	d->options = options;
	d->guard = guard;
	d->settled = options->read_only;
	pthread_rwlock_init(&d->lock, NULL);
	add_routes(d, app);
	return d;
}

void web_door_free(struct web_door *d)
{
	if (!d)
		return;
	pthread_rwlock_destroy(&d->lock);
	free(d);
}

void web_door_open(struct web_door *d, const struct web_intake *intake)
{
	pthread_rwlock_wrlock(&d->lock);
	d->open = intake != NULL;
	if (intake)
		d->intake = *intake;
	pthread_rwlock_unlock(&d->lock);
}

void web_door_settle(struct web_door *d)
{
	pthread_rwlock_wrlock(&d->lock);
	d->settled = !d->open;
	pthread_rwlock_unlock(&d->lock);
}
