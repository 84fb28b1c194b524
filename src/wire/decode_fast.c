/*
 * decode_fast.c - the shapes that Go's writer gives to what eBPF profilers send, in runs of one
 * kind: strings, stacks, locations, functions and samples, which are nearly all bytes of a body.
 *
 * Nothing is decided here: an entry of any other shape (another order of fields, a long length, an
 * unknown field, an unpacked list, no room left) is handed, untouched, to the general decoder. So
 * this file may only know less than that one, never something else; decode_fast_test.c decodes
 * everything both ways and compares.
 *
 * Most of the time goes into wrongly guessed branches, so that there are few of them, each nearly
 * always the same way, and no loop over fields. Each loop keeps its positions in locals: with
 * everything behind one pointer the compiler must store and load them anew for each field, which
 * costs three times as much.
 */
#include "wire/decode_fast.h"
#include "wire/pb_packed.h"

enum { SLACK = 24 }; /* loads and stores may reach so far past what they count */

#define MSB_OF_EACH UINT64_C(0x8080808080808080)

static inline uint64_t load64(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

/* Where entries must end: so far from the body's end that loads need not look for it. */
static const uint8_t *stop_of(const uint8_t *p, const uint8_t *end, const uint8_t *readable_end)
{
	if (readable_end - end >= SLACK)
		return end;
	return readable_end - p >= SLACK ? readable_end - SLACK : p;
}

/* A varint of up to eight bytes: its value; the length is 9 when it is longer. */
static inline uint64_t varint_of(uint64_t w, unsigned *len)
{
	uint64_t stop = ~w & MSB_OF_EACH, v = w & (stop ^ (stop - 1));

	*len = stop ? (unsigned)__builtin_ctzll(stop) / 8 + 1 : 9;
	v = (v & UINT64_C(0x007f007f007f007f)) | (v & UINT64_C(0x7f007f007f007f00)) >> 1;
	v = (v & UINT64_C(0x00003fff00003fff)) | (v & UINT64_C(0x3fff00003fff0000)) >> 2;
	return (v & UINT64_C(0x000000000fffffff)) | (v & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* The same of up to four bytes; the length is 5 when it is longer. */
static inline uint32_t short_varint_of(uint64_t w64, unsigned *len)
{
	uint32_t w = (uint32_t)w64, stop = ~w & (uint32_t)MSB_OF_EACH, v = w & (stop ^ (stop - 1));

	*len = stop ? (unsigned)__builtin_ctz(stop) / 8 + 1 : 5;
	v = (v & 0x007f007f) | (v & 0x7f007f00) >> 1;
	return (v & 0x00003fff) | (v & 0x3fff0000) >> 2;
}

typedef uint8_t u8x8 __attribute__((vector_size(8)));
typedef uint16_t u16x8 __attribute__((vector_size(16)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));

/* Eight one-byte indices, of which the caller wants the first few. */
static inline void widen_8(struct attribute_index *out, uint64_t w)
{
	u8x8 narrow;
	u16x8 wide;
	u32x4 low, high;

	memcpy(&narrow, &w, sizeof(narrow));
	wide = __builtin_convertvector(narrow, u16x8);
	low = (u32x4)__builtin_shufflevector(wide, (u16x8){ 0 }, 0, 8, 1, 9, 2, 10, 3, 11);
	high = (u32x4)__builtin_shufflevector(wide, (u16x8){ 0 }, 4, 12, 5, 13, 6, 14, 7, 15);
	memcpy(out, &low, sizeof(low));
	memcpy(out + 4, &high, sizeof(high));
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

static inline bool usual_function(const uint8_t *p, const uint8_t *end, struct function *out)
{
	uint32_t v;
	unsigned n;

	*out = (struct function){ 0 };
	while (p < end) {
		uint8_t tag = *p++;

		v = short_varint_of(load64(p), &n);
		p += n;
		if (n > 4)
			return false;
		if (tag == PB_TAG(1, PB_VARINT))
			out->name.v = v;
		else if (tag == PB_TAG(2, PB_VARINT))
			out->system_name.v = v;
		else if (tag == PB_TAG(3, PB_VARINT))
			out->filename.v = v;
		else if (tag == PB_TAG(4, PB_VARINT))
			out->start_line = v;
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
		if (!content || d->readable_end - (content + len) < SLACK ||
		    !usual_function(content, content + len, out))
			break;
		out++;
		p = content + len;
	}
	dict->function_count = (uint32_t)(out - dict->functions);
	r->p = p;
}

/* Where a location's attribute indices and lines go, and how many fit there. */
struct location_room {
	struct attribute_index *ref;
	struct line *line;
	size_t refs, lines;
};

/* `12 L 22 01 A`: a location of less than 128 bytes that begins with one attribute index of a byte.
 */
#define LOCATION_HEAD_MASK UINT64_C(0x80ffff80ff)
#define LOCATION_HEAD      (UINT64_C(1) << 24 | (uint32_t)PB_TAG(4, PB_LEN) << 16 | PB_TAG(2, PB_LEN))

/* `10 line 08 function` or `08 function`; false when it is anything else. */
static inline bool usual_line(const uint8_t *p, const uint8_t *end, struct line *out)
{
	uint32_t line = 0, function;
	unsigned n;

	if (*p == PB_TAG(2, PB_VARINT)) {
		line = short_varint_of(load64(p + 1), &n);
		if (n > 4)
			return false;
		p += 1 + n;
	}
	function = short_varint_of(load64(p + 1), &n);
	if (*p != PB_TAG(1, PB_VARINT) || n > 4 || p + 1 + n != end)
		return false;
	*out = (struct line){ .line = line, .function.v = function };
	return true;
}

/* `22 01 type [1a L line] [10 address 08 mapping]`: where the next entry begins, NULL when it is
 * anything else. */
static inline const uint8_t *usual_location(const uint8_t *p, const uint8_t *stop,
					    struct location_room room, struct location *out)
{
	uint64_t head = load64(p), address = 0;
	const uint8_t *next = p + 2 + p[1], *at = p + 5, *line_end;
	uint32_t lines = 0, mapping = 0;
	unsigned n;

	if ((head & LOCATION_HEAD_MASK) != LOCATION_HEAD || next > stop || next < at ||
	    room.refs == 0 || room.lines == 0)
		return NULL;
	if (at < next && *at == PB_TAG(3, PB_LEN)) {
		line_end = at + 2 + at[1];
		if (at[1] >= 0x80 || line_end > next || !usual_line(at + 2, line_end, room.line))
			return NULL;
		at = line_end;
		lines = 1;
	}
	if (at < next) {
		address = varint_of(load64(at + 1), &n);
		mapping = next[-1];
		if (*at != PB_TAG(2, PB_VARINT) || n == 9 || at + 1 + n + 2 != next ||
		    next[-2] != PB_TAG(1, PB_VARINT) || mapping >= 0x80)
			return NULL;
	}
	room.ref->v = (uint32_t)(head >> 32) & 0x7f;
	*out = (struct location){ .address = address,
				  .mapping.v = mapping,
				  .lines.count = lines,
				  .attributes.count = 1 };
	return next;
}

static bool any_line(const uint8_t *p, const uint8_t *end, struct line *out)
{
	uint64_t v;
	unsigned n;

	*out = (struct line){ 0 };
	while (p < end) {
		uint8_t tag = *p++;

		v = varint_of(load64(p), &n);
		p += n;
		if (n == 9)
			return false;
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

/* One with its fields in any order, as other writers have them. Every field takes two bytes at
 * least. */
static const uint8_t *any_location(const uint8_t *p, const uint8_t *stop, struct location_room room,
				   struct location *out)
{
	const uint8_t *end = p + 2 + p[1];
	unsigned n = 0;

	if (p[0] != PB_TAG(2, PB_LEN) || p[1] >= 0x80 || end > stop || room.refs < p[1] / 2 ||
	    room.lines < p[1] / 2)
		return NULL;
	*out = (struct location){ 0 };
	for (p += 2; p < end; p += n) {
		uint8_t tag = *p++;

		if (tag == PB_TAG(4, PB_LEN) && p[0] == 1 && p[1] < 0x80) {
			room.ref[out->attributes.count++].v = p[1];
			n = 2;
		} else if (tag == PB_TAG(3, PB_LEN) && p[0] < 0x80 && p[0] < end - p &&
			   any_line(p + 1, p + 1 + p[0], &room.line[out->lines.count])) {
			out->lines.count++;
			n = 1u + p[0];
		} else if (tag == PB_TAG(2, PB_VARINT)) {
			out->address = varint_of(load64(p), &n);
			if (n > 8)
				return NULL;
		} else if (tag == PB_TAG(1, PB_VARINT)) {
			out->mapping.v = short_varint_of(load64(p), &n);
			if (n > 4)
				return NULL;
		} else {
			return NULL;
		}
	}
	return p == end ? end : NULL;
}

void fast_locations(struct decoder *d, struct pb_reader *r)
{
	struct profiles *model = d->p;
	struct dictionary *dict = &model->dict;
	const uint8_t *p = r->p, *stop = stop_of(p, r->end, d->readable_end), *next;
	struct location *out = dict->locations + dict->location_count,
			*last = dict->locations + d->room.locations;
	struct attribute_index *refs = model->attribute_refs;
	struct line *lines = dict->lines;
	uint32_t ref_count = model->attribute_ref_count, ref_cap = d->room.attribute_refs;
	uint32_t line_count = dict->line_count, line_cap = d->room.lines;

	while (out < last && stop - p >= 2) {
		struct location_room room = { refs + ref_count, lines + line_count,
					      ref_cap - ref_count, line_cap - line_count };

		next = usual_location(p, stop, room, out);
		if (!next)
			next = any_location(p, stop, room, out);
		if (!next)
			break;
		out->lines.first = line_count;
		out->attributes.first = ref_count;
		line_count += out->lines.count;
		ref_count += out->attributes.count;
		out++;
		p = next;
	}
	dict->location_count = (uint32_t)(out - dict->locations);
	dict->line_count = line_count;
	model->attribute_ref_count = ref_count;
	r->p = p;
}

/* Where a sample's attribute indices and timestamps go, and how many fit there. */
struct sample_room {
	struct attribute_index *ref;
	uint64_t *time;
	size_t refs, times;
};

/* Field numbers that changed in v1.10. */
struct sample_tags {
	uint8_t attributes, link;
};

/* `12 L 2a T`: a sample of less than 128 bytes that begins with whole timestamps. */
#define SAMPLE_HEAD_MASK UINT32_C(0x87ff80ff)
#define SAMPLE_HEAD      ((uint32_t)PB_TAG(5, PB_LEN) << 16 | PB_TAG(2, PB_LEN))

/* Timestamps, up to eight attribute indices of a byte each, a stack of one or two bytes. */
static inline const uint8_t *usual_sample(const uint8_t *p, const uint8_t *stop,
					  struct sample_tags tags, struct sample_room room,
					  struct sample *out)
{
	const uint8_t *next = p + 2 + p[1], *refs;
	uint32_t head, times_len, refs_len, stack_len, stack, tail;
	uint64_t w;

	memcpy(&head, p, sizeof(head));
	times_len = head >> 24;
	refs = p + 4 + times_len;
	if ((head & SAMPLE_HEAD_MASK) != SAMPLE_HEAD || next > stop || next - refs < 4)
		return NULL;
	refs_len = refs[1];
	stack_len = (uint32_t)(next - refs) - 3 - refs_len;
	if (refs[0] != tags.attributes || refs_len > 8 || stack_len - 1 > 1 ||
	    refs[2 + refs_len] != PB_TAG(1, PB_VARINT))
		return NULL;
	w = load64(refs + 2);
	tail = next[-1];
	stack = next[-2];
	if ((refs_len && w << (64 - 8 * refs_len) & MSB_OF_EACH) || tail >= 0x80 ||
	    (stack_len == 2 && stack < 0x80) || room.refs < 8 || room.times < times_len / 8)
		return NULL;
	*out = (struct sample){ .stack.v = stack_len == 2 ? (stack & 0x7f) | tail << 7 : tail,
				.attributes.count = refs_len,
				.timestamps.count = times_len / 8 };
	widen_8(room.ref, w);
	for (uint32_t i = 0; i < times_len; i += 8)
		*room.time++ = load64(p + 4 + i);
	return next;
}

/* One without values, with its fields in any order and no varint above two bytes. */
static const uint8_t *any_sample(const uint8_t *p, const uint8_t *stop, struct sample_tags tags,
				 struct sample_room room, struct sample *out)
{
	const uint8_t *end = p + 2 + p[1];
	unsigned n = 0;

	/* An index takes a byte, a timestamp eight; widen_8() writes eight entries whatever counts.
	 */
	if (p[0] != PB_TAG(2, PB_LEN) || p[1] >= 0x80 || end > stop || room.refs < p[1] + 8u ||
	    room.times < p[1] / 8)
		return NULL;
	*out = (struct sample){ 0 };
	for (p += 2; p < end; p += n) {
		uint8_t tag = *p++;
		size_t len = *p;

		if (tag == PB_TAG(5, PB_LEN) && len % 8 == 0 && len < (size_t)(end - p)) {
			memcpy(room.time + out->timestamps.count, p + 1, len);
			out->timestamps.count += (uint32_t)len / 8;
			n = 1 + (unsigned)len;
		} else if (tag == tags.attributes && len <= 8 && len < (size_t)(end - p) &&
			   !(len && load64(p + 1) << (64 - 8 * len) & MSB_OF_EACH)) {
			widen_8(room.ref + out->attributes.count, load64(p + 1));
			out->attributes.count += (uint32_t)len;
			n = 1 + (unsigned)len;
		} else if (tag == PB_TAG(1, PB_VARINT) || tag == tags.link) {
			uint32_t v = short_varint_of(load64(p), &n);

			if (n > 4)
				return NULL;
			if (tag == tags.link)
				out->link.v = v;
			else
				out->stack.v = v;
		} else {
			return NULL;
		}
	}
	return p == end ? end : NULL;
}

void fast_samples(struct decoder *d, struct pb_reader *r)
{
	const struct sample_tags tags =
		d->version < WIRE_V1_10
			? (struct sample_tags){ PB_TAG(3, PB_LEN), PB_TAG(4, PB_VARINT) }
			: (struct sample_tags){ PB_TAG(2, PB_LEN), PB_TAG(3, PB_VARINT) };
	struct profiles *model = d->p;
	const uint8_t *p = r->p, *stop = stop_of(p, r->end, d->readable_end), *next;
	struct sample *out = model->samples + model->sample_count,
		      *last = model->samples + d->room.samples;
	struct attribute_index *refs = model->attribute_refs;
	uint64_t *times = model->timestamps;
	uint32_t ref_count = model->attribute_ref_count, ref_cap = d->room.attribute_refs;
	uint32_t time_count = model->timestamp_count, time_cap = d->room.timestamps;

	while (out < last && stop - p >= 2) {
		struct sample_room room = { refs + ref_count, times + time_count,
					    ref_cap - ref_count, time_cap - time_count };

		next = usual_sample(p, stop, tags, room, out);
		if (!next)
			next = any_sample(p, stop, tags, room, out);
		if (!next)
			break;
		out->attributes.first = ref_count;
		out->timestamps.first = time_count;
		out->values.first = model->value_count;
		ref_count += out->attributes.count;
		time_count += out->timestamps.count;
		out++;
		p = next;
	}
	model->sample_count = (uint32_t)(out - model->samples);
	model->attribute_ref_count = ref_count;
	model->timestamp_count = time_count;
	r->p = p;
}
