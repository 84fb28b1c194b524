/*
 * pprof_read.c - pprof's profile.proto into the model (fields: see pprof_write.c).
 *
 * Each sample type becomes a profile; a sample is in those where its value is not 0. Our own
 * `timestamp` labels become timestamps, `trace_id` and `span_id` links again, other labels
 * attributes. What is said of the whole becomes the scope's attributes (pprof_said.h), and the
 * frames that it does not want are dropped (pprof_drop.h). A samples/count column beside a column
 * of the period's own type is left out, as OTLP has one value a sample, where it is that column in
 * other words: a period for each count, in all rows.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/vec.h"
#include "formats/import_build.h"
#include "formats/pprof_drop.h"
#include "formats/pprof_said.h"
#include "formats/readers_writers.h"
#include "wire/pb_reader.h"

enum {
	TYPES_MOST = 256,
	LABELS_MOST = 256,
	LINES_MOST = 4096,
	COMMENTS_MOST = 64,
	STRINGS_MOST = 1 << 24
};

struct entry { /* of a table: id -> index in the model */
	uint64_t id;
	uint32_t index;
	enum pprof_frame frame; /* of functions: kept or dropped */
};
struct entries {
	struct entry *ptr;
	uint32_t count, cap;
};

struct reading {
	struct import im;
	struct str *strings;
	uint32_t string_count, string_cap;
	struct entries mappings, functions, locations;
	struct str types[TYPES_MOST];
	uint32_t type_count, left_out; /* left_out: type_count, or the column of counts that is */
	uint64_t period_type, period_unit, default_type, doc_url, drop_frames, keep_frames;
	uint64_t comments[COMMENTS_MOST];
	uint32_t comment_count;
	struct pprof_drop drop;
	enum pprof_frame *stack; /* of the sample at hand, beside im.stack */
	uint32_t stack_cap;
	int64_t period;
	uint64_t time, duration;
	const struct import_hints *hints;
	struct err *err;
};

static struct str string_of(const struct reading *r, uint64_t i)
{
	return i < r->string_count ? r->strings[i] : (struct str){ 0 };
}

static void entries_add(struct entries *e, uint64_t id, uint32_t index, enum pprof_frame frame)
{
	VEC_ROOM(e->ptr, e->count, e->cap);
	e->ptr[e->count++] = (struct entry){ id, index, frame };
}

static int entry_order(const void *a, const void *b)
{
	uint64_t x = ((const struct entry *)a)->id, y = ((const struct entry *)b)->id;

	return x < y ? -1 : x > y;
}

static void entries_sort(struct entries *e)
{
	if (e->count)
		qsort(e->ptr, e->count, sizeof(*e->ptr), entry_order);
}

/* Entry 0 of the model's tables where there is none. */
static struct entry entries_find(const struct entries *e, uint64_t id)
{
	struct entry key = { .id = id };
	const struct entry *found =
		e->count ? bsearch(&key, e->ptr, e->count, sizeof(key), entry_order) : NULL;

	return found ? *found : (struct entry){ 0 };
}

static bool reading_fault(const struct reading *r, const struct pb_reader *p, const void *base)
{
	pb_report(p, base, r->err);
	return err_prefix(r->err, "pprof");
}

/* Calls `fn` for each field of a number and of type LEN. */
static bool each_message(struct reading *r, struct str body, uint32_t field,
			 bool (*fn)(struct reading *r, struct str message))
{
	struct pb_reader p = pb_reader_of(body);

	while (pb_more(&p)) {
		uint32_t tag = pb_tag(&p);

		if (tag == PB_TAG(field, PB_LEN)) {
			struct str message = pb_bytes(&p);

			if (!p.fault && !fn(r, message))
				return false;
		} else {
			pb_skip(&p, tag);
		}
	}
	return !p.fault || reading_fault(r, &p, body.ptr);
}

static bool take_string(struct reading *r, struct str s)
{
	if (r->string_count == STRINGS_MOST)
		return err_set(r->err, ERR_LIMIT, "pprof: more than %d strings", STRINGS_MOST);
	VEC_ROOM(r->strings, r->string_count, r->string_cap);
	r->strings[r->string_count++] = s;
	return true;
}

/* Fields 1 to 8 of a message that are varints. */
static bool numbers_of(struct reading *r, struct str message, uint64_t v[9])
{
	struct pb_reader p = pb_reader_of(message);

	memset(v, 0, 9 * sizeof(*v));
	while (pb_more(&p)) {
		uint32_t tag = pb_tag(&p);

		if ((tag & 7) == PB_VARINT && tag >> 3 <= 8)
			v[tag >> 3] = pb_varint(&p);
		else
			pb_skip(&p, tag);
	}
	return !p.fault || reading_fault(r, &p, message.ptr);
}

