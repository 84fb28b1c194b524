/* reply.c - what every answer carries, and how a refusal looks. */
#include "web/internal.h"

static const char POLICY[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
			     "'self' data:; connect-src "
			     "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

size_t web_common_headers(struct net_header headers[WEB_HEADERS_MOST])
{
	size_t n = 0;

	headers[n++] = (struct net_header){ "content-security-policy", str_cstr(POLICY) };
	headers[n++] = (struct net_header){ "x-content-type-options", STR("nosniff") };
	headers[n++] = (struct net_header){ "referrer-policy", STR("no-referrer") };
	headers[n++] = (struct net_header){ "cross-origin-resource-policy", STR("same-origin") };
	return n;
}

int web_status_of(const struct err *err)
{
	switch (err->kind) {
	case ERR_INVALID:
		return 400;
	case ERR_NOT_FOUND:
		return 404;
	case ERR_PERMISSION:
		return 403;
	case ERR_UNAUTHENTICATED:
		return 401;
	case ERR_LIMIT:
		return 422;
	case ERR_UNSUPPORTED:
		return 501;
	case ERR_BUSY:
	case ERR_UNAVAILABLE:
	case ERR_CANCELLED:
		return 503;
	case ERR_TIMEOUT:
		return 504;
	default:
		return 500;
	}
}

void web_error_body(struct buf *out, struct str what, struct str hint)
{
	buf_lit(out, "{\"error\":{\"what\":");
	buf_json_string(out, what);
	buf_lit(out, ",\"hint\":");
	buf_json_string(out, hint);
	buf_lit(out, "}}\n");
}

void web_reply_error(struct net_request *r, int status, struct str what, struct str hint,
		     const char *challenge)
{
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = web_common_headers(headers);
	struct buf body = { 0 };

	headers[count++] = (struct net_header){ "content-type", STR("application/json") };
	headers[count++] = (struct net_header){ "cache-control", STR("no-store") };
	if (status == 503)
		headers[count++] = (struct net_header){ "retry-after", STR("1") };
	if (challenge)
		headers[count++] = (struct net_header){ "www-authenticate", str_cstr(challenge) };
	web_error_body(&body, what, hint);
	net_reply_http(r, status, headers, count, buf_view(&body));
	buf_release(&body);
}
