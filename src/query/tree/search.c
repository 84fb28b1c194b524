#include "query/tree/search.h"
#include "query/tree/tree.h"

#include <math.h>
#include <stdlib.h>

#include "base/regex.h"

/* Most paths that are counted; the share of a tree's nodes that a search may keep. */
enum { PATHS_MOST = 1 << 15, KEPT_SHARE = 4 };

bool search_begin(struct search *x, struct str pattern, struct err *err)
{
	*x = (struct search){ 0 };
	if (pattern.len)
		x->regex = regex_new(pattern, REGEX_WITHIN, err);
	return x->regex || !pattern.len;
}

void search_end(struct search *x)
{
	regex_free(x->regex);
}

bool search_frames(const struct search *x, struct frame_set *s, struct err *err)
{
	struct buf name;
	bool ok = true;

	buf_init(&name, 0);
	for (uint32_t i = 0; x->regex && i < s->frame_count && ok; i++) {
		struct query_frame *f = &s->frames[i];

		if (f->group || f->searched)
			continue;
		f->searched = true;
		buf_reset(&name);
		query_frame_append_name(&name, f, s->q->request.by);
		ok = query_alive_now(s->q, err) && /* a match may take a second */
		     regex_match(x->regex, buf_view(&name), &f->found, err);
	}
	buf_release(&name);
	return ok;
}

/* ---- the paths to what is found ---- */

/* How many frames lead to the outermost found one, that one included; 0: there is none. */
static uint32_t depth_of_match(const struct frame_set *s, const struct frame_run *r,
			       const uint32_t *pool)
{
	for (uint32_t i = 0; i < r->count && pool[r->first + i] != RUN_CUT; i++)
		if (s->frames[pool[r->first + i]].found)
			return i + 1;
	return 0;
}

/* False: no room. */
static bool node_of_path(struct found_paths *f, struct query *q, uint64_t path, uint32_t parent,
			 uint32_t *out)
{
	struct err full;

	*out = number_find(&f->places, path);
	if (*out != UINT32_MAX)
		return true;
	if (f->count == PATHS_MOST || !QUERY_ROOM(q, f->nodes, f->cap, f->count + 1u, &full) ||
	    !number_put(q, &f->places, path, f->count, &full))
		return false;
	*out = f->count;
	f->nodes[f->count++] = (struct found_node){ .path = path, .parent = parent };
	return true;
}

static void add_to(int64_t *sums, const int64_t *values)
{
	for (unsigned side = 0; side < QUERY_SIDES; side++)
		sums[side] = engine_add(sums[side], values[side]);
}

void found_add(struct found_paths *f, const struct search *x, const struct frame_set *s,
	       const struct frame_run *r, const uint32_t *pool)
{
	uint32_t depth = x->regex ? depth_of_match(s, r, pool) : 0, node = UINT32_MAX;
	uint64_t path = 0;

	if (!depth)
		return;
	add_to(f->matched, r->value);
	for (uint32_t i = 0; i < depth; i++) {
		path = path_step(path, s->frames[pool[r->first + i]].key);
		if (!node_of_path(f, s->q, path, node, &node))
			return;
	}
	f->nodes[node].is_match = true;
	add_to(f->nodes[node].total, r->value);
}

struct heavy {
	double weight;
	uint64_t path;
	uint32_t node;
};

static int heavier_first(const void *a, const void *b)
{
	const struct heavy *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return x->path < y->path ? -1 : x->path > y->path;
}

/* Share of its side, the larger one. */
static double weight_of(const struct found_node *n, const int64_t *total)
{
	double most = 0;

	for (unsigned side = 0; side < QUERY_SIDES; side++) {
		double share = fabs((double)n->total[side]) /
			       (total[side] ? fabs((double)total[side]) : 1);

		most = share > most ? share : most;
	}
	return most;
}

/* Keeps a node and what leads to it if that is at most `room` nodes more; how many it was. */
static uint32_t keep_path(struct found_paths *f, uint32_t node, uint32_t room)
{
	uint32_t more = 0;

	for (uint32_t n = node; n != UINT32_MAX && !f->nodes[n].kept; n = f->nodes[n].parent)
		more++;
	if (more > room)
		return 0;
	for (uint32_t n = node; n != UINT32_MAX && !f->nodes[n].kept; n = f->nodes[n].parent)
		f->nodes[n].kept = true;
	return more;
}

static bool list_kept(struct found_paths *f, struct query *q)
{
	struct err full;
	bool ok = true;

	for (uint32_t i = 0; i < f->count && ok; i++)
		if (f->nodes[i].kept)
			ok = number_put(q, &f->kept, f->nodes[i].path, i, &full);
	return ok;
}

void found_keep(struct found_paths *f, struct frame_set *s, uint32_t nodes_most)
{
	uint32_t room = nodes_most / KEPT_SHARE, count = 0, cap = 0;
	struct heavy *heavy = NULL;
	struct err full;

	s->kept_paths = NULL;
	if (!f->count || !QUERY_ROOM(s->q, heavy, cap, f->count, &full))
		return;
	for (uint32_t i = 0; i < f->count; i++)
		if (f->nodes[i].is_match)
			heavy[count++] = (struct heavy){ weight_of(&f->nodes[i], s->total),
							 f->nodes[i].path, i };
	if (count)
		qsort(heavy, count, sizeof(*heavy), heavier_first);
	for (uint32_t i = 0; i < count && room; i++)
		room -= keep_path(f, heavy[i].node, room);
	QUERY_DROP(s->q, heavy, cap);
	if (list_kept(f, s->q))
		s->kept_paths = &f->kept;
}

void found_release(struct query *q, struct found_paths *f)
{
	QUERY_DROP(q, f->nodes, f->cap);
	number_release(q, &f->places);
	number_release(q, &f->kept);
	*f = (struct found_paths){ 0 };
}
