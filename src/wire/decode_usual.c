/*
 * decode_usual.c - the shapes that Go's writer gives to what eBPF profilers send, without a loop
 * over fields: most of the time goes into wrongly guessed branches, so that there are few of them,
 * each nearly always the same way.
 */
#include "wire/decode_usual.h"

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
	if (readable_end - end >= USUAL_SLACK)
		return end;
	return readable_end - p >= USUAL_SLACK ? readable_end - USUAL_SLACK : p;
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

/* `12 L 2a T`: a sample of less than 128 bytes that begins with whole timestamps. */
#define SAMPLE_HEAD_MASK UINT32_C(0x87ff80ff)
#define SAMPLE_HEAD      ((uint32_t)PB_TAG(5, PB_LEN) << 16 | PB_TAG(2, PB_LEN))

/* Timestamps, up to eight attribute indices of a byte each, a stack of one or two bytes. */
void usual_samples(struct sample_run *run)
{
	const uint8_t *p = run->p, *end = run->end;
	const uint8_t *stop = stop_of(p, end, run->readable_end);
	const uint8_t attributes_tag = run->tags.attributes;
	uint32_t ref_count = run->ref_count, time_count = run->time_count;
	struct sample *out = run->out;

	while (out < run->last && stop - p > 4) {
		const uint8_t *next = p + 2 + p[1], *refs;
		uint32_t head, times_len, refs_len, stack_len, stack, tail;
		uint64_t w;

		memcpy(&head, p, sizeof(head));
		times_len = head >> 24;
		refs = p + 4 + times_len;
		if ((head & SAMPLE_HEAD_MASK) != SAMPLE_HEAD || next > stop || next - refs < 4)
			break;
		refs_len = refs[1];
		stack_len = (uint32_t)(next - refs) - 3 - refs_len;
		if (refs[0] != attributes_tag || refs_len > 8 || stack_len - 1 > 1 ||
		    refs[2 + refs_len] != PB_TAG(1, PB_VARINT))
			break;
		w = load64(refs + 2);
		tail = next[-1];
		stack = next[-2];
		if (refs_len && w << (64 - 8 * refs_len) & MSB_OF_EACH)
			break;
		if (tail >= 0x80 || (stack_len == 2 && stack < 0x80) ||
		    run->ref_cap - ref_count < 8 || run->time_cap - time_count < times_len / 8)
			break;
		*out++ = (struct sample){
			.stack.v = stack_len == 2 ? (stack & 0x7f) | tail << 7 : tail,
			.attributes = { ref_count, refs_len },
			.values = run->no_values,
			.timestamps = { time_count, times_len / 8 },
		};
		widen_8(run->refs + ref_count, w);
		ref_count += refs_len;
		for (uint32_t i = 0; i < times_len; i += 8)
			run->times[time_count++] = load64(p + 4 + i);
		p = next;
	}
	run->p = p;
	run->out = out;
	run->ref_count = ref_count;
	run->time_count = time_count;
}

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

/* `22 01 type [1a L line] [10 address 08 mapping]`. */
void usual_locations(struct location_run *run)
{
	const uint8_t *p = run->p, *end = run->end;
	const uint8_t *stop = stop_of(p, end, run->readable_end);
	uint32_t ref_count = run->ref_count, line_count = run->line_count;
	struct location *out = run->out;

	while (out < run->last && stop - p > 5) {
		uint64_t head = load64(p), address = 0;
		const uint8_t *next = p + 2 + p[1], *at = p + 5, *line_end;
		uint32_t lines = 0, mapping = 0;
		unsigned n;

		if ((head & LOCATION_HEAD_MASK) != LOCATION_HEAD || next > stop || next <= at ||
		    ref_count == run->ref_cap || line_count == run->line_cap)
			break;
		if (*at == PB_TAG(3, PB_LEN)) {
			line_end = at + 2 + at[1];
			if (at[1] >= 0x80 || line_end > next ||
			    !usual_line(at + 2, line_end, run->lines + line_count))
				break;
			at = line_end;
			lines = 1;
		}
		if (at < next) {
			address = varint_of(load64(at + 1), &n);
			mapping = next[-1];
			if (*at != PB_TAG(2, PB_VARINT) || n == 9 || at + 1 + n + 2 != next ||
			    next[-2] != PB_TAG(1, PB_VARINT) || mapping >= 0x80)
				break;
		}
		*out++ = (struct location){
			.address = address,
			.mapping.v = mapping,
			.lines = { line_count, lines },
			.attributes = { ref_count, 1 },
		};
		run->refs[ref_count++].v = (uint32_t)(head >> 32) & 0x7f;
		line_count += lines;
		p = next;
	}
	run->p = p;
	run->out = out;
	run->ref_count = ref_count;
	run->line_count = line_count;
}
