/* answer.c - answers as handlers and the server itself make them, on any thread; what streams say,
 * on the loop's. */
#include <assert.h>
#include <stdlib.h>

#include "net/server_internal.h"

enum { GZIP_ANSWER_LEAST = 1400, GZIP_ANSWER_LEVEL = 4 };

struct answer *answer_new(void)
{
	struct answer *a = calloc(1, sizeof(*a));

	assert(a);
	header_list_init(&a->headers, 0);
	buf_init(&a->body, 0);
	buf_init(&a->message, 0);
	buf_init(&a->details, 0);
	return a;
}

void answer_free(struct answer *a)
{
	if (!a)
		return;
	header_list_release(&a->headers);
	buf_release(&a->body);
	buf_release(&a->message);
	buf_release(&a->details);
	free(a);
}

bool net_request_accepts_gzip(const struct net_request *r)
{
	struct str list = header_list_find(&r->headers, STR("accept-encoding")), item;

	while (str_split(&list, ',', &item)) {
		struct str name = item, weight = { 0 };
		ptrdiff_t semicolon = str_find(item, ';');

		if (semicolon >= 0) {
			name = str_head(item, (size_t)semicolon);
			weight = str_trim(str_skip(item, (size_t)semicolon + 1));
		}
		if (!str_equal_nocase(str_trim(name), STR("gzip")))
			continue;
		/* RFC 9110, 12.4.2: "q=0", "q=0.000" mean no */
		for (size_t i = 2; weight.len > 2 && i < weight.len; i++)
			if (weight.ptr[i] >= '1' && weight.ptr[i] <= '9')
				return true;
		return weight.len <= 2;
	}
	return false;
}

static bool has_line_break(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.ptr[i] == '\r' || s.ptr[i] == '\n' || s.ptr[i] == 0)
			return true;
	return false;
}

static void answer_set_body(struct answer *a, const struct net_request *r, struct str body)
{
	struct err err;

	if (body.len >= GZIP_ANSWER_LEAST && net_request_accepts_gzip(r) &&
	    !header_list_find(&a->headers, STR("content-encoding")).ptr &&
	    compress_into(COMPRESSION_GZIP, GZIP_ANSWER_LEVEL, body, &a->body, &err)) {
		header_list_add(&a->headers, STR("content-encoding"), STR("gzip"));
		header_list_add(&a->headers, STR("vary"), STR("accept-encoding"));
		return;
	}
	buf_reset(&a->body);
	buf_str(&a->body, body);
}

struct answer *answer_http(const struct net_request *r, int status,
			   const struct net_header *headers, size_t count, struct str body)
{
	struct answer *a = answer_new();

	a->status = status;
	for (size_t i = 0; i < count; i++)
		/* A value with a line break would let its text add headers of its own. */
		if (!has_line_break(headers[i].value))
			header_list_add(&a->headers, str_cstr(headers[i].name), headers[i].value);
	answer_set_body(a, r, body);
	return a;
}

void net_reply_http(struct net_request *r, int status, const struct net_header *headers,
		    size_t count, struct str body)
{
	request_reply(r, answer_http(r, status, headers, count, body));
}

struct answer *answer_grpc(int grpc_status, struct str message, struct str details)
{
	struct answer *a = answer_new();

	a->grpc = true;
	a->status = grpc_status;
	grpc_message_encode(&a->message, message);
	if (details.len)
		grpc_base64_encode(&a->details, details);
	return a;
}

void net_reply_grpc(struct net_request *r, struct str message)
{
	struct answer *a = answer_grpc(GRPC_OK, STR(""), STR(""));

	grpc_frame_append(&a->body, message);
	request_reply(r, a);
}

void net_reply_grpc_error(struct net_request *r, int grpc_status, struct str message,
			  struct str details)
{
	request_reply(r, answer_grpc(grpc_status, message, details));
}

/* Streams. */

static struct answer *stream_answer(struct net_request *r, bool *fresh)
{
	*fresh = !r->answer;
	if (*fresh) {
		r->answer = answer_grpc(GRPC_OK, STR(""), STR(""));
		r->answer->open = true;
	}
	return r->answer;
}

void grpc_stream_send(struct net_request *r, struct str message)
{
	bool fresh;

	if (!r->conn)
		return;
	grpc_frame_append(&stream_answer(r, &fresh)->body, message);
	r->conn->protocol->answer(r->conn, r);
}

void grpc_stream_finish(struct net_request *r, int grpc_status, struct str message)
{
	struct answer *a;
	bool fresh;

	if (!r->conn)
		return;
	a = stream_answer(r, &fresh);
	if (!a->open)
		return;
	a->open = false;
	a->status = grpc_status;
	grpc_message_encode(&a->message, message);
	r->conn->protocol->answer(r->conn, r);
}
