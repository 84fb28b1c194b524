/* collect.c - a selection as a message of its own: for the writers of other tools' formats. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "model/builder.h"
#include "query/select/gauge.h"
#include "query/sum/frames.h"
#include "query/sum/rows.h"
#include "store/id_list.h"

enum { SOME = 64 };

struct collecting {
	struct query *q;
	struct builder *b;
	struct kept_rows rows;
	struct gauge_weights *weights; /* of a gauge that is averaged */
	double carry;
	bool one_unit; /* samples are written in the type's unit, not in that of their series */
	struct number_set stacks, locations, sets, links, series;
	struct stack_index *stack;       /* by place */
	struct location_index *location; /* by place */
	struct link_index *link;
	struct attribute_index *attributes; /* of all sets, one after another */
	struct range *set;                  /* by place */
	bool *left_out;                     /* by place of the stack; NULL: no transforms */
	bool empty_left_out;                /* samples without a stack */
	uint32_t stack_cap, location_cap, link_cap, attribute_count, attribute_cap, set_cap,
		left_out_cap;
	uint64_t *stack_locations; /* of all stacks */
	struct range *stack_range;
	uint32_t stack_location_count, stack_location_cap, stack_range_cap;
};

static bool keep_row(void *ctx, const struct engine_event *e, struct err *err)
{
	struct collecting *c = ctx;

	uint32_t divisor = c->weights ? gauge_divisor(c->weights, c->q, e, 0) : 1;

	if (!e->first || !divisor)
		return true;
	if (!kept_rows_add(&c->rows, e, err))
		return false;
	if (c->one_unit)
		kept_rows_scale(&c->rows, e->series->says->scale);
	if (c->weights)
		kept_rows_divide(&c->rows, divisor, &c->carry);
	return true;
}

/* ---- dictionary ---- */

static struct attribute_index put_attribute(struct builder *b, struct str key, struct str unit,
					    const struct any_value *v)
{
	struct attribute a = { .key = builder_string(b, key),
			       .unit = builder_string(b, unit),
			       .value = *v };

	a.value.strindex.v = 0; /* of the other message */
	return builder_attribute(b, &a);
}

static struct attribute_index put_text_attribute(struct builder *b, const char *key,
						 struct str text)
{
	struct any_value v = { .kind = ANY_STRING, .string = text };

	return put_attribute(b, str_cstr(key), (struct str){ 0 }, &v);
}

static bool take_set(void *ctx, uint64_t id, struct source_attributes list, struct err *err)
{
	struct collecting *c = ctx;
	uint32_t place = id_place(c->sets.ptr, c->sets.count, id);

	if (place == UINT32_MAX)
		return true;
	if (!QUERY_ROOM(c->q, c->attributes, c->attribute_cap,
			(uint64_t)c->attribute_count + list.count, err))
		return false;
	c->set[place] = (struct range){ c->attribute_count, list.count };
	for (uint32_t i = 0; i < list.count; i++)
		c->attributes[c->attribute_count++] =
			put_attribute(c->b, list.ptr[i].key, list.ptr[i].unit, &list.ptr[i].value);
	return query_alive(c->q, err);
}

static bool take_link(void *ctx, const struct source_link *from, struct err *err)
{
	struct collecting *c = ctx;
	uint32_t place = id_place(c->links.ptr, c->links.count, from->id);
	struct link link;

	memcpy(link.trace_id, from->trace_id, sizeof(link.trace_id));
	memcpy(link.span_id, from->span_id, sizeof(link.span_id));
	if (place != UINT32_MAX)
		c->link[place] = builder_link(c->b, &link);
	return query_alive(c->q, err);
}

static bool take_stack(void *ctx, uint64_t id, const uint64_t *locations, uint32_t count,
		       struct err *err)
{
	struct collecting *c = ctx;
	uint32_t place = id_place(c->stacks.ptr, c->stacks.count, id);

	if (place == UINT32_MAX)
		return true;
	if (!QUERY_ROOM(c->q, c->stack_locations, c->stack_location_cap,
			(uint64_t)c->stack_location_count + count, err))
		return false;
	c->stack_range[place] = (struct range){ c->stack_location_count, count };
	for (uint32_t i = 0; i < count; i++)
		c->stack_locations[c->stack_location_count++] = locations[i];
	return query_alive(c->q, err);
}

