#include "net/client.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "net/grpc_internal.h"
#include "net/server.h"

enum {
	CONNECT_TIMEOUT_S = 5,
	KEEPALIVE_TIMEOUT_S = 20,
	RECONNECT_MIN_S = 1,
	RECONNECT_MAX_S = 5,
	RESPONSE_LIMIT_BYTES = 4 * 1024 * 1024,
	HEADERS_MOST = 100,
	MESSAGE_BYTES_MOST =
		0x7fffffff, /* what the length in front of a message can say to every peer */
};

/* Calls and lists of them. */

void grpc_call_append(struct grpc_call_list *list, struct grpc_call *call)
{
	call->next = NULL;
	call->prev = list->last;
	if (list->last)
		list->last->next = call;
	else
		list->first = call;
	list->last = call;
}

void grpc_call_prepend(struct grpc_call_list *list, struct grpc_call *call)
{
	call->prev = NULL;
	call->next = list->first;
	if (list->first)
		list->first->prev = call;
	else
		list->last = call;
	list->first = call;
}

void grpc_call_remove(struct grpc_call_list *list, struct grpc_call *call)
{
	if (call->prev)
		call->prev->next = call->next;
	else
		list->first = call->next;
	if (call->next)
		call->next->prev = call->prev;
	else
		list->last = call->prev;
	call->prev = call->next = NULL;
}

void grpc_call_free(struct grpc_call *call)
{
	assert(!call->user); /* who waits got an answer */
	grpc_response_release(&call->response);
	blob_unref(call->message);
	free(call->path);
	free(call);
}

void grpc_call_done(struct grpc_call *call, const struct client_result *result)
{
	struct client_call *user = call->user;

	call->user = NULL;
	if (user) {
		user->internal = NULL;
		user->done(user, result);
	}
}

void grpc_call_fail(struct grpc_call *call, int grpc_status, const char *message)
{
	struct client_result result = { .sent = call->sent,
					.grpc_status = grpc_status,
					.message = str_cstr(message) };

	grpc_call_done(call, &result);
}

/* What the client says about itself. */

static void client_say(struct grpc_client *c, const char *state, const char *reason)
{
	pthread_mutex_lock(&c->lock);
	snprintf(c->state_text, sizeof(c->state_text), "%s%.120s", state, reason);
	pthread_mutex_unlock(&c->lock);
}

void grpc_client_state(struct grpc_client *c, char out[160])
{
	pthread_mutex_lock(&c->lock);
	memcpy(out, c->state_text, sizeof(c->state_text));
	pthread_mutex_unlock(&c->lock);
}

/* Connections. */

static void client_connect(struct grpc_client *c)
{
	struct grpc_conn *conn = grpc_conn_new(c);

	conn->next = c->conns;
	if (conn->next)
		conn->next->prev = conn;
	c->conns = conn;
	c->current = conn;
	client_say(c, "connecting", "");
	grpc_dial_start(conn);
}

void grpc_client_ready(struct grpc_client *c, struct grpc_conn *conn)
{
	(void)conn;
	c->failures = 0;
	c->retry_at_ns = 0;
	client_say(c, "ready", "");
}

void grpc_client_draining(struct grpc_client *c, struct grpc_conn *conn)
{
	conn->draining = true;
	if (conn->calm_asked && c->keepalive_time_ns) /* as gRPC's keepalive document has it */
		c->keepalive_time_ns *= 2;
	conn->calm_asked = false;
	if (c->current == conn) {
		c->current = NULL;
		client_say(c, "idle", "");
	}
}

/* The next pause: grows by 1.6 with each failure, up to the limit, and varies by a fifth so that
 * many clients do not come at once. */
static uint64_t reconnect_pause(const struct grpc_client *c)
{
	double pause_ns = (double)c->reconnect_min_ns;

	for (unsigned i = 1; i < c->failures && pause_ns < (double)c->reconnect_max_ns; i++)
		pause_ns *= 1.6;
	if (pause_ns > (double)c->reconnect_max_ns)
		pause_ns = (double)c->reconnect_max_ns;
	return (uint64_t)(pause_ns * (0.8 + arc4random_uniform(401) / 1000.0));
}

