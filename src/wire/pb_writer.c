#include "wire/pb_writer.h"

/* Asked for at once before a run of elements; the writer may overshoot the limit by this much
 * before the end tells. */
enum { RUN_ELEMENTS = 64, OVERSHOOT_BYTES = 4096, LEAST_BYTES = 256 };
_Static_assert(RUN_ELEMENTS *PW_VARINT_MOST <= OVERSHOOT_BYTES,
	       "a run of elements must fit the overshoot");

void pw_begin(struct pb_writer *w, struct buf *out, size_t guess_bytes)
{
	*w = (struct pb_writer){ .out = out,
				 .limit_bytes = out->limit_bytes,
				 .failed = out->failed };
	if (w->limit_bytes && w->limit_bytes < SIZE_MAX - OVERSHOOT_BYTES)
		out->limit_bytes = w->limit_bytes + OVERSHOOT_BYTES;
	if (out->limit_bytes && guess_bytes > out->limit_bytes - out->len)
		guess_bytes = out->limit_bytes - out->len;
	if (!buf_reserve(out, guess_bytes > LEAST_BYTES ? guess_bytes : LEAST_BYTES))
		w->failed = true;
	else {
		w->begin = (uint8_t *)out->ptr + out->len;
		w->at = w->end = (uint8_t *)out->ptr + out->cap;
	}
}

bool pw_grow(struct pb_writer *w, size_t bytes)
{
	struct buf *out = w->out;
	size_t written = pw_mark(w), cap = out->cap;
	size_t most = (out->limit_bytes ? out->limit_bytes : SIZE_MAX / 4) - out->len;
	size_t want = 2 * written;

	if (w->failed)
		return false;
	if (bytes > most || written > most - bytes) {
		w->failed = true;
		w->begin = w->at = w->end; /* later puts must ask again, and be refused */
		return false;
	}
	if (want < written + bytes)
		want = written + bytes;
	if (want > most)
		want = most;
	if (!buf_grow(out, want)) {
		w->failed = true;
		w->begin = w->at = w->end;
		return false;
	}
	w->begin = (uint8_t *)out->ptr + out->len;
	w->end = (uint8_t *)out->ptr + out->cap;
	w->at = w->end - written;
	memmove(w->at, out->ptr + cap - written, written);
	return true;
}

void pw_abandon(struct pb_writer *w)
{
	struct buf *out = w->out;

	out->limit_bytes = w->limit_bytes;
	if (w->limit_bytes && out->cap > w->limit_bytes)
		out->cap = w->limit_bytes;
}

bool pw_finish(struct pb_writer *w)
{
	struct buf *out = w->out;
	size_t written = pw_mark(w);

	out->limit_bytes = w->limit_bytes;
	if (!w->failed && w->limit_bytes && written > w->limit_bytes - out->len)
		w->failed = true;
	if (w->failed) {
		out->failed = true;
		out->cap = out->len; /* as buf_grow() leaves a buffer that failed */
		return false;
	}
	if (w->limit_bytes && out->cap > w->limit_bytes)
		out->cap = w->limit_bytes;
	if (written) {
		memmove(out->ptr + out->len, w->at, written);
		out->len += written;
	}
	return true;
}

#define PUT_VARINTS(w, v, count, type)                                       \
	for (uint32_t left_ = (count); left_;) {                             \
		uint32_t run_ = left_ < RUN_ELEMENTS ? left_ : RUN_ELEMENTS; \
		if (!pw_room(w, (size_t)run_ * PW_VARINT_MOST))              \
			return;                                              \
		while (run_--)                                               \
			pw_put_varint(w, (type)(v)[--left_]);                \
	}

typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint16_t u16x4 __attribute__((vector_size(8)));

/* Four varints of two bytes each, when all are that long: as 16-bit lanes of one store. */
static inline bool put_4_of_2(uint8_t *at, const uint32_t *v)
{
	enum { FROM = 0x80, UNTIL = 0x4000 };
	uint64_t halves[2];
	u32x4 x, in_range;
	u16x4 lanes;

	memcpy(&x, v, sizeof(x));
	in_range = (u32x4)(x - FROM < UNTIL - FROM); /* all ones where so */
	memcpy(halves, &in_range, sizeof(halves));
	if ((halves[0] & halves[1]) != UINT64_MAX)
		return false;
	lanes = __builtin_convertvector((x & 0x7f) | 0x80 | x >> 7 << 8, u16x4);
	memcpy(at - sizeof(lanes), &lanes, sizeof(lanes)); /* little-endian, as our targets */
	return true;
}

/*
 * Nearly all are below 2^14, and whether one takes a byte or two is as good as random: both bytes
 * are stored without a branch, and of a short one the first is overwritten by what comes next
 * (there is room for it).
 */
static inline uint8_t *put_short(uint8_t *at, uint32_t x)
{
	uint32_t two = x >= 0x80;
	uint16_t word = (uint16_t)(two ? (x & 0x7f) | 0x80 | x >> 7 << 8 : x << 8);

	if (__builtin_expect(x >= 1u << 14, 0))
		return pw_at_varint(at, x);
	memcpy(at - sizeof(word), &word, sizeof(word));
	return at - 1 - two;
}

static uint8_t *put_u32_run(uint8_t *at, const uint32_t *v, uint32_t count)
{
	for (; count >= 4; count -= 4) {
		const uint32_t *last = v + count - 4;

		if (put_4_of_2(at, last)) {
			at -= 8;
			continue;
		}
		at = put_short(at, last[3]);
		at = put_short(at, last[2]);
		at = put_short(at, last[1]);
		at = put_short(at, last[0]);
	}
	while (count-- > 0)
		at = put_short(at, v[count]);
	return at;
}

void pw_put_u32s(struct pb_writer *w, const uint32_t *v, uint32_t count)
{
	while (count > 0) {
		uint32_t run = count < RUN_ELEMENTS ? count : RUN_ELEMENTS;

		if (!pw_room(w, (size_t)run * PW_VARINT_MOST))
			return;
		count -= run;
		w->at = put_u32_run(w->at, v + count, run);
	}
}

void pw_packed_u32(struct pb_writer *w, uint32_t number, const uint32_t *v, uint32_t count)
{
	size_t mark = pw_mark(w);

	if (!count)
		return;
	pw_put_u32s(w, v, count);
	pw_message(w, number, mark);
}

void pw_packed_i64(struct pb_writer *w, uint32_t number, const int64_t *v, uint32_t count)
{
	size_t mark = pw_mark(w);

	if (!count)
		return;
	PUT_VARINTS(w, v, count, uint64_t)
	pw_message(w, number, mark);
}

void pw_packed_u64(struct pb_writer *w, uint32_t number, const uint64_t *v, uint32_t count)
{
	size_t mark = pw_mark(w);

	if (!count)
		return;
	PUT_VARINTS(w, v, count, uint64_t)
	pw_message(w, number, mark);
}

void pw_packed_fixed64(struct pb_writer *w, uint32_t number, const uint64_t *v, uint32_t count)
{
	if (count)
		pw_bytes_present(w, number, str_from(v, (size_t)count * sizeof(*v)));
}
