/*
 * source.h - the one interface to samples, whatever holds them: the SQLite store, ClickHouse, or
 * the profiles of a file (query/profiles_source.h).
 *
 * Everything is named by 64-bit numbers of the source's own, good while the source is open; equal
 * content may have several numbers (the engine merges by content). 0 is "none" for attribute sets
 * and links. The engine scans first, summing by number, and only then asks what the distinct
 * numbers mean, in ascending order and many at a time.
 *
 * Memory: what a callback is given holds until it returns. A callback that returns false ends the
 * walk, which then fails with the callback's err. Threads: a source is used by one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

struct any_value;

/* The scope's attributes for pprof's default_sample_type and for what its sample types were before
 * they became profiles, as an array of places (OpenTelemetry's conventions for pprof). */
#define PPROF_DEFAULT_SAMPLE_TYPE "pprof.scope.default_sample_type"
#define PPROF_SAMPLE_TYPE_ORDER   "pprof.scope.sample_type_order"

/* Nanoseconds since 1970, [from, to). */
struct source_range {
	uint64_t from, to;
};
#define SOURCE_ALWAYS ((struct source_range){ 0, UINT64_MAX })

/* One attribute: of a resource, a scope, a profile or a sample. */
struct source_attribute {
	struct str key, unit;
	const struct any_value *value;
};

struct source_attributes {
	const struct source_attribute *ptr;
	uint32_t count;
};

/*
 * Samples of one resource, scope and profile type. `lifted` are keys of the process, the service or
 * the container that samples carried and the resource lacked.
 */
struct source_series {
	uint64_t id;
	uint64_t owner; /* equal for equal resources and scopes, whatever was lifted */
	struct str sample_type, sample_unit, period_type, period_unit;
	int64_t period;
	struct str scope_name, scope_version;
	uint64_t process; /* equal for series of one process (host, container, pid); 0: not said */
	struct source_attributes lifted, resource, scope;
	/* scope_name, scope_version and the attributes are left out; those that were asked for are
	 * in `resource`, be they lifted, or in `scope` */
	bool brief;
	uint64_t labels; /* brief: equal for series that say the same of those */
	bool of_service; /* its service.name is known to be the one that was asked for */
};

/* Which series, and how much of them. */
struct source_series_ask {
	struct source_range range; /* that may have samples in it */
	uint64_t after, asof;      /* as a scan's: those without samples of it may be left out */
	const uint64_t *ids;       /* ascending: only these; NULL: all */
	uint32_t id_count;
	bool brief; /* scope_name, scope_version and the attributes are not needed, but for */
	const struct str *keys; /* these keys, however punctuated; service.name stands for what */
	uint32_t key_count;     /* it is made of, too */
	bool scopes;            /* the scopes' attributes are needed, too, where types differ */
	/* scope_name is needed, too, and of `resource` host.id, else host.name, but where there is
	 * a telemetry.sdk.name. Not with keys. */
	bool profiler;
	/* Not empty: those whose service.name is another may be left out. Only where no sample says
	 * it (sample_keys). */
	struct str service;
};

/*
 * One OTLP sample. Its events are its timestamps, each with its own value; without timestamps it is
 * one event at `time`, the profile's. `values` has one a timestamp, or is empty (each counts 1), or
 * (as old and odd senders have it) differs in number: then the sum belongs to the first event.
 */
struct source_row {
	uint64_t series, sample; /* sample: a number in the order of arrival */
	uint64_t stack, attributes, link;
	uint64_t time;
	const uint64_t *timestamps; /* in the order they came */
	const int64_t *values;
	uint32_t timestamp_count, value_count;
};

/* Events of rows, side by side: each in the scan's range. Run k is of series[k] and ends before
 * event ends[k]; none is empty. */
struct source_events {
	uint32_t count, run_count;
	const uint64_t *series;
	const uint32_t *ends;
	bool timed; /* they have timestamps of their own; else it is the profile's time */
	const int64_t *values;  /* as they came, or 1 each */
	const uint32_t *counts; /* without ROW_TIMES: of how many each is the sum; NULL: of one */
	const uint64_t *times, *stacks, *attributes; /* as far as scan.parts says */
	/* Of a scan of series that are alike: run 0 is of all of these, ascending. */
	const uint64_t *shared;
	size_t shared_count;
};

/* A Profile message: the one that samples [first_sample, first_sample + sample_count) are of. */
struct source_profile {
	uint64_t series; /* one of the scan's that it is of, be it without samples */
	uint64_t first_sample;
	uint32_t sample_count;
	uint64_t time, duration; /* ns */
	uint8_t id[16];
	struct source_attributes attributes;
};

/* Which rows a scan gives: those that may have an event in `range`; the engine looks again. */
struct source_scan {
	struct source_range range;
	const uint64_t *series; /* ascending */
	uint32_t series_count;
	const uint64_t *links; /* ascending; only samples with one of them. NULL: all samples */
	uint32_t link_count;
	uint64_t asof;  /* nothing that came later; UINT64_MAX: all */
	unsigned parts; /* of ROW_STACK, ... what will be looked at; others may be 0. 0: all */
	uint64_t after; /* nothing that was there in that state; 0: all */
	bool alike; /* events may come under any of the series, if those that have some are told */
};
enum { ROW_STACK = 1, ROW_ATTRIBUTES = 2, ROW_LINK = 4, ROW_TIMES = 8 /* rows have them anyway */ };

