/*
 * source.h - the one interface to samples, whatever holds them: an SQLite file, ClickHouse (both
 * opened by store.h) or the profiles of a file (query/profiles_source.h).
 *
 *   source_series() choose -> source_events() or source_scan() add up -> source_stacks(),
 *   source_locations(), ... what the distinct numbers mean -> source_free()
 *
 * A source shows one state of what it reads, whatever a writer does meanwhile; it should last for
 * one question (in SQLite it keeps the write-ahead log from being emptied). Everything is named by
 * 64-bit numbers of the source's own, good while the source is open; equal content may have several
 * numbers (callers merge by content). 0 is "none". Sample numbers and `asof` mean the same in every
 * source of one store.
 *
 * A callback that returns false ends the walk, which then fails with the callback's err. What a
 * callback is given holds until it returns. Ranges are [from, to) in nanoseconds since 1970. Lists
 * of numbers are ascending and unique.
 *
 * Threads: one at a time. Fields: OTLP profiles.proto.
 */
#pragma once
#include "model/profiles.h"

struct source_range {
	uint64_t from, to;
};
#define SOURCE_ALWAYS ((struct source_range){ 0, UINT64_MAX })

/* An `asof` that leaves nothing out. */
#define SOURCE_NEWEST UINT64_MAX

/* One attribute: of a resource, a scope, a profile or a sample. */
struct source_attribute {
	struct str key, unit;
	struct any_value value;
};

struct source_attributes {
	const struct source_attribute *ptr;
	uint32_t count;
};

/*
 * Samples of one resource, scope and profile type. `lifted` are keys of the process, the service or
 * the container that samples carried (v1.3 to v1.9) and the resource lacked. A label is looked for
 * in the sample's attributes first, then in lifted, resource, scope, profile.
 */
struct source_series {
	uint64_t id;
	uint64_t owner; /* equal for equal resources and scopes, whatever was lifted */
	struct str sample_type, sample_unit, period_type, period_unit;
	int64_t period;
	struct str scope_name, scope_version;
	uint64_t process; /* equal for series of one process (host, container, pid); 0: not said */
	struct source_attributes lifted, resource, scope;
	/* Only what was asked for is there: attributes of the resource and lifted ones together in
	 * `resource`, those of the scope in `scope`. */
	bool brief;
	uint64_t labels; /* brief: equal for series that have equal values of those */
	bool of_service; /* its service.name is known to be the one that was asked for */
};

/* Which series, and how much of them. */
struct source_series_ask {
	struct source_range range; /* those that may have samples in it */
	uint64_t after, asof;      /* as in a scan: series without such samples may be left out */
	const uint64_t *ids;       /* only these; NULL: all */
	uint32_t id_count;
	bool brief; /* scope_name, scope_version and attributes may be left out, except */
	const struct str *keys; /* these keys, in any spelling; service.name stands for all the */
	uint32_t key_count;     /* keys it is made from */
	bool scopes;            /* and the attributes of scopes, where sample types differ */
	/* and scope_name, and host.id (else host.name) unless there is a telemetry.sdk.name. Not
	 * together with keys. */
	bool profiler;
	/* Not empty: series of another service.name may be left out. Only where no sample has a
	 * service.name of its own (source_ops.sample_keys). */
	struct str service;
};

/*
 * One OTLP sample. Its events are its timestamps, each with its own value; without timestamps it is
 * one event at `time`, the profile's. `values` has one a timestamp, or is empty (each counts 1), or
 * (as odd senders have it) differs in number: then the sum is shared out.
 */
struct source_row {
	uint64_t series, sample; /* sample: its place on the store's line, in order of arrival */
	uint64_t stack, attributes, link;
	uint64_t time, last;        /* first and last timestamp, or the profile's time */
	int64_t total;              /* as sample_total() */
	const uint64_t *timestamps; /* in the order they came */
	const int64_t *values;
	uint32_t timestamp_count, value_count;
};

/* Events of rows, side by side, each in the scan's range. Run k is of series[k] and ends before
 * event ends[k]; none is empty. */
struct source_events {
	uint32_t count, run_count;
	const uint64_t *series;
	const uint32_t *ends;
	bool timed; /* they have timestamps of their own; else it is the profile's time */
	const int64_t *values;  /* as they came, or 1 each */
	const uint32_t *counts; /* without ROW_TIMES: of how many each is the sum; NULL: of one */
	const uint64_t *times, *stacks, *attributes; /* as far as scan.parts says */
	/* In a scan with `alike`: run 0 is of all of these series. */
	const uint64_t *shared;
	size_t shared_count;
};

/* A Profile message: samples [first_sample, first_sample + sample_count) are its own. */
struct source_profile {
	uint64_t series; /* one of the scan's that it is of, even without samples */
	uint64_t first_sample;
	uint32_t sample_count;
	uint64_t time, duration; /* ns */
	uint64_t earliest;       /* none of its samples is before that; 0: not known */
	uint8_t id[16];          /* zeros: the sender gave none */
	struct source_attributes attributes;
};

