/*
 * collect_frames.c - stacks as the transforms leave them, for a message of its own.
 *
 * Frames become locations again: a frame that is no inlined one, with the inlined functions that
 * follow it, is one location. Native code without a name is called as tables call it
 * ("libc.so.6+?"), so that no reader takes the merged frame for one at address 0.
 */
#include "base/cleanup.h"
#include "model/builder.h"
#include "query/sum/frames.h"

enum { LINES_MOST = 256 };

struct frame_stacks {
	struct query *q;
	struct builder *b;
	struct frame_set set;
	struct line *lines;           /* by frame */
	struct location_index *stack; /* of the run at hand, leaf first */
	uint32_t line_cap, stack_cap;
};

static struct line line_of(struct frame_stacks *s, const struct query_frame *f)
{
	struct function function = { .filename = builder_string(s->b, f->file) };
	struct line line = { .line = s->q->request.by == QUERY_BY_LINE ? f->line : 0 };
	struct buf name;

	buf_init(&name, 0);
	/* A line has a place of its own in the message; an address, a file and a binary have not.
	 */
	query_frame_append_name(
		&name, f, s->q->request.by == QUERY_BY_LINE ? QUERY_BY_FUNCTION : s->q->request.by);
	function.name = builder_string(s->b, buf_view(&name));
	buf_release(&name);
	line.function = builder_function(s->b, &function);
	return line;
}

/* `count` frames, root first, of which all but the first are inlined into it. */
static struct location_index location_of(struct frame_stacks *s, const uint32_t *frames,
					 uint32_t count)
{
	const struct query_frame *f = &s->set.frames[frames[0]];
	struct mapping m = { .filename = builder_string(s->b, f->binary) };
	struct location l = { .address = s->q->request.by == QUERY_BY_ADDRESS ? f->address : 0 };
	struct attribute type = { .key = builder_string(s->b, STR("profile.frame.type")),
				  .value = { .kind = ANY_STRING, .string = f->type } };
	struct attribute_index of_type;
	struct line lines[LINES_MOST];

	for (uint32_t i = 0; i < count; i++)
		lines[i] = s->lines[frames[count - 1 - i]];
	if (f->binary.len)
		l.mapping = builder_mapping(s->b, &m, NULL, 0);
	if (f->type.len)
		of_type = builder_attribute(s->b, &type);
	return builder_location(s->b, &l, lines, count, &of_type, f->type.len ? 1 : 0);
}

static bool belongs(const struct frame_stacks *s, uint32_t to, uint32_t frame)
{
	const struct query_frame *a = &s->set.frames[to], *b = &s->set.frames[frame];

	return b->inlined && str_equal(a->type, b->type) && str_equal(a->binary, b->binary);
}

static struct stack_index stack_of(struct frame_stacks *s, const struct frame_run *run)
{
	const uint32_t *frames = s->set.pool + run->first;
	uint32_t depth = 0, end;

	for (uint32_t i = 0; i < run->count; i = end) {
		for (end = i + 1; end < run->count && end - i < LINES_MOST &&
				  belongs(s, frames[i], frames[end]);)
			end++;
		/* From the end backwards: the leaf is first. */
		s->stack[s->stack_cap - ++depth] = location_of(s, frames + i, end - i);
	}
	return builder_stack(s->b, s->stack + s->stack_cap - depth, depth);
}

static bool make_stacks(struct frame_stacks *s, const struct stack_list *list, struct err *err)
{
	uint32_t deepest = 0;

	for (uint32_t i = 0; i < s->set.run_count; i++)
		if (s->set.runs[i].first != RUN_LEFT_OUT && s->set.runs[i].count > deepest)
			deepest = s->set.runs[i].count;
	if (!QUERY_ROOM(s->q, s->stack, s->stack_cap, deepest + 1u, err) ||
	    !QUERY_ROOM(s->q, s->lines, s->line_cap, s->set.frame_count + 1u, err))
		return false;
	for (uint32_t i = 0; i < s->set.frame_count; i++)
		s->lines[i] = line_of(s, &s->set.frames[i]);
	for (uint32_t i = 0; i < s->set.run_count; i++) {
		list->left_out[i] = s->set.runs[i].first == RUN_LEFT_OUT;
		if (!list->left_out[i])
			list->out[i] = stack_of(s, &s->set.runs[i]);
		if (!query_alive(s->q, err))
			return false;
	}
	return true;
}

bool collect_frames(struct query *q, struct builder *b, const struct stack_list *stacks,
		    struct err *err)
{
	struct frame_stacks s = { .q = q, .b = b };
	bool ok;

	if (!frame_set_init(&s.set, q, err))
		return false;
	ok = frame_set_resolve(&s.set, stacks->ids, stacks->count, FILTERS_ON, err) &&
	     make_stacks(&s, stacks, err);
	frame_set_release(&s.set);
	QUERY_DROP(q, s.stack, s.stack_cap);
	QUERY_DROP(q, s.lines, s.line_cap);
	return ok;
}
