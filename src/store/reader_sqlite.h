/*
 * reader_sqlite.h - the SQLite store behind store/reader.h, which says what each does.
 */
#pragma once
#include "store/reader.h"

struct sqlite_store;
struct sqlite_snapshot;

bool sqlite_open(const struct store_open_options *options, struct sqlite_store **out,
		 struct err *err) MUST_CHECK;
void sqlite_close(struct sqlite_store *s);
bool sqlite_begin(struct sqlite_store *s, struct sqlite_snapshot **out, struct err *err) MUST_CHECK;
void sqlite_end(struct sqlite_snapshot *snap);
void sqlite_cancel(struct sqlite_snapshot *snap);
bool sqlite_facts(struct sqlite_snapshot *snap, struct store_facts *out,
		  struct err *err) MUST_CHECK;
bool sqlite_each_sample_key(struct sqlite_snapshot *snap, bool *known,
			    bool (*fn)(void *arg, struct str key), void *arg,
			    struct err *err) MUST_CHECK;
bool sqlite_each_series(struct sqlite_snapshot *snap, const struct store_series_ask *ask,
			bool (*fn)(void *arg, const struct store_series *series), void *arg,
			struct err *err) MUST_CHECK;
bool sqlite_scan(struct sqlite_snapshot *snap, const struct store_scan *what,
		 bool (*fn)(void *arg, const struct store_sample *s), void *arg,
		 struct err *err) MUST_CHECK;
bool sqlite_has_events(const struct sqlite_snapshot *snap);
bool sqlite_scan_events(struct sqlite_snapshot *snap, const struct store_scan *what,
			bool (*fn)(void *arg, const struct store_events *e), void *arg,
			struct err *err) MUST_CHECK;
bool sqlite_find_links(struct sqlite_snapshot *snap, const uint8_t *trace_id,
		       const uint8_t *span_id, store_id *out, size_t cap, size_t *count,
		       struct err *err) MUST_CHECK;
bool sqlite_scan_links(struct sqlite_snapshot *snap, const store_id *links, size_t link_count,
		       const struct store_scan *what,
		       bool (*fn)(void *arg, const struct store_sample *s), void *arg,
		       struct err *err) MUST_CHECK;
bool sqlite_profile_of(struct sqlite_snapshot *snap, uint64_t seq, struct store_profile *out,
		       struct err *err) MUST_CHECK;
bool sqlite_each_profile(struct sqlite_snapshot *snap, const struct store_scan *what,
			 bool (*fn)(void *arg, const struct store_profile *p), void *arg,
			 struct err *err) MUST_CHECK;
bool sqlite_each_stack(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
		       bool (*fn)(void *arg, store_id id, const store_id *locations,
				  uint32_t location_count),
		       void *arg, struct err *err) MUST_CHECK;
bool sqlite_each_location(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
			  bool (*fn)(void *arg, store_id id, const struct store_location *l),
			  void *arg, struct err *err) MUST_CHECK;
bool sqlite_each_attributes(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
			    bool (*fn)(void *arg, store_id id, struct store_attributes a),
			    void *arg, struct err *err) MUST_CHECK;
bool sqlite_each_value(struct sqlite_snapshot *snap, struct str key, const store_id *ids,
		       size_t count, bool (*fn)(void *arg, const struct store_attribute *a),
		       void *arg, uint32_t *out, struct err *err) MUST_CHECK;
bool sqlite_each_link(struct sqlite_snapshot *snap, const store_id *ids, size_t count,
		      bool (*fn)(void *arg, store_id id, const struct store_link *l), void *arg,
		      struct err *err) MUST_CHECK;
bool sqlite_each_coverage(struct sqlite_snapshot *snap, uint64_t from, uint64_t to,
			  bool (*fn)(void *arg, const struct store_coverage *c), void *arg,
			  struct err *err) MUST_CHECK;
void sqlite_tolerate(struct sqlite_snapshot *snap, struct store_lost *lost);
bool sqlite_next_request(struct sqlite_snapshot *snap, uint64_t after, uint64_t asof, uint64_t *seq,
			 struct profiles **out, struct err *err) MUST_CHECK;
bool sqlite_asof(struct sqlite_snapshot *snap, uint64_t *out, struct err *err) MUST_CHECK;
bool sqlite_names_state(struct sqlite_snapshot *snap, uint64_t *out, struct err *err) MUST_CHECK;
bool sqlite_extent(struct sqlite_snapshot *snap, uint64_t *oldest, uint64_t *newest,
		   struct err *err) MUST_CHECK;
