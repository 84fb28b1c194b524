/*
 * pprof_write.c - a message as pprof's profile.proto (github.com/google/pprof,
 * proto/profile.proto).
 *
 *   Profile  1 sample_type* 2 sample* 3 mapping* 4 location* 5 function* 6 string_table*
 *            7 drop_frames 8 keep_frames 9 time_nanos 10 duration_nanos 11 period_type 12 period
 *            13 comment* 14 default_sample_type 15 doc_url
 *   Sample   1 location_id (packed, leaf first) 2 value (packed, one a sample type) 3 label*
 *   Label    1 key 2 str 3 num 4 num_unit
 *   Mapping  1 id 2 start 3 limit 4 offset 5 filename 6 build_id 7..10 has_*
 *   Location 1 id 2 mapping 3 address 4 line*     Line 1 function 2 line 3 column
 *   Function 1 id 2 name 3 system_name 4 filename 5 start_line
 *
 * Tables keep their OTLP indices as ids (entry 0, "not set", is left out), so locations that
 * samples do not use are simply not written. Every sample type of the message becomes a value,
 * and samples of several types that say the same otherwise one row (pprof_rows.h). Where the
 * message has only one of them, counts of a period in time get a second value, CPU time, as
 * Go's own profiles have it, and CPU time in whole periods the counts that the reader left out as
 * the same in other words.
 * A sample with timestamps becomes one sample each, with the label `timestamp`, unless told not to.
 * Attributes of sample, profile, scope and resource, and links, become labels.
 */
#include "formats/readers_writers.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"
#include "formats/pprof_rows.h"
#include "formats/pprof_said.h"
#include "model/intern.h"

struct value_column {
	struct str type, unit;
	bool is_time; /* counts times the period */
};

struct pprof {
	const struct profiles *p;
	bool timestamps;
	struct buf *out;
	struct buf message, nested, labels, resource_labels, sample_labels, numbers;
	struct pprof_rows rows; /* with several sample types: all are met before one is written */
	bool joins;             /* there are several */
	bool counts; /* times are written as counts, too: wanted, and all whole periods */
	bool times;  /* counts are written as times, too: none are there as such */
	struct intern_table string_table;
	struct str *strings;
	uint32_t string_count, string_cap;
	struct value_column *columns;
	uint32_t column_count;
	int64_t *values; /* one a column */
	bool *location_used, *function_used, *mapping_used;
};

enum { COLUMNS_MOST = 1024, SCOPES_LOOKED_AT = 256 };

/* ---- protobuf, forwards: what nests is small ---- */

static void put_uint(struct buf *b, unsigned field, uint64_t v)
{
	if (!v)
		return;
	buf_varint(b, field << 3);
	buf_varint(b, v);
}

static void put_bytes(struct buf *b, unsigned field, struct str s)
{
	buf_varint(b, field << 3 | 2);
	buf_varint(b, s.len);
	buf_str(b, s);
}

/* ---- strings ---- */

static bool string_same(const void *ctx, uint32_t index, const void *key)
{
	const struct pprof *w = ctx;

	return str_equal(w->strings[index], *(const struct str *)key);
}

/* `s` must live as long as the writer: the message's, or a literal. */
static uint64_t string_id(struct pprof *w, struct str s)
{
	uint32_t found = intern_find_or_add(&w->string_table, hash64(s), string_same, w, &s,
					    w->string_count);

	if (found != UINT32_MAX)
		return found;
	VEC_ROOM(w->strings, w->string_count, w->string_cap);
	w->strings[w->string_count] = s;
	return w->string_count++;
}

static uint64_t string_id_of(struct pprof *w, struct strindex i)
{
	return string_id(w, profiles_string(w->p, i));
}

/* Text made on the way lives in the arena. */
static uint64_t made_string_id(struct pprof *w, struct arena *arena, struct str s)
{
	return string_id(w, str_dup(arena, s));
}

static void put_strings(struct pprof *w)
{
	struct buf clean;

	buf_init(&clean, 0);
	for (uint32_t i = 0; i < w->string_count; i++) {
		buf_reset(&clean);
		if (utf8_valid(w->strings[i])) {
			put_bytes(w->out, 6, w->strings[i]);
			continue;
		}
		utf8_append_clean(&clean, w->strings[i]);
		put_bytes(w->out, 6, buf_view(&clean));
	}
	buf_release(&clean);
}

/* ---- labels ---- */

