/*
 * align.c - the two sides of a diff call the same frame the same, also where one cannot say as
 * much.
 *
 * pprof, folded stacks and most others have no frame types, some no binaries or inlined functions.
 * A frame is told apart by all of those, so that beside OTLP all of such a profile would be new. A
 * side none of whose frames has a type is taken for one of those: what it says nowhere, and the
 * other one does, tells no frames apart. Filters have seen the frames as they came.
 */
#include "base/buf.h"
#include "base/hash.h"
#include "query/diff/sides.h"
#include "query/sum/frames.h"

enum {
	SAYS_TYPE = 1,
	SAYS_BINARY = 2,
	SAYS_INLINED = 4,
	SAYS_FILE = 8,
	SAYS_LINE = 16,
	SAYS_ADDRESS = 32,
};

static unsigned parts_said(const struct query_frame *f)
{
	if (f->group)
		return 0;
	return (f->type.len ? SAYS_TYPE : 0) | (f->binary.len ? SAYS_BINARY : 0) |
	       (f->inlined ? SAYS_INLINED : 0) | (f->file.len ? SAYS_FILE : 0) |
	       (f->line > 0 ? SAYS_LINE : 0) | (f->address ? SAYS_ADDRESS : 0);
}

static unsigned side_says(const struct frame_set *s, uint32_t first_run, uint32_t end_run)
{
	unsigned all = 0;

	for (uint32_t i = first_run; i < end_run; i++)
		for (uint32_t k = 0; k < s->runs[i].count; k++) {
			uint32_t frame = s->pool[s->runs[i].first + k];

			all |= frame == RUN_CUT ? 0 : parts_said(&s->frames[frame]);
		}
	return all;
}

/* As folded stacks have names: ':' for ';'. And "libc.so.6+0x27250", which is code without a name,
 * "libc.so.6+?". */
static void make_plain(struct buf *name)
{
	size_t at = name->len;

	for (size_t i = 0; i < name->len; i++)
		if (name->ptr[i] == ';')
			name->ptr[i] = ':';
	while (at > 0 && ((name->ptr[at - 1] >= '0' && name->ptr[at - 1] <= '9') ||
			  (name->ptr[at - 1] >= 'a' && name->ptr[at - 1] <= 'f')))
		at--;
	if (at == name->len || at < 4 || memcmp(name->ptr + at - 3, "+0x", 3) != 0)
		return;
	name->len = at - 2;
	buf_char(name, '?');
}

/* The key of a frame without the parts that are left out. */
static uint64_t reduced_key(const struct query_frame *f, enum query_by by, unsigned left_out,
			    struct buf *name)
{
	bool lines = by == QUERY_BY_LINE && !(left_out & SAYS_LINE);
	struct str function = f->function;
	uint64_t parts[7] = { 0 };

	if (left_out & SAYS_BINARY) {
		buf_reset(name);
		query_frame_append_name(name, f,
					by == QUERY_BY_FILE ? QUERY_BY_FILE : QUERY_BY_FUNCTION);
		make_plain(name);
		function = buf_view(name);
	}
	parts[0] = left_out & SAYS_TYPE ? 0 : hash64(f->type);
	parts[1] = left_out & SAYS_BINARY ? 0 : hash64(f->binary);
	parts[2] = hash64(function);
	parts[3] = left_out & SAYS_INLINED ? 0 : f->inlined;
	parts[4] = lines || (by == QUERY_BY_FILE && !(left_out & SAYS_FILE)) ? hash64(f->file) : 0;
	parts[5] = lines ? (uint64_t)f->line : 0;
	parts[6] = by == QUERY_BY_ADDRESS && !(left_out & SAYS_ADDRESS) ? f->address : 0;
	return hash64(str_from(parts, sizeof(parts)));
}

static unsigned bits_of(unsigned v)
{
	return (unsigned)__builtin_popcount(v);
}

/* to[i]: the frame that stands for frame i, the one of its kind that says most. */
static bool choose_frames(struct frame_set *s, unsigned left_out, uint32_t *to, struct err *err)
{
	struct number_table keys = { 0 };
	struct buf name;
	bool ok = true;

	buf_init(&name, 0);
	for (uint32_t i = 0; i < s->frame_count && ok; i++) {
		struct query_frame *f = &s->frames[i];
		uint32_t at;

		to[i] = i;
		if (f->group)
			continue;
		f->key = reduced_key(f, s->q->request.by, left_out, &name);
		at = i;
		ok = number_enter(s->q, &keys, f->key, &at, err);
		if (!ok || at == i)
			continue;
		to[i] = at;
		if (bits_of(parts_said(f)) > bits_of(parts_said(&s->frames[at]))) {
			struct query_frame t = s->frames[at];

			s->frames[at] = *f;
			*f = t;
		}
	}
	buf_release(&name);
	number_release(s->q, &keys);
	return ok;
}

bool frame_set_align(struct frame_set *s, uint32_t left_runs, struct err *err)
{
	unsigned left = side_says(s, 0, left_runs), right = side_says(s, left_runs, s->run_count);
	unsigned left_out = 0;
	uint32_t *to = NULL, cap = 0;
	bool ok;

	if (left_runs == 0 || left_runs == s->run_count)
		return true; /* one side is empty */
	if (!(left & SAYS_TYPE))
		left_out |= right & ~left;
	if (!(right & SAYS_TYPE))
		left_out |= left & ~right;
	if (!left_out)
		return true;
	ok = QUERY_ROOM(s->q, to, cap, s->frame_count, err) && choose_frames(s, left_out, to, err);
	for (uint32_t i = 0; i < s->run_count && ok; i++) {
		uint32_t *frames = s->pool + s->runs[i].first;

		for (uint32_t k = 0; k < s->runs[i].count; k++)
			if (frames[k] != RUN_CUT)
				frames[k] = to[frames[k]];
		s->runs[i].count = frames_without_repeats(s, frames, s->runs[i].count);
	}
	QUERY_DROP(s->q, to, cap);
	return ok;
}