static void client_fail_waiting(struct grpc_client *c, int grpc_status, const char *message)
{
	struct grpc_call_list list = c->waiting;
	struct grpc_call *call;

	c->waiting = (struct grpc_call_list){ 0 };
	while ((call = list.first)) {
		grpc_call_remove(&list, call);
		grpc_call_fail(call, grpc_status, message);
		grpc_call_free(call);
	}
}

static void client_connect_failed(struct grpc_client *c, const struct err *why)
{
	c->failures++;
	c->retry_at_ns = clock_monotonic_ns() + reconnect_pause(c);
	err_set(&c->last_error, ERR_UNAVAILABLE, "connecting to %s: %s",
		c->endpoint.kind == ENDPOINT_UNIX ? c->endpoint.path : c->endpoint.authority,
		why->msg);
	client_say(c, "transient failure: ", c->last_error.msg);
	if (!c->wait_for_ready)
		client_fail_waiting(c, GRPC_UNAVAILABLE, c->last_error.msg);
}

void grpc_client_lost(struct grpc_client *c, struct grpc_conn *conn, const struct err *why,
		      bool was_ready)
{
	bool was_current = c->current == conn;

	if (was_current)
		c->current = NULL;
	if (c->dead || conn->draining || !was_current)
		return;
	if (was_ready)
		client_say(c, "idle", "");
	else
		client_connect_failed(c, why);
}

static void client_closed(struct grpc_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->closed = true;
	pthread_cond_signal(&c->closed_changed);
	pthread_mutex_unlock(&c->lock);
}

void grpc_client_gone(struct grpc_client *c, struct grpc_conn *conn)
{
	if (conn->next)
		conn->next->prev = conn->prev;
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		c->conns = conn->next;
	if (c->dead && !c->conns)
		client_closed(c);
}

/* Waiting calls and their deadlines. */

static uint64_t list_earliest_deadline(const struct grpc_call_list *list)
{
	uint64_t earliest_ns = UINT64_MAX;

	for (const struct grpc_call *call = list->first; call; call = call->next)
		if (call->user && call->deadline_ns < earliest_ns)
			earliest_ns = call->deadline_ns;
	return earliest_ns;
}

static void client_arm_deadline(struct grpc_client *c)
{
	uint64_t earliest_ns = list_earliest_deadline(&c->waiting);
	uint64_t now_ns;

	for (const struct grpc_conn *conn = c->conns; conn; conn = conn->next) {
		uint64_t ns = list_earliest_deadline(&conn->calls);

		earliest_ns = ns < earliest_ns ? ns : earliest_ns;
	}
	if (earliest_ns == UINT64_MAX) {
		net_timer_stop(c->deadline_timer);
		return;
	}
	now_ns = clock_monotonic_ns();
	net_timer_start(c->deadline_timer, earliest_ns > now_ns ? earliest_ns - now_ns : 0);
}

static void expire_waiting(struct grpc_client *c, uint64_t now_ns)
{
	struct grpc_call *next;

	for (struct grpc_call *call = c->waiting.first; call; call = next) {
		next = call->next;
		if (call->deadline_ns > now_ns)
			continue;
		grpc_call_remove(&c->waiting, call);
		grpc_call_fail(call, GRPC_DEADLINE_EXCEEDED,
			       c->failures ? c->last_error.msg
					   : "the time ran out before a connection was ready");
		grpc_call_free(call);
	}
}

static void expire_running(struct grpc_conn *conn, uint64_t now_ns)
{
	bool any = false;

	for (struct grpc_call *call = conn->calls.first; call; call = call->next) {
		if (!call->user || call->deadline_ns > now_ns)
			continue;
		grpc_call_fail(call, GRPC_DEADLINE_EXCEEDED, "the peer did not answer in time");
		grpc_session_cancel(call);
		any = true;
	}
	if (any)
		grpc_conn_flush(conn);
}

static void deadline_fired(void *arg)
{
	struct grpc_client *c = arg;
	uint64_t now_ns = clock_monotonic_ns();
	struct grpc_conn *next;

	expire_waiting(c, now_ns);
	for (struct grpc_conn *conn = c->conns; conn; conn = next) {
		next = conn->next; /* a flush may close conn; it is freed later, its links stay */
		if (conn->state != GRPC_CONN_CLOSED)
			expire_running(conn, now_ns);
	}
	grpc_client_pump(c);
	client_arm_deadline(c);
}