static void put_label(struct buf *labels, uint64_t key, uint64_t str, uint64_t num, uint64_t unit)
{
	char bytes[48];
	struct buf label = { .ptr = bytes, .cap = sizeof(bytes), .limit_bytes = sizeof(bytes) };

	put_uint(&label, 1, key);
	put_uint(&label, 2, str);
	put_uint(&label, 3, num);
	put_uint(&label, 4, unit);
	put_bytes(labels, 3, buf_view(&label));
}

/* A number 0 without a string is no label to pprof: it is written as text then. */
static void put_attribute(struct pprof *w, struct buf *labels, struct arena *arena, struct str key,
			  struct str unit, const struct any_value *v)
{
	struct buf text;

	if (!key.len || pprof_has_field_for(key))
		return;
	if (v->kind == ANY_INT && v->integer) {
		put_label(labels, string_id(w, key), 0, (uint64_t)v->integer, string_id(w, unit));
		return;
	}
	if (v->kind == ANY_STRING) {
		put_label(labels, string_id(w, key), string_id(w, v->string), 0, 0);
		return;
	}
	buf_init(&text, 0);
	any_value_append_text(&text, v);
	put_label(labels, string_id(w, key), made_string_id(w, arena, buf_view(&text)), 0, 0);
	buf_release(&text);
}

static void put_attributes(struct pprof *w, struct buf *labels, struct arena *arena,
			   struct range attributes)
{
	for (uint32_t i = 0; i < attributes.count; i++) {
		const struct attribute *a =
			&w->p->dict.attributes[w->p->attribute_refs[attributes.first + i].v];

		put_attribute(w, labels, arena, profiles_string(w->p, a->key),
			      profiles_string(w->p, a->unit), &a->value);
	}
}

static void put_key_values(struct pprof *w, struct buf *labels, struct arena *arena,
			   struct key_values list)
{
	for (uint32_t i = 0; i < list.count; i++)
		put_attribute(w, labels, arena, list.ptr[i].key, (struct str){ 0 },
			      &list.ptr[i].value);
}

static void put_link(struct pprof *w, struct buf *labels, struct arena *arena,
		     const struct link *link)
{
	struct buf hex;

	buf_init(&hex, 0);
	if (!id_is_zero(link->trace_id, sizeof(link->trace_id))) {
		buf_hex(&hex, link->trace_id, sizeof(link->trace_id));
		put_label(labels, string_id(w, STR("trace_id")),
			  made_string_id(w, arena, buf_view(&hex)), 0, 0);
	}
	buf_reset(&hex);
	if (!id_is_zero(link->span_id, sizeof(link->span_id))) {
		buf_hex(&hex, link->span_id, sizeof(link->span_id));
		put_label(labels, string_id(w, STR("span_id")),
			  made_string_id(w, arena, buf_view(&hex)), 0, 0);
	}
	buf_release(&hex);
}

/* ---- value columns ---- */

static bool is_counted_time(const struct profiles *p, const struct profile *profile)
{
	return profile->period > 0 &&
	       str_is(profiles_string(p, profile->sample_type.unit), "count") &&
	       str_is(profiles_string(p, profile->sample_type.type), "samples") &&
	       unit_in_ns(profiles_string(p, profile->period_type.unit));
}

/* In whole periods of its own type, as pprof's CPU profiles have it beside the counts. */
static bool is_own_time(const struct profiles *p, const struct profile *profile)
{
	return profile->period > 0 && profile->sample_type.unit.v == profile->period_type.unit.v &&
	       profile->sample_type.type.v == profile->period_type.type.v &&
	       str_is(profiles_string(p, profile->sample_type.unit), "nanoseconds");
}

static bool in_whole_periods(const struct profiles *p, const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->samples.count; i++) {
		const struct sample *s = &p->samples[profile->samples.first + i];
		struct sample_values values = sample_values_to_write(p, profile, s);
		int64_t total = sample_total(p, profile, s).value;
		uint32_t n = s->timestamps.count ? s->timestamps.count : 1;

		for (uint32_t k = 0; k < n; k++)
			if (sample_value_at(&values, total, n, k) % profile->period)
				return false;
	}
	return true;
}

/* Where any says otherwise, a column of counts would be wrong for it. */
static bool all_times_are_counts(const struct profiles *p)
{
	bool some = false;

	for (uint32_t i = 0; i < p->profile_count; i++) {
		const struct profile *profile = &p->profiles[i];

		if (profile->refused)
			continue;
		if (str_is(profiles_string(p, profile->sample_type.type), "samples") ||
		    (is_own_time(p, profile) && !in_whole_periods(p, profile)))
			return false;
		some |= is_own_time(p, profile);
	}
	return some;
}

