#include "net/net_refusal.h"

static const char *const refusal_names[REFUSED_COUNT] = {
	[REFUSED_CONNECTIONS] = "too_many_connections",
	[REFUSED_FILES] = "no_file_descriptor",
	[REFUSED_TLS] = "tls",
	[REFUSED_BAD_REQUEST] = "bad_request",
	[REFUSED_VERSION] = "http_version",
	[REFUSED_HEADERS_TOO_LARGE] = "headers_too_large",
	[REFUSED_HEAD_TIMEOUT] = "header_timeout",
	[REFUSED_BODY_TIMEOUT] = "body_timeout",
	[REFUSED_BODY_CUT] = "body_cut",
	[REFUSED_NOT_FOUND] = "not_found",
	[REFUSED_METHOD] = "method",
	[REFUSED_MEDIA_TYPE] = "media_type",
	[REFUSED_ENCODING] = "encoding",
	[REFUSED_EXPECTATION] = "expectation",
	[REFUSED_UNKNOWN_METHOD] = "unknown_method",
	[REFUSED_TOO_LARGE] = "too_large",
	[REFUSED_BAD_COMPRESSION] = "bad_compression",
	[REFUSED_BAD_FRAME] = "bad_frame",
	[REFUSED_NO_MEMORY] = "no_memory",
	[REFUSED_DEADLINE] = "deadline",
	[REFUSED_ABUSE] = "abuse",
	[REFUSED_PROTOCOL] = "protocol",
	[REFUSED_STALLED] = "stalled",
};

const char *net_refusal_name(enum net_refusal reason)
{
	return refusal_names[reason];
}

static const char *const late_names[LATE_COUNT] = {
	[LATE_PEER_GONE] = "peer_gone",
	[LATE_DEADLINE] = "deadline",
	[LATE_CLOSED] = "closed",
};

const char *net_late_name(enum net_late reason)
{
	return late_names[reason];
}
