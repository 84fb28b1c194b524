/*
 * guard.c - who may ask: the Host must be ours (a foreign page that had its name rebound to
 * 127.0.0.1 sends its own), a POST must come from our own page or from no page, and where secrets
 * are set, one of them is asked for: a token (as `Authorization: Bearer`, or the cookie that the
 * page was given for it), a user's password (Basic), a token of a file (Bearer).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "web/internal.h"
#include "web/proto_json.h"

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

	while (name.len && str_split(&list, ',', &one))
		if (str_equal_nocase(str_trim(one), name))
			return true;
	return false;
}

/* Its port: "" where it names none. */
static struct str port_of(struct str host)
{
	struct str rest = str_skip(host, without_port(host).len);

	return rest.len && rest.ptr[0] == ':' ? str_skip(rest, 1) : (struct str){ 0 };
}

static bool is_loopback(struct str host)
{
	return str_is(host, "localhost") || str_is(host, "[::1]") ||
	       str_has_prefix(host, STR("127."));
}

/* ---- the files of secrets ---- */

enum { FILE_BYTES_MOST = 1 << 20 };

static bool read_secrets(const char *path, char **out, struct err *err)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = calloc(1, FILE_BYTES_MOST + 1);
	ssize_t n = fd < 0 ? -1 : read(fd, text, FILE_BYTES_MOST);

	if (n < 0) {
		free(text);
		return err_set_errno(err, "%s", path);
	}
	text[n] = 0;
	if (strlen(text) != (size_t)n || n == FILE_BYTES_MOST) {
		free(text);
		return err_set(err, ERR_INVALID, "%s holds a NUL byte, or a MiB and more", path);
	}
	*out = text;
	return true;
}

/* A line of it, without comments and spaces around; false at the end. */
static bool next_secret(struct str *rest, struct str *out)
{
	while (str_split(rest, '\n', out)) {
		*out = str_trim(*out);
		if (out->len && out->ptr[0] != '#')
			return true;
	}
	return false;
}

static bool has_secrets(const char *text, const char *path, bool pairs, struct err *err)
{
	struct str rest = str_cstr(text), one;
	unsigned count = 0;

	for (; next_secret(&rest, &one); count++)
		if (pairs && str_find(one, ':') <= 0)
			return err_set(err, ERR_INVALID,
				       "%s: entry %u is not of the form user:password", path,
				       count + 1);
	return count || err_set(err, ERR_INVALID, "%s holds no entry", path);
}

bool web_guard_reload(struct web_guard *g, struct err *err)
{
	const struct web_options *o = g->options;
	char *basic = NULL, *bearer = NULL, *old;
	bool ok = (!o->basic_file || (read_secrets(o->basic_file, &basic, err) &&
				      has_secrets(basic, o->basic_file, true, err))) &&
		  (!o->bearer_file || (read_secrets(o->bearer_file, &bearer, err) &&
				       has_secrets(bearer, o->bearer_file, false, err)));

	if (ok) {
		pthread_rwlock_wrlock(&g->lock);
		old = g->basic;
		g->basic = basic;
		basic = old;
		old = g->bearer;
		g->bearer = bearer;
		bearer = old;
		pthread_rwlock_unlock(&g->lock);
	}
	free(basic);
	free(bearer);
	return ok;
}

bool web_is_loopback(const char *address)
{
	return is_loopback(without_port(str_cstr(address)));
}

bool web_guard_init(struct web_guard *g, const struct web_options *options, struct err *err)
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
		.options = options,
		.any_host = !is_loopback(host) && !options->allowed_hosts,
		.challenge = options->basic_file ? "Basic realm=\"flametap\", charset=\"UTF-8\""
						 : "Bearer realm=\"flametap\"",
	};
	pthread_rwlock_init(&g->lock, NULL);
	return web_guard_reload(g, err);
}

void web_guard_release(struct web_guard *g)
{
	if (!g->hosts)
		return;
	pthread_rwlock_destroy(&g->lock);
	free(g->hosts);
	free(g->basic);
	free(g->bearer);
	g->hosts = NULL;
}

/* ---- what is shown ---- */

/* In a time that does not tell how much of it was right. */
static bool same_secret(struct str given, struct str wanted)
{
	unsigned char differs = given.len != wanted.len;

	for (size_t i = 0; i < given.len && wanted.len; i++)
		differs |= (unsigned char)given.ptr[i] ^ (unsigned char)wanted.ptr[i % wanted.len];
	return !differs;
}

/* Cookies are a host's, whatever the port: two pages on one host have one each. */
static void put_cookie_name(struct buf *b, const struct web_options *options)
{
	const char *colon = options->address ? strrchr(options->address, ':') : NULL;

	buf_printf(b, "flametap_%s=", colon ? colon + 1 : "");
}