static uint32_t column_of(struct pprof *w, struct str type, struct str unit, bool time)
{
	uint32_t i = 0;

	while (i < w->column_count &&
	       !(w->columns[i].is_time == time && str_equal(w->columns[i].type, type) &&
		 str_equal(w->columns[i].unit, unit)))
		i++;
	return i;
}

static void add_column(struct pprof *w, struct str type, struct str unit, bool time)
{
	uint32_t i = column_of(w, type, unit, time);

	if (i < w->column_count || i == COLUMNS_MOST)
		return;
	w->columns[i] = (struct value_column){ .type = type, .unit = unit, .is_time = time };
	w->column_count++;
}

static struct str type_of(const struct pprof *w, const struct value_type *t)
{
	return profiles_string(w->p, t->type);
}

static struct str unit_of(const struct pprof *w, const struct value_type *t)
{
	return profiles_string(w->p, t->unit);
}

static bool has_own_times(const struct profiles *p)
{
	for (uint32_t i = 0; i < p->profile_count; i++)
		if (!p->profiles[i].refused && is_own_time(p, &p->profiles[i]))
			return true;
	return false;
}

static bool gets_time(const struct pprof *w, const struct profile *profile)
{
	return w->times && is_counted_time(w->p, profile);
}

static void choose_columns(struct pprof *w)
{
	const struct profile *first = NULL;

	w->columns = calloc(COLUMNS_MOST, sizeof(*w->columns));
	assert(w->columns);
	w->counts = w->counts && all_times_are_counts(w->p);
	w->times = !has_own_times(w->p);
	for (uint32_t i = 0; i < w->p->profile_count; i++) {
		const struct profile *profile = &w->p->profiles[i];
		const struct value_type *type = &profile->sample_type;

		if (profile->refused)
			continue;
		if (w->counts && is_own_time(w->p, profile))
			add_column(w, STR("samples"), STR("count"), false);
		add_column(w, type_of(w, type), unit_of(w, type), false);
		if (gets_time(w, profile))
			add_column(w, type_of(w, &profile->period_type),
				   unit_of(w, &profile->period_type), true);
		w->joins |= first && (first->sample_type.type.v != type->type.v ||
				      first->sample_type.unit.v != type->unit.v);
		first = first ? first : profile;
	}
	w->values = calloc(w->column_count + 1, sizeof(*w->values));
	assert(w->values);
	pprof_rows_init(&w->rows, w->column_count, w->out->limit_bytes);
}

static void put_value_type(struct pprof *w, unsigned field, struct str type, struct str unit)
{
	buf_reset(&w->nested);
	put_uint(&w->nested, 1, string_id(w, type));
	put_uint(&w->nested, 2, string_id(w, unit));
	put_bytes(w->out, field, buf_view(&w->nested));
}

/* ---- samples ---- */

