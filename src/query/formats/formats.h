/*
 * formats.h - profiles in the formats of other tools.
 *
 * Writers take any sealed message and append to a buffer; compression is the caller's business.
 * Threads: no state.
 */
#pragma once
#include "base/blob.h"
#include "base/buf.h"
#include "model/profiles.h"

struct export_options {
	struct str title;        /* SVG, speedscope, Firefox; may be empty */
	struct str profile_type; /* of formats that show one type (folded, DOT, SVG): its
				    sample type ("samples", "off_cpu"); empty: the first */
	bool without_timestamps; /* pprof: one sample for all events of one, no label `timestamp` */
	bool one_column;         /* pprof: times are not written as counts, too */
	bool inverted;           /* SVG: from the leaves up */
	uint32_t nodes_most;     /* DOT, SVG; 0 = 80 in DOT, 20,000 in SVG */
	bool process, thread;    /* folded: process and thread names as roots */
	bool addresses; /* folded, speedscope: code without a name is told apart by them; else
			   it is one frame a binary, as in tables ("libc.so.6+?") */
	bool annotate;  /* folded: _[k] kernel, _[i] inlined, _[j] made at run time */
};

/* The writers one by one; `o` may be NULL. */
bool pprof_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		 struct err *err) MUST_CHECK;
/* pprof for Go's profile-guided optimisation: the frames next to the leaf, a sample a stack. */
bool go_pgo_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		  struct err *err) MUST_CHECK;
bool folded_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		  struct err *err) MUST_CHECK;
/* What our files of speedscope's have for a frame where a sample says no stack. */
#define SPEEDSCOPE_NO_STACK "(no stack)"
/* speedscope's JSON: a profile a thread, in the order of time. */
bool speedscope_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		      struct err *err) MUST_CHECK;
/* The Firefox Profiler's processed profile: a thread a thread and profile type. */
bool firefox_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		   struct err *err) MUST_CHECK;
/* Graphviz: a node a function, an edge a call. */
bool dot_write(const struct profiles *p, const struct export_options *o, struct buf *out,
	       struct err *err) MUST_CHECK;
/* A flame graph that works alone in a browser. */
bool svg_write(const struct profiles *p, const struct export_options *o, struct buf *out,
	       struct err *err) MUST_CHECK;
