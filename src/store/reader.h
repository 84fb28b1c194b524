/*
 * reader.h - what a store holds, for whoever asks: one interface over SQLite and ClickHouse.
 *
 *   store_open() -> store_begin() -> store_each_series() choose -> store_scan() add up
 *                -> store_each_stack(), store_each_location(), ... what the numbers mean ->
 * store_end()
 *
 * A snapshot sees one state of the store, whatever a writer does meanwhile; it should last for one
 * question (in SQLite it keeps the write-ahead log from being emptied). Ids (`store_id`) are those
 * of the rows: they hold within one snapshot and never leave the store. What leaves are content
 * hashes and numbers on the store's one line (`seq`, `asof`), which mean the same in any later
 * snapshot.
 *
 * Times are Unix nanoseconds. Windows are [from, to).
 * Memory: what a callback is given holds until it returns. A snapshot keeps texts and attribute
 * sets that it met, up to limit_bytes, and then forgets them.
 * Threads: a store, any; a snapshot, one at a time.
 * Source: facts of the schema in docs/store.md; OTLP profiles.proto for the fields' meanings.
 */
#pragma once
#include "base/hash.h"
#include "model/profiles.h"

typedef uint64_t store_id; /* 0 = none */

struct store;
struct store_snapshot;

struct store_open_options {
	const char *location; /* path of an SQLite file, or http(s)://... of a ClickHouse server */
	size_t limit_bytes;   /* of one snapshot's memory; 0 = 8 MiB */
	bool even_if_cut;     /* SQLite: a file that lacks its end is opened, to save the rest */
};

/* Read-only, beside any writer. ERR_NOT_FOUND: no such file; ERR_UNSUPPORTED: made by a newer
 * version; ERR_INVALID: no store of ours, or damaged. */
bool store_open(const struct store_open_options *options, struct store **out,
		struct err *err) MUST_CHECK;
void store_close(struct store *s); /* NULL is fine */
/* What its exporter calls it when it fails (pipeline/failing.h), from malloc(). */
char *store_name(const char *location);

bool store_begin(struct store *s, struct store_snapshot **out, struct err *err) MUST_CHECK;
void store_end(struct store_snapshot *snap); /* NULL is fine */
/* Makes long calls of this snapshot return ERR_CANCELLED soon. Any thread. */
void store_cancel(struct store_snapshot *snap);

/* ---- the whole ---- */

struct store_facts {
	uint64_t asof; /* the newest number on the store's line: samples have seq <= asof */
	uint64_t oldest, newest;     /* store_extent() */
	uint64_t requests, profiles; /* kept now */
	uint64_t file_bytes;         /* SQLite: file and log; ClickHouse: 0 */
};
bool store_facts(struct store_snapshot *snap, struct store_facts *out, struct err *err) MUST_CHECK;
/* Parts of the facts that cost little, however much there is. */
bool store_asof(struct store_snapshot *snap, uint64_t *out, struct err *err) MUST_CHECK;
/* Another number whenever names were found later (symbols.h); 0 = never. */
bool store_names_state(struct store_snapshot *snap, uint64_t *out, struct err *err) MUST_CHECK;
/* The first and the last moment of any sample; 0, 0 = empty. */
bool store_extent(struct store_snapshot *snap, uint64_t *oldest, uint64_t *newest,
		  struct err *err) MUST_CHECK;

/* ---- series: who the samples are of ---- */

/* An attribute with its unit (attribute_table entries); resources and scopes have no units. */
struct store_attribute {
	struct str key, unit;
	struct any_value value;
};
struct store_attributes {
	const struct store_attribute *ptr;
	uint32_t count;
};

/*
 * (tenant, resource, scope, profile type, period, lifted). `lifted` are process, service and
 * container keys that the sample carried and its resource lacked (v1.3 to v1.9). They are
 * in the sample's own attributes too. A label is looked for in the sample's attributes first, then
 * lifted, resource, scope, profile.
 */
