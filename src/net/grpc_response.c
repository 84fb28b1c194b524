#include "net/grpc_response.h"

#include <stdarg.h>
#include <stdio.h>
#include <nghttp2/nghttp2.h>
#include "base/base64.h"
#include "net/grpc_text.h"
#include "net/server.h"

enum {
	TEXT_LIMIT_BYTES = 1024, /* of an answer that is no gRPC */
	MESSAGE_LIMIT_BYTES = 8192,
	DETAILS_LIMIT_BYTES = 16384,
	GRPC_STATUS_MOST = 16,
};

void grpc_response_init(struct grpc_response *r, size_t limit_bytes)
{
	*r = (struct grpc_response){ .limit_bytes = limit_bytes, .encoding_known = true };
	buf_init(&r->message, 0);
	buf_init(&r->details, 0);
	buf_init(&r->body, 0);
}

void grpc_response_release(struct grpc_response *r)
{
	buf_release(&r->message);
	buf_release(&r->details);
	buf_release(&r->body);
	blob_unref(r->decompressed);
	r->decompressed = NULL;
}

static bool response_fault(struct grpc_response *r, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static bool response_fault(struct grpc_response *r, int status, const char *format, ...)
{
	va_list ap;

	if (r->fault)
		return false;
	r->fault = status;
	va_start(ap, format);
	vsnprintf(r->fault_text, sizeof(r->fault_text), format, ap);
	va_end(ap);
	return false;
}

static void copy_text(char *out, size_t room, struct str value)
{
	snprintf(out, room, "%.*s", STR_ARG(value));
}

static void header_status(struct grpc_response *r, struct str value)
{
	uint64_t status;

	r->has_status = true;
	if (str_to_u64(value, &status) && status <= GRPC_STATUS_MOST)
		r->status = (int)status;
	else
		r->status = GRPC_UNKNOWN;
}

static void header_encoding(struct grpc_response *r, struct str value)
{
	copy_text(r->encoding_name, sizeof(r->encoding_name), value);
	r->encoding_known = compression_parse(value, &r->encoding);
}

/* application/grpc, application/grpc+proto, application/grpc;charset=...; not application/grpc-web.
 */
static bool is_grpc_type(struct str value)
{
	struct str rest;

	if (!str_has_prefix(value, STR("application/grpc")))
		return false;
	rest = str_skip(value, sizeof("application/grpc") - 1);
	return !rest.len || rest.ptr[0] == '+' || rest.ptr[0] == ';';
}

static void header_http_status(struct grpc_response *r, struct str value)
{
	uint64_t status;

	if (str_to_u64(value, &status) && status >= 100 && status <= 999)
		r->http_status = (int)status;
}

void grpc_response_header(struct grpc_response *r, struct str name, struct str value)
{
	if (str_is(name, ":status")) {
		header_http_status(r, value);
	} else if (str_is(name, "content-type")) {
		copy_text(r->content_type, sizeof(r->content_type), value);
		r->is_grpc = is_grpc_type(value);
	} else if (str_is(name, "grpc-status")) {
		header_status(r, value);
	} else if (str_is(name, "grpc-message")) {
		buf_reset(&r->message);
		grpc_message_decode(&r->message, str_head(value, MESSAGE_LIMIT_BYTES));
	} else if (str_is(name, "grpc-status-details-bin")) {
		buf_reset(&r->details);
		if (value.len > DETAILS_LIMIT_BYTES || !base64_decode(value, &r->details))
			buf_reset(&r->details); /* details that cannot be read are no details: the
						   status stands */
	} else if (str_is(name, "grpc-encoding")) {
		header_encoding(r, value);
	}
}

/* The 5 bytes before a message; takes from *bytes what belongs to them. */
static bool data_prefix(struct grpc_response *r, struct str *bytes)
{
	while (r->prefix_len < sizeof(r->prefix) && bytes->len) {
		r->prefix[r->prefix_len++] = (uint8_t)bytes->ptr[0];
		*bytes = str_skip(*bytes, 1);
	}
	if (r->prefix_len < sizeof(r->prefix))
		return true;
	r->message_len = (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 |
			 (uint32_t)r->prefix[3] << 8 | r->prefix[4];
	if (r->prefix[0] > 1)
		return response_fault(r, GRPC_INTERNAL,
				      "the answer's compressed flag is %u, 0 or 1 is possible",
				      r->prefix[0]);
	if (r->message_len > r->limit_bytes)
		return response_fault(r, GRPC_RESOURCE_EXHAUSTED,
				      "the answer has %u bytes, the limit here is %zu",
				      r->message_len, r->limit_bytes);
	return true;
}

bool grpc_response_data(struct grpc_response *r, struct str bytes)
{
	if (r->fault)
		return false;
	if (!r->is_grpc || (r->http_status != 0 && r->http_status != 200)) {
		if (r->body.len < TEXT_LIMIT_BYTES)
			buf_str(&r->body, str_head(bytes, TEXT_LIMIT_BYTES - r->body.len));
		return true;
	}
	if (r->prefix_len < sizeof(r->prefix) && !data_prefix(r, &bytes))
		return false;
	if (bytes.len > r->message_len - r->body.len)
		return response_fault(r, GRPC_INTERNAL,
				      "the answer to a unary call holds more than one message");
	buf_str(&r->body, bytes);
	return true;
}

static void finish_fault(struct grpc_response *r, struct client_result *out)
{
	out->ok = false;
	out->grpc_status = r->fault;
	out->message = str_cstr(r->fault_text);
	out->details = (struct str){ 0 };
	out->body = (struct str){ 0 };
}

static void finish_not_grpc(struct grpc_response *r, struct client_result *out)
{
	struct buf text;

	buf_init(&text, 0);
	buf_printf(&text, "HTTP status %d with content-type \"%s\" instead of gRPC", r->http_status,
		   r->content_type);
	if (r->body.len) {
		buf_lit(&text, ": ");
		buf_str(&text, str_trim(buf_view(&r->body)));
	}
	buf_reset(&r->message);
	buf_str(&r->message, buf_view(&text));
	buf_release(&text);
	out->grpc_status = grpc_status_from_http(r->http_status);
	out->http_status = r->http_status;
	out->message = buf_view(&r->message);
	out->details = buf_view(&r->body);
}

static void finish_without_status(struct grpc_response *r, uint32_t code, struct client_result *out)
{
	if (code == NGHTTP2_NO_ERROR)
		response_fault(r, GRPC_INTERNAL, "the peer ended the call without a grpc-status");
	else
		response_fault(r, grpc_status_from_h2_error(code),
			       "the peer reset the call with HTTP/2 error %s",
			       nghttp2_http2_strerror(code));
	finish_fault(r, out);
}

static bool response_decompress(struct grpc_response *r)
{
	struct err err = { 0 };

	if (!r->encoding_known)
		return response_fault(r, GRPC_INTERNAL,
				      "the answer is compressed with \"%s\", which was not offered",
				      r->encoding_name);
	if (r->encoding == COMPRESSION_NONE)
		return response_fault(
			r, GRPC_INTERNAL,
			"the answer is marked as compressed, but no grpc-encoding is given");
	r->decompressed = decompress(r->encoding, buf_view(&r->body), r->limit_bytes, &err);
	if (!r->decompressed)
		return response_fault(
			r, err.kind == ERR_LIMIT ? GRPC_RESOURCE_EXHAUSTED : GRPC_INTERNAL,
			"decompressing the answer: %.160s", err.msg);
	return true;
}

static void finish_ok(struct grpc_response *r, struct client_result *out)
{
	if (r->prefix_len && (r->prefix_len < sizeof(r->prefix) || r->body.len < r->message_len))
		response_fault(r, GRPC_INTERNAL, "the answer is cut short: %zu of %u bytes came",
			       r->body.len, r->message_len);
	else if (r->prefix_len && r->prefix[0] == 1 && r->message_len)
		(void)response_decompress(r);
	if (r->fault) {
		finish_fault(r, out);
		return;
	}
	out->ok = true;
	out->body = r->decompressed ? blob_view(r->decompressed) : buf_view(&r->body);
}

void grpc_response_finish(struct grpc_response *r, uint32_t h2_error_code,
			  struct client_result *out)
{
	*out = (struct client_result){ .sent = true };
	if (r->fault) {
		finish_fault(r, out);
	} else if (r->has_status) { /* whatever else the HTTP part says */
		out->grpc_status = r->status;
		out->message = buf_view(&r->message);
		out->details = buf_view(&r->details);
		if (r->status == GRPC_OK)
			finish_ok(r, out);
	} else if (r->http_status && (r->http_status != 200 || !r->is_grpc)) {
		finish_not_grpc(r, out);
	} else {
		finish_without_status(r, h2_error_code, out);
	}
}
