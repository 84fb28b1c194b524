/*
 * google.rpc.Status { code:1 int32, message:2 string, details:3 *Any { type_url:1 string, value:2
 * bytes } } with google.rpc.RetryInfo { retry_delay:1 google.protobuf.Duration { seconds:1 int64,
 * nanos:2 int32 } } among the details. Source: googleapis google/rpc/status.proto,
 * error_details.proto; OTLP specification, "Failures".
 */
#include "wire/otlp.h"
#include "wire/pb_reader.h"
#include "wire/pb_writer.h"

static const char retry_info_url[] = "type.googleapis.com/google.rpc.RetryInfo";
static const uint64_t ns_per_second = 1000000000;

void rpc_status_encode(struct buf *out, int code, struct str message, uint64_t retry_delay_ns)
{
	struct pb_writer w;

	pw_begin(&w, out, message.len + sizeof(retry_info_url) + 6 * PW_FIELD_MOST);
	if (retry_delay_ns) {
		pw_uint(&w, 2, retry_delay_ns % ns_per_second);
		pw_uint(&w, 1, retry_delay_ns / ns_per_second);
		pw_message(&w, 1, 0); /* RetryInfo.retry_delay */
		pw_message(&w, 2, 0); /* Any.value */
		pw_bytes(&w, 1, str_cstr(retry_info_url));
		pw_message(&w, 3, 0);
	}
	pw_bytes(&w, 2, message);
	pw_int(&w, 1, code);
	if (!pw_finish(&w))
		return; /* the buffer remembers */
}

/* protojson's form of Duration: seconds with 3, 6 or 9 digits of fraction where needed. */
static void append_duration(struct buf *out, uint64_t ns)
{
	uint64_t fraction = ns % ns_per_second;

	buf_u64(out, ns / ns_per_second);
	if (fraction % 1000)
		buf_printf(out, ".%09u", (unsigned)fraction);
	else if (fraction % 1000000)
		buf_printf(out, ".%06u", (unsigned)(fraction / 1000));
	else if (fraction)
		buf_printf(out, ".%03u", (unsigned)(fraction / 1000000));
	buf_char(out, 's');
}

void rpc_status_encode_json(struct buf *out, int code, struct str message, uint64_t retry_delay_ns)
{
	buf_lit(out, "{\"code\":");
	buf_i64(out, code);
	buf_lit(out, ",\"message\":");
	buf_json_string(out, message);
	if (retry_delay_ns) {
		buf_lit(out, ",\"details\":[{\"@type\":\"");
		buf_str(out, str_cstr(retry_info_url));
		buf_lit(out, "\",\"retryDelay\":\"");
		append_duration(out, retry_delay_ns);
		buf_lit(out, "\"}]");
	}
	buf_char(out, '}');
}

/* A delay that is negative or past what 64 bits of nanoseconds hold is none, or the longest. */
static uint64_t duration_ns(int64_t seconds, int64_t nanos)
{
	if (seconds < 0 || nanos < 0)
		return 0;
	if ((uint64_t)seconds > UINT64_MAX / ns_per_second - 1)
		return UINT64_MAX;
	return (uint64_t)seconds * ns_per_second + (uint64_t)nanos % ns_per_second;
}

static uint64_t decode_duration(struct pb_reader *r)
{
	int64_t seconds = 0, nanos = 0;

	while (pb_more(r)) {
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			seconds = (int64_t)pb_varint(r);
			break;
		case PB_TAG(2, PB_VARINT):
			nanos = (int64_t)pb_varint(r);
			break;
		default:
			pb_skip(r, tag);
		}
	}
	return duration_ns(seconds, nanos);
}

static uint64_t decode_retry_info(struct pb_reader *r)
{
	uint64_t delay_ns = 0;

	while (pb_more(r)) {
		uint32_t tag = pb_tag(r);
		struct pb_reader nested;

		if (tag != PB_TAG(1, PB_LEN)) {
			pb_skip(r, tag);
			continue;
		}
		nested = pb_message(r);
		delay_ns = decode_duration(&nested);
		pb_join(r, &nested);
	}
	return delay_ns;
}

/* The delay when the Any is a RetryInfo; any other detail is passed over. */
static void decode_detail(struct pb_reader *r, uint64_t *delay_ns)
{
	struct str type_url = { 0 }, value = { 0 };
	struct pb_reader nested;

	while (pb_more(r)) {
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_LEN):
			type_url = pb_bytes(r);
			break;
		case PB_TAG(2, PB_LEN):
			value = pb_bytes(r);
			break;
		default:
			pb_skip(r, tag);
		}
	}
	if (!str_has_suffix(type_url, STR("/google.rpc.RetryInfo")))
		return;
	nested = pb_reader_of(value);
	*delay_ns = decode_retry_info(&nested);
	pb_join(r, &nested);
}

bool rpc_status_decode(struct str body, int *code, struct str *message, uint64_t *retry_delay_ns,
		       struct err *err)
{
	struct pb_reader r = pb_reader_of(body), nested;
	struct str text = { 0 };
	uint64_t delay_ns = 0;
	int number = 0;

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			number = (int)(int32_t)pb_varint(&r);
			break;
		case PB_TAG(2, PB_LEN):
			text = pb_bytes(&r);
			break;
		case PB_TAG(3, PB_LEN):
			nested = pb_message(&r);
			decode_detail(&nested, &delay_ns);
			pb_join(&r, &nested);
			break;
		default:
			pb_skip(&r, tag);
		}
	}
	if (r.fault) {
		pb_report(&r, body.ptr, err);
		return err_prefix(err, "google.rpc.Status");
	}
	*code = number;
	*message = text;
	*retry_delay_ns = delay_ns;
	return true;
}