struct store_series {
	store_id id;
	struct str tenant; /* "" by default */
	struct str sample_type, sample_unit, period_type, period_unit;
	int64_t period;
	store_id resource, scope; /* equal ids = equal content */
	struct store_attributes resource_attributes, scope_attributes, lifted;
	struct str resource_schema_url, scope_name, scope_version, scope_schema_url;
	struct str service_name; /* service.name, else unknown_service[:process.executable.name] */
	uint64_t process; /* equal for one process: host, container and pid; 0: none is said */
	/* only id, types, period, process and labels are filled in, and scope_attributes or what
	 * tells its profiler where asked */
	bool brief;
	/* brief: of the keys that were asked for what the series say, be it lifted, is in
	 * resource_attributes; equal labels: they say the same. Else 0. */
	uint64_t labels;
	bool of_service; /* its service_name is the one that was asked for */
};

struct store_series_ask {
	uint64_t from, to;   /* with samples in buckets that it touches; UINT64_MAX: no end */
	const store_id *ids; /* ascending; only these. NULL: all */
	size_t id_count;
	bool brief;             /* ids, types, period and process do, with the attributes of */
	const struct str *keys; /* these keys; some may come in full all the same */
	uint32_t key_count;
	bool scopes;        /* attributes of scopes, too; where all types are one they may lack */
	bool profiler;      /* scope_name, too, and in resource_attributes the host.id or host.name
			       that its profiler is told by (label_profiler()). Not with keys */
	struct str service; /* not empty: those of other services may be left out */
};

/* By id. False of `fn` ends it early, which is no failure. */
bool store_each_series(struct store_snapshot *snap, const struct store_series_ask *ask,
		       bool (*fn)(void *arg, const struct store_series *series), void *arg,
		       struct err *err) MUST_CHECK;

/* Keys of attributes that samples or profiles have beyond their series' resource and what was
 * lifted; "service.name" also where series.service_name is not what their attributes say. *known
 * false: any key may be. */
bool store_each_sample_key(struct store_snapshot *snap, bool *known,
			   bool (*fn)(void *arg, struct str key), void *arg,
			   struct err *err) MUST_CHECK;

/* ---- samples ---- */

struct store_sample {
	store_id series;
	uint64_t seq;    /* place on the store's line: unique, ascending in order of arrival */
	uint64_t t0, t1; /* first and last timestamp; the profile's time when it has none */
	store_id stack, attributes, link; /* 0 = empty */
	uint64_t events;                  /* as sample_total(): timestamps, else 1 */
	int64_t value;                    /* as sample_total() */
	/* As they came: both may be empty, one longer than the other. */
	const int64_t *values;
	const uint64_t *timestamps;
	uint32_t value_count, timestamp_count;
};

/* What a scan need not read is 0 in its samples (or not, as a store likes). */
enum {
	SAMPLE_STACK = 1,
	SAMPLE_ATTRIBUTES = 2,
	SAMPLE_LINK = 4,
	SAMPLE_TIMES = 8 /* of events; samples have theirs always */
};
struct store_scan {
	uint64_t from, to;      /* samples with t0 < to and t1 >= from */
	const store_id *series; /* ascending; NULL = all */
	size_t series_count;
	uint64_t asof;  /* only seq <= asof; 0 = all */
	uint64_t after; /* only seq > after; 0 = all */
	unsigned parts; /* of SAMPLE_STACK, ...; 0 = all of them. Times and values always */
	bool alike;     /* events: whichever of the series one is of is all the same */
};

/* Ten-minute bucket by bucket; within one as they lie there: by series in ClickHouse and in what
 * older versions wrote to SQLite, else in order of arrival. Reaches back by the longest t1 -
 * t0 that the buckets before `from` hold. False of `fn` ends it early, which is no failure. */
