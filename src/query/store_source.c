#include "query/store_source.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "store/id_list.h"
#include "store/reader.h"

static_assert((int)ROW_STACK == (int)SAMPLE_STACK &&
		      (int)ROW_ATTRIBUTES == (int)SAMPLE_ATTRIBUTES &&
		      (int)ROW_LINK == (int)SAMPLE_LINK && (int)ROW_TIMES == (int)SAMPLE_TIMES,
	      "the parts of a row are those of the store's sample");

struct store_source {
	struct source base;
	struct store_snapshot *snapshot;
	struct source_attribute *attributes[3]; /* room for the lists that one callback gets */
	uint32_t attribute_cap[3];
	struct source_line *lines;
	uint32_t line_cap;
};

/* What a walk's callback of the store's needs to call ours. */
struct walk {
	struct store_source *source;
	union {
		source_series_fn *series;
		source_key_fn *key;
		source_row_fn *row;
		source_events_fn *events;
		source_profile_fn *profile;
		source_stack_fn *stack;
		source_location_fn *location;
		source_attributes_fn *attributes;
		source_value_fn *value;
		source_link_fn *link;
		source_coverage_fn *coverage;
	} fn;
	void *ctx;
	struct err *err;
	bool failed;
};

static struct store_source *source_of(struct source *s)
{
	return CONTAINER_OF(s, struct store_source, base);
}

/* A callback that said no ends a walk of the store's well; ours fails then. */
static bool ended(const struct walk *w, bool ok)
{
	return ok && !w->failed;
}

static bool go_on(struct walk *w, bool ok)
{
	w->failed = !ok;
	return ok;
}

static struct source_attributes attributes_of(struct store_source *s, unsigned room,
					      struct store_attributes from)
{
	if (from.count > s->attribute_cap[room]) {
		free(s->attributes[room]);
		s->attribute_cap[room] = from.count;
		s->attributes[room] = calloc(from.count, sizeof(struct source_attribute));
		assert(s->attributes[room]);
	}
	for (uint32_t i = 0; i < from.count; i++)
		s->attributes[room][i] = (struct source_attribute){ .key = from.ptr[i].key,
								    .unit = from.ptr[i].unit,
								    .value = &from.ptr[i].value };
	return (struct source_attributes){ s->attributes[room], from.count };
}

/* ---- series and rows ---- */

static bool give_series(void *arg, const struct store_series *from)
{
	struct walk *w = arg;
	struct source_series s = {
		.id = from->id,
		.owner = from->resource * UINT64_C(0x9e3779b97f4a7c15) ^ from->scope,
		.sample_type = from->sample_type,
		.sample_unit = from->sample_unit,
		.period_type = from->period_type,
		.period_unit = from->period_unit,
		.period = from->period,
		.scope_name = from->scope_name,
		.scope_version = from->scope_version,
		.process = from->process,
		.brief = from->brief,
		.of_service = from->of_service,
		.labels = from->labels,
	};

	s.resource = attributes_of(w->source, 1, from->resource_attributes);
	s.scope = attributes_of(w->source, 2, from->scope_attributes);
	if (!from->brief)
		s.lifted = attributes_of(w->source, 0, from->lifted);
	return go_on(w, w->fn.series(w->ctx, &s, w->err));
}

static bool take_first(void *arg, const struct store_profile *p)
{
	uint64_t *first = arg;

	if (p->first_ns < *first)
		*first = p->first_ns;
	return *first > 0;
}

/* Of what came after a state only the profiles say where in time it begins: the rest of the window
 * need not be walked. */
static bool narrow(struct store_snapshot *snap, struct store_scan *what, struct err *err)
{
	uint64_t first = UINT64_MAX;

	if (!store_each_profile(snap, what, take_first, &first, err))
		return false;
	if (first > what->from)
		what->from = first;
	return true;
}

static bool walk_series(struct source *q, const struct source_series_ask *ask, source_series_fn *fn,
			void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.series = fn, .ctx = ctx, .err = err };
	struct store_scan since = {
		.from = ask->range.from,
		.to = ask->range.to,
		.asof = ask->asof == UINT64_MAX ? 0 : ask->asof,
		.after = ask->after,
	};
	struct store_series_ask what = {
		.to = ask->range.to,
		.ids = ask->ids,
		.id_count = ask->id_count,
		.brief = ask->brief,
		.keys = ask->keys,
		.key_count = ask->key_count,
		.scopes = ask->scopes,
		.profiler = ask->profiler,
		.service = ask->service,
	};

	if (since.after && !narrow(w.source->snapshot, &since, err))
		return false;
	what.from = since.from;
	if (what.from >= what.to)
		return true;
	return ended(&w, store_each_series(w.source->snapshot, &what, give_series, &w, err));
}

