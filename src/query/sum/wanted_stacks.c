/* wanted_stacks.c - only stacks that begin with frames of given names, or that the filters leave
 * something of: which ones those are is found out once, by a walk of its own; from then on walks
 * pass over the rows of all others. */
#include <stdlib.h>

#include "query/select/walk.h"
#include "query/sum/frames.h"

enum { STACKS_AT_ONCE = 4096 };

struct finding {
	struct query *q;
	struct number_set stacks;
};

static bool note_stack(void *ctx, const struct engine_event *e, struct err *err)
{
	struct finding *f = ctx;

	return !e->first || number_set_add(f->q, &f->stacks, e->row->stack, err);
}

static bool begins_so(const struct frame_set *s, const struct frame_run *r, struct buf *name)
{
	const struct query_request *q = &s->q->request;

	if (r->count < q->call_site_count)
		return false;
	for (uint32_t i = 0; i < q->call_site_count; i++) {
		buf_reset(name);
		query_frame_append_name(name, &s->frames[s->pool[r->first + i]], q->by);
		if (!str_equal(buf_view(name), q->call_site[i]))
			return false;
	}
	return true;
}

/* Of runs as the filters leave them, or, to look for a call site, as they are. */
static bool is_wanted(const struct frame_set *s, const struct frame_run *r, bool filtered,
		      struct buf *name)
{
	return filtered ? r->first != RUN_LEFT_OUT : begins_so(s, r, name);
}

static bool keep_some(struct finding *f, const uint64_t *ids, uint32_t count, struct err *err)
{
	struct query *q = f->q;
	bool filtered = !q->request.call_site_count;
	struct buf name = { 0 };
	struct frame_set s;
	bool ok = frame_set_init(&s, q, err);

	if (!ok)
		return false;
	ok = frame_set_resolve(&s, ids, count, filtered ? FILTERS_ON : FILTERS_OFF, err);
	for (uint32_t i = 0; i < count && ok; i++)
		if (is_wanted(&s, &s.runs[i], filtered, &name))
			ok = number_put(q, &q->selected.wanted_stacks, ids[i], 0, err);
	buf_release(&name);
	frame_set_release(&s);
	return ok;
}

bool engine_filters_choose(const struct query_request *r)
{
	for (uint32_t i = 0; i < r->filter_count; i++)
		if (r->filters[i].kind == FILTER_FOCUS || r->filters[i].kind == FILTER_IGNORE ||
		    r->filters[i].kind == FILTER_SHOW_FROM)
			return true;
	return false;
}

bool wanted_stacks_select(struct query *q, struct err *err)
{
	struct finding f = { .q = q };
	const struct walk w = walk_of(q, ROW_STACK);
	bool ok;

	if (!q->request.call_site_count &&
	    !(q->request.filters_choose && engine_filters_choose(&q->request)))
		return true;
	ok = engine_events(q, &w, note_stack, &f, err);
	number_set_sort(q, &f.stacks);
	for (uint32_t i = 0; i < f.stacks.count && ok; i += STACKS_AT_ONCE) {
		uint32_t left = f.stacks.count - i;

		ok = keep_some(&f, f.stacks.ptr + i, left < STACKS_AT_ONCE ? left : STACKS_AT_ONCE,
			       err);
	}
	number_set_release(q, &f.stacks);
	q->selected.by_stack = true;
	return ok;
}