bool grpc_client_requeue(struct grpc_client *c, struct grpc_call *call)
{
	if (call->requeued || c->dead)
		return false;
	call->requeued = true;
	call->sent = false;
	grpc_response_release(&call->response);
	grpc_call_prepend(&c->waiting, call);
	return true;
}

static void client_submit_waiting(struct grpc_client *c)
{
	struct grpc_conn *conn = c->current;
	bool any = false;

	while (c->waiting.first && grpc_conn_usable(conn) && grpc_session_has_room(conn)) {
		struct grpc_call *call = c->waiting.first;

		if (!nghttp2_session_check_request_allowed(
			    conn->session)) { /* stream ids are used up, or GOAWAY */
			grpc_client_draining(c, conn);
			break;
		}
		grpc_call_remove(&c->waiting, call);
		grpc_session_submit(conn, call);
		any = true;
	}
	if (any)
		grpc_conn_flush(conn);
}

/* No connection, and calls wait for one: connects, or fails them while the pause after a failure
 * lasts. */
static void client_need_connection(struct grpc_client *c)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns >= c->retry_at_ns)
		client_connect(c);
	else if (!c->wait_for_ready)
		client_fail_waiting(c, GRPC_UNAVAILABLE, c->last_error.msg);
	else
		net_timer_start(c->retry_timer, c->retry_at_ns - now_ns);
}

void grpc_client_pump(struct grpc_client *c)
{
	if (c->dead || !c->waiting.first)
		return;
	if (c->current)
		client_submit_waiting(c);
	if (!c->current && c->waiting.first)
		client_need_connection(c);
}

static void retry_fired(void *arg)
{
	grpc_client_pump(arg);
}

/* The way in. */

static void call_arrives(struct net_task *task)
{
	struct grpc_call *call = CONTAINER_OF(task, struct grpc_call, task);
	struct grpc_client *c = call->client;

	/* A task that runs elsewhere says that the loop has stopped. */
	if (!net_loop_is_current(c->loop) || c->dead) {
		grpc_call_fail(call, GRPC_CANCELLED, "the client is closed");
		grpc_call_free(call);
		return;
	}
	if (call->refused.kind) {
		grpc_call_fail(call,
			       call->refused.kind == ERR_LIMIT ? GRPC_RESOURCE_EXHAUSTED
							       : GRPC_INTERNAL,
			       call->refused.msg);
		grpc_call_free(call);
		return;
	}
	grpc_call_append(&c->waiting, call);
	grpc_client_pump(c);
	client_arm_deadline(c);
}

/* Here on the caller's thread, so that many callers compress side by side. */
/* What grpc-go and Collectors mean by "snappy" is the framed stream. */
static enum compression message_compression(const struct grpc_client *c)
{
	return c->compression == COMPRESSION_SNAPPY ? COMPRESSION_SNAPPY_FRAMED : c->compression;
}

static void call_set_message(struct grpc_call *call, struct blob *message)
{
	const struct grpc_client *c = call->client;
	struct buf out;
	size_t len;
	char *bytes;

	if (message->len > MESSAGE_BYTES_MOST)
		err_set(&call->refused, ERR_LIMIT,
			"the message has %zu bytes, gRPC takes at most %d", message->len,
			MESSAGE_BYTES_MOST);
	if (call->refused.kind || c->compression == COMPRESSION_NONE || !message->len) {
		call->message = blob_ref(message);
		return;
	}
	buf_init(&out, 0);
	if (!compress_into(message_compression(c), c->compression_level, blob_view(message), &out,
			   &call->refused)) {
		buf_release(&out);
		call->message = blob_ref(message);
		return;
	}
	bytes = buf_take(&out, &len);
	call->message = blob_adopt(bytes, len);
	call->compressed = true;
}