static int64_t saturating_product(int64_t a, int64_t b)
{
	int64_t v;

	if (!__builtin_mul_overflow(a, b, &v))
		return v;
	return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

static void set_value(struct pprof *w, struct str type, struct str unit, bool time, int64_t value)
{
	uint32_t at = column_of(w, type, unit, time);

	if (at < w->column_count)
		w->values[at] = value;
}

static void set_values(struct pprof *w, const struct profile *profile, int64_t value)
{
	const struct value_type *type = &profile->sample_type, *period = &profile->period_type;

	memset(w->values, 0, w->column_count * sizeof(*w->values));
	set_value(w, type_of(w, type), unit_of(w, type), false, value);
	if (gets_time(w, profile))
		set_value(w, type_of(w, period), unit_of(w, period), true,
			  saturating_product(value, profile->period));
	if (w->counts && is_own_time(w->p, profile))
		set_value(w, STR("samples"), STR("count"), false, value / profile->period);
}

/* What field 1 holds, in w->nested. */
static struct str encode_stack(struct pprof *w, struct stack_index stack)
{
	const struct dictionary *d = &w->p->dict;
	struct range r = d->stacks[stack.v].locations;

	buf_reset(&w->nested);
	for (uint32_t i = 0; i < r.count; i++) {
		uint32_t l = d->stack_locations[r.first + i].v;

		if (!l)
			continue;
		w->location_used[l] = true;
		buf_varint(&w->nested, l);
	}
	return buf_view(&w->nested);
}

static void write_sample(struct pprof *w, struct str stack, struct str labels,
			 const int64_t *values)
{
	buf_reset(&w->numbers);
	for (uint32_t i = 0; i < w->column_count; i++)
		buf_varint(&w->numbers, (uint64_t)values[i]);
	buf_reset(&w->message);
	put_bytes(&w->message, 1, stack);
	put_bytes(&w->message, 2, buf_view(&w->numbers));
	buf_str(&w->message, labels);
	put_bytes(w->out, 2, buf_view(&w->message));
}

static void put_sample(struct pprof *w, const struct profile *profile, const struct sample *s,
		       int64_t value, const uint64_t *timestamp)
{
	struct buf *labels = &w->sample_labels;

	set_values(w, profile, value);
	buf_reset(labels);
	if (timestamp)
		put_label(labels, string_id(w, STR("timestamp")), 0, *timestamp,
			  string_id(w, STR("nanoseconds")));
	buf_str(labels, buf_view(&w->labels));
	buf_str(labels, buf_view(&w->resource_labels));
	if (w->joins)
		pprof_rows_add(&w->rows, encode_stack(w, s->stack), buf_view(labels), w->values);
	else
		write_sample(w, encode_stack(w, s->stack), buf_view(labels), w->values);
}

static void put_rows(struct pprof *w)
{
	const struct pprof_rows *r = &w->rows;

	for (uint32_t i = 0; i < r->count && !w->out->failed; i++) {
		struct str row = pprof_rows_text(r, i);

		write_sample(w, str_head(row, r->ptr[i].stack_len),
			     str_skip(row, r->ptr[i].stack_len),
			     r->values + (size_t)i * r->columns);
	}
}

static void put_events(struct pprof *w, struct arena *arena, const struct profile *profile,
		       const struct sample *s)
{
	struct sample_values values = sample_values_to_write(w->p, profile, s);
	int64_t total = sample_total(w->p, profile, s).value;

	buf_reset(&w->labels);
	put_attributes(w, &w->labels, arena, s->attributes);
	put_attributes(w, &w->labels, arena, profile->attributes);
	if (s->link.v)
		put_link(w, &w->labels, arena, &w->p->dict.links[s->link.v]);
	if (!w->timestamps || s->timestamps.count == 0) {
		put_sample(w, profile, s, total, NULL);
		return;
	}
	for (uint32_t i = 0; i < s->timestamps.count; i++) {
		int64_t value = sample_value_at(&values, total, s->timestamps.count, i);

		put_sample(w, profile, s, value, &w->p->timestamps[s->timestamps.first + i]);
	}
}

static void put_profile(struct pprof *w, struct arena *arena, const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->samples.count && !w->out->failed; i++)
		put_events(w, arena, profile, &w->p->samples[profile->samples.first + i]);
}

static void put_samples(struct pprof *w, struct arena *arena)
{
	const struct profiles *p = w->p;

	for (uint32_t r = 0; r < p->resource_count; r++) {
		struct range scopes = p->resources[r].scopes;

		for (uint32_t k = scopes.first; k < scopes.first + scopes.count; k++) {
			struct range of_scope = p->scopes[k].profiles;

			buf_reset(&w->resource_labels);
			put_key_values(w, &w->resource_labels, arena, p->scopes[k].attributes);
			put_key_values(w, &w->resource_labels, arena, p->resources[r].attributes);
			for (uint32_t i = 0; i < of_scope.count; i++)
				if (!p->profiles[of_scope.first + i].refused)
					put_profile(w, arena, &p->profiles[of_scope.first + i]);
		}
	}
}

/* ---- tables ---- */

static void put_line(struct pprof *w, struct buf *location, const struct line *line)
{
	char bytes[48];
	struct buf b = { .ptr = bytes, .cap = sizeof(bytes), .limit_bytes = sizeof(bytes) };

	w->function_used[line->function.v] = true;
	put_uint(&b, 1, line->function.v);
	put_uint(&b, 2, (uint64_t)line->line);
	put_uint(&b, 3, (uint64_t)line->column);
	put_bytes(location, 4, buf_view(&b));
}

static void put_locations(struct pprof *w)
{
	const struct dictionary *d = &w->p->dict;

	for (uint32_t i = 1; i < d->location_count; i++) {
		const struct location *l = &d->locations[i];

		if (!w->location_used[i])
			continue;
		w->mapping_used[l->mapping.v] = true;
		buf_reset(&w->message);
		put_uint(&w->message, 1, i);
		put_uint(&w->message, 2, l->mapping.v);
		put_uint(&w->message, 3, l->address);
		for (uint32_t k = 0; k < l->lines.count; k++)
			if (d->lines[l->lines.first + k].function.v)
				put_line(w, &w->message, &d->lines[l->lines.first + k]);
		put_bytes(w->out, 4, buf_view(&w->message));
	}
}

