/*
 * codec.h - the bytes in the store's BLOB columns. They are kept in files: append, never renumber.
 *
 *   varint   LEB128, 7 bits a byte, low ones first; signed numbers zigzag
 *   str      varint length, bytes
 *   any      kind (enum any_kind; | 0x80: the sender wrote a string by reference; | 0x40: unknown
 *            fields come first: str value, str list, str pair, see struct value_unknown), then
 *            string, bytes: str    bool: 1 byte    int: zigzag    double: 8 bytes little-endian
 *            array: varint count, any...
 *            kvlist: varint count, (key flag 0/1 by reference, str key, any)...
 *   notes    what the newest OTLP shape has no slot for, a run of
 *            1, message, varint ordinal, key, any: an extra
 *            2, message, varint ordinal, bad: a bad index
 *            3, message, varint ordinal, bad, place: a bad index of an old version
 *            4, message, varint ordinal, str value, str list, str pair: unknown fields of the value
 *            of an attribute's row
 *            The ordinal is the line's in its location, else 0.
 *   bad      varint element, str field, str table, zigzag value, varint table_count
 *   place    flags (enum place_flags in codec.c), then what they name: root, field, varint element;
 *            entry_in, varint entry; part_in, varint part. Names are str. The profile is the one
 *            at hand. Entries of tables have no place: they are the store's, not one message's.
 *
 * Memory: appends go to the caller's buf; what is read is borrowed from the bytes, lists are in
 * the arena. Threads: none of its own.
 */
#pragma once
#include "base/buf.h"
#include "model/profiles.h"

static inline void codec_put(struct buf *b, uint64_t v)
{
	char *p = buf_reserve(b, 10);
	size_t n = 0;

	if (!p)
		return;
	for (; v >= 0x80; v >>= 7)
		p[n++] = (char)(v | 0x80);
	p[n++] = (char)v;
	buf_advance(b, n);
}
static inline void codec_put_signed(struct buf *b, int64_t v)
{
	codec_put(b, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}
static inline void codec_put_str(struct buf *b, struct str s)
{
	codec_put(b, s.len);
	buf_str(b, s);
}
void codec_put_any(struct buf *b, const struct any_value *v);

/* Remembers its first fault and then yields zeros. */
struct codec {
	const uint8_t *at, *end;
	bool failed;
};
static inline struct codec codec_of(struct str bytes)
{
	const uint8_t *p = (const uint8_t *)bytes.ptr;

	return (struct codec){ p, p ? p + bytes.len : p, false };
}
uint64_t codec_get_slow(struct codec *c);
static inline uint64_t codec_get(struct codec *c)
{
	if (c->at < c->end && *c->at < 0x80)
		return *c->at++;
	if (c->end - c->at > 1 && c->at[1] < 0x80) {
		c->at += 2;
		return (c->at[-2] & 0x7fu) | (unsigned)c->at[-1] << 7;
	}
	return codec_get_slow(c);
}
static inline int64_t codec_get_signed(struct codec *c)
{
	uint64_t v = codec_get(c);

	return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}
static inline bool codec_more(const struct codec *c)
{
	return !c->failed && c->at < c->end;
}
/* All numbers of a list; `out` has room for as many as there are bytes. SIZE_MAX: damaged. */
size_t codec_get_list(struct str bytes, uint64_t *out);
uint8_t codec_get_byte(struct codec *c);
struct str codec_get_str(struct codec *c);
/* string_value_strindex 0 is a reference, too. */
static inline void codec_string_reference(struct any_value *v, bool by_reference)
{
	v->strindex.v = by_reference && v->string.len;
	v->zero_reference = by_reference && !v->string.len;
}
/* Strings that were written by reference come with strindex.v 1, keys alike: any_relink() gives
 * them the builder's index. */
struct any_value codec_get_any(struct codec *c, struct arena *arena);
struct builder;
void any_relink(struct builder *b, struct any_value *v);

/* What a row of an attribute keeps as notes, since its value stands in a column: the unknown fields
 * of a value that is no list (a list's are in its bytes). */
void notes_put_unknown(struct buf *b, const struct any_value *v);
bool notes_get_unknown(struct str bytes, struct arena *arena, struct any_value *v);

/* Notes of one message of `p`, appended. */
void notes_put(struct buf *b, const struct profiles *p, enum message_kind message, uint32_t index,
	       uint32_t ordinal);
/* Puts the notes of one kind of message to the builder's message at first_index + ordinal. False
 * when the bytes are broken. */
bool notes_get(struct str bytes, enum message_kind message, struct builder *b,
	       uint32_t first_index);
