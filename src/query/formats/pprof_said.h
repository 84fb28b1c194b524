/*
 * pprof_said.h - what a pprof says of itself as a whole, as attributes of the scope.
 *
 * The names are those of OpenTelemetry's conventions for pprof (of types:
 * PPROF_DEFAULT_SAMPLE_TYPE, PPROF_SAMPLE_TYPE_ORDER, source.h). They are no labels of samples:
 * pprof has fields for them.
 */
#pragma once
#include "base/str.h"
#include "store/source.h"

#define PPROF_COMMENT     "pprof.profile.comment" /* an array of strings */
#define PPROF_DOC_URL     "pprof.profile.doc_url"
#define PPROF_DROP_FRAMES "pprof.profile.drop_frames"
#define PPROF_KEEP_FRAMES "pprof.profile.keep_frames"

static inline bool pprof_has_field_for(struct str key)
{
	return str_is(key, PPROF_DEFAULT_SAMPLE_TYPE) || str_is(key, PPROF_SAMPLE_TYPE_ORDER) ||
	       str_is(key, PPROF_COMMENT) || str_is(key, PPROF_DOC_URL) ||
	       str_is(key, PPROF_DROP_FRAMES) || str_is(key, PPROF_KEEP_FRAMES);
}
