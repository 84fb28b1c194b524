/* server.c - routes: a request is guarded and parsed on its connection's loop, a question is
 * answered on a thread of the pool (question.c). */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "components/receivers/otlp.h"
#include "net/compress.h"
#include "web/intake.h"
#include "web/internal.h"
#include "web/pyro.h"

struct web_server {
	struct web_options options;
	struct net_app *app;
	struct net_listener *listener;
	struct web_guard guard;
	struct web_jobs *jobs;
	struct web_sharing *sharing;
	struct web_live *live;
	struct web_waits *waits;
	struct web_door *door;
	struct tls_context *tls; /* NULL: plain */
};

#define TREE " max_nodes inverted root search"

/* fixed: what the store holds decides the answer; of the others, time, files or the program do.
 * takes: names of parameters; NULL: any, as the program does whose question it is. */
static const struct route {
	const char *path;
	web_answer_fn *answer;
	bool fixed;
	const char *takes;
} QUESTIONS[] = {
	{ "/api/v1/status", web_answer_status, false, WEB_SELECTION },
	{ "/api/v1/flamegraph", web_answer_flamegraph, true, WEB_SELECTION TREE },
	{ "/api/v1/diff", web_answer_diff, true, WEB_SELECTION TREE },
	{ "/api/v1/sandwich", web_answer_sandwich, true, WEB_SELECTION " key side" TREE },
	{ "/api/v1/search", web_answer_search, true, WEB_SELECTION TREE },
	{ "/api/v1/top", web_answer_top, true, WEB_SELECTION " limit sort" },
	{ "/api/v1/timeline", web_answer_timeline, true, WEB_SELECTION " width" },
	{ "/api/v1/heatmap", web_answer_heatmap, true, WEB_SELECTION " width rows" },
	{ "/api/v1/chart", web_answer_chart, true, WEB_SELECTION " width lanes skip" },
	{ "/api/v1/source", web_answer_source, false, WEB_SELECTION " name file" },
	{ "/api/v1/raw", web_answer_raw, true, WEB_SELECTION " limit after order" },
	{ "/api/v1/labels", web_answer_labels, true, WEB_SELECTION },
	{ "/api/v1/label-values", web_answer_label_values, true,
	  WEB_SELECTION " name match limit" },
	{ "/api/v1/export", web_answer_export, false, WEB_SELECTION " format state search" },
	{ "/api/v1/uploads", web_answer_uploads, false, WEB_SELECTION },
	{ "/pyroscope/render", pyro_answer_render, false, NULL },
	{ "/pyroscope/render-diff", pyro_answer_render_diff, false, NULL },
	{ "/pyroscope/label-values", pyro_answer_rest_label_values, false, NULL },
};

static bool guarded(struct web_server *s, struct net_request *r)
{
	const char *why;
	int status = web_guard_check(&s->guard, r, &why);

	if (status)
		web_guard_refuse(&s->guard, r, status, why);
	return status == 0;
}

static bool looks_at_no_sample(web_answer_fn *answer)
{
	return answer == web_answer_status || answer == web_answer_uploads;
}

static const struct route *find_route(struct str path)
{
	for (size_t i = 0; i < sizeof(QUESTIONS) / sizeof(QUESTIONS[0]); i++)
		if (str_is(path, QUESTIONS[i].path))
			return &QUESTIONS[i];
	return NULL;
}

/* Path and query say all that an answer depends on; who may ask was looked at. */
static void share(struct web_server *s, struct web_question *q)
{
	AUTO(buf_release) struct buf key = { 0 };

	buf_str(&key, net_request_path(q->request));
	buf_char(&key, '?');
	buf_str(&key, net_request_query(q->request));
	web_sharing_add(s->sharing, q, buf_view(&key));
}

static void handle_api(struct net_request *r, struct blob *body, void *ctx)
{
	struct web_server *s = ctx;
	const struct web_asset *asset = web_asset_find(net_request_path(r));
	const struct route *route = find_route(net_request_path(r));
	struct web_question *q;
	struct err err;

	blob_unref(body);
	if (!guarded(s, r))
		return;
	if (asset) {
		web_asset_send(r, asset);
		return;
	}
	if (!route) {
		web_reply_error(r, 404, STR("no such question"),
				STR("/api/v1/openapi.json lists what may be asked"), NULL);
		return;
	}
	q = web_question_new(&s->options, r, route->answer, &web_plain_form);
	if (!q)
		return;
	q->fixed = route->fixed;
	q->job.quick = looks_at_no_sample(route->answer);
	if (!route->takes || params_known(&q->ask.params, route->takes, &err))
		share(s, q);
	else
		web_question_refuse(q, &err);
}

