/* sides.c - one selection, or two side by side: their stacks become runs of one set. */
#include "query/diff/sides.h"

/* As folded stacks have them: numbers, who knows of what. */
static bool is_plain(const struct query_type *t)
{
	return str_is(t->type, "samples") && str_is(t->unit, "count") && !t->period_type.len;
}

static bool same_type(const struct query *a, const struct query *b, struct err *err)
{
	const struct query_type *x = query_type_of(a), *y = query_type_of(b);

	if (!x || !y)
		return true; /* one side is empty */
	if (str_equal(x->type, y->type) && str_equal(x->unit, y->unit))
		return true;
	if (a->request.by_share && (is_plain(x) || is_plain(y)))
		return true;
	return err_set(err, ERR_INVALID, "the two sides have different types: %.*s and %.*s",
		       STR_ARG(x->id), STR_ARG(y->id));
}

/* Frames are only told apart as both sides do once both are there. */
static bool add_both(struct frame_set *s, const struct query_sides *x, const struct frame_use *use,
		     struct err *err)
{
	struct frame_use turned = { .orient = use ? use->orient : NULL,
				    .ctx = use ? use->ctx : NULL };
	const struct frame_side sides[QUERY_SIDES] = {
		[QUERY_LEFT] = { x->left, x->group_by, QUERY_LEFT, &turned },
		[QUERY_RIGHT] = { x->right, x->group_by, QUERY_RIGHT, &turned },
	};
	uint32_t left_runs;

	if (!frame_set_add(s, &sides[QUERY_LEFT], err))
		return false;
	left_runs = s->run_count;
	return frame_set_add(s, &sides[QUERY_RIGHT], err) && frame_set_align(s, left_runs, err) &&
	       (!use || !use->use || use->use(use->ctx, s, 0, err));
}

bool frame_set_of(struct frame_set *s, const struct query_sides *x, const struct frame_use *use,
		  struct err *err)
{
	const struct frame_side only = { x->left, x->group_by, QUERY_LEFT, use };

	x->left->partial = false;
	if (x->right) {
		x->right->partial = false;
		if (!same_type(x->left, x->right, err))
			return false;
	}
	if (!frame_set_init(s, x->left, err))
		return false;
	if (x->right ? add_both(s, x, use, err) : frame_set_add(s, &only, err)) {
		if (x->right && x->right->partial && !x->left->partial)
			query_note_partial(x->left, "%s", x->right->reason);
		return true;
	}
	frame_set_release(s);
	return false;
}
