/*
 * decode_output.h - where decode's messages go: one of its formats, on standard output.
 *
 * Format otlp writes one body as it is; several are written each behind 4 bytes of big-endian
 * length, as the Collector's file exporter does and decode reads. Format folded shows one sample
 * type, as values of several (samples, nanoseconds) can't stand in one graph: the first that has
 * samples, unless some are asked for; what was left out is said on stderr.
 */
#pragma once
#include "base/err.h"
#include "model/profiles.h"
#include "wire/otlp.h"

struct decode_output_options {
	const char *format;             /* text, json, otlp-json, otlp, folded */
	const char *layout;             /* of text */
	const char *color;              /* auto, always, never */
	enum wire_version wire_version; /* of otlp */
	const char *sample_types;       /* of text, json, folded: "samples,events"; NULL = all */
};

struct decode_output;

struct decode_output *decode_output_new(const struct decode_output_options *o,
					struct err *err) MUST_CHECK;
/* ERR_IO when standard output can't be written. */
bool decode_output_put(struct decode_output *d, const struct profiles *p,
		       const struct otlp_decode_report *report, struct err *err) MUST_CHECK;
/* Writes what is left and frees. */
bool decode_output_end(struct decode_output *d, struct err *err) MUST_CHECK;
