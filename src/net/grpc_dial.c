#include <assert.h>
#include <stdlib.h>

#include "net/grpc_internal.h"

#include "base/clock.h"

static void dial_try(struct grpc_conn *conn);

static void dial_failed(struct grpc_conn *conn, const char *reason)
{
	struct err why;

	err_set(&why, ERR_UNAVAILABLE, "%s", reason);
	grpc_conn_close(conn, &why);
}

/* The handle of an address that did not answer is closed; the next one gets a new handle. */
static void dial_handle_closed(uv_handle_t *handle)
{
	struct grpc_conn *conn = handle->data;

	conn->handle_open = false;
	if (conn->state == GRPC_CONN_CLOSED) {
		grpc_conn_unpin(conn);
		return;
	}
	conn->address = conn->address->ai_next;
	conn->addresses_left--;
	dial_try(conn);
}

static void dial_next(struct grpc_conn *conn, const char *reason)
{
	net_timer_stop(conn->timer);
	if (!conn->address || !conn->address->ai_next ||
	    clock_monotonic_ns() >= conn->dial_deadline_ns) {
		dial_failed(conn, reason);
		return;
	}
	if (!uv_is_closing(&conn->handle))
		uv_close(&conn->handle, dial_handle_closed);
}

static void dial_connected(uv_connect_t *request, int status)
{
	struct grpc_conn *conn = request->data;

	/* A cancelled attempt: its handle is being closed, which goes on from there. */
	if (conn->state != GRPC_CONN_CONNECTING || uv_is_closing(&conn->handle))
		return;
	if (status)
		dial_next(conn, uv_strerror(status));
	else
		grpc_conn_connected(conn);
}

/* Each address gets its share of the time that is left. */
static void dial_share_time(struct grpc_conn *conn)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t left_ns = conn->dial_deadline_ns > now_ns ? conn->dial_deadline_ns - now_ns : 0;

	net_timer_start(conn->timer, left_ns / (conn->addresses_left ? conn->addresses_left : 1));
}

static void dial_try(struct grpc_conn *conn)
{
	int rc;

	conn->state = GRPC_CONN_CONNECTING;
	rc = uv_tcp_init(&conn->client->loop->uv, &conn->tcp);
	assert(rc == 0);
	conn->handle.data = conn;
	conn->handle_open = true;
	conn->connect.data = conn;
	dial_share_time(conn);
	rc = uv_tcp_connect(&conn->connect, &conn->tcp, conn->address->ai_addr, dial_connected);
	if (rc)
		dial_next(conn, uv_strerror(rc));
}

static void dial_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
	struct grpc_conn *conn = request->data;

	conn->resolving = false;
	conn->addresses = addresses;
	if (conn->state == GRPC_CONN_CLOSED) {
		grpc_conn_unpin(conn);
		return;
	}
	if (status || !addresses) {
		dial_failed(conn, status ? uv_strerror(status) : "the name has no address");
		return;
	}
	for (struct addrinfo *a = addresses; a; a = a->ai_next)
		conn->addresses_left++;
	conn->address = addresses;
	dial_try(conn);
}

static void dial_resolve(struct grpc_conn *conn)
{
	const struct endpoint *e = &conn->client->endpoint;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC };
	char port[8];
	int rc;

	snprintf(port, sizeof(port), "%u", e->port);
	conn->resolver.data = conn;
	conn->resolving = true;
	net_timer_start(conn->timer, conn->client->connect_timeout_ns);
	rc = uv_getaddrinfo(&conn->client->loop->uv, &conn->resolver, dial_resolved, e->host, port,
			    &hints);
	if (rc) {
		conn->resolving = false;
		dial_failed(conn, uv_strerror(rc));
	}
}

static void dial_unix(struct grpc_conn *conn)
{
	int rc = uv_pipe_init(&conn->client->loop->uv, &conn->pipe, 0);

	assert(rc == 0);
	conn->state = GRPC_CONN_CONNECTING;
	conn->handle.data = conn;
	conn->handle_open = true;
	conn->connect.data = conn;
	net_timer_start(conn->timer, conn->client->connect_timeout_ns);
	uv_pipe_connect(&conn->connect, &conn->pipe, conn->client->endpoint.path, dial_connected);
}

void grpc_dial_start(struct grpc_conn *conn)
{
	conn->state = GRPC_CONN_RESOLVING;
	conn->dial_deadline_ns = clock_monotonic_ns() + conn->client->connect_timeout_ns;
	if (conn->client->endpoint.kind == ENDPOINT_UNIX)
		dial_unix(conn);
	else
		dial_resolve(conn);
}

void grpc_dial_timeout(struct grpc_conn *conn)
{
	switch (conn->state) {
	case GRPC_CONN_RESOLVING:
		dial_failed(conn, "the name lookup takes too long");
		break;
	case GRPC_CONN_CONNECTING:
		dial_next(conn, "connecting takes too long");
		break;
	case GRPC_CONN_HANDSHAKE:
		dial_failed(conn, "the TLS handshake takes too long (does the peer speak TLS?)");
		break;
	case GRPC_CONN_SETTINGS:
		dial_failed(
			conn,
			"the peer accepts the connection, but says nothing (does it speak gRPC?)");
		break;
	default:
		break;
	}
}
