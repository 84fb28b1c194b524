/*
 * check.h - the conformance rules of OTLP profiles (those that profcheck knows, and stricter
 * ones).
 *
 * Each finding names its rule, its severity and its path, with the field names of the version that
 * was checked.
 */
#pragma once
#include "wire/otlp.h"

enum check_severity { CHECK_ERROR, CHECK_WARNING };

struct check_finding {
	enum check_severity severity;
	const char *rule; /* static, stable: "stack-index-range" */
	struct str
		path; /* "resource_profiles[3].scope_profiles[0].profiles[0].samples[17].stack_index"
		       */
	struct str message; /* "is 7, stack_table has 5 entries" */
};

struct check_result {
	struct arena arena; /* holds the findings' text */
	struct check_finding *findings;
	uint32_t count, errors, warnings;
	uint32_t suppressed; /* past findings_limit */
	enum wire_version version;
	char evidence[320];
};

/* Checks a body (version WIRE_AUTO: detected); JSON as the protobuf that it means. findings_limit 0
 * = none. False only when nothing could be checked. */
bool otlp_check(struct blob *body, enum wire_version version, uint32_t findings_limit,
		struct check_result *out, struct err *err) MUST_CHECK;
void check_result_release(struct check_result *r);
