#include "query/draw/dot.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/units.h"
#include "model/intern.h"

struct dot_function {
	struct str name;
	int64_t self, total;
	uint32_t number, on_path;
	bool shown;
};

struct dot_edge {
	uint32_t from, to;
	int64_t value;
};

struct dot {
	const struct query_tree *tree;
	struct arena arena;
	struct dot_function *functions; /* by name */
	struct dot_edge *edges;
	uint32_t *of_frame, *path; /* functions: by frame; on the way to the node at hand */
	uint32_t function_count, edge_count, depth, other;
	struct intern_table function_table, edge_table;
	struct unit_scale scale;
	int64_t total;
};

/* ---- functions ---- */

static bool same_name(const void *ctx, uint32_t index, const void *key)
{
	return str_equal(((const struct dot *)ctx)->functions[index].name,
			 *(const struct str *)key);
}

static uint32_t function_of(struct dot *d, struct str name)
{
	uint32_t next = d->function_count;
	uint32_t found =
		intern_find_or_add(&d->function_table, hash64(name), same_name, d, &name, next);

	if (found != UINT32_MAX)
		return found;
	d->functions[next] =
		(struct dot_function){ .name = str_dup(&d->arena, name), .number = next + 1 };
	return d->function_count++;
}

static void name_functions(struct dot *d)
{
	struct buf name;

	buf_init(&name, 0);
	for (uint32_t i = 0; i < d->tree->frames.count; i++) {
		buf_reset(&name);
		query_frame_append_name(&name, &d->tree->frames.ptr[i], QUERY_BY_FUNCTION);
		d->of_frame[i] = function_of(d, buf_view(&name));
	}
	buf_release(&name);
	d->other = function_of(d, STR("other"));
}

/* ---- edges ---- */

static bool same_edge(const void *ctx, uint32_t index, const void *key)
{
	const struct dot_edge *e = &((const struct dot *)ctx)->edges[index], *k = key;

	return e->from == k->from && e->to == k->to;
}

static void add_edge(struct dot *d, uint32_t from, uint32_t to, int64_t value)
{
	struct dot_edge edge = { from, to, value };
	uint32_t key[] = { from, to };
	uint32_t found = intern_find_or_add(&d->edge_table, hash64(str_from(key, sizeof(key))),
					    same_edge, d, &edge, d->edge_count);

	if (found == UINT32_MAX)
		d->edges[d->edge_count++] = edge;
	else
		d->edges[found].value += value;
}

/* Is the same call on the way here already? */
static bool edge_on_path(const struct dot *d, uint32_t from, uint32_t to)
{
	if (!d->functions[to].on_path || d->functions[from].on_path < (from == to ? 1u : 2u))
		return false;
	for (uint32_t i = d->depth - 1; i > 0; i--)
		if (d->path[i] == to && d->path[i - 1] == from)
			return true;
	return false;
}

static void dot_enter(struct dot *d, const struct query_node *n)
{
	uint32_t at = n->frame == QUERY_FRAME_OTHER ? d->other : d->of_frame[n->frame];
	struct dot_function *f = &d->functions[at];

	f->self += n->self[QUERY_LEFT];
	if (!f->on_path)
		f->total += n->total[QUERY_LEFT];
	if (d->depth && !edge_on_path(d, d->path[d->depth - 1], at))
		add_edge(d, d->path[d->depth - 1], at, n->total[QUERY_LEFT]);
	f->on_path++;
	d->path[d->depth++] = at;
}

/* Nodes stand in pre-order, the root first. */
static void walk_nodes(struct dot *d)
{
	for (uint32_t i = 1; i < d->tree->node_count; i++) {
		const struct query_node *n = &d->tree->nodes[i];

		while (d->depth >= n->depth)
			d->functions[d->path[--d->depth]].on_path--;
		dot_enter(d, n);
	}
}

/* ---- the text ---- */

