/*
 * otlp.h - OTLP profiles bodies (ExportProfilesServiceRequest or ProfilesData) <-> the model, in
 * every wire version.
 *
 * Versions are told apart from the bytes (docs/wire-versions.md); the decision and its evidence
 * stay with the result. Source: opentelemetry-proto v1.3.0 to v1.11.0, profiles.proto,
 * common.proto, resource.proto.
 */
#pragma once
#include "base/blob.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/profiles.h"

enum wire_version {
	WIRE_AUTO,
	WIRE_V1_3, /* v1.3.0 .. v1.3.2, package v1experimental */
	WIRE_V1_4,
	WIRE_V1_5,
	WIRE_V1_6, /* ProfilesData files only */
	WIRE_V1_7,
	WIRE_V1_8,
	WIRE_V1_9,
	WIRE_V1_10, /* v1.10, v1.11 and main: the newest */
};
#define WIRE_NEWEST WIRE_V1_10

/* "1.3", "1.4", ... "1.10"; with `v` or a patch number also parsed ("v1.11.0" is 1.10). */
const char *wire_version_name(enum wire_version v);
bool wire_version_parse(struct str text, enum wire_version *out, struct err *err) MUST_CHECK;
/* How versions are spelled, whatever their number: 9 of "1.9", "v1.9" and "1.9.2". */
bool wire_version_minor(struct str text, uint64_t *minor) MUST_CHECK;

/* What the transport knows: the method or path. */
enum wire_hint { WIRE_HINT_NONE, WIRE_HINT_EXPERIMENTAL, WIRE_HINT_DEVELOPMENT };

struct otlp_decode_options {
	enum wire_version version; /* WIRE_AUTO: from the bytes */
	enum wire_hint hint;
	bool strict; /* a profile with a bad index is refused (profile.refused), else index 0 +
			bad_index */
	uint32_t nesting_limit;    /* of AnyValue; 0 = 64 */
	size_t memory_limit_bytes; /* of the model; 0 = 16 x body + 1 MiB, at most 1 GiB */
	bool no_fast_path;         /* tests only: the general decoders alone */
};

struct otlp_decode_report {
	enum wire_version version;
	bool version_forced;    /* by options */
	bool version_ambiguous; /* it fits several; `evidence` says what was assumed */
	char evidence[320]; /* for people: "dictionary.attribute_table entries start with a varint;
			       Sample field 3 is LEN" */
	uint32_t unknown_field_count;
	uint32_t bad_index_count;
	uint32_t refused_profiles; /* strict */
	char first_problem[240];   /* "" or: "resource_profiles[0]...samples[17].stack_index is 7,
				      stack_table has 5" */
};

/*
 * Decodes `body` (a reference is taken) into a sealed message. False when the bytes are no protobuf
 * message of that shape (ERR_INVALID) or pass a limit (ERR_LIMIT); `partial`, when not NULL, then
 * gets what could be read before the fault, sealed, or NULL.
 */
bool otlp_decode(struct blob *body, const struct otlp_decode_options *options,
		 struct profiles **out, struct otlp_decode_report *report,
		 struct profiles **partial, struct err *err) MUST_CHECK;

/* Tells the version only. False when the bytes are not protobuf at all. */
bool otlp_detect(struct str body, enum wire_hint hint, enum wire_version *version, bool *ambiguous,
		 char evidence[320], struct err *err) MUST_CHECK;

/*
 * Appends the message as an ExportProfilesServiceRequest (= ProfilesData) of a version:
 * newest, 1.9, 1.8 or 1.7 (others: ERR_UNSUPPORTED). Extras of older versions go back where that
 * version has a field for them; unknown fields are written back only into the version they came in.
 * Refused profiles are left out. References (key_strindex, string_value_strindex) are written only
 * for WIRE_V1_10 and only where they came so.
 */
bool otlp_encode(const struct profiles *p, enum wire_version version, struct buf *out,
		 struct err *err) MUST_CHECK;

/* ExportProfilesServiceResponse; rejected 0 and msg "" give an empty message. */
void otlp_encode_response(struct buf *out, int64_t rejected_profiles, struct str error_message);
/* Reads one; `message` is borrowed from the body. */
bool otlp_decode_response(struct str body, int64_t *rejected_profiles, struct str *message,
			  struct err *err) MUST_CHECK;

/* google.rpc.Status with an optional RetryInfo (retry_delay_ns 0 = none). */
void rpc_status_encode(struct buf *out, int code, struct str message, uint64_t retry_delay_ns);
void rpc_status_encode_json(struct buf *out, int code, struct str message, uint64_t retry_delay_ns);
bool rpc_status_decode(struct str body, int *code, struct str *message, uint64_t *retry_delay_ns,
		       struct err *err) MUST_CHECK;

/* The JSON form of ExportProfilesServiceResponse: {} or
 * {"partialSuccess":{"rejectedProfiles":"1","errorMessage":"..."}}. */
void otlp_encode_response_json(struct buf *out, int64_t rejected_profiles,
			       struct str error_message);
bool otlp_decode_response_json(struct str body, int64_t *rejected_profiles, struct buf *message,
			       struct err *err) MUST_CHECK;
