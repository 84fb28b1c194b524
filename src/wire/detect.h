/* detect.h - which wire version a surveyed body has. Source: docs/wire-versions.md. */
#pragma once
#include "wire/otlp.h"
#include "wire/survey.h"

struct verdict {
	enum wire_version version;
	bool ambiguous; /* the body fits several versions; `evidence` says what was assumed */
	bool firm; /* by marks that one version can have and another cannot, not by what is likely
		    */
	bool references; /* attributes refer to the string table: v1.10 */
	char evidence[320];
};

/* A request to v1experimental is v1.3, unless it has a dictionary (field 2): then somebody sends a
 * newer body to the old path. */
bool detect_experimental(struct str body, enum wire_hint hint);
void detect_decide(const struct survey *s, struct str body, enum wire_hint hint,
		   struct verdict *out);
