/*
 * endpoint.h - where a client connects to, read from the spellings that users and gRPC know.
 *
 * "host:port", "[::1]:4317", "http://host:port", "https://host:port", "dns:///host:port",
 * "passthrough:///host:port", "unix:///path", "unix:path". Threads: values, no state.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

enum endpoint_kind { ENDPOINT_TCP, ENDPOINT_UNIX };
enum endpoint_scheme {
	ENDPOINT_NO_SCHEME,
	ENDPOINT_HTTP,
	ENDPOINT_HTTPS
}; /* of dns: and unix: too: no scheme */

struct endpoint {
	enum endpoint_kind kind;
	enum endpoint_scheme scheme;
	char host[256]; /* without brackets */
	uint16_t port;
	char path[108];      /* ENDPOINT_UNIX: room of sockaddr_un.sun_path */
	char authority[272]; /* "host:port", "[::1]:4317"; "localhost" for a unix socket */
};

/* ERR_INVALID says what is wrong with the text; *out stays untouched then. */
bool endpoint_parse(struct str text, struct endpoint *out, struct err *err) MUST_CHECK;