void grpc_client_call(struct grpc_client *c, const char *path, struct blob *message,
		      uint64_t timeout_ns, struct client_call *user)
{
	struct grpc_call *call = calloc(1, sizeof(*call));

	assert(call && path[0] == '/');
	call->task.run = call_arrives;
	call->client = c;
	call->user = user;
	call->path = strdup(path);
	assert(call->path);
	call->deadline_ns = timeout_ns ? clock_monotonic_ns() + timeout_ns : UINT64_MAX;
	call_set_message(call, message);
	user->internal = call;
	net_loop_post(c->loop, &call->task);
}

/* Birth and death. */

static bool name_char_fits(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '-' || ch == '_' ||
	       ch == '.';
}

static bool name_is_ours(const char *name)
{
	static const char *const ours[] = {
		"te",   "content-type",  "user-agent", "connection", "transfer-encoding",
		"host", "content-length"
	};

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strcmp(name, ours[i]) == 0)
			return true;
	return strncmp(name, "grpc-", 5) == 0;
}

/* The value is not shown: it may be a secret. */
static bool header_copy(struct grpc_header *out, const struct client_header *in, struct err *err)
{
	out->name = strdup(in->name);
	out->value = strdup(in->value ? in->value : "");
	assert(out->name && out->value);
	if (!*in->name)
		return err_set(err, ERR_INVALID, "a header has no name");
	for (char *p = out->name; *p; p++) {
		*p = (char)tolower((unsigned char)*p);
		if (!name_char_fits(*p))
			return err_set(err, ERR_INVALID,
				       "header \"%s\" has a character that no header name has",
				       in->name);
	}
	if (name_is_ours(out->name))
		return err_set(err, ERR_INVALID, "header \"%s\" belongs to gRPC itself", in->name);
	for (const char *p = out->value; *p; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
			return err_set(err, ERR_INVALID,
				       "the value of header \"%s\" has a character that is not "
				       "printable ASCII",
				       in->name);
	return true;
}

static bool headers_copy(struct grpc_client *c, const struct grpc_client_options *o,
			 struct err *err)
{
	if (o->header_count > HEADERS_MOST)
		return err_set(err, ERR_LIMIT, "%u headers, at most %d are possible",
			       o->header_count, HEADERS_MOST);
	c->headers = calloc(o->header_count ? o->header_count : 1, sizeof(*c->headers));
	assert(c->headers);
	for (uint32_t i = 0; i < o->header_count; i++) {
		c->header_count++;
		if (!header_copy(&c->headers[i], &o->headers[i], err))
			return false;
	}
	return true;
}

static bool client_set_endpoint(struct grpc_client *c, const struct grpc_client_options *o,
				struct err *err)
{
	if (!endpoint_parse(str_cstr(o->endpoint), &c->endpoint, err))
		return false;
	if (c->endpoint.scheme == ENDPOINT_HTTPS && !o->tls)
		return err_set(err, ERR_INVALID,
			       "endpoint \"%s\" asks for TLS, which is not set up", o->endpoint);
	c->tls = c->endpoint.scheme == ENDPOINT_HTTP ? NULL : o->tls;
	c->authority = strdup(o->authority ? o->authority : c->endpoint.authority);
	c->user_agent = strdup(o->user_agent ? o->user_agent : "flametap/" FLAMETAP_VERSION);
	assert(c->authority && c->user_agent);
	return true;
}

static bool client_set_compression(struct grpc_client *c, const struct grpc_client_options *o,
				   struct err *err)
{
	switch (o->compression) {
	case COMPRESSION_NONE:
	case COMPRESSION_GZIP:
	case COMPRESSION_DEFLATE:
	case COMPRESSION_ZSTD:
	case COMPRESSION_SNAPPY:
		c->compression = o->compression;
		c->compression_level = o->compression_level;
		return true;
	default:
		return err_set(err, ERR_UNSUPPORTED, "gRPC knows no compression \"%s\"",
			       compression_name(o->compression));
	}
}

static uint64_t or_seconds(uint64_t ns, uint64_t seconds)
{
	return ns ? ns : seconds * SECOND_NS;
}

static void client_set_limits(struct grpc_client *c, const struct grpc_client_options *o)
{
	c->connect_timeout_ns = or_seconds(o->connect_timeout_ns, CONNECT_TIMEOUT_S);
	c->keepalive_time_ns = o->keepalive_time_ns;
	c->keepalive_timeout_ns = or_seconds(o->keepalive_timeout_ns, KEEPALIVE_TIMEOUT_S);
	c->keepalive_without_calls = o->keepalive_without_calls;
	c->wait_for_ready = o->wait_for_ready;
	c->reconnect_min_ns = or_seconds(o->reconnect_min_ns, RECONNECT_MIN_S);
	c->reconnect_max_ns = or_seconds(o->reconnect_max_ns, RECONNECT_MAX_S);
	c->max_response_bytes =
		o->max_response_bytes ? o->max_response_bytes : RESPONSE_LIMIT_BYTES;
}

static void client_release(struct grpc_client *c)
{
	for (uint32_t i = 0; i < c->header_count; i++) {
		free(c->headers[i].name);
		free(c->headers[i].value);
	}
	free(c->headers);
	free(c->authority);
	free(c->user_agent);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->closed_changed);
	free(c);
}

