/* pyro_tree.c - the engine's tree with brothers of one name made one, and the shapes that
 * Pyroscope's clients read: levels of bars, the tree's bytes. */
#include <string.h>

#include "base/hash.h"
#include "model/intern.h"
#include "web/pyro.h"

/* ---- names and nodes ---- */

struct naming {
	struct pyro_tree *tree;
	struct intern_table names, nodes;
};

static bool same_name(const void *ctx, uint32_t index, const void *key)
{
	const struct pyro_tree *t = ctx;

	return str_equal(t->names[index], *(const struct str *)key);
}

static uint32_t name_of(struct naming *n, struct str text, struct arena *arena)
{
	struct pyro_tree *t = n->tree;
	uint32_t found =
		intern_find_or_add(&n->names, hash64(text), same_name, t, &text, t->name_count);

	if (found != UINT32_MAX)
		return found;
	t->names[t->name_count] = arena ? str_dup(arena, text) : text;
	return t->name_count++;
}

struct child_key {
	uint32_t parent, name;
};

static bool same_child(const void *ctx, uint32_t index, const void *key)
{
	const struct pyro_tree *t = ctx;
	const struct child_key *k = key;

	return t->nodes[index].parent == k->parent && t->nodes[index].name == k->name && index;
}

static uint32_t child_of(struct naming *n, uint32_t parent, uint32_t name)
{
	struct pyro_tree *t = n->tree;
	struct child_key key = { parent, name };
	uint32_t found = intern_find_or_add(&n->nodes, hash64(str_from(&key, sizeof(key))),
					    same_child, t, &key, t->node_count);
	struct pyro_node *p = &t->nodes[parent];

	if (found != UINT32_MAX)
		return found;
	t->nodes[t->node_count] = (struct pyro_node){ .name = name, .parent = parent };
	if (p->last)
		t->nodes[p->last].next = t->node_count;
	else
		p->first = t->node_count;
	p->last = t->node_count;
	return t->node_count++;
}

/* The tree has the frames of all stacks that were read, its nodes few of them: what is not drawn
 * has no name here. */
struct frame_names {
	struct naming *naming;
	struct query_frames frames;
	uint32_t *known; /* by frame; UINT32_MAX: not asked for yet */
	struct arena *arena;
	struct buf text;
};

static uint32_t name_of_frame(struct frame_names *f, uint32_t frame)
{
	if (frame == QUERY_FRAME_OTHER)
		return name_of(f->naming, STR("other"), NULL);
	if (f->known[frame] == UINT32_MAX) {
		buf_reset(&f->text);
		query_frame_append_name(&f->text, &f->frames.ptr[frame], QUERY_BY_FUNCTION);
		f->known[frame] = name_of(f->naming, buf_view(&f->text), f->arena);
	}
	return f->known[frame];
}

static void add_values(struct pyro_node *to, const struct query_node *from)
{
	for (int side = 0; side < QUERY_SIDES; side++) {
		to->total[side] += from->total[side];
		to->self[side] += from->self[side];
	}
}

void pyro_tree_make(const struct query_tree *t, struct arena *arena, struct pyro_tree *out)
{
	uint32_t *path = arena_alloc_array(arena, t->node_count + 1, sizeof(*path));
	struct naming n = { .tree = out };
	struct frame_names names = {
		.naming = &n,
		.frames = t->frames,
		.known = arena_alloc_array(arena, t->frames.count + 1, sizeof(*names.known)),
		.arena = arena,
	};

	*out = (struct pyro_tree){
		.nodes = arena_alloc_array(arena, t->node_count + 1, sizeof(*out->nodes)),
		.names = arena_alloc_array(arena, t->frames.count + 2, sizeof(*out->names)),
		.node_count = 1,
	};
	intern_init(&n.names);
	intern_init(&n.nodes);
	/* Not interned: a function may be called "total". */
	out->names[out->name_count++] = STR("total");
	memset(names.known, 0xff, t->frames.count * sizeof(*names.known));
	out->nodes[0] = (struct pyro_node){ 0 };
	path[0] = 0;
	if (t->node_count)
		add_values(&out->nodes[0], &t->nodes[0]);
	for (uint32_t i = 1; i < t->node_count; i++) {
		const struct query_node *from = &t->nodes[i];
		uint32_t at =
			child_of(&n, path[from->depth - 1], name_of_frame(&names, from->frame));

		path[from->depth] = at;
		add_values(&out->nodes[at], from);
	}
	buf_release(&names.text);
	intern_release(&n.names);
	intern_release(&n.nodes);
}

