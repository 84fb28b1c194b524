/* refuse.c - what the server answers by itself, in the form of the request's protocol, and counts.
 */
#include <stdarg.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/server_internal.h"

enum { MESSAGE_BYTES = 512 };

/* allow: the methods that a 405 names, else empty. */
static void refuse_http(struct net_request *r, int status, struct str message, uint64_t retry_ns,
			struct str allow)
{
	struct net_header headers[4];
	size_t count = 0;
	const char *type = "text/plain; charset=utf-8";
	char seconds[24];
	struct buf body;

	buf_init(&body, 0);
	if (r->app->options.error_body) {
		r->app->options.error_body(r, status, message, &body, &type);
	} else {
		buf_str(&body, message);
		buf_lit(&body, "\n");
	}
	if (allow.len)
		headers[count++] = (struct net_header){ "allow", allow };
	headers[count++] = (struct net_header){ "content-type", str_cstr(type) };
	if (retry_ns) {
		int n = snprintf(seconds, sizeof(seconds), "%llu",
				 (unsigned long long)((retry_ns + SECOND_NS - 1) / SECOND_NS));

		headers[count++] =
			(struct net_header){ "retry-after", str_from(seconds, (size_t)n) };
	}
	request_answer(r, answer_http(r, status, headers, count, buf_view(&body)));
	buf_release(&body);
}

static void refuse_grpc(struct net_request *r, int status, struct str message, uint64_t retry_ns)
{
	struct buf details;
	struct answer *a;

	buf_init(&details, 0);
	if (retry_ns)
		grpc_status_with_retry(&details, status, message, retry_ns);
	a = answer_grpc(status, message, buf_view(&details));
	a->accept_encoding = true;
	request_answer(r, a);
	buf_release(&details);
}

static void refuse(struct net_request *r, enum net_refusal reason, int http_status, int grpc_status,
		   struct str message, uint64_t retry_ns)
{
	app_count_refusal(r->app, reason);
	r->body_done = true;
	if (r->stream && r->answer) { /* a stream that has begun to answer */
		grpc_stream_finish(r, grpc_status, message);
		return;
	}
	if (r->transport == NET_GRPC)
		refuse_grpc(r, grpc_status, message, retry_ns);
	else
		refuse_http(r, http_status, message, retry_ns, (struct str){ 0 });
}

void request_refuse(struct net_request *r, enum net_refusal reason, int http_status,
		    int grpc_status, const char *format, ...)
{
	char message[MESSAGE_BYTES];
	va_list ap;

	va_start(ap, format);
	vsnprintf(message, sizeof(message), format, ap);
	va_end(ap);
	refuse(r, reason, http_status, grpc_status, str_cstr(message), 0);
}

void request_refuse_method(struct net_request *r, struct str allow, struct str message)
{
	app_count_refusal(r->app, REFUSED_METHOD);
	r->body_done = true;
	refuse_http(r, 405, message, 0, allow);
}

void request_refuse_retry(struct net_request *r, const char *message)
{
	refuse(r, REFUSED_NO_MEMORY, 503, GRPC_UNAVAILABLE, str_cstr(message),
	       r->app->options.retry_hint_ns);
}

void request_expire(struct net_request *r)
{
	r->expired = true;
	request_refuse(r, REFUSED_DEADLINE, 504, GRPC_DEADLINE_EXCEEDED,
		       "the client's deadline is over");
}
