/*
 * guard.c - who may ask: the Host must be ours (a foreign page that had its name rebound to
 * 127.0.0.1 sends its own), a POST must come from a page of ours or from no page, and a token is
 * asked for where one is set (as `Authorization: Bearer`, or the cookie that the page was given).
 */
#include <stdlib.h>
#include <string.h>

#include "web/internal.h"

/* "[::1]:4040" -> "[::1]", "host:80" -> "host". */
static struct str without_port(struct str host)
{
	ptrdiff_t colon;

	if (host.len && host.ptr[0] == '[') {
		ptrdiff_t close = str_find(host, ']');

		return close < 0 ? host : str_head(host, (size_t)close + 1);
	}
	colon = str_find(host, ':');
	return colon < 0 ? host : str_head(host, (size_t)colon);
}

static bool listed(struct str name, struct str list)
{
	struct str one;

	while (str_split(&list, ',', &one))
		if (str_equal_nocase(str_trim(one), name))
			return true;
	return false;
}

static bool is_loopback(struct str host)
{
	return str_is(host, "localhost") || str_is(host, "[::1]") ||
	       str_has_prefix(host, STR("127."));
}

void web_guard_init(struct web_guard *g, const struct web_options *options)
{
	struct str host = without_port(str_cstr(options->address));
	struct buf list = { 0 };
	size_t len;

	buf_lit(&list, "localhost,127.0.0.1,[::1],");
	buf_str(&list, host);
	if (options->allowed_hosts) {
		buf_char(&list, ',');
		buf_str(&list, str_cstr(options->allowed_hosts));
	}
	buf_char(&list, '\0');
	*g = (struct web_guard){
		.hosts = buf_take(&list, &len),
		.token = options->token,
		.any_host = !is_loopback(host) && !options->allowed_hosts,
	};
}

void web_guard_release(struct web_guard *g)
{
	free(g->hosts);
	g->hosts = NULL;
}

/* In a time that does not tell how much of it was right. */
static bool same_secret(struct str given, struct str wanted)
{
	unsigned char differs = given.len != wanted.len;

	for (size_t i = 0; i < given.len && wanted.len; i++)
		differs |= (unsigned char)given.ptr[i] ^ (unsigned char)wanted.ptr[i % wanted.len];
	return !differs;
}

static bool cookie_holds(struct str cookies, struct str token)
{
	struct str one;

	while (str_split(&cookies, ';', &one)) {
		one = str_trim(one);
		if (str_has_prefix(one, STR("flametap=")) && same_secret(str_skip(one, 9), token))
			return true;
	}
	return false;
}

static bool token_given(const struct net_request *r, struct str token)
{
	struct str authorization = net_request_header(r, "authorization");

	if (authorization.len > 7 && str_equal_nocase(str_head(authorization, 7), STR("bearer ")) &&
	    same_secret(str_skip(authorization, 7), token))
		return true;
	return cookie_holds(net_request_header(r, "cookie"), token);
}

static bool foreign_origin(const struct web_guard *g, const struct net_request *r)
{
	struct str origin = net_request_header(r, "origin");
	ptrdiff_t scheme = str_search(origin, STR("://"));

	if (!origin.ptr)
		return false; /* no page: curl, go tool pprof */
	if (scheme < 0)
		return true; /* "null" */
	return !listed(without_port(str_skip(origin, (size_t)scheme + 3)), str_cstr(g->hosts));
}

int web_guard_check(const struct web_guard *g, const struct net_request *r, const char **why)
{
	struct str host = net_request_header(r, "host");

	if (!host.ptr)
		host = net_request_header(r, ":authority");
	if (!g->any_host && !listed(without_port(host), str_cstr(g->hosts))) {
		*why = "the Host header names another machine; --web-hosts allows further names";
		return 421;
	}
	if (!str_is(net_request_method(r), "GET") && foreign_origin(g, r)) {
		*why = "the request comes from a foreign page (Origin)";
		return 403;
	}
	if (g->token && !token_given(r, str_cstr(g->token))) {
		*why = "a token is needed: open the URL that flametap printed, or send "
		       "Authorization: Bearer";
		return 401;
	}
	return 0;
}

bool web_guard_let_in(const struct web_guard *g, const struct net_request *r, struct err *err)
{
	const char *why;
	int status = web_guard_check(g, r, &why);

	return !status ||
	       err_set(err, status == 401 ? ERR_UNAUTHENTICATED : ERR_PERMISSION, "%s", why);
}