bool store_scan(struct store_snapshot *snap, const struct store_scan *what,
		bool (*fn)(void *arg, const struct store_sample *s), void *arg,
		struct err *err) MUST_CHECK;

/* Events side by side: of a sample each of its timestamps that is in the window, else the profile's
 * time. Run k is of series[k] and ends before event ends[k]; none is empty. */
struct store_events {
	uint32_t count, run_count;
	const store_id *series;
	const uint32_t *ends;
	bool timed;            /* they have timestamps */
	const int64_t *values; /* what each counts: as sample_value_at() */
	/* Where SAMPLE_TIMES is not asked for: of how many events of a sample each is the sum;
	 * NULL: of one. */
	const uint32_t *counts;
	/* As far as scan.parts says; else 0 (or not). Times are in no order. */
	const uint64_t *times;
	const store_id *stacks, *attributes;
	/* Where the scan's series are alike: events of run 0 may be of all of these, ascending;
	 * each has some. */
	const store_id *shared;
	size_t shared_count;
};
/* The same samples as events. Not every store can: store_has_events(). */
bool store_has_events(const struct store_snapshot *snap);
bool store_scan_events(struct store_snapshot *snap, const struct store_scan *what,
		       bool (*fn)(void *arg, const struct store_events *e), void *arg,
		       struct err *err) MUST_CHECK;

/* Links by id: trace_id (16 bytes) or span_id (8 bytes), NULL = any. Gives at most `cap`, and the
 * number there are. */
bool store_find_links(struct store_snapshot *snap, const uint8_t *trace_id, const uint8_t *span_id,
		      store_id *out, size_t cap, size_t *count, struct err *err) MUST_CHECK;
/* The samples of some links, each once; `what` limits further. */
bool store_scan_links(struct store_snapshot *snap, const store_id *links, size_t link_count,
		      const struct store_scan *what,
		      bool (*fn)(void *arg, const struct store_sample *s), void *arg,
		      struct err *err) MUST_CHECK;

/* ---- profiles ---- */

struct store_profile {
	uint64_t seq; /* its samples have seq + 1 ... seq + sample_count, in order */
	uint32_t sample_count;
	uint64_t request_seq, arrived; /* when the request came, Unix ns */
	uint8_t uid[16]; /* profile_id, else a hash of (request, place in it): unique */
	bool uid_made;   /* the sender gave no profile_id */
	uint64_t time_unix_nano, duration_nano;
	uint64_t series;   /* store_each_profile(): one of the scan's that it is of */
	uint64_t first_ns; /* store_each_profile(): no sample of it is before that; 0: not known */
	int64_t period;
	uint32_t dropped_attributes_count;
	struct store_attributes attributes;
	uint8_t source_version; /* enum wire_version */
};
/* The profile that a sample (or the profile itself) is of. ERR_NOT_FOUND when swept. */
bool store_profile_of(struct store_snapshot *snap, uint64_t seq, struct store_profile *out,
		      struct err *err) MUST_CHECK;
/* Profiles that touch the window with their time and duration or their samples, of the scan's
 * series, in order of arrival: for averages of gauges and for covered time. Requests without
 * any sample near the window are not looked at. With scan.parts SAMPLE_TIMES alone they may lack
 * ids and attributes. */
bool store_each_profile(struct store_snapshot *snap, const struct store_scan *what,
			bool (*fn)(void *arg, const struct store_profile *p), void *arg,
			struct err *err) MUST_CHECK;

/* ---- what the numbers mean: many at a time, ids ascending without doubles ---- */

/* Each walk calls back once for every id, with what holds during the call; an id that is not there
 * is ERR_NOT_FOUND. False of `fn` ends it early, which is no failure. Id 0 is never asked for. */