static bool give_key(void *arg, struct str key)
{
	struct walk *w = arg;

	return go_on(w, w->fn.key(w->ctx, key, w->err));
}

static bool walk_sample_keys(struct source *q, source_key_fn *fn, void *ctx, bool *known,
			     struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.key = fn, .ctx = ctx, .err = err };

	return ended(&w, store_each_sample_key(w.source->snapshot, known, give_key, &w, err));
}

static bool give_row(void *arg, const struct store_sample *from)
{
	struct walk *w = arg;
	struct source_row row = {
		.series = from->series,
		.sample = from->seq,
		.stack = from->stack,
		.attributes = from->attributes,
		.link = from->link,
		.time = from->t0,
		.timestamps = from->timestamps,
		.timestamp_count = from->timestamp_count,
		.values = from->values,
		.value_count = from->value_count,
	};

	/* Senders of old versions wrote a 1 beside n timestamps and meant n events. */
	if (row.value_count == 1 && row.timestamp_count > 1 && row.values[0] == 1 &&
	    from->value == (int64_t)row.timestamp_count)
		row.value_count = 0;
	return go_on(w, w->fn.row(w->ctx, &row, w->err));
}

static struct store_scan scan_of(const struct source_scan *scan)
{
	return (struct store_scan){
		.from = scan->range.from,
		.to = scan->range.to,
		.series = scan->series,
		.series_count = scan->series_count,
		.asof = scan->asof == UINT64_MAX ? 0 : scan->asof,
		.parts = scan->parts,
		.after = scan->after,
		.alike = scan->alike,
	};
}

static bool walk_rows(struct source *q, const struct source_scan *scan, source_row_fn *fn,
		      void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.row = fn, .ctx = ctx, .err = err };
	struct store_scan what = scan_of(scan);
	bool ok;

	if (what.after && !narrow(w.source->snapshot, &what, err))
		return false;
	if (what.from >= what.to)
		return true;
	if (scan->links)
		ok = store_scan_links(w.source->snapshot, scan->links, scan->link_count, &what,
				      give_row, &w, err);
	else
		ok = store_scan(w.source->snapshot, &what, give_row, &w, err);
	return ended(&w, ok);
}

static bool give_events(void *arg, const struct store_events *from)
{
	struct walk *w = arg;
	struct source_events events = {
		.count = from->count,
		.run_count = from->run_count,
		.series = from->series,
		.ends = from->ends,
		.timed = from->timed,
		.times = from->times,
		.values = from->values,
		.counts = from->counts,
		.stacks = from->stacks,
		.attributes = from->attributes,
		.shared = from->shared,
		.shared_count = from->shared_count,
	};

	return go_on(w, w->fn.events(w->ctx, &events, w->err));
}

static bool walk_events(struct source *q, const struct source_scan *scan, source_events_fn *fn,
			void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.events = fn, .ctx = ctx, .err = err };
	struct store_scan what = scan_of(scan);

	if (what.after && !narrow(w.source->snapshot, &what, err))
		return false;
	if (what.from >= what.to)
		return true;
	return ended(&w, store_scan_events(w.source->snapshot, &what, give_events, &w, err));
}

static bool give_profile(void *arg, const struct store_profile *from)
{
	struct walk *w = arg;
	struct source_profile p = {
		.series = from->series,
		.first_sample = from->seq + 1,
		.sample_count = from->sample_count,
		.time = from->time_unix_nano,
		.duration = from->duration_nano,
		.attributes = attributes_of(w->source, 0, from->attributes),
	};

	if (!from->uid_made)
		memcpy(p.id, from->uid, sizeof(p.id));
	return go_on(w, w->fn.profile(w->ctx, &p, w->err));
}

static bool walk_profiles(struct source *q, const struct source_scan *scan, source_profile_fn *fn,
			  void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.profile = fn, .ctx = ctx, .err = err };
	struct store_scan what = scan_of(scan);

	return ended(&w, store_each_profile(w.source->snapshot, &what, give_profile, &w, err));
}

/* ---- what numbers mean ---- */