/* On the loop's thread: the end of everything, by grpc_client_free() or by the loop's own end. */
static void client_die(struct grpc_client *c)
{
	struct err why = { .kind = ERR_CANCELLED, .msg = "the client is closed" };

	if (c->dead)
		return;
	c->dead = true;
	net_loop_remove_member(c->loop, &c->member);
	atomic_fetch_sub(&c->loop->connections, 1);
	net_timer_free(c->deadline_timer);
	net_timer_free(c->retry_timer);
	client_fail_waiting(c, GRPC_CANCELLED, why.msg);
	if (!c->conns) {
		client_closed(c);
		return;
	}
	for (struct grpc_conn *next, *conn = c->conns; conn; conn = next) {
		next = conn->next;
		grpc_conn_goodbye(conn, &why);
	}
}

static void member_stop(struct net_member *m)
{
	client_die(CONTAINER_OF(m, struct grpc_client, member));
}

struct client_task {
	struct net_task task; /* first */
	struct grpc_client *client;
};

static void client_enter(struct net_task *task)
{
	struct client_task *t = CONTAINER_OF(task, struct client_task, task);
	struct grpc_client *c = t->client;

	free(t);
	if (!net_loop_is_current(c->loop)) { /* the loop has stopped: nothing will ever run here */
		c->dead = true;
		client_closed(c);
		return;
	}
	c->member.stop = member_stop;
	net_loop_add_member(c->loop, &c->member);
	atomic_fetch_add(&c->loop->connections, 1);
	c->deadline_timer = net_timer_new(c->loop, deadline_fired, c);
	c->retry_timer = net_timer_new(c->loop, retry_fired, c);
}

static void client_leave(struct net_task *task)
{
	struct client_task *t = CONTAINER_OF(task, struct client_task, task);

	/* Elsewhere than on its thread the loop has stopped, or is about to: then member_stop()
	 * does it. */
	if (net_loop_is_current(t->client->loop))
		client_die(t->client);
}

struct grpc_client *grpc_client_new(struct net_loop *loop,
				    const struct grpc_client_options *options, struct err *err)
{
	struct grpc_client *c = calloc(1, sizeof(*c));
	struct client_task *enter;

	assert(c);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->closed_changed, NULL);
	c->loop = loop;
	snprintf(c->state_text, sizeof(c->state_text), "idle");
	client_set_limits(c, options);
	if (!client_set_endpoint(c, options, err) || !client_set_compression(c, options, err) ||
	    !headers_copy(c, options, err)) {
		client_release(c);
		return NULL;
	}
	net_loop_ref(loop);
	enter = calloc(1, sizeof(*enter));
	assert(enter);
	*enter = (struct client_task){ .task.run = client_enter, .client = c };
	net_loop_post(loop, &enter->task);
	return c;
}

void grpc_client_free(struct grpc_client *c)
{
	struct client_task leave = { .task.run = client_leave, .client = c };

	if (!c)
		return;
	net_loop_post(c->loop, &leave.task);
	pthread_mutex_lock(&c->lock);
	while (!c->closed)
		pthread_cond_wait(&c->closed_changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	net_loop_unref(c->loop);
	client_release(c);
}
