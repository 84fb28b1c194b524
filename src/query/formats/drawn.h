/*
 * drawn.h - formats that show a graph of profiles, not the samples: one query of them, drawn.
 */
#pragma once
#include "query/formats/formats.h"
#include "query/query.h"

/* Writes what the query answers; false with err. */
typedef bool drawn_fn(struct query *q, const struct export_options *o, struct buf *out,
		      struct err *err);

/* `format` is what errors call it. False also when `out` met its limit. */
bool drawn_write(const struct profiles *p, const struct export_options *o, const char *format,
		 drawn_fn *draw, struct buf *out, struct err *err) MUST_CHECK;