static bool give_stack(void *arg, store_id id, const store_id *locations, uint32_t count)
{
	struct walk *w = arg;

	return go_on(w, w->fn.stack(w->ctx, id, locations, count, w->err));
}

/* The empty entry, which the store is never asked for, stands first where it is among the ids. */
static bool walk_stacks(struct source *q, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
			void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.stack = fn, .ctx = ctx, .err = err };
	uint32_t empty = count && ids[0] == 0;

	if (empty && !fn(ctx, 0, NULL, 0, err))
		return false;
	return ended(&w, store_each_stack(w.source->snapshot, ids + empty, count - empty,
					  give_stack, &w, err));
}

static bool give_location(void *arg, store_id id, const struct store_location *from)
{
	struct walk *w = arg;
	struct store_source *s = w->source;
	struct source_location l = {
		.id = id,
		.address = from->address,
		.frame_type = from->frame_type,
		.mapping = from->mapping_filename,
		.build_id = from->build_id,
		.mapping_start = from->memory_start,
		.mapping_limit = from->memory_limit,
		.mapping_offset = from->file_offset,
		.line_count = from->line_count,
	};

	if (from->line_count > s->line_cap) {
		free(s->lines);
		s->line_cap = from->line_count;
		s->lines = calloc(s->line_cap, sizeof(*s->lines));
		assert(s->lines);
	}
	for (uint32_t i = 0; i < from->line_count; i++)
		s->lines[i] = (struct source_line){
			.function = from->lines[i].function,
			.system_name = from->lines[i].system_name,
			.file = from->lines[i].filename,
			.line = from->lines[i].line,
			.column = from->lines[i].column,
			.start_line = from->lines[i].start_line,
		};
	l.lines = s->lines;
	return go_on(w, w->fn.location(w->ctx, &l, w->err));
}

static bool walk_locations(struct source *q, const uint64_t *ids, uint32_t count,
			   source_location_fn *fn, void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.location = fn, .ctx = ctx, .err = err };
	uint32_t empty = count && ids[0] == 0;
	struct source_location none = { 0 };

	if (empty && !fn(ctx, &none, err))
		return false;
	return ended(&w, store_each_location(w.source->snapshot, ids + empty, count - empty,
					     give_location, &w, err));
}

static bool give_attributes(void *arg, store_id id, struct store_attributes from)
{
	struct walk *w = arg;

	return go_on(w, w->fn.attributes(w->ctx, id, attributes_of(w->source, 0, from), w->err));
}

static bool walk_attributes(struct source *q, const uint64_t *ids, uint32_t count,
			    source_attributes_fn *fn, void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.attributes = fn, .ctx = ctx, .err = err };
	uint32_t empty = count && ids[0] == 0;

	if (empty && !fn(ctx, 0, (struct source_attributes){ 0 }, err))
		return false;
	return ended(&w, store_each_attributes(w.source->snapshot, ids + empty, count - empty,
					       give_attributes, &w, err));
}

static bool give_value(void *arg, const struct store_attribute *from)
{
	struct walk *w = arg;
	struct source_attribute a = { from->key, from->unit, &from->value };

	return go_on(w, w->fn.value(w->ctx, &a, w->err));
}

static bool walk_values(struct source *q, struct str key, const uint64_t *ids, uint32_t count,
			source_value_fn *fn, void *ctx, uint32_t *out, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.value = fn, .ctx = ctx, .err = err };
	uint32_t empty = count && ids[0] == 0;

	if (empty)
		out[0] = 0;
	return ended(&w, store_each_value(w.source->snapshot, key, ids + empty, count - empty,
					  give_value, &w, out + empty, err));
}

/* ---- links ---- */

static bool give_link(void *arg, store_id id, const struct store_link *from)
{
	struct walk *w = arg;
	struct source_link l = { .id = id };

	memcpy(l.trace_id, from->trace_id, sizeof(l.trace_id));
	memcpy(l.span_id, from->span_id, sizeof(l.span_id));
	return go_on(w, w->fn.link(w->ctx, &l, w->err));
}

static bool walk_links(struct source *q, const uint64_t *ids, uint32_t count, source_link_fn *fn,
		       void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.link = fn, .ctx = ctx, .err = err };
	uint32_t empty = count && ids[0] == 0;
	struct source_link none = { 0 };

	if (empty && !fn(ctx, &none, err))
		return false;
	return ended(&w, store_each_link(w.source->snapshot, ids + empty, count - empty, give_link,
					 &w, err));
}