/* Which rows a scan gives: those that may have an event in `range`; the caller looks again. */
struct source_scan {
	struct source_range range;
	const uint64_t *series; /* NULL: all */
	uint32_t series_count;
	const uint64_t *links; /* only samples with one of them. NULL: all samples */
	uint32_t link_count;
	uint64_t asof;  /* nothing that came later; SOURCE_NEWEST: all */
	uint64_t after; /* nothing that was there in that state; 0: all */
	unsigned parts; /* of ROW_STACK, ... what will be looked at; others may be 0. 0: all */
	bool alike;     /* events may come under any of the series (source_events.shared) */
};
enum { ROW_STACK = 1, ROW_ATTRIBUTES = 2, ROW_LINK = 4, ROW_TIMES = 8 /* rows have them anyway */ };

struct source_line {
	struct str function, system_name, file;
	int64_t line, column, start_line;
};

struct source_location {
	uint64_t id, address;
	struct str frame_type;        /* "native", "kernel", ...; "" = not said */
	struct str mapping, build_id; /* build_id: gnu, else go, else htlhash */
	uint64_t mapping_start, mapping_limit, mapping_offset;
	const struct source_line *lines; /* innermost inlined function first */
	uint32_t line_count;
	bool found_later; /* the lines were not sent (symbols.h) */
};

struct source_link {
	uint64_t id;
	uint8_t trace_id[16], span_id[8];
};

/* What an agent said of its own work in a time: `reason` is "window_ns", "sampled", or why events
 * are missing ("dropped.WHY", "cut.WHY", "unnamed"). */
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
typedef bool source_link_fn(void *ctx, const struct source_link *link, struct err *err);

struct source;

/* What an implementation provides. Call those that have a function below through it. */
struct source_ops {
	bool (*series)(struct source *s, const struct source_series_ask *ask, source_series_fn *fn,
		       void *ctx, struct err *err);
	/* Keys of attributes that samples or profiles have beyond those of their series: their
	 * values win. *known false: it may be any. NULL: never known. */
	bool (*sample_keys)(struct source *s, source_key_fn *fn, void *ctx, bool *known,
			    struct err *err);
	bool (*scan)(struct source *s, const struct source_scan *scan, source_row_fn *fn, void *ctx,
		     struct err *err);
	bool (*events)(struct source *s, const struct source_scan *scan, source_events_fn *fn,
		       void *ctx, struct err *err);
	/* Profiles that touch the range with their time and duration or their samples, by
	 * first_sample ascending. With parts ROW_TIMES alone they may lack ids and attributes. */
	bool (*profiles)(struct source *s, const struct source_scan *scan, source_profile_fn *fn,
			 void *ctx, struct err *err);
	/* No id is 0. Each is called back once; one that is not there is ERR_NOT_FOUND. */
	bool (*stacks)(struct source *s, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
		       void *ctx, struct err *err);
	bool (*locations)(struct source *s, const uint64_t *ids, uint32_t count,
			  source_location_fn *fn, void *ctx, struct err *err);
	bool (*attributes)(struct source *s, const uint64_t *ids, uint32_t count,
			   source_attributes_fn *fn, void *ctx, struct err *err);
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
	/* First and last moment of any sample; ERR_NOT_FOUND when there is none. */
	bool (*extent)(struct source *s, struct source_range *out, struct err *err);
	/* The first request behind the place `after`, as a sealed message that says what was
	 * received; *seq is its place. *out is NULL when there is none. Profiles that retention has
	 * taken are missing. NULL: the source has no requests. */
	bool (*next_request)(struct source *s, uint64_t after, uint64_t *seq, struct profiles **out,
			     struct err *err);
	void (*free)(struct source *s);
	/* A scan fetches the attribute sets of its rows along with them: asking for one by one
	 * costs nothing then. */
	bool sets_with_rows;
};

/* The type of a function that provides one: SOURCE_OP(scan) sqlite_scan; */
#define SOURCE_OP(op) __typeof__(*((struct source_ops *)0)->op)

/* The first member of every source. */
struct source {
	const struct source_ops *ops;
};

bool source_series(struct source *s, const struct source_series_ask *ask, source_series_fn *fn,
		   void *ctx, struct err *err) MUST_CHECK;
/* Rows in an order of the source's, as meant. */
bool source_scan(struct source *s, const struct source_scan *scan, source_row_fn *fn, void *ctx,
		 struct err *err) MUST_CHECK;
/* The same as events, of a scan without links; only where ops->events is set. */
bool source_events(struct source *s, const struct source_scan *scan, source_events_fn *fn,
		   void *ctx, struct err *err) MUST_CHECK;

/* What numbers mean. 0 may be among them: it is empty. */
bool source_stacks(struct source *s, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
		   void *ctx, struct err *err) MUST_CHECK;
bool source_locations(struct source *s, const uint64_t *ids, uint32_t count, source_location_fn *fn,
		      void *ctx, struct err *err) MUST_CHECK;
bool source_attributes(struct source *s, const uint64_t *ids, uint32_t count,
		       source_attributes_fn *fn, void *ctx, struct err *err) MUST_CHECK;
bool source_links(struct source *s, const uint64_t *ids, uint32_t count, source_link_fn *fn,
		  void *ctx, struct err *err) MUST_CHECK;

/* Senders of old versions wrote a 1 beside n timestamps and meant n events. */
void source_row_as_meant(struct source_row *row);
/* What all values of a row, as meant, add up to, at most the largest number there is; and what its
 * timestamp i counts, as sample_value_at(). */
int64_t source_row_sum(const struct source_row *row);
int64_t source_row_value(const struct source_row *row, int64_t row_sum, uint32_t i);

static inline void source_free(struct source *s)
{
	if (s)
		s->ops->free(s);
}
