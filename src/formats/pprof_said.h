/*
 * pprof_said.h - what a pprof says of itself as a whole, as attributes of the scope.
 *
 * The names are those of OpenTelemetry's conventions for pprof. They are no labels of samples:
 * pprof has fields for them.
 */
#pragma once
#include "base/str.h"

#define PPROF_DEFAULT_SAMPLE_TYPE "pprof.scope.default_sample_type"
/* What its sample types were before they became profiles, as an array of places. */
#define PPROF_SAMPLE_TYPE_ORDER "pprof.scope.sample_type_order"
#define PPROF_COMMENT           "pprof.profile.comment" /* an array of strings */
#define PPROF_DOC_URL           "pprof.profile.doc_url"
#define PPROF_DROP_FRAMES       "pprof.profile.drop_frames"
#define PPROF_KEEP_FRAMES       "pprof.profile.keep_frames"

static inline bool pprof_has_field_for(struct str key)
{
	return str_is(key, PPROF_DEFAULT_SAMPLE_TYPE) || str_is(key, PPROF_SAMPLE_TYPE_ORDER) ||
	       str_is(key, PPROF_COMMENT) || str_is(key, PPROF_DOC_URL) ||
	       str_is(key, PPROF_DROP_FRAMES) || str_is(key, PPROF_KEEP_FRAMES);
}