static struct mapping_index put_mapping(struct builder *b, const struct source_location *l)
{
	struct mapping m = { .memory_start = l->mapping_start,
			     .memory_limit = l->mapping_limit,
			     .file_offset = l->mapping_offset,
			     .filename = builder_string(b, l->mapping) };
	struct attribute_index build_id;

	if (!l->mapping.len && !l->build_id.len && !l->mapping_limit)
		return (struct mapping_index){ 0 };
	if (!l->build_id.len)
		return builder_mapping(b, &m, NULL, 0);
	build_id = put_text_attribute(b, "process.executable.build_id.gnu", l->build_id);
	return builder_mapping(b, &m, &build_id, 1);
}

static struct line put_line(struct builder *b, const struct source_line *from)
{
	struct function f = { .name = builder_string(b, from->function),
			      .system_name = builder_string(b, from->system_name),
			      .filename = builder_string(b, from->file),
			      .start_line = from->start_line };

	return (struct line){ .line = from->line,
			      .column = from->column,
			      .function = builder_function(b, &f) };
}

static bool take_location(void *ctx, const struct source_location *from, struct err *err)
{
	struct collecting *c = ctx;
	uint32_t place = id_place(c->locations.ptr, c->locations.count, from->id);
	struct line some[SOME], *lines = some;
	struct location l = { .address = from->address };
	struct attribute_index type;

	if (place == UINT32_MAX)
		return true;
	if (from->line_count > SOME) {
		lines = calloc(from->line_count, sizeof(*lines));
		assert(lines);
	}
	for (uint32_t i = 0; i < from->line_count; i++)
		lines[i] = put_line(c->b, &from->lines[i]);
	l.mapping = put_mapping(c->b, from);
	if (from->frame_type.len)
		type = put_text_attribute(c->b, "profile.frame.type", from->frame_type);
	c->location[place] = builder_location(c->b, &l, lines, from->line_count, &type,
					      from->frame_type.len ? 1 : 0);
	if (lines != some)
		free(lines);
	return query_alive(c->q, err);
}

static bool list_locations(struct collecting *c, struct err *err)
{
	struct number_set *l = &c->locations;

	if (!QUERY_ROOM(c->q, l->ptr, l->cap, c->stack_location_count + 1u, err))
		return false;
	if (c->stack_location_count)
		memcpy(l->ptr, c->stack_locations, c->stack_location_count * sizeof(uint64_t));
	l->count = (uint32_t)id_list_sort(l->ptr, c->stack_location_count);
	return true;
}

static bool put_stacks(struct collecting *c, struct err *err)
{
	struct location_index *of = NULL;
	uint32_t cap = 0;
	bool ok = true;

	for (uint32_t i = 0; i < c->stacks.count && ok; i++) {
		struct range r = c->stack_range[i];

		ok = QUERY_ROOM(c->q, of, cap, r.count + 1u, err);
		for (uint32_t k = 0; k < r.count && ok; k++)
			of[k] = c->location[id_place(c->locations.ptr, c->locations.count,
						     c->stack_locations[r.first + k])];
		if (ok)
			c->stack[i] = builder_stack(c->b, of, r.count);
	}
	QUERY_DROP(c->q, of, cap);
	return ok;
}

/* ---- stacks as transforms leave them ---- */

static bool transforms(const struct query *q)
{
	return q->request.filter_count || q->request.by != QUERY_BY_FUNCTION;
}

/* What the transforms make of a stack without frames: such samples have no stack here. */
static bool judge_empty(struct collecting *c, struct err *err)
{
	const uint64_t none = 0;
	struct stack_index stack;
	const struct stack_list one = { &none, 1, &stack, &c->empty_left_out };

	return collect_frames(c->q, c->b, &one, err);
}

static bool is_left_out(const struct collecting *c, const struct kept_row *r)
{
	if (!c->left_out)
		return false;
	return r->stack ? c->left_out[id_place(c->stacks.ptr, c->stacks.count, r->stack)]
			: c->empty_left_out;
}

