#include "store/reader.h"

#include <assert.h>
#include <stdlib.h>

#include "store/clickhouse/reader.h"
#include "store/clickhouse/server.h"
#include "store/reader_sqlite.h"

/* One of the two. */
struct store {
	struct sqlite_store *sqlite;
	struct ch_store *clickhouse;
};

struct store_snapshot {
	struct sqlite_snapshot *sqlite;
	struct ch_snapshot *clickhouse;
};

static bool is_url(const char *location)
{
	return strstr(location, "://") != NULL;
}

bool store_open(const struct store_open_options *options, struct store **out, struct err *err)
{
	struct store *s = calloc(1, sizeof(*s));
	bool ok;

	assert(s);
	ok = is_url(options->location) ? ch_open(options, &s->clickhouse, err)
				       : sqlite_open(options, &s->sqlite, err);
	if (ok)
		*out = s;
	else
		free(s);
	return ok;
}

char *store_name(const char *location)
{
	struct ch_endpoint endpoint;
	struct err ignored;
	char *name;

	if (!is_url(location) || !ch_endpoint_parse(location, &endpoint, &ignored))
		return strdup(location);
	name = ch_endpoint_store(&endpoint, NULL);
	ch_endpoint_release(&endpoint);
	return name;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	sqlite_close(s->sqlite);
	ch_close(s->clickhouse);
	free(s);
}

bool store_begin(struct store *s, struct store_snapshot **out, struct err *err)
{
	struct store_snapshot *snap = calloc(1, sizeof(*snap));
	bool ok;

	assert(snap);
	ok = s->clickhouse ? ch_begin(s->clickhouse, &snap->clickhouse, err)
			   : sqlite_begin(s->sqlite, &snap->sqlite, err);
	if (ok)
		*out = snap;
	else
		free(snap);
	return ok;
}

void store_end(struct store_snapshot *snap)
{
	if (!snap)
		return;
	sqlite_end(snap->sqlite);
	ch_end(snap->clickhouse);
	free(snap);
}

void store_cancel(struct store_snapshot *snap)
{
	if (snap->clickhouse)
		ch_cancel(snap->clickhouse);
	else
		sqlite_cancel(snap->sqlite);
}

bool store_facts(struct store_snapshot *snap, struct store_facts *out, struct err *err)
{
	if (snap->clickhouse)
		return ch_facts(snap->clickhouse, out, err);
	return sqlite_facts(snap->sqlite, out, err);
}

bool store_each_series(struct store_snapshot *snap, const struct store_series_ask *ask,
		       bool (*fn)(void *arg, const struct store_series *series), void *arg,
		       struct err *err)
{
	if (snap->clickhouse)
		return ch_each_series(snap->clickhouse, ask, fn, arg, err);
	return sqlite_each_series(snap->sqlite, ask, fn, arg, err);
}

bool store_each_sample_key(struct store_snapshot *snap, bool *known,
			   bool (*fn)(void *arg, struct str key), void *arg, struct err *err)
{
	if (snap->clickhouse)
		return ch_each_sample_key(snap->clickhouse, known, fn, arg, err);
	*known = false;
	return sqlite_each_sample_key(snap->sqlite, known, fn, arg, err);
}

bool store_scan(struct store_snapshot *snap, const struct store_scan *what,
		bool (*fn)(void *arg, const struct store_sample *s), void *arg, struct err *err)
{
	if (snap->clickhouse)
		return ch_scan(snap->clickhouse, what, fn, arg, err);
	return sqlite_scan(snap->sqlite, what, fn, arg, err);
}

bool store_has_events(const struct store_snapshot *snap)
{
	return snap->clickhouse ? ch_has_events(snap->clickhouse) : sqlite_has_events(snap->sqlite);
}

bool store_scan_events(struct store_snapshot *snap, const struct store_scan *what,
		       bool (*fn)(void *arg, const struct store_events *e), void *arg,
		       struct err *err)
{
	if (snap->clickhouse)
		return ch_scan_events(snap->clickhouse, what, fn, arg, err);
	return sqlite_scan_events(snap->sqlite, what, fn, arg, err);
}

bool store_find_links(struct store_snapshot *snap, const uint8_t *trace_id, const uint8_t *span_id,
		      store_id *out, size_t cap, size_t *count, struct err *err)
{
	if (snap->clickhouse)
		return ch_find_links(snap->clickhouse, trace_id, span_id, out, cap, count, err);
	return sqlite_find_links(snap->sqlite, trace_id, span_id, out, cap, count, err);
}

bool store_scan_links(struct store_snapshot *snap, const store_id *links, size_t link_count,
		      const struct store_scan *what,
		      bool (*fn)(void *arg, const struct store_sample *s), void *arg,
		      struct err *err)
{
	if (snap->clickhouse)
		return ch_scan_links(snap->clickhouse, links, link_count, what, fn, arg, err);
	return sqlite_scan_links(snap->sqlite, links, link_count, what, fn, arg, err);
}

