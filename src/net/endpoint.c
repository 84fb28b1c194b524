#include "net/endpoint.h"

#include <stdio.h>

struct scheme {
	struct str prefix;
	enum endpoint_kind kind;
	enum endpoint_scheme scheme;
	bool path_may_follow; /* a lone "/" behind the port is no fault */
};

/* The longer spelling first. */
static const struct scheme schemes[] = {
	{ { "http://", 7 }, ENDPOINT_TCP, ENDPOINT_HTTP, true },
	{ { "https://", 8 }, ENDPOINT_TCP, ENDPOINT_HTTPS, true },
	{ { "dns:///", 7 }, ENDPOINT_TCP, ENDPOINT_NO_SCHEME, false },
	{ { "dns:", 4 }, ENDPOINT_TCP, ENDPOINT_NO_SCHEME, false },
	{ { "passthrough:///", 15 }, ENDPOINT_TCP, ENDPOINT_NO_SCHEME, false },
	{ { "unix://", 7 }, ENDPOINT_UNIX, ENDPOINT_NO_SCHEME, false },
	{ { "unix:", 5 }, ENDPOINT_UNIX, ENDPOINT_NO_SCHEME, false },
};

static const struct scheme *scheme_find(struct str text)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (str_has_prefix(text, schemes[i].prefix))
			return &schemes[i];
	return NULL;
}

static bool unix_path(struct str path, struct endpoint *e, struct err *err)
{
	if (!path.len)
		return err_set(err, ERR_INVALID, "has no socket path");
	if (path.len >= sizeof(e->path))
		return err_set(err, ERR_INVALID, "has a socket path of %zu bytes, at most %zu fit",
			       path.len, sizeof(e->path) - 1);
	memcpy(e->path, path.ptr, path.len);
	snprintf(e->authority, sizeof(e->authority), "localhost");
	return true;
}

static bool host_split(struct str text, struct str *host, struct str *port, struct err *err)
{
	ptrdiff_t colon;

	if (text.len && text.ptr[0] == '[') {
		ptrdiff_t close = str_find(text, ']');

		if (close < 0)
			return err_set(err, ERR_INVALID, "has no ']' behind its address");
		*host = str_from(text.ptr + 1, (size_t)close - 1);
		text = str_skip(text, (size_t)close + 1);
		if (!text.len || text.ptr[0] != ':')
			return err_set(err, ERR_INVALID, "has no port");
		*port = str_skip(text, 1);
		return true;
	}
	colon = str_find(text, ':');
	if (colon < 0)
		return err_set(err, ERR_INVALID, "has no port");
	*host = str_head(text, (size_t)colon);
	*port = str_skip(text, (size_t)colon + 1);
	if (str_find(*port, ':') >= 0)
		return err_set(err, ERR_INVALID,
			       "has more than one ':' (an IPv6 address stands in brackets)");
	return true;
}

static bool host_valid(struct str host)
{
	for (size_t i = 0; i < host.len; i++) {
		unsigned char c = (unsigned char)host.ptr[i];

		if (c <= ' ' || c >= 0x7f || c == '/' || c == '@' || c == '?' || c == '#')
			return false;
	}
	return host.len > 0;
}

static bool tcp_address(struct str text, struct endpoint *e, struct err *err)
{
	struct str host, port;
	uint64_t number;

	if (!host_split(text, &host, &port, err))
		return false;
	if (!str_to_u64(port, &number) || number == 0 || number > UINT16_MAX)
		return err_set(err, ERR_INVALID, "has port \"%.*s\", 1 to 65535 is possible",
			       STR_ARG(port));
	if (!host_valid(host))
		return err_set(err, ERR_INVALID,
			       host.len ? "has no valid host name" : "has no host");
	if (host.len >= sizeof(e->host))
		return err_set(err, ERR_INVALID,
			       "has a host name of %zu bytes, at most %zu are possible", host.len,
			       sizeof(e->host) - 1);
	memcpy(e->host, host.ptr, host.len);
	e->port = (uint16_t)number;
	snprintf(e->authority, sizeof(e->authority), str_find(host, ':') >= 0 ? "[%s]:%u" : "%s:%u",
		 e->host, e->port);
	return true;
}

bool endpoint_parse(struct str text, struct endpoint *out, struct err *err)
{
	const struct scheme *s = scheme_find(text);
	struct str rest = s ? str_skip(text, s->prefix.len) : text;
	struct endpoint e = { 0 };
	bool ok;

	if (s) {
		e.kind = s->kind;
		e.scheme = s->scheme;
		if (s->path_may_follow && str_has_suffix(rest, STR("/")))
			rest.len--;
	} else if (str_search(text, STR("://")) >= 0) {
		return err_set(err, ERR_INVALID,
			       "endpoint \"%.*s\" has an unknown scheme (http, https, dns, "
			       "passthrough, unix are known)",
			       STR_ARG(text));
	}
	if (memchr(text.ptr ? text.ptr : "", 0, text.len))
		return err_set(err, ERR_INVALID, "endpoint holds a NUL byte");
	ok = e.kind == ENDPOINT_UNIX ? unix_path(rest, &e, err) : tcp_address(rest, &e, err);
	if (!ok)
		return err_set(err, ERR_INVALID, "endpoint \"%.*s\" %s", STR_ARG(text), err->msg);
	*out = e;
	return true;
}