static void handle_upload(struct net_request *r, struct blob *body, void *ctx)
{
	struct web_server *s = ctx;
	struct web_question *q = NULL;
	struct err err;

	if (guarded(s, r))
		q = web_question_new(&s->options, r, web_answer_upload, &web_plain_form);
	if (q && params_known(&q->ask.params, "name", &err)) {
		q->ask.sent = body;
		web_jobs_add(s->jobs, &q->job);
		return;
	}
	blob_unref(body);
	if (q)
		web_question_refuse(q, &err);
}

static void handle_pprof(struct net_request *r, struct blob *body, void *ctx)
{
	struct web_server *s = ctx;
	struct web_question *q;
	uint64_t wait_ns;
	struct err err;

	blob_unref(body);
	if (!guarded(s, r) ||
	    !(q = web_question_new(&s->options, r, web_answer_export, &web_plain_form)))
		return;
	if (!web_pprof_prepare(&q->ask, &wait_ns, &err)) {
		web_question_refuse(q, &err);
		return;
	}
	q->wait = (struct web_wait){ &q->job, clock_monotonic_ns() + wait_ns, q->ask.cancelled };
	web_waits_add(s->waits, &q->wait);
}

static const struct connect_method *find_method(struct str path)
{
	for (size_t i = 0; i < PYRO_METHODS; i++)
		if (str_is(path, pyro_methods[i].path))
			return &pyro_methods[i];
	return NULL;
}

/* The query API of Pyroscope, over Connect and gRPC. */
static void handle_call(struct net_request *r, struct blob *body, void *ctx)
{
	struct web_server *s = ctx;
	const struct connect_method *m = find_method(net_request_path(r));
	struct web_question *q = NULL;
	struct err err;

	if (!web_guard_let_in(&s->guard, r, &err)) {
		connect_refuse(r, &err);
	} else if (!m) {
		err_set(&err, ERR_UNSUPPORTED, "there is no %.*s here",
			STR_ARG(str_head(net_request_path(r), 100)));
		connect_refuse(r, &err);
	} else {
		q = web_question_new(&s->options, r, m->answer, &connect_form);
	}
	if (q && connect_read(&q->ask, r, body, m, &err))
		web_jobs_add(s->jobs, &q->job);
	else if (q)
		web_question_refuse(q, &err);
	blob_unref(body);
}

static void handle_live(struct net_request *r, struct blob *body, void *ctx)
{
	struct web_server *s = ctx;

	blob_unref(body);
	if (guarded(s, r))
		web_live_add(s->live, r);
}

static void reply_text(struct net_request *r, const char *content_type, struct str text)
{
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = web_common_headers(headers);

	headers[count++] = (struct net_header){ "content-type", str_cstr(content_type) };
	net_reply_http(r, 200, headers, count, text);
}

/* What health checks and Grafana ask a Pyroscope. */
static void handle_ready(struct net_request *r, struct blob *body, void *ctx)
{
	blob_unref(body);
	if (guarded(ctx, r))
		reply_text(r, "text/plain; charset=utf-8", STR("ready\n"));
}

static void handle_buildinfo(struct net_request *r, struct blob *body, void *ctx)
{
	blob_unref(body);
	if (guarded(ctx, r))
		reply_text(r, "application/json",
			   STR("{\"status\":\"success\",\"data\":{\"application\":\"flametap\","
			       "\"version\":\"" FLAMETAP_VERSION "\"}}\n"));
}

static void handle_page(struct net_request *r, struct blob *body, void *ctx)
{
	struct web_server *s = ctx;
	struct str path = net_request_path(r);
	const struct web_asset *asset;

	blob_unref(body);
	if (web_guard_hosts(&s->guard, r) && web_guard_exchange(&s->guard, r))
		return;
	if (!guarded(s, r))
		return;
	if (str_has_prefix(path, STR("/span/")))
		path = STR("/");
	asset = web_asset_find(path);
	if (asset)
		web_asset_send(r, asset);
	else
		web_reply_error(r, 404, STR("there is no such page"), STR("the page is at /"),
				NULL);
}

static struct web_options with_defaults(const struct web_options *options)
{
	struct web_options o = *options;

	if (!o.threads)
		o.threads = 2;
	if (!o.queue_most)
		o.queue_most = 64;
	if (!o.timeout_ns)
		o.timeout_ns = 30ull * 1000000000;
	return o;
}

