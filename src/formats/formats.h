/*
 * formats.h - profiles in the formats of other tools: one table, a row a format.
 *
 *   read:  bytes -> format_tell() -> the row's read() -> struct profiles      (format_read())
 *   write: struct profiles -> format_find(name) -> the row's write() -> bytes
 *
 * Bytes are plain on both ways: whoever has the file or the socket decompresses before reading
 * and, where the row says gzip, compresses after writing (compress_buf()).
 * Memory: a profile that was read holds a reference of the bytes that its strings point into.
 * Threads: no state. What a format looks like stands at the top of its reader or writer.
 */
#pragma once
#include "base/blob.h"
#include "base/buf.h"
#include "model/profiles.h"
#include "wire/otlp.h"

/* Zeroed, or NULL in its place: as the format is usually written. */
struct export_options {
	struct str title;          /* SVG, DOT, speedscope, Firefox; may be empty */
	struct str profile_type;   /* of formats that show one type (folded, DOT, SVG): its
				      sample type ("samples", "off_cpu"); empty: the first */
	enum wire_version version; /* OTLP; WIRE_AUTO: the newest */
	bool without_timestamps; /* pprof: one sample for all events of one, no label `timestamp` */
	bool one_column;         /* pprof: times are not written as counts, too */
	bool inverted;           /* SVG: from the leaves up */
	uint32_t nodes_most;     /* DOT, SVG; 0 = 80 in DOT, 20,000 in SVG */
	bool process, thread;    /* folded: process and thread names as roots */
	bool addresses; /* folded, speedscope: code without a name is told apart by them; else
			   it is one frame a binary, as in tables ("libc.so.6+?") */
	bool annotate;  /* folded: _[k] kernel, _[i] inlined, _[j] made at run time */
};

/* Appends to `out`; ERR_LIMIT where that has a limit and meets it. `p` is sealed. */
typedef bool format_write_fn(const struct profiles *p, const struct export_options *o,
			     struct buf *out, struct err *err);
typedef bool format_read_fn(struct blob *bytes, struct profiles **out, struct err *err);

struct format {
	const char *name, *title; /* "cpuprofile" on command lines, "a .cpuprofile" in sentences */
	const char *endings[3];   /* of files that are to be written */
	const char *file_name;    /* of a download */
	const char *content_type;
	bool gzip;      /* by convention its files are gzip files */
	bool adds_up;   /* its readers add up all samples, so gauges must be averages beforehand */
	bool one_scale; /* its numbers have no unit: counts of different periods must be made alike
			 */
	bool all_types; /* one file holds every profile type */
	format_write_fn *write; /* NULL: only read */
	format_read_fn *read;   /* NULL: only written */
};

enum format_row {
	FORMAT_PPROF,
	FORMAT_PGO,
	FORMAT_FOLDED,
	FORMAT_SPEEDSCOPE,
	FORMAT_FIREFOX,
	FORMAT_OTLP,
	FORMAT_OTLP_JSON,
	FORMAT_CPUPROFILE,
	FORMAT_PERF_SCRIPT,
	FORMATS
};
extern const struct format formats[FORMATS];

/* What the content looks like. OTLP where it looks like nothing else: its decoder says what is
 * wrong. */
const struct format *format_tell(struct str bytes);
bool format_read(struct blob *bytes, struct profiles **out, struct err *err) MUST_CHECK;

/* ---- for those that know the format, and more than the bytes say ---- */

/* pprof_read_with() and folded_read_with(): NULL or zero is "not known". */
struct import_rename {
	struct str from, to; /* sample types */
};
struct import_hints {
	const struct key_value *resource; /* its attributes */
	uint32_t resource_count;
	uint64_t time, duration;             /* where the bytes do not say, ns */
	const struct import_rename *renames; /* pprof */
	uint32_t rename_count;
	struct str type, unit, period_type, period_unit; /* folded */
	int64_t period;
	bool lines; /* folded: each line is a stack and counts once */
};
bool pprof_read_with(struct blob *bytes, const struct import_hints *hints, struct profiles **out,
		     struct err *err) MUST_CHECK;
bool folded_read_with(struct blob *bytes, const struct import_hints *hints, struct profiles **out,
		      struct err *err) MUST_CHECK;

/* What our files of speedscope's have for a frame where a sample says no stack. */
#define SPEEDSCOPE_NO_STACK "(no stack)"
