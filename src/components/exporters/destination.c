#include "components/exporters/destination.h"

#include <string.h>

/* Where one of these characters first stands; the length if none does. */
static size_t find_any(struct str s, const char *chars)
{
	for (size_t i = 0; i < s.len; i++)
		if (strchr(chars, s.ptr[i]))
			return i;
	return s.len;
}

/* As Go's net.SplitHostPort: one colon, but for an address in brackets; the port is a number. */
static bool split_host_port(struct str s, struct component_destination *out)
{
	struct str host, rest;
	size_t end;

	if (str_has_prefix(s, STR("["))) {
		end = find_any(s, "]");
		if (end == s.len)
			return false;
		host = str_skip(str_head(s, end), 1);
		rest = str_skip(s, end + 1);
	} else {
		end = find_any(s, ":");
		host = str_head(s, end);
		rest = str_skip(s, end);
	}
	if (!str_has_prefix(rest, STR(":")))
		return false;
	rest = str_skip(rest, 1);
	for (size_t i = 0; i < rest.len; i++)
		if (rest.ptr[i] < '0' || rest.ptr[i] > '9')
			return false;
	out->address = host;
	out->port = rest;
	return true;
}

struct component_destination destination_of_endpoint(struct str endpoint)
{
	struct component_destination d = { .address = endpoint };

	split_host_port(endpoint, &d);
	return d;
}

struct component_destination destination_of_url(struct str url)
{
	ssize_t scheme = str_search(url, STR("://"));
	struct str rest = scheme < 0 ? url : str_skip(url, (size_t)scheme + 3);
	struct str authority = str_head(rest, find_any(rest, "/?#"));
	struct str path = str_skip(rest, authority.len);
	struct component_destination d = { 0 };
	size_t at = find_any(authority, "@");

	if (at < authority.len) /* a user's name is no address */
		authority = str_skip(authority, at + 1);
	if (!split_host_port(authority, &d)) {
		d.address = authority;
		if (str_has_prefix(authority, STR("[")) && str_has_suffix(authority, STR("]")))
			d.address = str_skip(str_head(authority, authority.len - 1), 1);
	}
	d.path = str_head(path, find_any(path, "?#"));
	return d;
}