static int heavier(const void *x, const void *y)
{
	const struct dot_function *a = *(const struct dot_function *const *)x;
	const struct dot_function *b = *(const struct dot_function *const *)y;

	if (a->total != b->total)
		return a->total > b->total ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

static int heavier_edge(const void *x, const void *y)
{
	const struct dot_edge *a = x, *b = y;

	if (a->value != b->value)
		return a->value > b->value ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to < b->to ? -1 : a->to > b->to;
}

/* Inside of a quoted string of DOT, which is UTF-8. */
static void put_quoted(struct buf *out, struct str text)
{
	AUTO(buf_release) struct buf clean = { 0 };
	struct str s = text;

	if (!utf8_valid(text)) {
		utf8_append_clean(&clean, text);
		s = buf_view(&clean);
	}
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] == '"' || s.ptr[i] == '\\')
			buf_char(out, '\\');
		buf_char(out, (unsigned char)s.ptr[i] < 0x20 ? ' ' : s.ptr[i]);
	}
}

static double share(const struct dot *d, int64_t v)
{
	return d->total ? 100.0 * (double)v / (double)d->total : 0;
}

static void put_function(const struct dot *d, const struct dot_function *f, struct buf *out)
{
	double self = share(d, f->self);

	buf_printf(out, "N%u [label=\"", f->number);
	put_quoted(out, f->name);
	buf_lit(out, "\\n");
	unit_append(out, &d->scale, f->self);
	buf_printf(out, " (%.2f%%) of ", self);
	unit_append(out, &d->scale, f->total);
	/* The more of its own, the larger and the warmer. */
	buf_printf(out,
		   " (%.2f%%)\" shape=box fontsize=%d style=filled fillcolor=\"0.08 %.2f 1.0\"]\n",
		   share(d, f->total), 9 + (int)(self / 4), 0.04 + self / 125);
}

static void put_edge(const struct dot *d, const struct dot_edge *e, struct buf *out)
{
	buf_printf(out, "N%u -> N%u [label=\"", d->functions[e->from].number,
		   d->functions[e->to].number);
	unit_append(out, &d->scale, e->value);
	buf_printf(out, "\" penwidth=%.1f]\n", 0.6 + share(d, e->value) / 25);
}

static void put_graph(struct dot *d, uint32_t most, struct buf *out)
{
	struct dot_function **order =
		arena_alloc_array(&d->arena, d->function_count, sizeof(struct dot_function *));
	uint32_t count = 0;

	for (uint32_t i = 0; i < d->function_count; i++)
		if (d->functions[i].total)
			order[count++] = &d->functions[i];
	if (count)
		qsort(order, count, sizeof(struct dot_function *), heavier);
	if (d->edge_count)
		qsort(d->edges, d->edge_count, sizeof(*d->edges), heavier_edge);
	for (uint32_t i = 0; i < count && i < most; i++) {
		order[i]->shown = true;
		put_function(d, order[i], out);
	}
	for (uint32_t i = 0; i < d->edge_count; i++)
		if (d->functions[d->edges[i].from].shown && d->functions[d->edges[i].to].shown)
			put_edge(d, &d->edges[i], out);
}

static uint32_t deepest(const struct query_tree *t)
{
	uint32_t depth = 0;

	for (uint32_t i = 0; i < t->node_count; i++)
		depth = t->nodes[i].depth > depth ? t->nodes[i].depth : depth;
	return depth;
}

static void *zeroed_array(struct dot *d, uint32_t count, size_t bytes)
{
	return arena_alloc_array(&d->arena, count + 1u, bytes);
}

void dot_append_tree(struct buf *out, const struct query_tree *t, const struct dot_options *o)
{
	struct dot d = { .tree = t, .total = t->total[QUERY_LEFT] };

	arena_init(&d.arena, 16 << 10, 0);
	intern_init(&d.function_table);
	intern_init(&d.edge_table);
	d.functions = zeroed_array(&d, t->frames.count + 1u, sizeof(*d.functions));
	d.of_frame = zeroed_array(&d, t->frames.count, sizeof(*d.of_frame));
	d.edges = zeroed_array(&d, t->node_count, sizeof(*d.edges));
	d.path = zeroed_array(&d, deepest(t), sizeof(*d.path));
	d.scale = unit_scale_for(o->unit, d.total);
	name_functions(&d);
	walk_nodes(&d);
	buf_lit(out, "digraph \"");
	put_quoted(out, o->title.len ? o->title : STR("profile"));
	buf_lit(out, "\" {\nnode [fontname=\"Helvetica\"]\n");
	put_graph(&d, o->nodes_most ? o->nodes_most : DOT_NODES_DEFAULT, out);
	buf_lit(out, "}\n");
	intern_release(&d.edge_table);
	intern_release(&d.function_table);
	arena_release(&d.arena);
}
