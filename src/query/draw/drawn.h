/*
 * drawn.h - all formats that can be written: those of formats.h, and SVG and DOT, which show a
 * graph of profiles, not the samples: one query of them, drawn.
 */
#pragma once
#include "formats/formats.h"
#include "query/query.h"

/* By name ("svg"), or by the longest ending of a file's name that fits. NULL: there is none. */
const struct format *export_format_find(struct str name);
const struct format *export_format_of_file(struct str path);
/* "pprof, pgo, ...": what export_format_find() takes. */
void export_format_append_names(struct buf *b);
/* ".pb.gz, .pprof, ...": what export_format_of_file() takes. */
void export_format_append_endings(struct buf *b);

/* The flame graph of a query as a page of SVG that works alone in a browser. */
bool svg_draw(struct query *q, const struct export_options *o, struct buf *out,
	      struct err *err) MUST_CHECK;
