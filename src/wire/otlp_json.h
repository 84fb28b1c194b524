/*
 * otlp_json.h - OTLP/JSON <-> the model (newest schema; older spellings of its keys are read too).
 *
 * OTLP/JSON is proto3 JSON with deviations (OTLP spec, "JSON Protobuf Encoding"): trace, span and
 * profile ids in hex, enums as integers, 64-bit integers as decimal strings (read as string or
 * number), unknown keys ignored (here: counted). snake_case keys, protojson's base64 ids and bytes,
 * null as default and NaN/Infinity as strings are read as well.
 */
#pragma once
#include "wire/otlp.h"

/* True when the first byte that is not white space is '{', or a '[' of an array. */
bool otlp_looks_like_json(struct str body);
/* "UTF-16" or "UTF-32" of what is meant as JSON but is in neither UTF-8 nor ASCII, else NULL. JSON
 * between systems is UTF-8 (RFC 8259, 8.1); some editors and shells write the other. */
const char *otlp_json_encoding(struct str body);
bool otlp_json_check_encoding(struct str body, struct err *err) MUST_CHECK;
/*
 * True, with the reason in err, for a JSON object that has keys, but none of a request or of
 * ProfilesData. A receiver has to take it for an empty request (unknown keys are ignored); to a
 * person with a file it is the wrong file.
 */
bool otlp_json_is_foreign(struct str body, struct err *err);
bool otlp_json_decode(struct blob *body, const struct otlp_decode_options *options,
		      struct profiles **out, struct otlp_decode_report *report,
		      struct err *err) MUST_CHECK;
/* One line, no spaces, no newline at the end. */
bool otlp_json_encode(const struct profiles *p, struct buf *out, struct err *err) MUST_CHECK;