static bool take_mapping(struct reading *r, struct str message)
{
	uint64_t v[9];
	struct mapping m;
	struct attribute_index build_id;
	struct str id;

	if (!numbers_of(r, message, v))
		return false;
	id = string_of(r, v[6]);
	m = (struct mapping){ .memory_start = v[2],
			      .memory_limit = v[3],
			      .file_offset = v[4],
			      .filename = builder_string(r->im.b, string_of(r, v[5])) };
	if (id.len)
		build_id = import_text(&r->im, "process.executable.build_id.gnu", id);
	entries_add(&r->mappings, v[1], builder_mapping(r->im.b, &m, &build_id, id.len ? 1 : 0).v,
		    PPROF_KEPT);
	return true;
}

static bool take_function(struct reading *r, struct str message)
{
	uint64_t v[9];
	struct function f;
	bool dropped;

	if (!numbers_of(r, message, v) ||
	    !pprof_drop_matches(&r->drop, string_of(r, v[2]), &dropped, r->err))
		return false;
	f = (struct function){ .name = builder_string(r->im.b, string_of(r, v[2])),
			       .system_name = builder_string(r->im.b, string_of(r, v[3])),
			       .filename = builder_string(r->im.b, string_of(r, v[4])),
			       .start_line = (int64_t)v[5] };
	entries_add(&r->functions, v[1], builder_function(r->im.b, &f).v,
		    dropped ? PPROF_DROPPED : PPROF_KEPT);
	return true;
}

static void put_location(struct reading *r, uint64_t id, const struct location *l,
			 const struct line *lines, uint32_t count, uint32_t dropped)
{
	enum pprof_frame frame = !dropped           ? PPROF_KEPT
				 : dropped == count ? PPROF_DROPPED
						    : PPROF_DROPS_CALLED;

	if (frame == PPROF_DROPS_CALLED) {
		lines += dropped;
		count -= dropped;
	}
	entries_add(&r->locations, id, builder_location(r->im.b, l, lines, count, NULL, 0).v,
		    frame);
}

static bool take_location(struct reading *r, struct str message)
{
	struct pb_reader p = pb_reader_of(message);
	struct line *lines = NULL;
	uint32_t count = 0, cap = 0, dropped = 0; /* so many lines, innermost first */
	uint64_t id = 0, v[9];
	struct location l = { 0 };
	bool ok = true;

	while (ok && pb_more(&p)) {
		uint32_t tag = pb_tag(&p);

		switch (tag) {
		case PB_TAG(1, PB_VARINT):
			id = pb_varint(&p);
			break;
		case PB_TAG(2, PB_VARINT):
			l.mapping.v = entries_find(&r->mappings, pb_varint(&p)).index;
			break;
		case PB_TAG(3, PB_VARINT):
			l.address = pb_varint(&p);
			break;
		case PB_TAG(4, PB_LEN):
			ok = numbers_of(r, pb_bytes(&p), v);
			if (count == LINES_MOST)
				ok = err_set(r->err, ERR_LIMIT,
					     "pprof: a location of more than %d lines", LINES_MOST);
			if (ok) {
				struct entry f = entries_find(&r->functions, v[1]);

				VEC_ROOM(lines, count, cap);
				lines[count++] =
					(struct line){ (int64_t)v[2], (int64_t)v[3], { f.index } };
				dropped = f.frame == PPROF_DROPPED ? count : dropped;
			}
			break;
		default:
			pb_skip(&p, tag);
		}
	}
	if (ok && p.fault)
		ok = reading_fault(r, &p, message.ptr);
	if (ok)
		put_location(r, id, &l, lines, count, dropped);
	free(lines);
	return ok;
}

static bool take_type(struct reading *r, struct str message)
{
	if (r->type_count == TYPES_MOST)
		return err_set(r->err, ERR_LIMIT, "pprof: more than %d sample types", TYPES_MOST);
	r->types[r->type_count++] = message;
	return true;
}

static bool take_period_type(struct reading *r, struct str message)
{
	uint64_t v[9];

	if (!numbers_of(r, message, v))
		return false;
	r->period_type = v[1];
	r->period_unit = v[2];
	return true;
}

static bool add_comment(struct reading *r, uint64_t string)
{
	if (r->comment_count == COMMENTS_MOST)
		return err_set(r->err, ERR_LIMIT, "pprof: more than %d comments", COMMENTS_MOST);
	r->comments[r->comment_count++] = string;
	return true;
}

