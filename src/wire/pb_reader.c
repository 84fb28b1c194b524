#include "wire/pb_reader.h"

#include <assert.h>
#include <stddef.h>

enum { VARINT_BYTES_MOST = 10, GROUP_DEPTH_MOST = 100 };

#define MSB_OF_EACH UINT64_C(0x8080808080808080)

static uint64_t load64(const uint8_t *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

struct pb_varint pb_varint_slow(const uint8_t *p, const uint8_t *end)
{
	size_t most = (size_t)(end - p) < VARINT_BYTES_MOST ? (size_t)(end - p) : VARINT_BYTES_MOST;
	uint64_t v = 0;

	for (size_t i = 0; i < most; i++) {
		/* Of the tenth byte only the lowest bit fits; the others are dropped, as protobuf
		 * libraries do. */
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
		if (p[i] < 0x80)
			return (struct pb_varint){ v, p + i + 1 };
	}
	return (struct pb_varint){ most == VARINT_BYTES_MOST ? PB_LONG_VARINT : PB_CUT, NULL };
}

static enum pb_fault skip_group(struct pb_reader *r, uint32_t start_tag)
{
	uint32_t open[GROUP_DEPTH_MOST]; /* field numbers, outermost first */
	size_t depth = 0;

	open[depth++] = start_tag >> 3;
	while (depth > 0) {
		uint32_t tag;

		if (!pb_more(r))
			return PB_CUT;
		tag = pb_tag(r);
		if ((tag & 7) == PB_GROUP_START) {
			if (depth == GROUP_DEPTH_MOST)
				return PB_DEEP;
			open[depth++] = tag >> 3;
		} else if ((tag & 7) == PB_GROUP_END) {
			if (open[--depth] != tag >> 3)
				return PB_BAD_GROUP;
		} else {
			pb_skip(r, tag); /* not a group: one level */
		}
		if (r->fault)
			return r->fault;
	}
	return PB_OK;
}

struct pb_varint pb_skip_group(const uint8_t *p, const uint8_t *end, uint32_t tag)
{
	struct pb_reader r = { .p = p, .end = end };
	enum pb_fault fault = PB_BAD_GROUP;

	if ((tag & 7) == PB_I32)
		return end - p >= 4 ? (struct pb_varint){ 0, p + 4 }
				    : (struct pb_varint){ PB_CUT, NULL };
	if ((tag & 7) == PB_GROUP_START)
		fault = skip_group(&r, tag);
	return fault ? (struct pb_varint){ fault, NULL } : (struct pb_varint){ 0, r.p };
}

/* Each varint ends in the one byte of it without the high bit. */
size_t pb_packed_count(struct str packed)
{
	const uint8_t *p = (const uint8_t *)packed.ptr;
	size_t n = 0, left = packed.len;

	for (; left >= 8; left -= 8, p += 8)
		n += (size_t)(((~load64(p) & MSB_OF_EACH) >> 7) * UINT64_C(0x0101010101010101) >>
			      56);
	for (; left > 0; left--, p++)
		n += *p < 0x80;
	return n;
}

typedef uint8_t u8x8 __attribute__((vector_size(8)));
typedef uint16_t u16x4 __attribute__((vector_size(8)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));

/* Eight varints of one byte each. */
static void put_8_of_1(uint32_t *out, uint64_t w)
{
	u8x8 narrow;
	u32x8 wide;

	memcpy(&narrow, &w, sizeof(narrow));
	wide = __builtin_convertvector(narrow, u32x8);
	memcpy(out, &wide, sizeof(wide));
}

/* Four varints of two bytes each: both halves are shifted in all 16-bit lanes at once. */
static void put_4_of_2(uint32_t *out, uint64_t w)
{
	uint64_t v = (w & UINT64_C(0x007f007f007f007f)) | (w & UINT64_C(0x7f007f007f007f00)) >> 1;
	u16x4 narrow;
	u32x4 wide;

	memcpy(&narrow, &v, sizeof(narrow));
	wide = __builtin_convertvector(narrow, u32x4);
	memcpy(out, &wide, sizeof(wide));
}

size_t pb_packed_u32(struct str packed, uint32_t *out)
{
	struct pb_reader r = pb_reader_of(packed);
	uint32_t *at = out;
	uint64_t v;

	while (pb_left(&r) >= 8) {
		uint64_t w = load64(r.p), high = w & MSB_OF_EACH;

		/* Indices come in runs of one length, so that these branches are guessed right. */
		if (high == UINT64_C(0x0080008000800080)) {
			put_4_of_2(at, w);
			at += 4;
			r.p += 8;
		} else if (high == 0) {
			put_8_of_1(at, w);
			at += 8;
			r.p += 8;
		} else {
			v = pb_varint(&r);
			if (r.fault)
				return PB_PACKED_BAD;
			*at++ = (uint32_t)v;
		}
	}
	while (pb_more(&r)) {
		v = pb_varint(&r);
		if (r.fault)
			return PB_PACKED_BAD;
		*at++ = (uint32_t)v;
	}
	return (size_t)(at - out);
}

size_t pb_packed_u64(struct str packed, uint64_t *out)
{
	struct pb_reader r = pb_reader_of(packed);
	uint64_t *at = out;

	while (pb_more(&r)) {
		uint64_t v = pb_varint(&r);

		if (r.fault)
			return PB_PACKED_BAD;
		*at++ = v;
	}
	return (size_t)(at - out);
}

const char *pb_fault_text(enum pb_fault fault)
{
	switch (fault) {
	case PB_OK:
		return "no fault";
	case PB_CUT:
		return "a value runs past the end of its message";
	case PB_LONG_VARINT:
		return "a varint has more than 10 bytes";
	case PB_BAD_TAG:
		return "a tag has no valid field number or wire type";
	case PB_BAD_GROUP:
		return "a group ends that did not begin";
	case PB_DEEP:
		return "messages are nested too deep";
	case PB_LIMIT:
		return "the message needs more memory than its limit";
	}
	return "unknown fault";
}

bool pb_report(const struct pb_reader *r, const void *base, struct err *err)
{
	ptrdiff_t at = r->fault_at ? r->fault_at - (const uint8_t *)base : 0;
	bool limit = r->fault == PB_DEEP || r->fault == PB_LIMIT;

	assert(r->fault);
	return err_set(err, limit ? ERR_LIMIT : ERR_INVALID, "%s at byte %td",
		       pb_fault_text(r->fault), at);
}