struct source_line {
	struct str function, system_name, file;
	int64_t line, column, start_line;
};

struct source_location {
	uint64_t id, address;
	struct str frame_type; /* "native", "kernel", ...; "" = not said */
	struct str mapping, build_id;
	uint64_t mapping_start, mapping_limit, mapping_offset;
	const struct source_line *lines; /* innermost inlined function first */
	uint32_t line_count;
};

struct source_link {
	uint64_t id;
	uint8_t trace_id[16], span_id[8];
};

/* What an agent said of its own work in a time: `reason` is "sampled", or why events are missing
 * ("dropped:<why>", "cut", "unnamed"). */
struct source_coverage {
	struct str host, reason;
	struct source_range range;
	uint64_t n;
};

typedef bool source_coverage_fn(void *ctx, const struct source_coverage *c, struct err *err);
typedef bool source_series_fn(void *ctx, const struct source_series *series, struct err *err);
typedef bool source_key_fn(void *ctx, struct str key, struct err *err);
typedef bool source_row_fn(void *ctx, const struct source_row *row, struct err *err);
typedef bool source_events_fn(void *ctx, const struct source_events *events, struct err *err);
typedef bool source_profile_fn(void *ctx, const struct source_profile *profile, struct err *err);
/* Locations are numbers too, leaf first. */
typedef bool source_stack_fn(void *ctx, uint64_t id, const uint64_t *locations, uint32_t count,
			     struct err *err);
typedef bool source_location_fn(void *ctx, const struct source_location *location, struct err *err);
typedef bool source_attributes_fn(void *ctx, uint64_t id, struct source_attributes attributes,
				  struct err *err);
typedef bool source_value_fn(void *ctx, const struct source_attribute *value, struct err *err);
typedef bool source_link_fn(void *ctx, const struct source_link *link, struct err *err);

struct source;

struct source_ops {
	bool (*series)(struct source *s, const struct source_series_ask *ask, source_series_fn *fn,
		       void *ctx, struct err *err);
	/* Keys of attributes that samples or profiles have beyond those of their series: what they
	 * say wins. *known false: it may be any. NULL: never known. */
	bool (*sample_keys)(struct source *s, source_key_fn *fn, void *ctx, bool *known,
			    struct err *err);
	/* Rows in an order of the source's. */
	bool (*scan)(struct source *s, const struct source_scan *scan, source_row_fn *fn, void *ctx,
		     struct err *err);
	/* The same as events, of a scan without links. NULL: the engine takes the rows apart. */
	bool (*events)(struct source *s, const struct source_scan *scan, source_events_fn *fn,
		       void *ctx, struct err *err);
	/* Profiles that hold samples of such a scan, and maybe more, by first_sample ascending.
	 * With scan->parts ROW_TIMES alone they may lack ids and attributes. */
	bool (*profiles)(struct source *s, const struct source_scan *scan, source_profile_fn *fn,
			 void *ctx, struct err *err);
	/* What numbers mean; `ids` ascending, without doubles; every one is called back once. */
	bool (*stacks)(struct source *s, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
		       void *ctx, struct err *err);
	bool (*locations)(struct source *s, const uint64_t *ids, uint32_t count,
			  source_location_fn *fn, void *ctx, struct err *err);
	bool (*attributes)(struct source *s, const uint64_t *ids, uint32_t count,
			   source_attributes_fn *fn, void *ctx, struct err *err);
	/* What such sets say of one key. The callback gets its values, numbered from 1 in the order
	 * they come, the same one perhaps twice; out[i]: the number of the one that ids[i] has, 0
	 * where it has none. NULL: the engine looks through the whole sets. */
	bool (*values)(struct source *s, struct str key, const uint64_t *ids, uint32_t count,
		       source_value_fn *fn, void *ctx, uint32_t *out, struct err *err);
	bool (*links)(struct source *s, const uint64_t *ids, uint32_t count, source_link_fn *fn,
		      void *ctx, struct err *err);
	/* Links of a trace (span_id NULL: any) or of a span (trace_id NULL: any). */
	bool (*find_links)(struct source *s, const uint8_t *trace_id, const uint8_t *span_id,
			   source_link_fn *fn, void *ctx, struct err *err);
	/* What agents reported that touches the range; nothing: they do not report. */
	bool (*coverage)(struct source *s, struct source_range range, source_coverage_fn *fn,
			 void *ctx, struct err *err);
	/* The newest state: what a scan's `asof` takes. */
	bool (*asof)(struct source *s, uint64_t *out, struct err *err);
	/* Another number whenever names were found later. NULL: none ever are. */
	bool (*names_state)(struct source *s, uint64_t *out, struct err *err);
	/* First and last moment of any sample; false and err->kind ERR_NOT_FOUND when empty. */
	bool (*extent)(struct source *s, struct source_range *out, struct err *err);
	void (*free)(struct source *s);
};

/* The first member of every source. */
struct source {
	const struct source_ops *ops;
};

static inline void source_free(struct source *s)
{
	if (s)
		s->ops->free(s);
}
