/* route.c - which handler an HTTP request goes to, and the answers when there is none: 404, 405,
 * 415. */
#include "base/cleanup.h"
#include "net/server_internal.h"

static bool route_matches(const struct route *route, struct str path)
{
	if (route->prefix)
		return str_has_prefix(path, str_from(route->path, route->path_len));
	return str_equal(path, str_from(route->path, route->path_len));
}

static bool route_takes_method(const struct route *route, const struct net_request *r)
{
	if (!route->method || str_is(r->method, route->method))
		return true;
	return str_is(r->method, "HEAD") && !strcmp(route->method, "GET");
}

static bool route_takes_type(const struct route *route, const struct net_request *r)
{
	struct str type = header_list_find(&r->headers, STR("content-type"));
	struct str list = str_cstr(route->content_types), item;
	ptrdiff_t semicolon = str_find(type, ';');

	if (!route->content_types)
		return true;
	if (semicolon >= 0)
		type = str_head(type, (size_t)semicolon);
	type = str_trim(type);
	while (str_split(&list, ',', &item))
		if (str_equal_nocase(str_trim(item), type))
			return true;
	return false;
}

/* Of the same path as the most specific one. */
static bool is_rival(const struct route *route, const struct route *best)
{
	return route->prefix == best->prefix && route->path_len == best->path_len;
}

static void add_method(struct buf *allow, struct str method)
{
	struct str list = buf_view(allow), one;

	while (str_split(&list, ',', &one))
		if (str_equal(str_trim(one), method))
			return;
	if (allow->len)
		buf_lit(allow, ", ");
	buf_str(allow, method);
}

static void refuse_method(struct net_request *r, const struct route *best)
{
	struct buf allow, text;

	buf_init(&allow, 0);
	buf_init(&text, 0);
	for (uint32_t i = 0; i < r->app->route_count; i++) {
		const struct route *route = &r->app->routes[i];

		if (!route_matches(route, r->path) || !is_rival(route, best))
			continue;
		add_method(&allow, str_cstr(route->method));
		if (!strcmp(route->method, "GET"))
			add_method(&allow, STR("HEAD"));
	}
	buf_printf(&text, "405 method not allowed, supported: [%.*s]", STR_ARG(buf_view(&allow)));
	request_refuse_method(r, buf_view(&allow), buf_view(&text));
	buf_release(&allow);
	buf_release(&text);
}

static void refuse_type(struct net_request *r, const struct route *route)
{
	struct str list = str_cstr(route->content_types), item;
	struct buf text;

	buf_init(&text, 0);
	buf_lit(&text, "415 unsupported media type, supported: [");
	for (bool first = true; str_split(&list, ',', &item); first = false) {
		if (!first)
			buf_lit(&text, ", ");
		buf_str(&text, str_trim(item));
	}
	buf_lit(&text, "]");
	request_refuse(r, REFUSED_MEDIA_TYPE, 415, GRPC_UNIMPLEMENTED, "%.*s",
		       STR_ARG(buf_view(&text)));
	buf_release(&text);
}

/* The most specific route: an exact one, else the longest prefix; of several with that path the one
 * that takes the method. */
static const struct route *route_find(const struct net_request *r)
{
	const struct route *best = NULL;

	for (uint32_t i = 0; i < r->app->route_count; i++) {
		const struct route *route = &r->app->routes[i];

		if (!route_matches(route, r->path))
			continue;
		if (!best ||
		    (best->prefix && (!route->prefix || route->path_len > best->path_len)) ||
		    (is_rival(route, best) && !route_takes_method(best, r)))
			best = route;
	}
	return best;
}

bool route_request(struct net_request *r)
{
	const struct route *route = route_find(r);

	if (!route) {
		request_refuse(r, REFUSED_NOT_FOUND, 404, GRPC_UNIMPLEMENTED, "404 page not found");
		return false;
	}
	if (!route_takes_method(route, r)) {
		refuse_method(r, route);
		return false;
	}
	if (!route_takes_type(route, r)) {
		refuse_type(r, route);
		return false;
	}
	r->handler = route->handler;
	return true;
}
