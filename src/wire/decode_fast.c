/*
 * decode_fast.c - the common shape of the four things that nearly all bytes of a body are: strings,
 * stacks, locations and samples, each in runs of one kind.
 *
 * Nothing is decided here: an entry that is in any way unusual (a long length, an unknown field, an
 * unpacked list, no room left) is handed, untouched, to the general decoder. So this file may only
 * know less than that one, never something else; decode_fast_test.c decodes everything both ways
 * and compares.
 *
 * Each loop keeps its positions in locals: with everything behind one pointer the compiler must
 * store and load them anew for each field, which costs three times as much.
 */
#include "wire/decode_fast.h"
#include "wire/decode_usual.h"
#include "wire/pb_packed.h"

#define MSB_OF_EACH UINT64_C(0x8080808080808080)

static uint64_t load64(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

/*
 * A varint of up to 8 bytes, of which 8 can be read at `p`: the groups of 7 bits are moved together
 * in three steps (7+7, 14+14, 28+28). Returns its length, 0 when it is longer.
 */
static inline unsigned varint_8(const uint8_t *p, uint64_t *out)
{
	uint64_t w = load64(p), stop = ~w & MSB_OF_EACH, v;

	if (stop == 0)
		return 0;
	v = w & (stop ^ (stop - 1)); /* up to and with the last byte */
	v = (v & UINT64_C(0x007f007f007f007f)) | (v & UINT64_C(0x7f007f007f007f00)) >> 1;
	v = (v & UINT64_C(0x00003fff00003fff)) | (v & UINT64_C(0x3fff00003fff0000)) >> 2;
	*out = (v & UINT64_C(0x000000000fffffff)) | (v & UINT64_C(0x0fffffff00000000)) >> 4;
	return (unsigned)__builtin_ctzll(stop) / 8 + 1;
}

/* A length of one or two bytes that lies within `end`; NULL when it is anything else. */
static inline const uint8_t *short_length(const uint8_t *p, const uint8_t *end, size_t *len)
{
	if (end - p < 2)
		return NULL;
	if (p[0] < 0x80) {
		*len = p[0];
		p += 1;
	} else if (p[1] < 0x80) {
		*len = (size_t)(p[0] & 0x7f) | (size_t)p[1] << 7;
		p += 2;
	} else {
		return NULL;
	}
	return *len <= (size_t)(end - p) ? p : NULL;
}

void fast_strings(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct str *out = dict->strings + dict->string_count,
		   *last = dict->strings + d->room.strings;
	const uint8_t *p = r->p, *end = r->end, *content;
	size_t len;

	while (end - p > 2 && *p == PB_TAG(5, PB_LEN) && out < last) {
		content = short_length(p + 1, end, &len);
		if (!content)
			break;
		*out++ = str_from(content, len);
		p = content + len;
	}
	dict->string_count = (uint32_t)(out - dict->strings);
	r->p = p;
}

/* `3a L 0a M indices`, where M is all that is left of L. */
void fast_stacks(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct stack *out = dict->stacks + dict->stack_count, *last = dict->stacks + d->room.stacks;
	const uint8_t *p = r->p, *end = r->end, *content, *list;
	uint32_t count = dict->stack_location_count, cap = d->room.stack_locations;
	size_t len, list_len, n;
	bool able = pb_packed_short_able();

	while (end - p > 2 && *p == PB_TAG(7, PB_LEN) && out < last) {
		content = short_length(p + 1, end, &len);
		if (!content || len < 2 || *content != PB_TAG(1, PB_LEN))
			break;
		list = short_length(content + 1, content + len, &list_len);
		if (!list || list + list_len != content + len || list_len > cap - count ||
		    list_len == 0)
			break;
		n = PB_PACKED_BAD;
		if (able && cap - count - list_len >= PB_PACKED_SLACK &&
		    d->readable_end - (list + list_len) >= PB_PACKED_SLACK)
			n = pb_packed_short(list, list_len, &dict->stack_locations[count].v);
		if (n == PB_PACKED_BAD)
			n = pb_packed_u32(str_from(list, list_len),
					  &dict->stack_locations[count].v);
		if (n == PB_PACKED_BAD)
			break;
		*out++ = (struct stack){ { count, (uint32_t)n } };
		count += (uint32_t)n;
		p = list + list_len;
	}
	dict->stack_count = (uint32_t)(out - dict->stacks);
	dict->stack_location_count = count;
	r->p = p;
}

/*
 * Where the next entries of the arrays that locations fill go. Each location is checked once for
 * room, at its length: no entry takes less than two bytes.
 */
struct location_heads {
	struct line *line;
	struct attribute_index *ref;
};

/*
 * The loops below look for the end only between fields: a varint at the end may read, and step, up
 * to 8 bytes past it, which the caller has made sure of; then the end is missed and the entry is
 * unusual.
 */
static inline bool fast_line(const uint8_t *p, const uint8_t *end, struct line *out)
{
	uint64_t v;
	unsigned n;

	*out = (struct line){ 0 };
	while (p < end) {
		uint8_t tag = *p++;

		n = varint_8(p, &v);
		if (n == 0)
			return false;
		p += n;
		if (tag == PB_TAG(1, PB_VARINT))
			out->function.v = (uint32_t)v;
		else if (tag == PB_TAG(2, PB_VARINT))
			out->line = (int64_t)v;
		else if (tag == PB_TAG(3, PB_VARINT))
			out->column = (int64_t)v;
		else
			return false;
	}
	return p == end;
}

/* One location; false when it is unusual: then nothing counts. */
static inline bool fast_location(const uint8_t *p, const uint8_t *end, struct location_heads *h,
				 struct location *out)
{
	struct attribute_index *ref = h->ref;
	struct line *line = h->line;
	uint64_t v, address = 0, mapping = 0;
	unsigned n;

	while (p < end) {
		uint8_t tag = *p++;

		switch (tag) {
		case PB_TAG(4, PB_LEN): /* one index of one byte is the rule: the frame's type */
			if (p[0] != 1 || p[1] >= 0x80)
				return false;
			(ref++)->v = p[1];
			p += 2;
			break;
		case PB_TAG(3, PB_LEN):
			if (p[0] >= 0x80 || p[0] >= end - p ||
			    !fast_line(p + 1, p + 1 + p[0], line))
				return false;
			line++;
			p += 1 + p[0];
			break;
		case PB_TAG(2, PB_VARINT):
			n = varint_8(p, &address);
			if (n == 0)
				return false;
			p += n;
			break;
		case PB_TAG(1, PB_VARINT):
			if (*p < 0x80) {
				mapping = *p++;
				break;
			}
			n = varint_8(p, &v);
			if (n == 0)
				return false;
			mapping = (uint32_t)v;
			p += n;
			break;
		default:
			return false;
		}
	}
	if (p != end)
		return false;
	out->address = address;
	out->mapping.v = (uint32_t)mapping;
	out->lines.count = (uint32_t)(line - h->line);
	out->attributes.count = (uint32_t)(ref - h->ref);
	h->line = line;
	h->ref = ref;
	return true;
}

/* One location in any order of fields; false when it is unusual. */
static bool any_location(struct location_run *run)
{
	size_t len;
	const uint8_t *content = short_length(run->p + 1, run->end, &len);
	struct location_heads h = { run->lines + run->line_count, run->refs + run->ref_count };
	struct location *out = run->out;

	if (!content || run->readable_end - (content + len) < LOAD_BYTES ||
	    run->line_cap - run->line_count < len / 2 || run->ref_cap - run->ref_count < len / 2 ||
	    !fast_location(content, content + len, &h, out))
		return false;
	out->lines.first = run->line_count;
	out->attributes.first = run->ref_count;
	run->line_count += out->lines.count;
	run->ref_count += out->attributes.count;
	run->out++;
	run->p = content + len;
	return true;
}

void fast_locations(struct decoder *d, struct pb_reader *r)
{
	struct profiles *model = d->p;
	struct dictionary *dict = &model->dict;
	struct location_run run = {
		.p = r->p,
		.end = r->end,
		.readable_end = d->readable_end,
		.out = dict->locations + dict->location_count,
		.last = dict->locations + d->room.locations,
		.refs = model->attribute_refs,
		.ref_count = model->attribute_ref_count,
		.ref_cap = d->room.attribute_refs,
		.lines = dict->lines,
		.line_count = dict->line_count,
		.line_cap = d->room.lines,
	};

	do
		usual_locations(&run);
	while (run.end - run.p > 2 && *run.p == PB_TAG(2, PB_LEN) && run.out < run.last &&
	       any_location(&run));
	dict->location_count = (uint32_t)(run.out - dict->locations);
	dict->line_count = run.line_count;
	model->attribute_ref_count = run.ref_count;
	r->p = run.p;
}

static inline bool fast_function(const uint8_t *p, const uint8_t *end, struct function *out)
{
	uint64_t v;
	unsigned n;

	*out = (struct function){ 0 };
	while (p < end) {
		uint8_t tag = *p++;

		n = varint_8(p, &v);
		if (n == 0)
			return false;
		p += n;
		if (tag == PB_TAG(1, PB_VARINT))
			out->name.v = (uint32_t)v;
		else if (tag == PB_TAG(2, PB_VARINT))
			out->system_name.v = (uint32_t)v;
		else if (tag == PB_TAG(3, PB_VARINT))
			out->filename.v = (uint32_t)v;
		else if (tag == PB_TAG(4, PB_VARINT))
			out->start_line = (int64_t)v;
		else
			return false;
	}
	return p == end;
}

void fast_functions(struct decoder *d, struct pb_reader *r)
{
	struct dictionary *dict = &d->p->dict;
	struct function *out = dict->functions + dict->function_count,
			*last = dict->functions + d->room.functions;
	const uint8_t *p = r->p, *end = r->end, *content;
	size_t len;

	while (end - p > 2 && *p == PB_TAG(3, PB_LEN) && out < last) {
		content = short_length(p + 1, end, &len);
		if (!content || d->readable_end - (content + len) < LOAD_BYTES ||
		    !fast_function(content, content + len, out))
			break;
		out++;
		p = content + len;
	}
	dict->function_count = (uint32_t)(out - dict->functions);
	r->p = p;
}

/* The next free entries of the arrays that samples fill; room is checked once a sample, as for
 * locations. */
struct sample_heads {
	struct attribute_index *ref;
	uint64_t *time;
};

typedef uint8_t u8x8 __attribute__((vector_size(8)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));

/* Eight one-byte indices, of which the caller wants the first few. */
static inline void widen_8(struct attribute_index *out, uint64_t w)
{
	u8x8 narrow;
	u32x8 wide;

	memcpy(&narrow, &w, sizeof(narrow));
	wide = __builtin_convertvector(narrow, u32x8);
	memcpy(out, &wide, sizeof(wide));
}

/* One sample with a short list of small attribute indices and without values; false when it is
 * unusual: nothing counts. */
static inline bool fast_sample(const uint8_t *p, const uint8_t *end, struct sample_tags tags,
			       struct sample_heads *h, struct sample *out)
{
	struct attribute_index *ref = h->ref;
	uint64_t *time = h->time, w;
	uint32_t v, stack = 0, link = 0;

	while (p < end) {
		uint8_t tag = p[0];
		size_t len = p[1];

		p += 2;
		if (tag == PB_TAG(5, PB_LEN)) {
			if (len % 8 || len >= 0x80 || len > (size_t)(end - p))
				return false;
			for (const uint8_t *stop = p + len; p < stop; p += 8)
				*time++ = load64(p);
		} else if (tag == tags.attributes) {
			w = load64(p);
			if (len > 8 || len > (size_t)(end - p) ||
			    (len && w << (64 - 8 * len) & MSB_OF_EACH))
				return false;
			widen_8(ref, w);
			ref += len;
			p += len;
		} else if (tag == PB_TAG(1, PB_VARINT) || tag == tags.link) {
			v = (uint32_t)len;
			if (v >= 0x80) {
				if (*p >= 0x80)
					return false;
				v = (v & 0x7f) | (uint32_t)*p++ << 7;
			}
			if (tag == PB_TAG(1, PB_VARINT))
				stack = v;
			else
				link = v;
		} else {
			return false;
		}
	}
	if (p != end)
		return false;
	out->stack.v = stack;
	out->link.v = link;
	out->attributes.count = (uint32_t)(ref - h->ref);
	out->timestamps.count = (uint32_t)(time - h->time);
	h->ref = ref;
	h->time = time;
	return true;
}

/* One sample in any order of fields; false when it is unusual. */
static bool any_sample(struct sample_run *run)
{
	size_t len;
	const uint8_t *content = short_length(run->p + 1, run->end, &len);
	struct sample_heads h = { run->refs + run->ref_count, run->times + run->time_count };
	struct sample *out = run->out;

	/* An index takes a byte, a timestamp eight; widen_8() writes up to eight entries more than
	 * it counts. */
	if (!content || run->readable_end - (content + len) < LOAD_BYTES + 2 ||
	    run->ref_cap - run->ref_count < len + 8 || run->time_cap - run->time_count < len / 8 ||
	    !fast_sample(content, content + len, run->tags, &h, out))
		return false;
	out->attributes.first = run->ref_count;
	out->timestamps.first = run->time_count;
	out->values = run->no_values;
	run->ref_count += out->attributes.count;
	run->time_count += out->timestamps.count;
	run->out++;
	run->p = content + len;
	return true;
}

void fast_samples(struct decoder *d, struct pb_reader *r)
{
	struct profiles *model = d->p;
	struct sample_run run = {
		.p = r->p,
		.end = r->end,
		.readable_end = d->readable_end,
		.out = model->samples + model->sample_count,
		.last = model->samples + d->room.samples,
		.refs = model->attribute_refs,
		.ref_count = model->attribute_ref_count,
		.ref_cap = d->room.attribute_refs,
		.times = model->timestamps,
		.time_count = model->timestamp_count,
		.time_cap = d->room.timestamps,
		.no_values = { .first = model->value_count },
		.tags = { PB_TAG(2, PB_LEN), PB_TAG(3, PB_VARINT) },
	};

	if (d->version < WIRE_V1_10)
		run.tags = (struct sample_tags){ PB_TAG(3, PB_LEN), PB_TAG(4, PB_VARINT) };
	do
		usual_samples(&run);
	while (run.end - run.p > 2 && *run.p == PB_TAG(2, PB_LEN) && run.out < run.last &&
	       any_sample(&run));
	model->sample_count = (uint32_t)(run.out - model->samples);
	model->attribute_ref_count = run.ref_count;
	model->timestamp_count = run.time_count;
	r->p = run.p;
}