bool store_profile_of(struct store_snapshot *snap, uint64_t seq, struct store_profile *out,
		      struct err *err)
{
	if (snap->clickhouse)
		return ch_profile_of(snap->clickhouse, seq, out, err);
	return sqlite_profile_of(snap->sqlite, seq, out, err);
}

bool store_each_profile(struct store_snapshot *snap, const struct store_scan *what,
			bool (*fn)(void *arg, const struct store_profile *p), void *arg,
			struct err *err)
{
	if (snap->clickhouse)
		return ch_each_profile(snap->clickhouse, what, fn, arg, err);
	return sqlite_each_profile(snap->sqlite, what, fn, arg, err);
}

bool store_each_stack(struct store_snapshot *snap, const store_id *ids, size_t count,
		      bool (*fn)(void *arg, store_id id, const store_id *locations,
				 uint32_t location_count),
		      void *arg, struct err *err)
{
	if (snap->clickhouse)
		return ch_each_stack(snap->clickhouse, ids, count, fn, arg, err);
	return sqlite_each_stack(snap->sqlite, ids, count, fn, arg, err);
}

bool store_each_location(struct store_snapshot *snap, const store_id *ids, size_t count,
			 bool (*fn)(void *arg, store_id id, const struct store_location *l),
			 void *arg, struct err *err)
{
	if (snap->clickhouse)
		return ch_each_location(snap->clickhouse, ids, count, fn, arg, err);
	return sqlite_each_location(snap->sqlite, ids, count, fn, arg, err);
}

bool store_each_attributes(struct store_snapshot *snap, const store_id *ids, size_t count,
			   bool (*fn)(void *arg, store_id id, struct store_attributes a), void *arg,
			   struct err *err)
{
	if (snap->clickhouse)
		return ch_each_attributes(snap->clickhouse, ids, count, fn, arg, err);
	return sqlite_each_attributes(snap->sqlite, ids, count, fn, arg, err);
}

bool store_has_values(const struct store_snapshot *snap)
{
	return !snap->clickhouse;
}

bool store_each_value(struct store_snapshot *snap, struct str key, const store_id *ids,
		      size_t count, bool (*fn)(void *arg, const struct store_attribute *a),
		      void *arg, uint32_t *out, struct err *err)
{
	if (snap->clickhouse)
		return err_set(err, ERR_INTERNAL, "ClickHouse gives whole sets of attributes");
	return sqlite_each_value(snap->sqlite, key, ids, count, fn, arg, out, err);
}

bool store_each_link(struct store_snapshot *snap, const store_id *ids, size_t count,
		     bool (*fn)(void *arg, store_id id, const struct store_link *l), void *arg,
		     struct err *err)
{
	if (snap->clickhouse)
		return ch_each_link(snap->clickhouse, ids, count, fn, arg, err);
	return sqlite_each_link(snap->sqlite, ids, count, fn, arg, err);
}

bool store_each_coverage(struct store_snapshot *snap, uint64_t from, uint64_t to,
			 bool (*fn)(void *arg, const struct store_coverage *c), void *arg,
			 struct err *err)
{
	if (snap->clickhouse)
		return ch_each_coverage(snap->clickhouse, from, to, fn, arg, err);
	return sqlite_each_coverage(snap->sqlite, from, to, fn, arg, err);
}

void store_tolerate(struct store_snapshot *snap, struct store_lost *lost)
{
	if (snap->clickhouse)
		ch_tolerate(snap->clickhouse, &lost->samples);
	else
		sqlite_tolerate(snap->sqlite, lost);
}

bool store_next_request(struct store_snapshot *snap, uint64_t after, uint64_t asof, uint64_t *seq,
			struct profiles **out, struct err *err)
{
	if (snap->clickhouse)
		return ch_next_request(snap->clickhouse, after, asof, seq, out, err);
	return sqlite_next_request(snap->sqlite, after, asof, seq, out, err);
}

bool store_asof(struct store_snapshot *snap, uint64_t *out, struct err *err)
{
	if (snap->clickhouse)
		return ch_asof(snap->clickhouse, out, err);
	return sqlite_asof(snap->sqlite, out, err);
}

bool store_names_state(struct store_snapshot *snap, uint64_t *out, struct err *err)
{
	if (snap->clickhouse)
		return ch_names_state(snap->clickhouse, out, err);
	return sqlite_names_state(snap->sqlite, out, err);
}

bool store_extent(struct store_snapshot *snap, uint64_t *oldest, uint64_t *newest, struct err *err)
{
	if (snap->clickhouse)
		return ch_extent(snap->clickhouse, oldest, newest, err);
	return sqlite_extent(snap->sqlite, oldest, newest, err);
}
