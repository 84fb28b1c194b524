#include "metrics_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "net/server.h"

struct metrics_server {
	struct metrics *metrics;
	char address[300]; /* as the configuration has it; "" = none */
	struct net_app *app;
	struct net_listener *listener;
};

static void handle_metrics(struct net_request *r, struct blob *body, void *ctx)
{
	struct metrics_server *s = ctx;
	AUTO(buf_release) struct buf text = { 0 };
	struct net_header type = { "content-type",
				   STR("text/plain; version=0.0.4; charset=utf-8") };

	blob_unref(body);
	metrics_write(s->metrics, &text);
	net_reply_http(r, 200, &type, 1, buf_view(&text));
}

static void wanted_address(const struct config *config, char *address, size_t room)
{
	const struct telemetry_metrics *m = &config->telemetry.metrics;
	bool bare_ipv6 = m->host && strchr(m->host, ':') && m->host[0] != '[';

	address[0] = 0;
	if (m->host && m->level != TELEMETRY_NONE)
		snprintf(address, room, bare_ipv6 ? "[%s]:%u" : "%s:%u", m->host, m->port);
}

static bool listen_at(struct metrics_server *s, struct net_loops *loops, struct err *err)
{
	struct net_app_options options = { .max_body_bytes = 4096, .metrics = s->metrics };

	s->app = net_app_new(&options);
	net_app_route(s->app, "GET", "/metrics", NULL, (struct net_handler){ handle_metrics, s });
	s->listener = net_listen(loops, s->app, s->address, NULL, err);
	if (!s->listener)
		return err_prefix(err, "own metrics");
	LOG(LOG_INFO, "Serving own metrics", LOG_S("endpoint", net_listener_address(s->listener)));
	return true;
}

struct metrics_server *metrics_server_new(struct net_loops *loops, struct metrics *metrics,
					  const struct config *config, struct err *err)
{
	struct metrics_server *s = calloc(1, sizeof(*s));

	s->metrics = metrics;
	wanted_address(config, s->address, sizeof(s->address));
	if (!s->address[0] || listen_at(s, loops, err))
		return s;
	metrics_server_free(s);
	return NULL;
}

bool metrics_server_move(struct metrics_server **server, struct net_loops *loops,
			 const struct config *config, struct err *err)
{
	struct metrics_server *next;
	char address[sizeof(next->address)];

	wanted_address(config, address, sizeof(address));
	if (strcmp(address, (*server)->address) == 0)
		return true;
	next = metrics_server_new(loops, (*server)->metrics, config, err);
	if (!next)
		return false;
	metrics_server_free(*server);
	*server = next;
	return true;
}

void metrics_server_free(struct metrics_server *s)
{
	if (!s)
		return;
	if (s->listener)
		net_listener_close(s->listener, 0);
	net_app_free(s->app);
	free(s);
}