static bool take_scalars(struct reading *r, struct str body)
{
	struct pb_reader p = pb_reader_of(body), packed;
	bool ok = true;

	while (ok && pb_more(&p)) {
		uint32_t tag = pb_tag(&p);

		switch (tag) {
		case PB_TAG(7, PB_VARINT):
			r->drop_frames = pb_varint(&p);
			break;
		case PB_TAG(8, PB_VARINT):
			r->keep_frames = pb_varint(&p);
			break;
		case PB_TAG(9, PB_VARINT):
			r->time = pb_varint(&p);
			break;
		case PB_TAG(10, PB_VARINT):
			r->duration = pb_varint(&p);
			break;
		case PB_TAG(12, PB_VARINT):
			r->period = (int64_t)pb_varint(&p);
			break;
		case PB_TAG(14, PB_VARINT):
			r->default_type = pb_varint(&p);
			break;
		case PB_TAG(13, PB_VARINT):
			ok = add_comment(r, pb_varint(&p));
			break;
		case PB_TAG(13, PB_LEN):
			packed = pb_reader_of(pb_bytes(&p));
			while (ok && pb_more(&packed))
				ok = add_comment(r, pb_varint(&packed));
			pb_join(&p, &packed);
			break;
		case PB_TAG(15, PB_VARINT):
			r->doc_url = pb_varint(&p);
			break;
		default:
			pb_skip(&p, tag);
		}
	}
	return ok && (!p.fault || reading_fault(r, &p, body.ptr));
}

/* ---- samples ---- */

struct one_sample {
	uint32_t column; /* which value is wanted */
	bool has_value;
	int64_t value;
	uint64_t timestamp;
	struct link link;
	struct attribute_index labels[LABELS_MOST];
	uint32_t label_count;
};

static bool take_label(struct reading *r, struct one_sample *s, struct str message)
{
	uint64_t v[9];
	struct str key, text;
	struct attribute a;

	if (!numbers_of(r, message, v))
		return false;
	key = string_of(r, v[1]);
	text = string_of(r, v[2]);
	if (str_is(key, "timestamp") && !text.len && v[3]) {
		s->timestamp = v[3];
		return true;
	}
	if ((str_is(key, "trace_id") && hex_decode(text, s->link.trace_id, 16)) ||
	    (str_is(key, "span_id") && hex_decode(text, s->link.span_id, 8)))
		return true;
	if (s->label_count == LABELS_MOST)
		return err_set(r->err, ERR_LIMIT, "pprof: a sample with more than %d labels",
			       LABELS_MOST);
	a = (struct attribute){ .key = builder_string(r->im.b, key),
				.unit = builder_string(r->im.b, string_of(r, v[4])) };
	if (text.len)
		a.value = (struct any_value){ .kind = ANY_STRING, .string = text };
	else
		a.value = (struct any_value){ .kind = ANY_INT, .integer = (int64_t)v[3] };
	s->labels[s->label_count++] = builder_attribute(r->im.b, &a);
	return true;
}

static bool push_location(struct reading *r, uint64_t id)
{
	struct entry l = entries_find(&r->locations, id);

	if (!import_stack_push(&r->im, (struct location_index){ l.index }, r->err))
		return false;
	if (!r->drop.drop)
		return true;
	VEC_RESERVE(r->stack, r->im.stack_count, r->stack_cap);
	r->stack[r->im.stack_count - 1] = l.frame;
	return true;
}

/* A repeated number, packed or not: the column's value, or all of a stack. */
static bool take_numbers(struct reading *r, struct one_sample *s, uint32_t *seen,
			 struct pb_reader *p, uint32_t tag)
{
	struct pb_reader packed = { 0 };
	bool is_packed = (tag & 7) == PB_LEN, ok = true;

	if (is_packed)
		packed = pb_reader_of(pb_bytes(p));
	while (ok && (!is_packed || pb_more(&packed))) {
		uint64_t v = pb_varint(is_packed ? &packed : p);

		if (tag >> 3 == 1) {
			ok = push_location(r, v);
		} else if ((*seen)++ == s->column) {
			s->value = (int64_t)v;
			s->has_value = true;
		}
		if (!is_packed)
			break;
	}
	pb_join(p, &packed);
	return ok;
}