static bool transform_stacks(struct collecting *c, struct err *err)
{
	struct stack_list all = { c->stacks.ptr, c->stacks.count, c->stack, NULL };
	uint32_t kept = 0;

	if (!QUERY_ROOM(c->q, c->left_out, c->left_out_cap, c->stacks.count + 1u, err) ||
	    !judge_empty(c, err))
		return false;
	all.left_out = c->left_out;
	if (!collect_frames(c->q, c->b, &all, err))
		return false;
	for (uint32_t i = 0; i < c->rows.count; i++)
		if (!is_left_out(c, &c->rows.ptr[i]))
			c->rows.ptr[kept++] = c->rows.ptr[i];
	c->rows.count = kept;
	return true;
}

#define LIST(c, list, member, err) \
	kept_rows_distinct(&(c)->rows, offsetof(struct kept_row, member), list, err)

static bool put_dictionary(struct collecting *c, struct err *err)
{
	struct source *s = c->q->request.source;
	struct query *q = c->q;

	if (!LIST(c, &c->stacks, stack, err) || !LIST(c, &c->sets, attributes, err) ||
	    !LIST(c, &c->links, link, err) || !LIST(c, &c->series, series, err) ||
	    !QUERY_ROOM(q, c->stack, c->stack_cap, c->stacks.count + 1u, err) ||
	    !QUERY_ROOM(q, c->stack_range, c->stack_range_cap, c->stacks.count + 1u, err) ||
	    !QUERY_ROOM(q, c->set, c->set_cap, c->sets.count + 1u, err) ||
	    !QUERY_ROOM(q, c->link, c->link_cap, c->links.count + 1u, err))
		return false;
	memset(c->set, 0, c->set_cap * sizeof(*c->set));
	memset(c->link, 0, c->link_cap * sizeof(*c->link));
	memset(c->stack_range, 0, c->stack_range_cap * sizeof(*c->stack_range));
	if (!source_attributes(s, c->sets.ptr, c->sets.count, take_set, c, err) ||
	    !source_links(s, c->links.ptr, c->links.count, take_link, c, err))
		return false;
	if (transforms(q))
		return transform_stacks(c, err);
	if (!source_stacks(s, c->stacks.ptr, c->stacks.count, take_stack, c, err) ||
	    !list_locations(c, err) ||
	    !QUERY_ROOM(q, c->location, c->location_cap, c->locations.count + 1u, err))
		return false;
	memset(c->location, 0, c->location_cap * sizeof(*c->location));
	return source_locations(s, c->locations.ptr, c->locations.count, take_location, c, err) &&
	       put_stacks(c, err);
}

/* ---- resources, profiles, samples ---- */