static bool find_links(struct source *q, const uint8_t *trace_id, const uint8_t *span_id,
		       source_link_fn *fn, void *ctx, struct err *err)
{
	struct store_source *s = source_of(q);
	size_t count = 0, cap;
	store_id *ids;
	bool ok;

	if (!store_find_links(s->snapshot, trace_id, span_id, NULL, 0, &count, err))
		return false;
	if (count > UINT32_MAX / 2)
		return err_set(err, ERR_LIMIT, "%zu links of one trace", count);
	cap = count;
	ids = calloc(cap + 1, sizeof(*ids));
	assert(ids);
	ok = store_find_links(s->snapshot, trace_id, span_id, ids, cap, &count, err);
	count = count < cap ? count : cap;
	if (ok && count) {
		qsort(ids, count, sizeof(*ids), id_list_order);
		ok = walk_links(q, ids, (uint32_t)count, fn, ctx, err);
	}
	free(ids);
	return ok;
}

/* ---- the whole ---- */

static bool give_coverage(void *arg, const struct store_coverage *from)
{
	struct walk *w = arg;
	struct source_coverage c = { .host = from->host,
				     .reason = from->reason,
				     .range = { from->t0, from->t1 },
				     .n = from->n };

	return go_on(w, w->fn.coverage(w->ctx, &c, w->err));
}

static bool walk_coverage(struct source *q, struct source_range range, source_coverage_fn *fn,
			  void *ctx, struct err *err)
{
	struct walk w = { .source = source_of(q), .fn.coverage = fn, .ctx = ctx, .err = err };

	return ended(&w, store_each_coverage(w.source->snapshot, range.from, range.to,
					     give_coverage, &w, err));
}

static bool tell_asof(struct source *q, uint64_t *out, struct err *err)
{
	return store_asof(source_of(q)->snapshot, out, err);
}

static bool tell_names_state(struct source *q, uint64_t *out, struct err *err)
{
	return store_names_state(source_of(q)->snapshot, out, err);
}

static bool tell_extent(struct source *q, struct source_range *out, struct err *err)
{
	uint64_t oldest, newest;

	if (!store_extent(source_of(q)->snapshot, &oldest, &newest, err))
		return false;
	if (!newest)
		return err_set(err, ERR_NOT_FOUND, "there are no samples");
	*out = (struct source_range){ oldest, newest + (newest < UINT64_MAX) };
	return true;
}

static void free_source(struct source *q)
{
	struct store_source *s = source_of(q);

	store_end(s->snapshot);
	for (unsigned i = 0; i < ARRAY_LEN(s->attributes); i++)
		free(s->attributes[i]);
	free(s->lines);
	free(s);
}

/* clang-format off */
#define OPS \
	.series = walk_series, \
	.sample_keys = walk_sample_keys, \
	.scan = walk_rows, \
	.profiles = walk_profiles, \
	.stacks = walk_stacks, \
	.locations = walk_locations, \
	.attributes = walk_attributes, \
	.links = walk_links, \
	.find_links = find_links, \
	.coverage = walk_coverage, \
	.asof = tell_asof, \
	.names_state = tell_names_state, \
	.extent = tell_extent, \
	.free = free_source
/* clang-format on */
static const struct source_ops plain = { OPS }, with_values = { OPS, .values = walk_values },
			       with_events = { OPS, .events = walk_events },
			       with_both = { OPS, .values = walk_values, .events = walk_events };

/* What that store can do. */
static const struct source_ops *ops_of(const struct store_snapshot *snap)
{
	if (store_has_events(snap))
		return store_has_values(snap) ? &with_both : &with_events;
	return store_has_values(snap) ? &with_values : &plain;
}

bool store_source_open(const char *location, struct store **out, struct err *err)
{
	struct store_open_options options = { .location = location };

	return store_open(&options, out, err);
}

char *store_source_name(const char *location)
{
	return store_name(location);
}

void store_source_close(struct store *store)
{
	store_close(store);
}

bool store_source_new(struct store *store, struct source **out, struct err *err)
{
	struct store_source *s = calloc(1, sizeof(*s));

	assert(s);
	if (!store_begin(store, &s->snapshot, err)) {
		free(s);
		return false;
	}
	s->base.ops = ops_of(s->snapshot);
	*out = &s->base;
	return true;
}