static bool read_sample(struct reading *r, struct one_sample *s, struct str message)
{
	struct pb_reader p = pb_reader_of(message);
	uint32_t values = 0;
	bool ok = true;

	import_stack_clear(&r->im);
	s->has_value = false;
	s->timestamp = 0;
	s->label_count = 0;
	s->link = (struct link){ 0 };
	while (ok && pb_more(&p)) {
		uint32_t tag = pb_tag(&p);

		if (tag == PB_TAG(3, PB_LEN))
			ok = take_label(r, s, pb_bytes(&p));
		else if ((tag >> 3 == 1 || tag >> 3 == 2) &&
			 ((tag & 7) == PB_VARINT || (tag & 7) == PB_LEN))
			ok = take_numbers(r, s, &values, &p, tag);
		else
			pb_skip(&p, tag);
	}
	if (ok && r->drop.drop)
		import_stack_drop(&r->im, pprof_drop_count(r->stack, r->im.stack_count));
	return ok && (!p.fault || reading_fault(r, &p, message.ptr));
}

static bool put_column(struct reading *r, struct str body, uint32_t column)
{
	struct one_sample *s = calloc(1, sizeof(*s));
	struct pb_reader p = pb_reader_of(body);
	bool ok = true;

	assert(s);
	s->column = column;
	while (ok && pb_more(&p)) {
		uint32_t tag = pb_tag(&p);
		struct link_index link = { 0 };

		if (tag != PB_TAG(2, PB_LEN)) {
			pb_skip(&p, tag);
			continue;
		}
		ok = read_sample(r, s, pb_bytes(&p));
		if (!ok || !s->has_value || !s->value)
			continue;
		if (!id_is_zero(s->link.trace_id, 16) || !id_is_zero(s->link.span_id, 8))
			link = builder_link(r->im.b, &s->link);
		builder_sample(r->im.b, import_stack(&r->im), link, s->labels, s->label_count,
			       &s->value, 1, &s->timestamp, s->timestamp ? 1 : 0);
	}
	free(s);
	return ok;
}

static struct str renamed(const struct reading *r, struct str type)
{
	for (uint32_t i = 0; i < r->hints->rename_count; i++)
		if (str_equal(r->hints->renames[i].from, type))
			return r->hints->renames[i].to;
	return type;
}

/* Where no type is said to be the first to be seen it is the last one, so that what the types'
 * places are is kept. */
static bool put_order(const struct reading *r, struct any_value *order, struct key_value *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->type_count; i++)
		if (i != r->left_out)
			order[count++] = (struct any_value){ .kind = ANY_INT, .integer = i };
	*out = (struct key_value){ .key = STR(PPROF_SAMPLE_TYPE_ORDER),
				   .value = { .kind = ANY_ARRAY, .array = { order, count } } };
	return count > 1 && !string_of(r, r->default_type).len;
}

static void put_said(struct reading *r)
{
	const struct {
		const char *key;
		struct str value;
	} texts[] = {
		{ PPROF_DEFAULT_SAMPLE_TYPE, renamed(r, string_of(r, r->default_type)) },
		{ PPROF_DOC_URL, string_of(r, r->doc_url) },
		{ PPROF_DROP_FRAMES, string_of(r, r->drop_frames) },
		{ PPROF_KEEP_FRAMES, string_of(r, r->keep_frames) },
	};
	struct key_value said[ARRAY_LEN(texts) + 2];
	struct any_value comments[COMMENTS_MOST], order[TYPES_MOST];
	uint32_t count = 0;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (texts[i].value.len)
			said[count++] = (struct key_value){
				.key = str_cstr(texts[i].key),
				.value = { .kind = ANY_STRING, .string = texts[i].value },
			};
	for (uint32_t i = 0; i < r->comment_count; i++)
		comments[i] = (struct any_value){ .kind = ANY_STRING,
						  .string = string_of(r, r->comments[i]) };
	if (r->comment_count)
		said[count++] = (struct key_value){
			.key = STR(PPROF_COMMENT),
			.value = { .kind = ANY_ARRAY, .array = { comments, r->comment_count } },
		};
	if (put_order(r, order, &said[count]))
		count++;
	if (count)
		r->im.scope->attributes = builder_key_values(r->im.b, said, count);
}

/* The values of two columns; 0 where there is none. */
static void two_values(struct pb_reader *p, const uint32_t columns[2], int64_t values[2])
{
	uint32_t seen = 0;

	values[0] = values[1] = 0;
	while (pb_more(p)) {
		uint32_t tag = pb_tag(p);
		struct pb_reader packed = { 0 };
		bool is_packed = tag == PB_TAG(2, PB_LEN);

		if (!is_packed && tag != PB_TAG(2, PB_VARINT)) {
			pb_skip(p, tag);
			continue;
		}
		if (is_packed)
			packed = pb_reader_of(pb_bytes(p));
		while (!is_packed || pb_more(&packed)) {
			int64_t v = (int64_t)pb_varint(is_packed ? &packed : p);

			for (int i = 0; i < 2; i++)
				if (seen == columns[i])
					values[i] = v;
			seen++;
			if (!is_packed)
				break;
		}
		pb_join(p, &packed);
	}
}

