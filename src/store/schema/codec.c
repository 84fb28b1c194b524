#include "store/schema/codec.h"

#include <endian.h>

#include "model/builder.h"
#include "model/value_unknown.h"

enum {
	NOTE_EXTRA = 1,
	NOTE_BAD_INDEX = 2,
	NOTE_BAD_PLACE = 3,
	NOTE_VALUE_UNKNOWN = 4,
	BY_REFERENCE = 0x80,
	WITH_UNKNOWN = 0x40,
	DEPTH_MOST = 64
};

/* These numbers are in files. */
_Static_assert(ANY_STRING == 1 && ANY_KVLIST == 6 && ANY_BYTES == 7, "kept in files");
_Static_assert(MESSAGE_REQUEST == 0 && MESSAGE_SAMPLE == 6 && MESSAGE_LINE == 10 &&
		       MESSAGE_STACK == 14,
	       "kept in files");
_Static_assert(EXTRA_UNKNOWN_FIELDS == 0 && EXTRA_LABELS == 12 && EXTRA_BUILD_ID == 20 &&
		       EXTRA_ATTRIBUTE_UNITS == 27 && EXTRA_LOCATION_INDEX == 28 &&
		       EXTRA_UNIT_UNKNOWN == 31,
	       "kept in files");

enum place_flags { /* in files, too */
		   PLACE_APART = 1,
		   PLACE_ORIGIN = 2, /* the next ones tell of it */
		   PLACE_LIST = 4,
		   PLACE_OF_PROFILE = 8,
		   PLACE_ENTRY = 16,
		   PLACE_PART = 32,
		   PLACE_PART_NUMBER = 64,
};

/* ---- values ---- */

static void put_pairs(struct buf *b, const struct any_value *v)
{
	codec_put(b, v->kvlist.count);
	for (uint32_t i = 0; i < v->kvlist.count; i++) {
		const struct key_value *kv = &v->kvlist.pairs[i];

		buf_char(b, kv->key_strindex.v != 0);
		codec_put_str(b, kv->key);
		codec_put_any(b, &kv->value);
	}
}

static void put_unknown(struct buf *b, const struct value_unknown *u)
{
	codec_put_str(b, u->value);
	codec_put_str(b, u->list);
	codec_put_str(b, u->pair);
}

void codec_put_any(struct buf *b, const struct any_value *v)
{
	bool referenced = v->kind == ANY_STRING && any_value_is_reference(v);
	bool unknown = !value_unknown_is_none(v->unknown);

	buf_char(b, (char)((unsigned)v->kind | (referenced ? BY_REFERENCE : 0) |
			   (unknown ? WITH_UNKNOWN : 0)));
	if (unknown)
		put_unknown(b, v->unknown);
	switch (v->kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
	case ANY_BYTES:
		codec_put_str(b, v->string);
		break;
	case ANY_BOOL:
		buf_char(b, v->boolean);
		break;
	case ANY_INT:
		codec_put_signed(b, v->integer);
		break;
	case ANY_DOUBLE:
		buf_append(b, &v->real, sizeof(v->real));
		break;
	case ANY_ARRAY:
		codec_put(b, v->array.count);
		for (uint32_t i = 0; i < v->array.count; i++)
			codec_put_any(b, &v->array.values[i]);
		break;
	case ANY_KVLIST:
		put_pairs(b, v);
		break;
	}
}

static void codec_fail(struct codec *c)
{
	c->failed = true;
	c->at = c->end;
}

uint64_t codec_get_slow(struct codec *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte;

		if (c->at >= c->end)
			break;
		byte = *c->at++;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return v;
	}
	codec_fail(c);
	return 0;
}

/* One number of a list; false: cut, or longer than 64 bits. */
static bool get_one(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
	uint8_t byte = *(*at)++;
	uint64_t v = byte & 0x7f;

	for (unsigned shift = 7; byte >= 0x80; shift += 7) {
		if (*at == end || shift > 63)
			return false;
		byte = *(*at)++;
		v |= (uint64_t)(byte & 0x7f) << shift;
	}
	*out = v;
	return true;
}

/* Rows of a store mostly have numbers of two bytes: four of them at once. */
size_t codec_get_list(struct str bytes, uint64_t *out)
{
	const uint8_t *at = (const uint8_t *)bytes.ptr, *end = at ? at + bytes.len : at;
	size_t count = 0;

	while (at < end) {
		uint64_t w;

		if (end - at >= 8) {
			memcpy(&w, at, 8);
			w = le64toh(w);
			if ((w & UINT64_C(0x8080808080808080)) == UINT64_C(0x0080008000800080)) {
				w = (w & UINT64_C(0x007f007f007f007f)) |
				    (w & UINT64_C(0x7f007f007f007f00)) >> 1;
				for (int i = 0; i < 4; i++)
					out[count++] = w >> (16 * i) & 0xffff;
				at += 8;
				continue;
			}
		}
		if (!get_one(&at, end, &out[count++]))
			return SIZE_MAX;
	}
	return count;
}