static bool cookie_holds(struct str cookies, const struct web_options *options)
{
	AUTO(buf_release) struct buf name = { 0 };
	struct str one;

	put_cookie_name(&name, options);

	while (str_split(&cookies, ';', &one)) {
		one = str_trim(one);
		if (str_has_prefix(one, buf_view(&name)) &&
		    same_secret(str_skip(one, name.len), str_cstr(options->token)))
			return true;
	}
	return false;
}

/* All lines are looked at, so that the time tells nothing. */
static bool is_listed_secret(const char *text, struct str given)
{
	struct str rest = str_cstr(text), one;
	bool found = false;

	while (text && next_secret(&rest, &one))
		found |= same_secret(given, one);
	return found;
}

/* What stands behind the scheme, or nothing. */
static struct str credentials(const struct net_request *r, struct str scheme)
{
	struct str value = net_request_header(r, "authorization");

	if (value.len <= scheme.len || !str_equal_nocase(str_head(value, scheme.len), scheme))
		return (struct str){ 0 };
	return str_trim(str_skip(value, scheme.len));
}

static bool basic_given(const struct web_guard *g, const struct net_request *r)
{
	struct str packed = credentials(r, STR("basic "));
	struct buf plain = { 0 };
	bool ok = packed.len && base64_decode(packed, &plain) &&
		  is_listed_secret(g->basic, buf_view(&plain));

	buf_release(&plain);
	return ok;
}

static bool secret_given(struct web_guard *g, const struct net_request *r)
{
	struct str bearer = credentials(r, STR("bearer "));
	struct str token = str_cstr(g->options->token);
	bool ok;

	if (token.len && ((bearer.len && same_secret(bearer, token)) ||
			  cookie_holds(net_request_header(r, "cookie"), g->options)))
		return true;
	pthread_rwlock_rdlock(&g->lock);
	ok = (bearer.len && is_listed_secret(g->bearer, bearer)) || basic_given(g, r);
	pthread_rwlock_unlock(&g->lock);
	return ok;
}

static bool wants_secret(const struct web_options *o)
{
	return o->token || o->basic_file || o->bearer_file;
}

/* RFC 9112, 3.2; RFC 9113, 8.3.1 */
static struct str host_of(const struct net_request *r)
{
	struct str host = net_request_header(r, "host");

	return host.ptr ? host : net_request_header(r, ":authority");
}

/* Both name the same port: one that is not named is the scheme's (RFC 6454, 4). */
static bool same_port(struct str a, struct str b, bool tls)
{
	struct str usual = tls ? STR("443") : STR("80");

	return str_equal(a.len ? a : usual, b.len ? b : usual);
}

/*
 * A page is ours when it was opened at the address that this request names: the host of Origin is
 * that of Host, which was found to be ours, with scheme and port. What stands before us may end TLS
 * and even give Host another name: https is taken where we speak plain on no loopback name, and a
 * name of allowed_hosts wherever it stands at its scheme's usual port or at ours.
 */
static bool foreign_origin(const struct web_guard *g, const struct net_request *r)
{
	struct str origin = net_request_header(r, "origin"), host = host_of(r);
	bool tls = g->options->tls_cert_file != NULL;
	bool https = str_has_prefix(origin, STR("https://"));
	struct str page, port;

	if (!origin.ptr)
		return false; /* no page: curl, go tool pprof */
	if (!https && !str_has_prefix(origin, STR("http://")))
		return true; /* "null" */
	page = str_skip(origin, https ? 8 : 7);
	port = port_of(page);
	if (g->options->allowed_hosts &&
	    listed(without_port(page), str_cstr(g->options->allowed_hosts)))
		return !same_port(port, (struct str){ 0 }, https) &&
		       !same_port(port, port_of(host), https);
	if (!str_equal_nocase(without_port(page), without_port(host)) ||
	    !same_port(port, port_of(host), https))
		return true;
	return https != tls && (tls || is_loopback(without_port(host)));
}

bool web_guard_hosts(const struct web_guard *g, const struct net_request *r)
{
	return g->any_host || listed(without_port(host_of(r)), str_cstr(g->hosts));
}

int web_guard_check(struct web_guard *g, const struct net_request *r, const char **why)
{
	if (!web_guard_hosts(g, r)) {
		*why = "the Host header names another machine; --allow-host allows further names";
		return 421;
	}
	if (!str_is(net_request_method(r), "GET") && foreign_origin(g, r)) {
		*why = "the request comes from a foreign page (Origin)";
		return 403;
	}
	if (wants_secret(g->options) && !secret_given(g, r)) {
		*why = g->options->token
			       ? "a token is needed: open the URL that flametap printed, or send "
				 "Authorization: Bearer"
			       : "credentials are needed: send Authorization";
		return 401;
	}
	return 0;
}

bool web_guard_let_in(struct web_guard *g, const struct net_request *r, struct err *err)
{
	const char *why;
	int status = web_guard_check(g, r, &why);

	return !status ||
	       err_set(err, status == 401 ? ERR_UNAUTHENTICATED : ERR_PERMISSION, "%s", why);
}