/* Whether the first column times the period is the second one, in each sample. */
static bool is_same_in_periods(struct reading *r, struct str body, const uint32_t columns[2],
			       bool *same)
{
	struct pb_reader p = pb_reader_of(body), sample;
	int64_t values[2], product;

	*same = true;
	while (*same && pb_more(&p)) {
		uint32_t tag = pb_tag(&p);
		struct str message;

		if (tag != PB_TAG(2, PB_LEN)) {
			pb_skip(&p, tag);
			continue;
		}
		message = pb_bytes(&p);
		sample = pb_reader_of(message);
		two_values(&sample, columns, values);
		if (sample.fault)
			return reading_fault(r, &sample, message.ptr);
		*same = !__builtin_mul_overflow(values[0], r->period, &product) &&
			product == values[1];
	}
	return !p.fault || reading_fault(r, &p, body.ptr);
}

/* The column samples/count that says in periods what the one of the period's type says, or
 * type_count. */
static bool find_counts(struct reading *r, struct str body)
{
	struct str period_type = string_of(r, r->period_type);
	uint32_t columns[2] = { r->type_count, r->type_count };
	uint64_t v[9];
	bool same;

	r->left_out = r->type_count;
	for (uint32_t i = 0; i < r->type_count; i++) {
		if (!numbers_of(r, r->types[i], v))
			return false;
		if (str_is(string_of(r, v[1]), "samples"))
			columns[0] = i;
		else if (period_type.len && str_equal(string_of(r, v[1]), period_type))
			columns[1] = i;
	}
	if (columns[0] == r->type_count || columns[1] == r->type_count)
		return true;
	if (!is_same_in_periods(r, body, columns, &same))
		return false;
	if (same)
		r->left_out = columns[0];
	return true;
}

static bool put_profiles(struct reading *r, struct str body)
{
	struct str period_type = string_of(r, r->period_type);
	uint64_t v[9];

	for (uint32_t i = 0; i < r->type_count; i++) {
		struct profile *p;

		if (!numbers_of(r, r->types[i], v))
			return false;
		if (i == r->left_out)
			continue;
		p = import_profile(&r->im, renamed(r, string_of(r, v[1])), string_of(r, v[2]),
				   period_type, string_of(r, r->period_unit), r->period);
		p->time_unix_nano = r->time ? r->time : r->hints->time;
		p->duration_nano = r->duration ? r->duration : r->hints->duration;
		if (!put_column(r, body, i))
			return false;
	}
	return true;
}

static bool read_all(struct reading *r, struct str body)
{
	/* Tables may stand in any order: strings first, then what refers to them. */
	if (!each_message(r, body, 6, take_string) || !each_message(r, body, 1, take_type) ||
	    !each_message(r, body, 11, take_period_type) || !take_scalars(r, body) ||
	    !pprof_drop_init(&r->drop, string_of(r, r->drop_frames), string_of(r, r->keep_frames),
			     r->err) ||
	    !each_message(r, body, 3, take_mapping) || !each_message(r, body, 5, take_function))
		return false;
	if (!r->string_count || r->strings[0].len || !r->type_count)
		return err_set(r->err, ERR_INVALID,
			       "pprof: no sample type, or a string table without \"\" first");
	entries_sort(&r->mappings);
	entries_sort(&r->functions);
	if (!each_message(r, body, 4, take_location))
		return false;
	entries_sort(&r->locations);
	if (!find_counts(r, body))
		return false;
	put_said(r);
	return put_profiles(r, body);
}

bool pprof_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	static const struct import_hints nothing;

	return pprof_read_with(bytes, &nothing, out, err);
}

bool pprof_read_with(struct blob *bytes, const struct import_hints *hints, struct profiles **out,
		     struct err *err)
{
	struct reading *r = calloc(1, sizeof(*r));
	bool ok;

	assert(r);
	r->err = err;
	r->hints = hints;
	import_begin_with(&r->im, bytes, hints);
	ok = read_all(r, blob_view(bytes));
	ok = import_end(&r->im, ok, out, err);
	pprof_drop_release(&r->drop);
	free(r->stack);
	free(r->strings);
	free(r->mappings.ptr);
	free(r->functions.ptr);
	free(r->locations.ptr);
	free(r);
	return ok;
}