uint8_t codec_get_byte(struct codec *c)
{
	if (c->at < c->end)
		return *c->at++;
	codec_fail(c);
	return 0;
}

struct str codec_get_str(struct codec *c)
{
	uint64_t len = codec_get(c);
	struct str s = { (const char *)c->at, len };

	if (len > (uint64_t)(c->end - c->at)) {
		codec_fail(c);
		return (struct str){ 0 };
	}
	c->at += len;
	return s;
}

static struct any_value get_any(struct codec *c, struct arena *arena, unsigned depth);

/* A list has at least one byte an element, so its count is bounded by the bytes that are left. */
static uint32_t get_count(struct codec *c)
{
	uint64_t count = codec_get(c);

	if (count <= (uint64_t)(c->end - c->at))
		return (uint32_t)count;
	codec_fail(c);
	return 0;
}

static const struct value_unknown *get_unknown(struct codec *c, struct arena *arena)
{
	struct value_unknown *u = arena_zalloc(arena, sizeof(*u));

	if (!u) {
		codec_fail(c);
		return NULL;
	}
	u->value = codec_get_str(c);
	u->list = codec_get_str(c);
	u->pair = codec_get_str(c);
	return u;
}

static struct any_value get_array(struct codec *c, struct arena *arena, unsigned depth)
{
	uint32_t count = get_count(c);
	struct any_value *values = arena_alloc_array(arena, count, sizeof(*values));
	struct any_value v = { .kind = ANY_ARRAY };

	if (!values) {
		codec_fail(c);
		return v;
	}
	for (uint32_t i = 0; i < count; i++)
		values[i] = get_any(c, arena, depth);
	v.array.values = values;
	v.array.count = count;
	return v;
}

static struct any_value get_pairs(struct codec *c, struct arena *arena, unsigned depth)
{
	uint32_t count = get_count(c);
	struct key_value *pairs = arena_alloc_array(arena, count, sizeof(*pairs));
	struct any_value v = { .kind = ANY_KVLIST };

	if (!pairs) {
		codec_fail(c);
		return v;
	}
	for (uint32_t i = 0; i < count; i++) {
		pairs[i].key_strindex.v = codec_get_byte(c) != 0;
		pairs[i].key = codec_get_str(c);
		pairs[i].value = get_any(c, arena, depth);
	}
	v.kvlist.pairs = pairs;
	v.kvlist.count = count;
	return v;
}

static struct any_value get_any(struct codec *c, struct arena *arena, unsigned depth)
{
	uint8_t head = codec_get_byte(c);
	struct any_value v = { .kind = (enum any_kind)(head & ~(BY_REFERENCE | WITH_UNKNOWN)) };
	const struct value_unknown *unknown = NULL;

	if (depth >= DEPTH_MOST * 2) {
		codec_fail(c);
		return (struct any_value){ 0 };
	}
	if (head & WITH_UNKNOWN)
		unknown = get_unknown(c, arena);
	switch (v.kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
		v.string = codec_get_str(c);
		codec_string_reference(&v, (head & BY_REFERENCE) != 0);
		break;
	case ANY_BYTES:
		v.string = codec_get_str(c);
		break;
	case ANY_BOOL:
		v.boolean = codec_get_byte(c) != 0;
		break;
	case ANY_INT:
		v.integer = codec_get_signed(c);
		break;
	case ANY_DOUBLE:
		if ((size_t)(c->end - c->at) < sizeof(v.real)) {
			codec_fail(c);
			break;
		}
		memcpy(&v.real, c->at, sizeof(v.real));
		c->at += sizeof(v.real);
		break;
	case ANY_ARRAY:
		v = get_array(c, arena, depth + 1);
		break;
	case ANY_KVLIST:
		v = get_pairs(c, arena, depth + 1);
		break;
	default:
		codec_fail(c);
		return (struct any_value){ 0 };
	}
	v.unknown = unknown;
	return v;
}

struct any_value codec_get_any(struct codec *c, struct arena *arena)
{
	return get_any(c, arena, 0);
}