static void put_functions(struct pprof *w)
{
	const struct dictionary *d = &w->p->dict;

	for (uint32_t i = 1; i < d->function_count; i++) {
		const struct function *f = &d->functions[i];
		struct strindex system = f->system_name.v ? f->system_name : f->name;

		if (!w->function_used[i])
			continue;
		buf_reset(&w->message);
		put_uint(&w->message, 1, i);
		put_uint(&w->message, 2, string_id_of(w, f->name));
		put_uint(&w->message, 3, string_id_of(w, system));
		put_uint(&w->message, 4, string_id_of(w, f->filename));
		put_uint(&w->message, 5, (uint64_t)f->start_line);
		put_bytes(w->out, 5, buf_view(&w->message));
	}
}

static struct str build_id_of(const struct profiles *p, const struct mapping *m)
{
	static const char *const keys[] = { "process.executable.build_id.gnu",
					    "process.executable.build_id.go",
					    "process.executable.build_id.htlhash" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct any_value *v = profiles_attribute(p, m->attributes, str_cstr(keys[i]));

		if (v && v->kind == ANY_STRING && v->string.len)
			return v->string;
	}
	return (struct str){ 0 };
}

/* All that could be found is in the profile: without has_* a reader would look for symbols itself.
 */
static void put_mappings(struct pprof *w)
{
	for (uint32_t i = 1; i < w->p->dict.mapping_count; i++) {
		const struct mapping *m = &w->p->dict.mappings[i];

		if (!w->mapping_used[i])
			continue;
		buf_reset(&w->message);
		put_uint(&w->message, 1, i);
		put_uint(&w->message, 2, m->memory_start);
		put_uint(&w->message, 3, m->memory_limit);
		put_uint(&w->message, 4, m->file_offset);
		put_uint(&w->message, 5, string_id_of(w, m->filename));
		put_uint(&w->message, 6, string_id(w, build_id_of(w->p, m)));
		for (unsigned flag = 7; flag <= 10; flag++)
			put_uint(&w->message, flag, 1);
		put_bytes(w->out, 3, buf_view(&w->message));
	}
}

struct taken { /* when a profile was taken: [from, to) */
	uint64_t from, to;
};

static int taken_order(const void *a, const void *b)
{
	const struct taken *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* The time that was measured: what lies between profiles, or in several of them, is not counted. */
static uint64_t covered_time(struct taken *t, uint32_t count)
{
	uint64_t covered = 0, end = 0;

	qsort(t, count, sizeof(*t), taken_order);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t from = t[i].from > end ? t[i].from : end;

		covered += t[i].to > from ? t[i].to - from : 0;
		end = t[i].to > end ? t[i].to : end;
	}
	return covered;
}

static void put_times(struct pprof *w)
{
	struct taken *taken = calloc(w->p->profile_count + 1u, sizeof(*taken));
	const struct profile *first = NULL;
	uint32_t count = 0;

	assert(taken);
	for (uint32_t i = 0; i < w->p->profile_count; i++) {
		const struct profile *profile = &w->p->profiles[i];
		uint64_t from = profile->time_unix_nano, to;

		if (profile->refused)
			continue;
		if (!first || (is_counted_time(w->p, profile) && !is_counted_time(w->p, first)))
			first = profile;
		if (__builtin_add_overflow(from, profile->duration_nano, &to))
			to = from;
		if (from)
			taken[count++] = (struct taken){ from, to };
	}
	if (count) {
		uint64_t covered = covered_time(taken, count);

		put_uint(w->out, 9, taken[0].from);
		put_uint(w->out, 10, covered);
	}
	free(taken);
	if (!first)
		return;
	put_value_type(w, 11, type_of(w, &first->period_type), unit_of(w, &first->period_type));
	put_uint(w->out, 12, (uint64_t)first->period);
}

/* What the scopes say, where a column is called so. */
static void put_default_type(struct pprof *w)
{
	for (uint32_t i = 0; i < w->p->scope_count; i++) {
		const struct any_value *v =
			key_values_find(w->p->scopes[i].attributes, STR(PPROF_DEFAULT_SAMPLE_TYPE));

		for (uint32_t k = 0; v && v->kind == ANY_STRING && k < w->column_count; k++)
			if (str_equal(w->columns[k].type, v->string)) {
				put_uint(w->out, 14, string_id(w, v->string));
				return;
			}
	}
}