static int row_order(const void *a, const void *b)
{
	const struct kept_row *x = a, *y = b;

	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static struct key_values put_key_values(struct builder *b, struct source_attributes list)
{
	struct key_value *kv = calloc(list.count + 1u, sizeof(*kv));
	struct key_values out;

	assert(kv);
	for (uint32_t i = 0; i < list.count; i++) {
		kv[i] = (struct key_value){ .key = list.ptr[i].key, .value = list.ptr[i].value };
		kv[i].value.strindex.v = 0;
	}
	out = builder_key_values(b, kv, list.count);
	free(kv);
	return out;
}

static struct value_type put_type(struct builder *b, struct str type, struct str unit)
{
	return (struct value_type){ builder_string(b, type), builder_string(b, unit) };
}

static void put_sample(struct collecting *c, const struct kept_row *r)
{
	struct range set = { 0 };
	struct link_index link = { 0 };
	struct stack_index stack = { 0 };

	if (r->attributes)
		set = c->set[id_place(c->sets.ptr, c->sets.count, r->attributes)];
	if (r->link)
		link = c->link[id_place(c->links.ptr, c->links.count, r->link)];
	if (r->stack)
		stack = c->stack[id_place(c->stacks.ptr, c->stacks.count, r->stack)];
	builder_sample(c->b, stack, link, c->attributes + set.first, set.count,
		       c->rows.values + r->first_value, r->value_count,
		       c->rows.timestamps + r->first_timestamp, r->timestamp_count);
}

/* Of a profile that reaches out of the window, the time within: what it costs a second stays so. */
static void clip_time(const struct query *q, struct profile *p)
{
	uint64_t from = q->request.range.from, to = q->request.range.to, end;

	if (__builtin_add_overflow(p->time_unix_nano, p->duration_nano, &end))
		end = UINT64_MAX;
	from = from > p->time_unix_nano ? from : p->time_unix_nano;
	to = to < end ? to : end;
	if (!q->request.clip || from >= to)
		return;
	p->time_unix_nano = from;
	p->duration_nano = to - from;
}

static void put_profile(struct collecting *c, const struct source_series *s,
			const struct engine_profile *p, const struct kept_row *first)
{
	const struct query_type *type = query_type_of(c->q);
	struct profile *out = builder_begin_profile(c->b);

	out->sample_type = c->one_unit ? put_type(c->b, type->type, type->unit)
				       : put_type(c->b, s->sample_type, s->sample_unit);
	out->period_type = put_type(c->b, s->period_type, s->period_unit);
	out->period = s->period;
	out->time_unix_nano = p ? p->time : first->profile_time;
	out->duration_nano = p ? p->duration : 0;
	clip_time(c->q, out);
}

static bool put_series(void *ctx, const struct source_series *s, struct err *err)
{
	struct collecting *c = ctx;
	const struct engine_profile *profile = NULL;
	struct scope_profiles *scope;
	uint32_t low = 0, high = c->rows.count;
	bool open = false;

	while (low < high) { /* the first row of the series */
		uint32_t mid = low + (high - low) / 2;

		if (c->rows.ptr[mid].series < s->id)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == c->rows.count || c->rows.ptr[low].series != s->id)
		return true;
	builder_begin_resource(c->b)->attributes = put_key_values(c->b, s->resource);
	scope = builder_begin_scope(c->b);
	scope->attributes = put_key_values(c->b, s->scope);
	scope->name = str_dup(builder_arena(c->b), s->scope_name);
	scope->version = str_dup(builder_arena(c->b), s->scope_version);
	for (; low < c->rows.count && c->rows.ptr[low].series == s->id; low++) {
		const struct kept_row *r = &c->rows.ptr[low];
		const struct engine_profile *p = engine_profile_of(c->q, r->sample);

		if (!open || p != profile)
			put_profile(c, s, p, r);
		open = true;
		profile = p;
		put_sample(c, r);
	}
	return query_alive(c->q, err);
}

static bool weigh_gauge(struct collecting *c, struct err *err)
{
	struct query *q = c->q;

	if (!q->request.average || !query_of_gauge(q))
		return true;
	c->weights = gauge_weights_new(q, &(struct gauge_buckets){ 0 }, err);
	return c->weights != NULL;
}

/* Would a reader that adds up the samples' own values add up different things? */
static bool differ_in_unit(const struct query *q)
{
	const struct series_says *first =
		q->selected.series_count ? q->selected.series[0].says : NULL;
	bool counted = false, own = false, scaled = false, several = false;

	for (uint32_t i = 0; i < q->selected.series_count; i++) {
		const struct series_says *says = q->selected.series[i].says;

		counted |= says->counted;
		own |= !says->counted;
		scaled |= !says->counted && says->scale != 1;
		several |= says->scale != first->scale;
	}
	return q->request.average &&
	       ((counted && own) || scaled || (q->request.one_scale && several));
}

static bool collect_samples(struct collecting *c, struct err *err)
{
	struct query *q = c->q;
	struct source *s = q->request.source;
	struct source_series_ask ask = { .range = q->request.range };
	const struct walk w = walk_of(q, 0);

	c->one_unit = differ_in_unit(q);
	if (!weigh_gauge(c, err) || !engine_events(q, &w, keep_row, c, err) ||
	    !engine_load_profiles(q, err) || !put_dictionary(c, err))
		return false;
	if (c->rows.count)
		qsort(c->rows.ptr, c->rows.count, sizeof(*c->rows.ptr), row_order);
	ask.ids = q->selected.series_ids;
	ask.id_count = q->selected.series_count;
	return source_series(s, &ask, put_series, c, err);
}

static void collecting_release(struct collecting *c)
{
	struct query *q = c->q;
	struct number_set *lists[] = { &c->stacks, &c->locations, &c->sets, &c->links, &c->series };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		number_set_release(q, lists[i]);
	QUERY_DROP(q, c->stack, c->stack_cap);
	QUERY_DROP(q, c->location, c->location_cap);
	QUERY_DROP(q, c->link, c->link_cap);
	QUERY_DROP(q, c->attributes, c->attribute_cap);
	QUERY_DROP(q, c->set, c->set_cap);
	QUERY_DROP(q, c->left_out, c->left_out_cap);
	QUERY_DROP(q, c->stack_locations, c->stack_location_cap);
	QUERY_DROP(q, c->stack_range, c->stack_range_cap);
	gauge_weights_free(q, c->weights);
	kept_rows_release(&c->rows);
}

/* ---- merged: a sample a stack ---- */

static bool keep_sums(struct collecting *c, const struct stack_sums *sums, struct err *err)
{
	if (!QUERY_ROOM(c->q, c->rows.ptr, c->rows.cap, sums->count + 1u, err))
		return false;
	for (uint32_t i = 0; i < sums->count; i++)
		if (sums->ptr[i].value)
			c->rows.ptr[c->rows.count++] =
				(struct kept_row){ .stack = sums->ptr[i].stack,
						   .value = sums->ptr[i].value };
	return true;
}

static void put_merged_profile(struct collecting *c, int64_t unsummed)
{
	struct query_facts f = query_facts(c->q);
	struct profile *out;

	builder_begin_resource(c->b);
	builder_begin_scope(c->b);
	out = builder_begin_profile(c->b);
	out->sample_type = put_type(c->b, f.type.type, f.type.unit);
	out->period_type = put_type(c->b, f.type.period_type, f.type.period_unit);
	out->period = f.period;
	if (f.range.to != UINT64_MAX && f.range.to > f.range.from) {
		out->time_unix_nano = f.range.from;
		out->duration_nano = f.range.to - f.range.from;
	}
	for (uint32_t i = 0; i < c->rows.count; i++) {
		const struct kept_row *r = &c->rows.ptr[i];
		struct stack_index stack = { 0 };

		if (r->stack)
			stack = c->stack[id_place(c->stacks.ptr, c->stacks.count, r->stack)];
		builder_sample(c->b, stack, (struct link_index){ 0 }, NULL, 0, &r->value, 1, NULL,
			       0);
	}
	if (unsummed)
		builder_sample(c->b, (struct stack_index){ 0 }, (struct link_index){ 0 }, NULL, 0,
			       &unsummed, 1, NULL, 0);
}

static bool collect_merged(struct collecting *c, struct err *err)
{
	struct stack_sums sums;
	bool ok;

	if (!stack_sums_make(c->q, (struct str){ 0 }, &sums, err))
		return false;
	ok = keep_sums(c, &sums, err) && put_dictionary(c, err);
	if (ok)
		put_merged_profile(c, sums.unsummed);
	stack_sums_release(c->q, &sums);
	return ok;
}

static bool make_message(struct query *q, bool (*fill)(struct collecting *c, struct err *err),
			 struct profiles **out, struct err *err)
{
	struct builder_options options = { .limit_bytes = q->memory.limit_bytes,
					   .copy_strings = true };
	struct collecting c = { .q = q, .b = builder_new(&options), .rows.q = q };
	bool ok;

	q->partial = false;
	ok = fill(&c, err);
	collecting_release(&c);
	if (!ok) {
		builder_free(c.b);
		return false;
	}
	*out = builder_finish(c.b, err);
	return *out != NULL;
}

bool query_collect(struct query *q, struct profiles **out, struct err *err)
{
	return make_message(q, collect_samples, out, err);
}

bool query_collect_merged(struct query *q, struct profiles **out, struct err *err)
{
	return make_message(q, collect_merged, out, err);
}
