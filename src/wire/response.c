/*
 * ExportProfilesServiceResponse { partial_success:1 { rejected_profiles:1 int64, error_message:2
 * string } }, the same in every version, as protobuf and as JSON.
 */
#include "wire/json_reader.h"
#include "wire/otlp.h"
#include "wire/pb_reader.h"
#include "wire/pb_writer.h"

void otlp_encode_response(struct buf *out, int64_t rejected_profiles, struct str error_message)
{
	struct pb_writer w;

	if (!rejected_profiles && !error_message.len)
		return;
	pw_begin(&w, out, error_message.len + 2 * PW_FIELD_MOST);
	pw_bytes(&w, 2, error_message);
	pw_int(&w, 1, rejected_profiles);
	pw_message(&w, 1, 0);
	if (!pw_finish(&w))
		return; /* the buffer remembers */
}

static void decode_partial_success(struct pb_reader *r, int64_t *rejected, struct str *message)
{
	while (pb_more(r)) {
		uint32_t tag = pb_tag(r);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			*rejected = (int64_t)pb_varint(r);
			break;
		case PB_TAG(2, PB_LEN):
			*message = pb_bytes(r);
			break;
		default:
			pb_skip(r, tag);
		}
	}
}

bool otlp_decode_response(struct str body, int64_t *rejected_profiles, struct str *message,
			  struct err *err)
{
	struct pb_reader r = pb_reader_of(body);
	int64_t rejected = 0;
	struct str text = { 0 };

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);
		struct pb_reader nested;

		if (tag != PB_TAG(1, PB_LEN)) {
			pb_skip(&r, tag);
			continue;
		}
		nested = pb_message(&r);
		decode_partial_success(&nested, &rejected, &text);
		pb_join(&r, &nested);
	}
	if (r.fault) {
		pb_report(&r, body.ptr, err);
		return err_prefix(err, "ExportProfilesServiceResponse");
	}
	*rejected_profiles = rejected;
	*message = text;
	return true;
}

void otlp_encode_response_json(struct buf *out, int64_t rejected_profiles, struct str error_message)
{
	if (!rejected_profiles && !error_message.len) {
		buf_lit(out, "{}");
		return;
	}
	buf_lit(out, "{\"partialSuccess\":{");
	if (rejected_profiles) {
		buf_lit(out, "\"rejectedProfiles\":\"");
		buf_i64(out, rejected_profiles);
		buf_char(out, '"');
	}
	if (error_message.len) {
		if (rejected_profiles)
			buf_char(out, ',');
		buf_lit(out, "\"errorMessage\":");
		buf_json_string(out, error_message);
	}
	buf_lit(out, "}}");
}

static void decode_partial_success_json(struct json_reader *j, int64_t *rejected,
					struct buf *message)
{
	struct str key;

	if (!json_begin_object(j))
		return;
	while (json_next_key(j, &key)) {
		if (json_key_is(key, "rejected_profiles")) {
			*rejected = json_int64(j);
		} else if (json_key_is(key, "error_message")) {
			struct str text = json_string(j);

			buf_reset(message);
			buf_str(message, text);
		} else {
			json_skip(j);
		}
	}
}

bool otlp_decode_response_json(struct str body, int64_t *rejected_profiles, struct buf *message,
			       struct err *err)
{
	struct json_reader j;
	int64_t rejected = 0;
	struct str key;
	bool ok;

	json_reader_init(&j, body, 0);
	buf_reset(message);
	if (json_begin_object(&j))
		while (json_next_key(&j, &key)) {
			if (json_key_is(key, "partial_success"))
				decode_partial_success_json(&j, &rejected, message);
			else
				json_skip(&j);
		}
	ok = json_finish(&j, err);
	json_reader_release(&j);
	if (!ok)
		return err_prefix(err, "ExportProfilesServiceResponse");
	*rejected_profiles = rejected;
	return true;
}