static const struct any_value *said_by_a_scope(const struct pprof *w, const char *key)
{
	const struct any_value *v = NULL;

	for (uint32_t i = 0; !v && i < w->p->scope_count; i++)
		v = key_values_find(w->p->scopes[i].attributes, str_cstr(key));
	return v;
}

static bool is_met_before(const struct pprof *w, uint32_t scope, const struct any_value *comments)
{
	for (uint32_t i = 0; i < scope; i++) {
		const struct any_value *v =
			key_values_find(w->p->scopes[i].attributes, STR(PPROF_COMMENT));

		if (v && any_value_equal(v, comments))
			return true;
	}
	return false;
}

/* Those of every scope, once. */
static void put_comments(struct pprof *w)
{
	uint32_t looked_at =
		w->p->scope_count < SCOPES_LOOKED_AT ? w->p->scope_count : SCOPES_LOOKED_AT;

	for (uint32_t i = 0; i < looked_at; i++) {
		const struct any_value *v =
			key_values_find(w->p->scopes[i].attributes, STR(PPROF_COMMENT));

		if (!v || v->kind != ANY_ARRAY || is_met_before(w, i, v))
			continue;
		for (uint32_t k = 0; k < v->array.count; k++)
			if (v->array.values[k].kind == ANY_STRING)
				put_uint(w->out, 13, string_id(w, v->array.values[k].string));
	}
}

static bool all_scopes_agree(const struct pprof *w, const char *key)
{
	const struct any_value *first = NULL;

	for (uint32_t i = 0; i < w->p->scope_count; i++) {
		const struct any_value *v =
			key_values_find(w->p->scopes[i].attributes, str_cstr(key));

		if (!i)
			first = v;
		else if (!v != !first || (v && !any_value_equal(v, first)))
			return false;
	}
	return true;
}

static void put_said(struct pprof *w)
{
	static const struct {
		const char *key;
		unsigned field;
	} texts[] = { { PPROF_DROP_FRAMES, 7 }, { PPROF_KEEP_FRAMES, 8 }, { PPROF_DOC_URL, 15 } };
	/* What one scope drops another may keep. */
	bool drops =
		all_scopes_agree(w, PPROF_DROP_FRAMES) && all_scopes_agree(w, PPROF_KEEP_FRAMES);

	for (size_t i = drops ? 0 : 2; i < ARRAY_LEN(texts); i++) {
		const struct any_value *v = said_by_a_scope(w, texts[i].key);

		if (v && v->kind == ANY_STRING)
			put_uint(w->out, texts[i].field, string_id(w, v->string));
	}
	put_comments(w);
}

static void write_all(struct pprof *w, struct arena *arena)
{
	string_id(w, (struct str){ 0 });
	choose_columns(w);
	for (uint32_t i = 0; i < w->column_count; i++)
		put_value_type(w, 1, w->columns[i].type, w->columns[i].unit);
	put_samples(w, arena);
	put_rows(w);
	put_locations(w);
	put_functions(w);
	put_mappings(w);
	put_times(w);
	put_default_type(w);
	put_said(w);
	put_strings(w);
}

bool pprof_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		 struct err *err)
{
	struct pprof w = { .p = p,
			   .out = out,
			   .timestamps = !(o && o->without_timestamps),
			   .counts = !(o && o->one_column) };
	struct arena arena;
	bool too_many;

	arena_init(&arena, 4096, 0);
	intern_init(&w.string_table);
	w.location_used = calloc(p->dict.location_count, sizeof(bool));
	w.function_used = calloc(p->dict.function_count, sizeof(bool));
	w.mapping_used = calloc(p->dict.mapping_count, sizeof(bool));
	assert(w.location_used && w.function_used && w.mapping_used);
	write_all(&w, &arena);
	too_many = w.rows.failed;
	intern_release(&w.string_table);
	pprof_rows_release(&w.rows);
	free(w.strings);
	free(w.columns);
	free(w.values);
	free(w.location_used);
	free(w.function_used);
	free(w.mapping_used);
	buf_release(&w.sample_labels);
	buf_release(&w.numbers);
	buf_release(&w.message);
	buf_release(&w.nested);
	buf_release(&w.labels);
	buf_release(&w.resource_labels);
	arena_release(&arena);
	if (out->failed || too_many)
		return err_set(err, ERR_LIMIT, "pprof: more than %zu bytes", out->limit_bytes);
	return true;
}