struct store_line {
	struct str function, system_name, filename;
	int64_t line, column, start_line;
};
struct store_location {
	uint64_t address;
	struct str frame_type;          /* profile.frame.type, "" when it says none */
	const struct store_line *lines; /* innermost inlined function first */
	uint32_t line_count;
	bool overlay;     /* the lines were found later (table symbol), not sent */
	store_id mapping; /* 0 = none; the fields below are its */
	uint64_t memory_start, memory_limit, file_offset;
	struct str mapping_filename, build_id; /* build_id: gnu, else go, else htlhash; "" */
	store_id attributes;
};
struct store_link {
	uint8_t trace_id[16], span_id[8];
};

/* Locations leaf first. */
bool store_each_stack(struct store_snapshot *snap, const store_id *ids, size_t count,
		      bool (*fn)(void *arg, store_id id, const store_id *locations,
				 uint32_t location_count),
		      void *arg, struct err *err) MUST_CHECK;
bool store_each_location(struct store_snapshot *snap, const store_id *ids, size_t count,
			 bool (*fn)(void *arg, store_id id, const struct store_location *l),
			 void *arg, struct err *err) MUST_CHECK;
bool store_each_attributes(struct store_snapshot *snap, const store_id *ids, size_t count,
			   bool (*fn)(void *arg, store_id id, struct store_attributes a), void *arg,
			   struct err *err) MUST_CHECK;
/* Of such sets what they say of one key: `fn` gets its values (a->key, a->value), numbered from 1
 * in the order they come, the same one perhaps twice. out[i] becomes the number of the value that
 * ids[i] has, 0 where it has none. Only where store_has_values(). */
bool store_has_values(const struct store_snapshot *snap);
bool store_each_value(struct store_snapshot *snap, struct str key, const store_id *ids,
		      size_t count, bool (*fn)(void *arg, const struct store_attribute *a),
		      void *arg, uint32_t *out, struct err *err) MUST_CHECK;
bool store_each_link(struct store_snapshot *snap, const store_id *ids, size_t count,
		     bool (*fn)(void *arg, store_id id, const struct store_link *l), void *arg,
		     struct err *err) MUST_CHECK;

/* ---- coverage: what agents say they watched ---- */

struct store_coverage {
	struct str host;
	uint64_t t0, t1;
	struct str reason; /* as the agent names it: "window_ns", "sampled", "dropped.WHY",
			      "cut.WHY", "unnamed" */
	uint64_t n;
};
/* Rows that touch the window, by (host, t0). None for agents that do not report: "not reported",
 * not 0. */
bool store_each_coverage(struct store_snapshot *snap, uint64_t from, uint64_t to,
			 bool (*fn)(void *arg, const struct store_coverage *c), void *arg,
			 struct err *err) MUST_CHECK;

/* ---- whole requests, as they came ---- */

/* For damaged files: store_next_request() leaves out what cannot be read and counts it in *lost; a
 * request that has nothing left is still a failure, with *seq set. */
struct store_lost {
	uint64_t samples;                   /* left out */
	uint64_t stacks, attributes, links; /* samples that are there without */
	uint64_t types;                     /* profiles that are there with a type that says so */
	uint64_t profile_attributes;        /* profiles that are there without theirs */
	uint64_t mappings; /* locations, once a request, that are there without their mapping */
	uint64_t attributes_of_code; /* locations likewise, of whose attributes the frame type alone
				      * is there */
	uint64_t build_ids; /* mappings, once a request, without attributes: build ids are some */
	uint64_t again; /* locations, once a request, that code blocks say once more: no loss but
			 * of their notes */
	uint64_t notes; /* requests that are there without some of their notes, if they had any */
};
void store_tolerate(struct store_snapshot *snap, struct store_lost *lost);

/*
 * The request with the lowest seq > after, as a sealed message that says what was received, of
 * profiles with seq <= asof (0 = all); *seq is its place. *out is NULL when there is none.
 * Profiles that retention has taken are missing.
 */
bool store_next_request(struct store_snapshot *snap, uint64_t after, uint64_t asof, uint64_t *seq,
			struct profiles **out, struct err *err) MUST_CHECK;