#define SIGN_IN_STYLE                                                                  \
	"body{margin:0;min-height:100vh;display:grid;place-items:center;background:li" \
	"ght-dark(#fbfaf7,#191a1c);color:light-dark(#1d1c1a,#e9e6e0);font:15px/1.5 sy" \
	"stem-ui,sans-serif}main{max-width:26rem;padding:1.5rem}h1{font-size:1.25rem;" \
	"margin:0;color:light-dark(#a8470b,#ffb067)}form{display:grid;grid-template-c" \
	"olumns:1fr auto;gap:.25rem .5rem}label{grid-column:1/3}input,button{font:inh" \
	"erit;padding:.4rem .6rem;border:1px solid light-dark(#8a857b,#8b8982);border" \
	"-radius:4px;background:none;color:inherit}"
/* base64 of SIGN_IN_STYLE's SHA-256: tests/test_auth.py counts it again */
#define SIGN_IN_HASH "XoAp+mO/8+nlju7FJ0a7pM8v9a7PtXM0LQzcn1panKM="

/* A person who opened the address without its token: where it is asked for, in a form that leads to
 * ?token=. */
static const char SIGN_IN[] =
	"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<meta name=\"color-scheme\" content=\"light dark\">\n<title>flametap: sign in</title>\n"
	"<style>" SIGN_IN_STYLE "</style>\n</head>\n<body>\n<main>\n<h1>flametap</h1>\n"
	"<p>This page wants its token: it stands in the URL that <code>flametap up</code> "
	"printed.</p>\n"
	"<form action=\"/\" method=\"get\">\n<label for=\"token\">Token</label>\n"
	"<input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"current-password\" "
	"required autofocus>\n<button>Open</button>\n</form>\n</main>\n</body>\n</html>\n";

static bool wants_page(const struct web_guard *g, const struct net_request *r)
{
	return g->options->token && str_is(net_request_method(r), "GET") &&
	       str_search(net_request_header(r, "accept"), STR("text/html")) >= 0;
}

static void ask_token(const struct web_guard *g, struct net_request *r)
{
	const struct net_header headers[] = {
		{ "content-type", STR("text/html; charset=utf-8") },
		{ "content-security-policy",
		  STR("default-src 'none'; style-src 'sha256-" SIGN_IN_HASH
		      "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'") },
		{ "x-content-type-options", STR("nosniff") },
		{ "referrer-policy", STR("no-referrer") },
		{ "cache-control", STR("no-store") },
		{ "www-authenticate", str_cstr(g->challenge) },
	};

	net_reply_http(r, 401, headers, ARRAY_LEN(headers), str_cstr(SIGN_IN));
}

void web_guard_refuse(const struct web_guard *g, struct net_request *r, int status, const char *why)
{
	if (status == 401 && wants_page(g, r)) {
		ask_token(g, r);
		return;
	}
	web_reply_error(r, status, str_cstr(why), (struct str){ 0 },
			status == 401 ? g->challenge : NULL);
}

/* The query without `token`; *given is its value. */
static void without_token(struct str query, struct buf *out, struct str *given)
{
	struct str pair;

	while (str_split(&query, '&', &pair)) {
		if (str_has_prefix(pair, STR("token="))) {
			*given = str_skip(pair, 6);
			continue;
		}
		buf_char(out, out->len ? '&' : '?');
		buf_str(out, pair);
	}
}

/* A path that begins with two slashes would be another machine's. */
static bool is_own_path(struct str path)
{
	return path.len && path.ptr[0] == '/' &&
	       (path.len == 1 || (path.ptr[1] != '/' && path.ptr[1] != '\\'));
}

bool web_guard_exchange(const struct web_guard *g, struct net_request *r)
{
	struct str token = str_cstr(g->options->token), path = net_request_path(r), given = { 0 };
	AUTO(buf_release) struct buf query = { 0 }, location = { 0 }, cookie = { 0 };
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = web_common_headers(headers);

	if (!token.len || !str_is(net_request_method(r), "GET") || !is_own_path(path))
		return false;
	without_token(net_request_query(r), &query, &given);
	if (!given.ptr || !same_secret(given, token))
		return false;
	buf_str(&location, path);
	buf_str(&location, buf_view(&query));
	put_cookie_name(&cookie, g->options);
	buf_printf(&cookie, "%s; Path=/; HttpOnly; SameSite=Strict%s", g->options->token,
		   g->options->tls_cert_file ? "; Secure" : "");
	headers[count++] = (struct net_header){ "location", buf_view(&location) };
	headers[count++] = (struct net_header){ "set-cookie", buf_view(&cookie) };
	headers[count++] = (struct net_header){ "cache-control", STR("no-store") };
	net_reply_http(r, 303, headers, count, (struct str){ 0 });
	return true;
}