void any_relink(struct builder *b, struct any_value *v)
{
	switch (v->kind) {
	case ANY_STRING:
		if (v->strindex.v)
			v->strindex = builder_string(b, v->string);
		break;
	case ANY_ARRAY:
		for (uint32_t i = 0; i < v->array.count; i++)
			any_relink(b, (struct any_value *)(uintptr_t)&v->array.values[i]);
		break;
	case ANY_KVLIST:
		for (uint32_t i = 0; i < v->kvlist.count; i++) {
			struct key_value *kv = (struct key_value *)(uintptr_t)&v->kvlist.pairs[i];

			if (kv->key_strindex.v)
				kv->key_strindex = builder_string(b, kv->key);
			any_relink(b, &kv->value);
		}
		break;
	case ANY_EMPTY:
	case ANY_BOOL:
	case ANY_INT:
	case ANY_DOUBLE:
	case ANY_BYTES:
		break;
	}
}

/* ---- notes ---- */

static uint32_t first_bad_index(const struct profiles *p, enum message_kind message, uint32_t index)
{
	uint64_t want = (uint64_t)message << 32 | index;
	uint32_t low = 0, high = p->bad_index_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct bad_index *bad = &p->bad_indices[mid];

		if (((uint64_t)bad->message << 32 | bad->index) < want)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Rows of tables are shared by all messages: where one of them had the entry is no part of it. */
static bool is_shared(enum message_kind message)
{
	return message >= MESSAGE_MAPPING;
}

static unsigned place_flags(const struct bad_index *bad)
{
	const struct bad_origin *o = &bad->origin;
	unsigned flags = bad->apart ? PLACE_APART : 0;

	if (!o->root || is_shared(bad->message))
		return flags;
	return flags | PLACE_ORIGIN | (o->list ? PLACE_LIST : 0) |
	       (o->profile != UINT32_MAX ? PLACE_OF_PROFILE : 0) | (o->entry_in ? PLACE_ENTRY : 0) |
	       (o->part_in ? PLACE_PART : 0) |
	       (o->part_in && o->part != UINT32_MAX ? PLACE_PART_NUMBER : 0);
}

static void put_place(struct buf *b, const struct bad_origin *o, unsigned flags)
{
	buf_char(b, (char)flags);
	if (!(flags & PLACE_ORIGIN))
		return;
	codec_put_str(b, str_cstr(o->root));
	codec_put_str(b, str_cstr(o->field));
	codec_put(b, o->element);
	if (flags & PLACE_ENTRY) {
		codec_put_str(b, str_cstr(o->entry_in));
		codec_put(b, o->entry);
	}
	if (flags & PLACE_PART)
		codec_put_str(b, str_cstr(o->part_in));
	if (flags & PLACE_PART_NUMBER)
		codec_put(b, o->part);
}

static void put_bad_index(struct buf *b, const struct bad_index *bad, uint32_t ordinal)
{
	unsigned flags = place_flags(bad);

	buf_char(b, flags ? NOTE_BAD_PLACE : NOTE_BAD_INDEX);
	buf_char(b, (char)bad->message);
	codec_put(b, ordinal);
	codec_put(b, bad->element);
	codec_put_str(b, str_cstr(bad->field));
	codec_put_str(b, str_cstr(bad->table));
	codec_put_signed(b, bad->value);
	codec_put(b, bad->table_count);
	if (flags)
		put_place(b, &bad->origin, flags);
}

void notes_put(struct buf *b, const struct profiles *p, enum message_kind message, uint32_t index,
	       uint32_t ordinal)
{
	struct range extras = profiles_extras(p, message, index);

	for (uint32_t i = 0; i < extras.count; i++) {
		const struct extra *x = &p->extras[extras.first + i];

		buf_char(b, NOTE_EXTRA);
		buf_char(b, (char)message);
		codec_put(b, ordinal);
		buf_char(b, (char)x->key);
		codec_put_any(b, &x->value);
	}
	for (uint32_t i = first_bad_index(p, message, index); i < p->bad_index_count; i++) {
		const struct bad_index *bad = &p->bad_indices[i];

		if (bad->message != message || bad->index != index)
			break;
		put_bad_index(b, bad, ordinal);
	}
}

void notes_put_unknown(struct buf *b, const struct any_value *v)
{
	if (v->kind == ANY_ARRAY || v->kind == ANY_KVLIST || value_unknown_is_none(v->unknown))
		return;
	buf_char(b, NOTE_VALUE_UNKNOWN);
	buf_char(b, MESSAGE_ATTRIBUTE);
	codec_put(b, 0);
	put_unknown(b, v->unknown);
}

/* It is the first of a row's notes. */
bool notes_get_unknown(struct str bytes, struct arena *arena, struct any_value *v)
{
	struct codec c = codec_of(bytes);

	while (codec_more(&c)) {
		if (codec_get_byte(&c) != NOTE_VALUE_UNKNOWN)
			return true;
		codec_get_byte(&c);
		codec_get(&c);
		v->unknown = get_unknown(&c, arena);
	}
	return !c.failed;
}

static void get_extra(struct codec *c, enum message_kind message, enum message_kind want,
		      uint32_t index, struct arena *arena, struct builder *b)
{
	enum extra_key key = (enum extra_key)codec_get_byte(c);
	struct any_value v = codec_get_any(c, arena);

	if (c->failed || message != want)
		return;
	any_relink(b, &v);
	builder_extra(b, message, index, key, &v);
}

struct place {
	unsigned flags;
	struct str root, field, entry_in, part_in;
	uint32_t element, entry, part;
};

static struct place get_place(struct codec *c)
{
	struct place p = { .flags = codec_get_byte(c), .part = UINT32_MAX };

	if (!(p.flags & PLACE_ORIGIN))
		return p;
	p.root = codec_get_str(c);
	p.field = codec_get_str(c);
	p.element = (uint32_t)codec_get(c);
	if (p.flags & PLACE_ENTRY) {
		p.entry_in = codec_get_str(c);
		p.entry = (uint32_t)codec_get(c);
	}
	if (p.flags & PLACE_PART)
		p.part_in = codec_get_str(c);
	if (p.flags & PLACE_PART_NUMBER)
		p.part = (uint32_t)codec_get(c);
	return p;
}

/* Without memory for the names it stays without an origin. */
static void set_place(struct bad_index *bad, const struct place *p, struct builder *b)
{
	struct arena *arena = builder_arena(b);
	struct bad_origin o = { .element = p->element, .entry = p->entry, .part = p->part };

	bad->apart = p->flags & PLACE_APART;
	if (!(p->flags & PLACE_ORIGIN))
		return;
	o.list = p->flags & PLACE_LIST;
	o.profile = UINT32_MAX;
	if (p->flags & PLACE_OF_PROFILE &&
	    (bad->message == MESSAGE_PROFILE || bad->message == MESSAGE_SAMPLE))
		o.profile = builder_newest(b, MESSAGE_PROFILE);
	o.root = str_dup_cstr(arena, p->root);
	o.field = str_dup_cstr(arena, p->field);
	if (p->flags & PLACE_ENTRY)
		o.entry_in = str_dup_cstr(arena, p->entry_in);
	if (p->flags & PLACE_PART)
		o.part_in = str_dup_cstr(arena, p->part_in);
	if (o.root && o.field)
		bad->origin = o;
}

static void get_bad_index(struct codec *c, enum message_kind message, enum message_kind want,
			  uint32_t index, bool with_place, struct builder *b)
{
	struct bad_index bad = { .message = message, .index = index };
	struct place place = { .flags = 0 };
	struct str field, table;

	bad.element = (uint32_t)codec_get(c);
	field = codec_get_str(c);
	table = codec_get_str(c);
	bad.value = codec_get_signed(c);
	bad.table_count = (uint32_t)codec_get(c);
	if (with_place)
		place = get_place(c);
	if (c->failed || message != want)
		return;
	set_place(&bad, &place, b);
	bad.field = str_dup_cstr(builder_arena(b), field);
	bad.table = str_dup_cstr(builder_arena(b), table);
	if (bad.field && bad.table)
		builder_bad_index(b, &bad);
}

bool notes_get(struct str bytes, enum message_kind message, struct builder *b, uint32_t first_index)
{
	struct codec c = codec_of(bytes);
	struct arena arena;

	arena_init(&arena, 1024, 0);
	while (codec_more(&c)) {
		uint8_t what = codec_get_byte(&c);
		enum message_kind of = (enum message_kind)codec_get_byte(&c);
		uint32_t index = first_index + (uint32_t)codec_get(&c);

		if (what == NOTE_EXTRA)
			get_extra(&c, of, message, index, &arena, b);
		else if (what == NOTE_BAD_INDEX || what == NOTE_BAD_PLACE)
			get_bad_index(&c, of, message, index, what == NOTE_BAD_PLACE, b);
		else if (what == NOTE_VALUE_UNKNOWN)
			get_unknown(&c, &arena); /* notes_get_unknown()'s */
		else
			c.failed = true;
	}
	arena_release(&arena);
	return !c.failed;
}