static void add_pyroscope(struct web_server *s)
{
	static const char *const services[] = {
		"/querier.v1.QuerierService/", "/settings.v1.SettingsService/",
		"/vcs.v1.VCSService/",         "/adhocprofiles.v1.AdHocProfileService/",
		"/version.v1.Version/",        "/capabilities.v1.FeatureFlagsService/"
	};
	const struct net_handler call = { handle_call, s };

	for (size_t i = 0; i < PYRO_METHODS; i++)
		net_app_grpc_method(s->app, pyro_methods[i].path, call);
	for (size_t i = 0; i < ARRAY_LEN(services); i++) {
		net_app_route(s->app, "GET", services[i], NULL, call);
		net_app_route(s->app, "POST", services[i], "application/proto, application/json",
			      call);
	}
	net_app_route(s->app, "GET", "/pyroscope/", NULL, (struct net_handler){ handle_api, s });
	net_app_route(s->app, "GET", "/ready", NULL, (struct net_handler){ handle_ready, s });
	net_app_route(s->app, "GET", "/api/v1/status/buildinfo", NULL,
		      (struct net_handler){ handle_buildinfo, s });
}

static bool tls_open(struct web_server *s, struct err *err)
{
	struct tls_options options = {
		.server = true,
		.cert_file = s->options.tls_cert_file,
		.key_file = s->options.tls_key_file,
	};

	if (!options.cert_file && !options.key_file)
		return true;
	if (!options.cert_file || !options.key_file)
		return err_set(err, ERR_INVALID, "TLS needs both a certificate and its key");
	s->tls = tls_context_new(&options, err);
	return s->tls != NULL;
}

bool web_reload(struct web_server *s, struct err *err)
{
	return web_guard_reload(&s->guard, err) && (!s->tls || tls_context_reload(s->tls, err));
}

/* What the server itself refuses (404, 405, 413, 415, ...), in the form of what was asked. */
static void error_body(struct net_request *r, int status, struct str message, struct buf *out,
		       const char **content_type)
{
	if (str_has_prefix(net_request_path(r), STR("/v1"))) { /* OTLP */
		otlp_error_body(r, status, message, out, content_type);
		return;
	}
	*content_type = "application/json";
	web_error_body(out, message, (struct str){ 0 });
}

struct web_server *web_start(struct net_loops *loops, const struct web_options *options,
			     struct err *err)
{
	struct net_app_options app = { .metrics = options->metrics, .error_body = error_body };
	struct web_server *s = calloc(1, sizeof(*s));

	s->options = with_defaults(options);
	s->options.born_ns = clock_realtime_ns();
	s->app = net_app_new(&app);
	s->options.uploads = uploads_new(&(struct uploads_options){
		.folder = options->upload_folder,
		.retention_ns = options->upload_retention_ns,
		.most_bytes = options->upload_most_bytes,
	});
	s->jobs = web_jobs_new(s->options.threads, s->options.queue_most);
	s->sharing = web_sharing_new(s->jobs);
	s->live = web_live_new(&s->options);
	s->waits = web_waits_new(s->jobs);
	net_app_route(s->app, "GET", "/debug/pprof/profile", NULL,
		      (struct net_handler){ handle_pprof, s });
	net_app_route(s->app, "GET", "/api/v1/live", NULL, (struct net_handler){ handle_live, s });
	net_app_route(s->app, "POST", "/api/v1/upload", NULL,
		      (struct net_handler){ handle_upload, s });
	net_app_route(s->app, "GET", "/api/v1/", NULL, (struct net_handler){ handle_api, s });
	add_pyroscope(s);
	s->door = web_door_new(s->app, &s->options, &s->guard);
	net_app_route(s->app, "GET", "/", NULL, (struct net_handler){ handle_page, s });
	if (web_guard_init(&s->guard, &s->options, err) && tls_open(s, err))
		s->listener = net_listen(loops, s->app, options->address, s->tls, err);
	if (!s->listener) {
		web_stop(s, 0);
		return NULL;
	}
	return s;
}

struct web_door *web_server_door(struct web_server *s)
{
	return s->door;
}

const char *web_address(const struct web_server *s)
{
	return net_listener_address(s->listener);
}

void web_stop(struct web_server *s, uint64_t deadline_ns)
{
	if (!s)
		return;
	web_live_stop(s->live);
	web_waits_stop(s->waits);
	if (s->listener)
		net_listener_close(s->listener, deadline_ns);
	web_jobs_free(s->jobs);
	web_sharing_free(s->sharing);
	net_app_free(s->app);
	web_live_free(s->live);
	web_waits_free(s->waits);
	web_door_free(s->door);
	uploads_free(s->options.uploads);
	web_guard_release(&s->guard);
	tls_context_free(s->tls);
	free(s);
}
