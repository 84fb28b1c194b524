/* run_filter.c - what a query's filters leave of a stack's frames. */
#include "query/engine.h"

/* Frames that share a collapse filter with the one before are part of it. */
static uint32_t collapse(const struct frame_set *s, uint32_t filters, uint32_t *frames,
			 uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (kept == 0 || !(s->marked[frames[kept - 1]].own_marks &
				   s->marked[frames[i]].own_marks & filters))
			frames[kept++] = frames[i];
	return kept;
}

static bool is_marked(const struct frame_set *s, uint32_t marked, enum query_filter_kind kind)
{
	return s->marked[marked].marks & 1u << kind;
}

/* Goes on behind the innermost place of each marked frame that is kept. */
static uint32_t without_recursion(struct frame_set *s, uint32_t *frames, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (is_marked(s, frames[i], FILTER_RECURSION))
			s->last_at[s->marked[frames[i]].frame] = i;
	for (uint32_t i = 0; i < count; i++) {
		frames[kept] = frames[i];
		if (is_marked(s, frames[kept], FILTER_RECURSION))
			i = s->last_at[s->marked[frames[kept]].frame];
		kept++;
	}
	return kept;
}

bool run_filter(struct frame_set *s, uint32_t *frames, uint32_t *count)
{
	const struct query_request *r = &s->q->request;
	uint32_t focus_all = 0, focus = 0, kept = 0, first = 0, collapse_all = 0;
	bool show_from = false, recursion = false;

	for (uint32_t i = 0; i < r->filter_count; i++) {
		if (r->filters[i].kind == FILTER_FOCUS)
			focus_all |= 1u << i;
		if (r->filters[i].kind == FILTER_COLLAPSE)
			collapse_all |= 1u << i;
		recursion |= r->filters[i].kind == FILTER_RECURSION;
		show_from |= r->filters[i].kind == FILTER_SHOW_FROM;
	}
	if (show_from) {
		while (first < *count && !is_marked(s, frames[first], FILTER_SHOW_FROM))
			first++;
		if (first == *count)
			return false;
	}
	for (uint32_t i = first; i < *count; i++) {
		if (is_marked(s, frames[i], FILTER_IGNORE))
			return false;
		focus |= s->marked[frames[i]].own_marks & focus_all;
	}
	if (focus != focus_all)
		return false;
	for (uint32_t i = first; i < *count; i++)
		if (!is_marked(s, frames[i], FILTER_HIDE))
			frames[kept++] = frames[i];
	if (recursion)
		kept = without_recursion(s, frames, kept);
	if (collapse_all)
		kept = collapse(s, collapse_all, frames, kept);
	for (uint32_t i = 0; i < kept; i++)
		frames[i] = s->marked[frames[i]].frame;
	*count = kept;
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
