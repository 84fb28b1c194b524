#include "net/grpc_text.h"

#include <stdio.h>
#include <nghttp2/nghttp2.h>

#include "base/cleanup.h"
#include "base/hex.h"
#include "net/server.h"

static const char *const status_names[] = {
	"OK",
	"CANCELLED",
	"UNKNOWN",
	"INVALID_ARGUMENT",
	"DEADLINE_EXCEEDED",
	"NOT_FOUND",
	"ALREADY_EXISTS",
	"PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION",
	"ABORTED",
	"OUT_OF_RANGE",
	"UNIMPLEMENTED",
	"INTERNAL",
	"UNAVAILABLE",
	"DATA_LOSS",
	"UNAUTHENTICATED",
};

const char *grpc_status_name(int status)
{
	if (status < 0 || (size_t)status >= ARRAY_LEN(status_names))
		return "UNKNOWN CODE";
	return status_names[status];
}

int grpc_status_from_http(int http_status)
{
	switch (http_status) {
	case 400:
		return GRPC_INTERNAL;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

int grpc_status_from_h2_error(uint32_t error_code)
{
	switch (error_code) {
	case NGHTTP2_REFUSED_STREAM:
		return GRPC_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return GRPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return GRPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return GRPC_PERMISSION_DENIED;
	default:
		return GRPC_INTERNAL;
	}
}

void grpc_message_decode(struct buf *out, struct str text)
{
	percent_decode(out, text);
}

void grpc_timeout_format(char out[GRPC_TIMEOUT_ROOM], uint64_t timeout_ns)
{
	static const struct {
		uint64_t ns;
		char unit;
	} units[] = {
		{ 1, 'n' },          { 1000, 'u' },        { 1000000, 'm' },
		{ 1000000000, 'S' }, { 60000000000, 'M' }, { 3600000000000, 'H' },
	};
	const uint64_t most = 99999999;
	uint64_t value = most;
	char unit = 'H';

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		uint64_t v = timeout_ns / units[i].ns + (timeout_ns % units[i].ns != 0);

		if (v <= most) {
			value = v;
			unit = units[i].unit;
			break;
		}
	}
	snprintf(out, GRPC_TIMEOUT_ROOM, "%llu%c", (unsigned long long)value, unit);
}
