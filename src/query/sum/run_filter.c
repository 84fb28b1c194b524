/* run_filter.c - what a query's filters leave of a stack's frames. */
#include "query/sum/frames.h"

/* What one filter works on: marked frames, of which those that it finds have `bit`. */
struct step {
	struct frame_set *set;
	uint32_t *frames, count, bit;
};

static bool finds(const struct step *s, uint32_t i)
{
	return s->set->marked[s->frames[i]].marks & s->bit;
}

static uint32_t *last_at(const struct step *s, uint32_t i)
{
	return &s->set->last_at[s->set->marked[s->frames[i]].frame];
}

static uint32_t first_found(const struct step *s)
{
	uint32_t i = 0;

	while (i < s->count && !finds(s, i))
		i++;
	return i;
}

static bool show_from(struct step *s)
{
	uint32_t first = first_found(s);

	s->count -= first;
	for (uint32_t i = 0; i < s->count; i++)
		s->frames[i] = s->frames[first + i];
	return s->count > 0;
}

static void hide(struct step *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->count; i++)
		if (!finds(s, i))
			s->frames[kept++] = s->frames[i];
	s->count = kept;
}

/* Found frames that follow each other are the first of them. */
static void collapse(struct step *s)
{
	uint32_t kept = 0;
	bool before = false;

	for (uint32_t i = 0; i < s->count; i++) {
		bool found = finds(s, i);

		if (!found || !before)
			s->frames[kept++] = s->frames[i];
		before = found;
	}
	s->count = kept;
}

/* Goes on behind the innermost place of each found frame that is kept. */
static void without_recursion(struct step *s)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->count; i++)
		if (finds(s, i))
			*last_at(s, i) = i;
	for (uint32_t i = 0; i < s->count; i++) {
		uint32_t from = i;

		if (finds(s, i))
			i = *last_at(s, i);
		s->frames[kept++] = s->frames[from];
	}
	s->count = kept;
}

/* False: the stack is left out. */
static bool take_step(struct step *s, enum query_filter_kind kind)
{
	switch (kind) {
	case FILTER_FOCUS:
		return first_found(s) < s->count;
	case FILTER_IGNORE:
		return first_found(s) == s->count;
	case FILTER_SHOW_FROM:
		return show_from(s);
	case FILTER_HIDE:
		hide(s);
		return true;
	case FILTER_COLLAPSE:
		collapse(s);
		return true;
	case FILTER_RECURSION:
		without_recursion(s);
		return true;
	}
	return true;
}

bool run_filter(struct frame_set *s, uint32_t *frames, uint32_t *count)
{
	const struct query_request *r = &s->q->request;
	struct step step = { .set = s, .frames = frames, .count = *count };
	uint32_t found = 0;

	for (uint32_t i = 0; i < *count; i++)
		found |= s->marked[frames[i]].marks;
	for (uint32_t i = 0; i < r->filter_count; i++) {
		enum query_filter_kind kind = r->filters[i].kind;

		step.bit = 1u << i;
		if (found & step.bit ? !take_step(&step, kind)
				     : kind == FILTER_FOCUS || kind == FILTER_SHOW_FROM)
			return false;
	}
	for (uint32_t i = 0; i < step.count; i++)
		frames[i] = s->marked[frames[i]].frame;
	*count = step.count;
	return true;
}

uint32_t frames_without_repeats(const struct frame_set *s, uint32_t *frames, uint32_t count)
{
	uint32_t kept = 0;

	if (s->q->request.by != QUERY_BY_FILE && s->q->request.by != QUERY_BY_BINARY)
		return count;
	for (uint32_t i = 0; i < count; i++)
		if (kept == 0 || frames[kept - 1] != frames[i])
			frames[kept++] = frames[i];
	return kept;
}
