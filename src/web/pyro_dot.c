/* pyro_dot.c - a tree as Graphviz's DOT: a node a function, an edge a call, both with what went
 * through them. A stack counts once, however deep it recurses. */
#include <stdlib.h>

#include "base/hash.h"
#include "model/intern.h"
#include "query/units.h"
#include "web/pyro.h"

struct dot_function {
	int64_t self, total;
	uint32_t name, on_path;
	bool shown;
};

struct dot_edge {
	uint32_t from, to;
	int64_t value;
};

struct dot {
	const struct pyro_tree *tree;
	struct dot_function *functions; /* by name */
	struct dot_edge *edges;
	uint32_t edge_count;
	struct intern_table edge_table;
	struct unit_scale scale;
	int64_t total;
};

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

/* Was the same call on the way down already? */
static bool edge_on_path(const struct dot *d, uint32_t node)
{
	const struct pyro_node *nodes = d->tree->nodes;
	uint32_t to = nodes[node].name, from = nodes[nodes[node].parent].name;

	if (d->functions[to].on_path == 0 || d->functions[from].on_path < 2)
		return false;
	for (uint32_t at = nodes[node].parent; at && nodes[at].parent; at = nodes[at].parent)
		if (nodes[at].name == to && nodes[nodes[at].parent].name == from)
			return true;
	return false;
}

static void enter(struct dot *d, uint32_t at)
{
	const struct pyro_node *n = &d->tree->nodes[at];
	struct dot_function *f = &d->functions[n->name];

	f->self += n->self[0];
	if (f->on_path == 0)
		f->total += n->total[0];
	if (n->parent && !edge_on_path(d, at))
		add_edge(d, d->tree->nodes[n->parent].name, n->name, n->total[0]);
	f->on_path++;
}

static void walk(struct dot *d)
{
	const struct pyro_node *nodes = d->tree->nodes;
	uint32_t at = nodes[0].first;

	while (at) {
		enter(d, at);
		if (nodes[at].first) {
			at = nodes[at].first;
			continue;
		}
		for (; at; at = nodes[at].parent) {
			d->functions[nodes[at].name].on_path--;
			if (nodes[at].next)
				break;
		}
		at = at ? nodes[at].next : 0;
	}
}

static int heavier(const void *x, const void *y)
{
	const struct dot_function *a = *(const struct dot_function *const *)x;
	const struct dot_function *b = *(const struct dot_function *const *)y;

	if (a->total != b->total)
		return a->total > b->total ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
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

/* A quoted string of DOT. */
static void put_quoted(struct buf *out, struct str s)
{
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

	buf_printf(out, "N%u [label=\"", f->name);
	put_quoted(out, d->tree->names[f->name]);
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
	buf_printf(out, "N%u -> N%u [label=\"", e->from, e->to);
	unit_append(out, &d->scale, e->value);
	buf_printf(out, "\" penwidth=%.1f]\n", 0.6 + share(d, e->value) / 25);
}

static void put_graph(struct dot *d, uint32_t most, struct arena *arena, struct buf *out)
{
	uint32_t names = d->tree->name_count, count = 0;
	struct dot_function **order =
		arena_alloc_array(arena, names, sizeof(struct dot_function *));

	for (uint32_t i = 1; i < names; i++) {
		d->functions[i].name = i;
		if (d->functions[i].total)
			order[count++] = &d->functions[i];
	}
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

void pyro_tree_dot(const struct pyro_tree *t, struct str unit, uint32_t most, struct arena *arena,
		   struct buf *out)
{
	struct dot d = {
		.tree = t,
		.functions = arena_zalloc(arena, (t->name_count + 1) * sizeof(*d.functions)),
		.edges = arena_alloc_array(arena, t->node_count + 1, sizeof(*d.edges)),
		.scale = unit_scale_for(unit, t->nodes[0].total[0]),
		.total = t->nodes[0].total[0],
	};

	intern_init(&d.edge_table);
	walk(&d);
	buf_lit(out, "digraph \"profile\" {\nnode [fontname=\"Helvetica\"]\n");
	put_graph(&d, most, arena, out);
	buf_lit(out, "}\n");
	intern_release(&d.edge_table);
}
