/*
 * clickhouse/reader.h - a store in ClickHouse behind store/reader.h, which says what each does.
 *
 * A snapshot is what had come when it was made (requests up to `asof`); ids are halves of content
 * hashes. Samples come in no particular order. Threads: a snapshot, one at a time; ch_cancel() any.
 */
#pragma once
#include "store/reader.h"

struct ch_store;
struct ch_snapshot;

bool ch_open(const struct store_open_options *options, struct ch_store **out,
	     struct err *err) MUST_CHECK;
void ch_close(struct ch_store *s);
bool ch_begin(struct ch_store *s, struct ch_snapshot **out, struct err *err) MUST_CHECK;
void ch_end(struct ch_snapshot *snap);
void ch_cancel(struct ch_snapshot *snap);
bool ch_facts(struct ch_snapshot *snap, struct store_facts *out, struct err *err) MUST_CHECK;
bool ch_each_series(struct ch_snapshot *snap, const struct store_series_ask *ask,
		    bool (*fn)(void *arg, const struct store_series *series), void *arg,
		    struct err *err) MUST_CHECK;
bool ch_each_sample_key(struct ch_snapshot *snap, bool *known,
			bool (*fn)(void *arg, struct str key), void *arg,
			struct err *err) MUST_CHECK;
bool ch_scan(struct ch_snapshot *snap, const struct store_scan *what,
	     bool (*fn)(void *arg, const struct store_sample *s), void *arg,
	     struct err *err) MUST_CHECK;
bool ch_has_events(const struct ch_snapshot *snap);
bool ch_scan_events(struct ch_snapshot *snap, const struct store_scan *what,
		    bool (*fn)(void *arg, const struct store_events *e), void *arg,
		    struct err *err) MUST_CHECK;
bool ch_find_links(struct ch_snapshot *snap, const uint8_t *trace_id, const uint8_t *span_id,
		   store_id *out, size_t cap, size_t *count, struct err *err) MUST_CHECK;
bool ch_scan_links(struct ch_snapshot *snap, const store_id *links, size_t link_count,
		   const struct store_scan *what,
		   bool (*fn)(void *arg, const struct store_sample *s), void *arg,
		   struct err *err) MUST_CHECK;
bool ch_profile_of(struct ch_snapshot *snap, uint64_t seq, struct store_profile *out,
		   struct err *err) MUST_CHECK;
bool ch_each_profile(struct ch_snapshot *snap, const struct store_scan *what,
		     bool (*fn)(void *arg, const struct store_profile *p), void *arg,
		     struct err *err) MUST_CHECK;
bool ch_each_stack(struct ch_snapshot *snap, const store_id *ids, size_t count,
		   bool (*fn)(void *arg, store_id id, const store_id *locations,
			      uint32_t location_count),
		   void *arg, struct err *err) MUST_CHECK;
bool ch_each_location(struct ch_snapshot *snap, const store_id *ids, size_t count,
		      bool (*fn)(void *arg, store_id id, const struct store_location *l), void *arg,
		      struct err *err) MUST_CHECK;
bool ch_each_attributes(struct ch_snapshot *snap, const store_id *ids, size_t count,
			bool (*fn)(void *arg, store_id id, struct store_attributes a), void *arg,
			struct err *err) MUST_CHECK;
bool ch_each_link(struct ch_snapshot *snap, const store_id *ids, size_t count,
		  bool (*fn)(void *arg, store_id id, const struct store_link *l), void *arg,
		  struct err *err) MUST_CHECK;
bool ch_each_coverage(struct ch_snapshot *snap, uint64_t from, uint64_t to,
		      bool (*fn)(void *arg, const struct store_coverage *c), void *arg,
		      struct err *err) MUST_CHECK;
void ch_tolerate(struct ch_snapshot *snap, uint64_t *lost);
bool ch_next_request(struct ch_snapshot *snap, uint64_t after, uint64_t asof, uint64_t *seq,
		     struct profiles **out, struct err *err) MUST_CHECK;
bool ch_asof(struct ch_snapshot *snap, uint64_t *out, struct err *err) MUST_CHECK;
bool ch_names_state(struct ch_snapshot *snap, uint64_t *out, struct err *err) MUST_CHECK;
bool ch_extent(struct ch_snapshot *snap, uint64_t *oldest, uint64_t *newest,
	       struct err *err) MUST_CHECK;