/* ---- in pre-order ---- */

/* The node after `at`, its depth kept; 0 behind the last. */
static uint32_t step(const struct pyro_tree *t, uint32_t at, uint32_t *depth)
{
	if (t->nodes[at].first) {
		++*depth;
		return t->nodes[at].first;
	}
	while (at && !t->nodes[at].next) {
		at = t->nodes[at].parent;
		--*depth;
	}
	return at ? t->nodes[at].next : 0;
}

static uint32_t depth_of(const struct pyro_tree *t)
{
	uint32_t at = 0, depth = 0, most = 0;

	do {
		most = depth > most ? depth : most;
		at = step(t, at, &depth);
	} while (at);
	return most;
}

/* ---- levels ---- */

struct place {
	int64_t next, end; /* where the next bar begins, where the last one ended */
};

static void put_bar(struct pyro_level *level, const struct pyro_node *n,
		    struct place (*places)[QUERY_SIDES], uint32_t depth, int sides)
{
	for (int side = 0; side < sides; side++) {
		struct place *p = &places[depth][side];
		int64_t x = p->next;

		level->values[level->count++] = x - p->end;
		level->values[level->count++] = n->total[side];
		level->values[level->count++] = n->self[side];
		p->end = p->next = x + n->total[side];
		places[depth + 1][side].next = x + n->self[side];
	}
	level->values[level->count++] = n->name;
}

static void count_bars(const struct pyro_tree *t, struct pyro_level *levels, uint32_t per)
{
	uint32_t at = 0, depth = 0;

	do {
		levels[depth].cap += per;
		at = step(t, at, &depth);
	} while (at);
}

void pyro_levels_make(const struct pyro_tree *t, int sides, struct arena *arena,
		      struct pyro_levels *out)
{
	uint32_t at = 0, depth = 0, count = depth_of(t) + 1;
	struct place(*places)[QUERY_SIDES] = arena_zalloc(arena, (count + 1) * sizeof(*places));

	*out = (struct pyro_levels){
		.levels = arena_zalloc(arena, count * sizeof(*out->levels)),
		.count = count,
	};
	count_bars(t, out->levels, (uint32_t)sides * 3 + 1);
	for (uint32_t i = 0; i < count; i++)
		out->levels[i].values =
			arena_alloc_array(arena, out->levels[i].cap, sizeof(int64_t));
	do {
		const struct pyro_node *n = &t->nodes[at];

		for (int side = 0; side < sides; side++)
			out->max_self =
				n->self[side] > out->max_self ? n->self[side] : out->max_self;
		put_bar(&out->levels[depth], n, places, depth, sides);
		at = step(t, at, &depth);
	} while (at);
}

/* ---- bytes: name, self, number of children, in pre-order; the root has no name ---- */

static void put_tree_node(struct buf *out, struct str name, int64_t self, uint32_t children)
{
	buf_varint(out, name.len);
	buf_str(out, name);
	buf_varint(out, self > 0 ? (uint64_t)self : 0);
	buf_varint(out, children);
}

static uint32_t children_of(const struct pyro_tree *t, const struct pyro_node *n)
{
	uint32_t children = 0;

	for (uint32_t c = n->first; c; c = t->nodes[c].next)
		children++;
	return children;
}

static uint32_t other_of_root(const struct pyro_tree *t)
{
	uint32_t c = t->nodes[0].first;

	while (c && !str_is(t->names[t->nodes[c].name], "other"))
		c = t->nodes[c].next;
	return c;
}

/* What the root has of its own (samples without frames) is its `other`: readers drop the root. */
void pyro_tree_bytes(const struct pyro_tree *t, struct buf *out)
{
	uint32_t at = 0, depth = 0, other = other_of_root(t);
	int64_t own = t->nodes[0].self[0];

	if (t->node_count <= 1 && own == 0)
		return;
	put_tree_node(out, (struct str){ 0 }, 0,
		      children_of(t, &t->nodes[0]) + (own && !other ? 1 : 0));
	while ((at = step(t, at, &depth))) {
		const struct pyro_node *n = &t->nodes[at];

		put_tree_node(out, t->names[n->name], n->self[0] + (at == other ? own : 0),
			      children_of(t, n));
	}
	if (own && !other)
		put_tree_node(out, STR("other"), own, 0);
}
