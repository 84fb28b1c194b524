/*
 * pb_reader.h - reads protobuf's wire format from a slice, field by field, without copying.
 *
 *   while (pb_more(&r)) {
 *           uint32_t tag = pb_tag(&r);
 *
 *           switch (tag) {
 *           case PB_TAG(1, PB_VARINT): a = pb_varint(&r); break;
 *           case PB_TAG(2, PB_LEN):    s = pb_bytes(&r);  break;
 *           default:                   pb_skip(&r, tag);
 *           }
 *   }
 *   if (r.fault) ...
 *
 * The reader remembers its first fault and where it was, stands at its end from then on, and yields
 * zeros: callers check once, at the end. Every length is checked against what is left by
 * subtraction. A field with the expected number and another wire type is an unknown field, as in
 * every protobuf library; that is why the switch is over tags (number and type), not numbers.
 * Memory: everything points into the slice. Threads: values, no state.
 * Source: protobuf.dev/programming-guides/encoding.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/err.h"
#include "base/str.h"

enum pb_type {
	PB_VARINT = 0,
	PB_I64 = 1,
	PB_LEN = 2,
	PB_GROUP_START = 3,
	PB_GROUP_END = 4,
	PB_I32 = 5,
};

#define PB_TAG(number, type) ((uint32_t)(number) << 3 | (uint32_t)(type))

enum pb_fault {
	PB_OK,
	PB_CUT,         /* a varint, a fixed value or a length runs past the end */
	PB_LONG_VARINT, /* more than 10 bytes */
	PB_BAD_TAG,     /* field number 0, wire type 6 or 7, or a number past 2^29-1 */
	PB_BAD_GROUP,   /* an end of group that matches no start */
	PB_DEEP,        /* groups or messages nested too deep */
	PB_LIMIT,       /* what is read does not fit the reader's owner (a memory limit) */
};

struct pb_reader {
	const uint8_t *p, *end;
	const uint8_t *fault_at; /* where the faulty item begins */
	enum pb_fault fault;
};

static inline struct pb_reader pb_reader_of(struct str bytes)
{
	const uint8_t *p = (const uint8_t *)bytes.ptr;

	/* An empty slice may have no address; arithmetic on NULL is undefined, so it gets one. */
	if (bytes.len == 0)
		p = (const uint8_t *)"";
	return (struct pb_reader){ .p = p, .end = p + bytes.len };
}

static inline bool pb_more(const struct pb_reader *r)
{
	return r->p < r->end;
}

static inline size_t pb_left(const struct pb_reader *r)
{
	return (size_t)(r->end - r->p);
}

static inline void pb_fail(struct pb_reader *r, enum pb_fault fault, const uint8_t *at)
{
	if (!r->fault) {
		r->fault = fault;
		r->fault_at = at;
	}
	r->p = r->end;
}

/*
 * The rare cases stand in pb_reader.c and take positions rather than the reader: a reader whose
 * address never leaves a function is kept in registers. `next` is NULL when there is no varint;
 * `value` is then the enum pb_fault.
 */
struct pb_varint {
	uint64_t value;
	const uint8_t *next;
};
struct pb_varint pb_varint_slow(const uint8_t *p, const uint8_t *end);

/* One- and two-byte varints are nearly all there are. */
static inline uint64_t pb_varint(struct pb_reader *r)
{
	const uint8_t *p = r->p;
	struct pb_varint v;

	if (__builtin_expect(p < r->end && p[0] < 0x80, 1)) {
		r->p = p + 1;
		return p[0];
	}
	if (r->end - p >= 2 && p[1] < 0x80) {
		r->p = p + 2;
		return (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
	}
	v = pb_varint_slow(p, r->end);
	if (__builtin_expect(!v.next, 0)) {
		pb_fail(r, (enum pb_fault)v.value, p);
		return 0;
	}
	r->p = v.next;
	return v.value;
}

/* Number << 3 | type; 0 after a fault (no field has number 0). */
static inline uint32_t pb_tag(struct pb_reader *r)
{
	const uint8_t *at = r->p;
	uint64_t tag = pb_varint(r);

	if (__builtin_expect(tag >= 8 && tag <= UINT32_MAX && (tag & 7) <= PB_I32, 1))
		return (uint32_t)tag;
	pb_fail(r, PB_BAD_TAG, at); /* keeps an earlier fault */
	return 0;
}

static inline uint64_t pb_fixed64(struct pb_reader *r)
{
	uint64_t v;

	if (pb_left(r) < sizeof(v)) {
		pb_fail(r, PB_CUT, r->p);
		return 0;
	}
	memcpy(&v, r->p, sizeof(v)); /* little-endian, as our targets */
	r->p += sizeof(v);
	return v;
}

static inline double pb_double(struct pb_reader *r)
{
	uint64_t bits = pb_fixed64(r);
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static inline struct str pb_bytes(struct pb_reader *r)
{
	const uint8_t *at = r->p;
	uint64_t len = pb_varint(r);
	struct str s;

	if (len > pb_left(r)) {
		pb_fail(r, PB_CUT, at);
		return (struct str){ 0 };
	}
	s = str_from(r->p, (size_t)len);
	r->p += len;
	return s;
}

/*
 * The field's content as a reader of its own; its fault must be handed up with pb_join(). Of a
 * content that is cut short the part that is there is given, and this reader has its fault: what
 * can be read of a broken body is read.
 */
static inline struct pb_reader pb_message(struct pb_reader *r)
{
	const uint8_t *at = r->p, *p;
	uint64_t len = pb_varint(r);

	p = r->p;
	if (len > pb_left(r)) {
		struct pb_reader rest = { .p = p, .end = r->end };

		pb_fail(r, PB_CUT, at);
		return rest;
	}
	r->p += len;
	return (struct pb_reader){ .p = p, .end = r->p };
}

/* Takes over the fault of a nested reader. */
static inline void pb_join(struct pb_reader *outer, const struct pb_reader *nested)
{
	if (nested->fault && !outer->fault)
		pb_fail(outer, nested->fault, nested->fault_at);
}

struct pb_varint pb_skip_group(const uint8_t *p, const uint8_t *end, uint32_t tag);

/* Steps over the value of the tag just read, groups with all they hold. */
static inline void pb_skip(struct pb_reader *r, uint32_t tag)
{
	struct pb_varint after;

	switch (tag & 7) {
	case PB_LEN:
		pb_bytes(r);
		return;
	case PB_VARINT:
		pb_varint(r);
		return;
	case PB_I64:
		pb_fixed64(r);
		return;
	}
	after = pb_skip_group(r->p, r->end, tag); /* I32 and what is wrong, too */
	if (after.next)
		r->p = after.next;
	else
		pb_fail(r, (enum pb_fault)after.value, r->p);
}

/* Content of a packed field: how many varints end in it (a torn last one is not counted). */
size_t pb_packed_count(struct str packed);

/*
 * Decode a packed field's varints to 32 or 64 bits each; `out` has room for pb_packed_count() of
 * them. Return their number, or PB_PACKED_BAD when the last is torn or one is too long. The 32-bit
 * one keeps the low 32 bits, as protobuf reads int32: -1 becomes UINT32_MAX, which is past every
 * table.
 */
#define PB_PACKED_BAD SIZE_MAX
size_t pb_packed_u32(struct str packed, uint32_t *out);
size_t pb_packed_u64(struct str packed, uint64_t *out);

/* Sets err to what the reader met, with the offset of the fault from `base`: "a length runs past
 * its message at byte 77". */
bool pb_report(const struct pb_reader *r, const void *base, struct err *err);
const char *pb_fault_text(enum pb_fault fault);
