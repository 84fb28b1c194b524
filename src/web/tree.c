/*
 * tree.c - trees as the page draws them: a JSON header, then arrays (docs/api.md, "tree").
 *
 * The engine gives nodes in pre-order; the page wants them level by level with the children of one
 * parent side by side, which a stable counting sort by depth makes of it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "web/internal.h"
#include "web/tree.h"

enum { ROOT_FRAME = 0, OTHER_FRAME = 1, FIRST_FRAME = 2, TYPES_MOST = 256 };
enum { FLAG_INLINED = 1 << 8, FLAG_OTHER = 1 << 9, FLAG_GROUP = 1 << 10, FLAG_FOUND = 1 << 11 };

/* The strings of an answer, each once. */
struct strings {
	struct str *list;
	uint32_t *slots; /* index + 1; 0 is free */
	uint32_t count, cap, mask;
};

static void strings_init(struct strings *s, struct arena *arena, uint32_t most)
{
	uint32_t size = 64;

	while (size < most * 2)
		size *= 2;
	*s = (struct strings){ .cap = most, .mask = size - 1 };
	s->list = arena_alloc_array(arena, most, sizeof(*s->list));
	s->slots = arena_zalloc(arena, size * sizeof(*s->slots));
}

static uint32_t intern(struct strings *s, struct str text)
{
	uint32_t at = (uint32_t)hash64(text) & s->mask;

	while (s->slots[at]) {
		if (str_equal(s->list[s->slots[at] - 1], text))
			return s->slots[at] - 1;
		at = (at + 1) & s->mask;
	}
	s->list[s->count] = text;
	s->slots[at] = ++s->count;
	return s->count - 1;
}

struct frame_arrays {
	uint32_t *name, *file, *binary, *line, *flags;
	uint64_t *key;
	uint32_t count;
};

struct types {
	struct str list[TYPES_MOST];
	uint32_t count;
};

/* Past 256 types (hostile input) all share the last one. */
static uint32_t type_index(struct types *t, struct str type)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (str_equal(t->list[i], type))
			return i;
	if (t->count == TYPES_MOST)
		return TYPES_MOST - 1;
	t->list[t->count] = type;
	return t->count++;
}

/* Those frames that nodes have, in the order of their first ones: a pruned tree has few of them. */
struct shown {
	uint32_t *frames; /* of the tree, by place */
	uint32_t *place;  /* by frame of the tree: FIRST_FRAME + place; 0: no node has it */
	uint32_t count;
};

static void shown_find(struct shown *s, const struct query_tree *t, struct arena *arena)
{
	s->frames = arena_alloc_array(arena, t->frames.count + 1u, sizeof(uint32_t));
	s->place = arena_zalloc(arena, (t->frames.count + 1u) * sizeof(uint32_t));
	s->count = 0;
	for (uint32_t i = 0; i < t->node_count; i++) {
		uint32_t frame = t->nodes[i].frame;

		if (frame == QUERY_FRAME_ROOT || frame == QUERY_FRAME_OTHER || s->place[frame])
			continue;
		s->place[frame] = FIRST_FRAME + s->count;
		s->frames[s->count++] = frame;
	}
}

static void frames_alloc(struct frame_arrays *f, struct arena *arena, uint32_t count)
{
	f->count = count;
	f->name = arena_alloc_array(arena, count, sizeof(uint32_t));
	f->file = arena_alloc_array(arena, count, sizeof(uint32_t));
	f->binary = arena_alloc_array(arena, count, sizeof(uint32_t));
	f->line = arena_alloc_array(arena, count, sizeof(uint32_t));
	f->flags = arena_alloc_array(arena, count, sizeof(uint32_t));
	f->key = arena_alloc_array(arena, count, sizeof(uint64_t));
}

static struct str frame_name(struct arena *arena, const struct query_frame *f, enum query_by by)
{
	struct buf name = { 0 };
	struct str kept;

	query_frame_append_name(&name, f, by);
	kept = str_dup(arena, buf_view(&name));
	buf_release(&name);
	return kept;
}

static void set_special(struct frame_arrays *f, struct strings *s, uint32_t at, const char *name,
			uint32_t flags)
{
	f->name[at] = intern(s, str_cstr(name));
	f->file[at] = f->binary[at] = intern(s, str_from("", 0));
	f->line[at] = 0;
	f->flags[at] = flags;
	f->key[at] = 0;
}

static void frames_fill(struct frame_arrays *f, struct strings *s, struct types *t,
			const struct tree_out *o, const struct shown *shown, struct arena *arena)
{
	type_index(t, str_from("", 0));
	set_special(f, s, ROOT_FRAME, "all", 0);
	set_special(f, s, OTHER_FRAME, "other", FLAG_OTHER);
	for (uint32_t i = 0; i < shown->count; i++) {
		const struct query_frame *in = &o->tree->frames.ptr[shown->frames[i]];
		uint32_t at = FIRST_FRAME + i;

		f->name[at] = intern(s, frame_name(arena, in, o->by));
		f->file[at] = intern(s, in->file);
		f->binary[at] = intern(s, in->binary);
		f->line[at] = in->line > 0 && in->line <= UINT32_MAX ? (uint32_t)in->line : 0;
		f->flags[at] = type_index(t, in->type) | (in->inlined ? FLAG_INLINED : 0) |
			       (in->group ? FLAG_GROUP : 0) | (in->found ? FLAG_FOUND : 0);
		f->key[at] = in->key;
	}
}

struct node_arrays {
	uint32_t *parent, *frame;
	double *self, *total, *self2, *total2;
	uint32_t count;
};

static uint32_t frame_index(const struct shown *shown, uint32_t frame)
{
	if (frame == QUERY_FRAME_ROOT)
		return ROOT_FRAME;
	return frame == QUERY_FRAME_OTHER ? OTHER_FRAME : shown->place[frame];
}

/* Places nodes by depth, in pre-order within a depth. */
static void nodes_fill(struct node_arrays *n, const struct tree_out *o, const struct shown *shown,
		       struct arena *arena)
{
	const struct query_node *in = o->tree->nodes;
	uint32_t count = o->tree->node_count, levels = 1;
	uint32_t *next, *last;

	n->count = count;
	n->parent = arena_alloc_array(arena, count, sizeof(uint32_t));
	n->frame = arena_alloc_array(arena, count, sizeof(uint32_t));
	n->self = arena_alloc_array(arena, count, sizeof(double));
	n->total = arena_alloc_array(arena, count, sizeof(double));
	n->self2 = arena_alloc_array(arena, count, sizeof(double));
	n->total2 = arena_alloc_array(arena, count, sizeof(double));
	for (uint32_t i = 0; i < count; i++)
		if (in[i].depth >= levels)
			levels = in[i].depth + 1;
	next = arena_zalloc(arena, (levels + 1) * sizeof(*next)); /* place of a level's next node */
	last = arena_zalloc(arena, levels * sizeof(*last));       /* newest node of each level */
	for (uint32_t i = 0; i < count; i++)
		next[in[i].depth + 1]++;
	for (uint32_t d = 1; d <= levels; d++)
		next[d] += next[d - 1];
	for (uint32_t i = 0; i < count; i++) {
		uint32_t depth = in[i].depth, at = next[depth]++;

		last[depth] = at;
		n->parent[at] = depth ? last[depth - 1] : 0;
		n->frame[at] = frame_index(shown, in[i].frame);
		n->self[at] = (double)in[i].self[QUERY_LEFT];
		n->total[at] = (double)in[i].total[QUERY_LEFT];
		n->self2[at] = (double)in[i].self[QUERY_RIGHT];
		n->total2[at] = (double)in[i].total[QUERY_RIGHT];
	}
}

/* What stands behind the header, in order. */
struct array {
	const char *name, *type;
	const void *data;
	uint32_t count;
	uint32_t size;
};

/* Nobody reported: no member, which is not the same as zeros. */
static void put_losses(struct buf *b, const struct query_losses *l)
{
	if (!l->count)
		return;
	buf_lit(b, ",\"coverage\":{");
	for (uint32_t i = 0; i < l->count; i++) {
		if (i)
			buf_char(b, ',');
		buf_json_string(b, l->ptr[i].reason);
		buf_printf(b, ":%llu", (unsigned long long)l->ptr[i].n);
	}
	buf_char(b, '}');
}

static void put_matched(struct buf *b, const struct tree_out *o)
{
	buf_printf(b, ",\"matched\":[%lld", (long long)o->tree->matched[QUERY_LEFT]);
	if (o->sides == 2)
		buf_printf(b, ",%lld", (long long)o->tree->matched[QUERY_RIGHT]);
	buf_char(b, ']');
}

static void put_header(struct buf *b, const struct tree_out *o, const struct types *t,
		       const struct array *arrays, size_t array_count)
{
	const struct query_facts *f = &o->facts;

	buf_lit(b, "{\"unit\":");
	buf_json_string(b, o->unit);
	buf_printf(b, ",\"type\":");
	buf_json_string(b, f->type.id);
	buf_printf(b, ",\"sides\":%d,\"from\":\"%llu\",\"to\":\"%llu\",\"asof\":\"%llu\"", o->sides,
		   (unsigned long long)f->range.from, (unsigned long long)f->range.to,
		   (unsigned long long)f->asof);
	buf_printf(b, ",\"total\":[%lld", (long long)o->tree->total[QUERY_LEFT]);
	if (o->sides == 2)
		buf_printf(b, ",%lld", (long long)o->tree->total[QUERY_RIGHT]);
	buf_char(b, ']');
	if (o->searched)
		put_matched(b, o);
	buf_printf(b, ",\"seconds\":[%.9g", o->seconds[QUERY_LEFT]);
	if (o->sides == 2)
		buf_printf(b, ",%.9g", o->seconds[QUERY_RIGHT]);
	buf_printf(b,
		   "],\"stacks\":%llu,\"samples\":%llu,\"processes\":%u,\"pruned\":%u,\"partial\":",
		   (unsigned long long)o->tree->stacks, (unsigned long long)f->events, f->processes,
		   o->tree->pruned_nodes);
	buf_json_string(b, str_cstr(f->partial && f->reason ? f->reason : ""));
	if (o->sides == 2)
		buf_printf(b, ",\"samples2\":%llu,\"processes2\":%u",
			   (unsigned long long)o->samples2, o->processes2);
	put_losses(b, &o->losses);
	buf_lit(b, ",\"frame_types\":[");
	for (uint32_t i = 0; i < t->count; i++) {
		if (i)
			buf_char(b, ',');
		buf_json_string(b, t->list[i]);
	}
	buf_lit(b, "],\"arrays\":[");
	for (size_t i = 0; i < array_count; i++)
		buf_printf(b, "%s[\"%s\",\"%s\",%u]", i ? "," : "", arrays[i].name, arrays[i].type,
			   arrays[i].count);
	buf_lit(b, "]}");
}

static void pad(struct buf *b, char with)
{
	while (b->len % 8)
		buf_char(b, with);
}

static void put_all(struct buf *out, const struct tree_out *o, const struct types *t,
		    const struct array *arrays, size_t count)
{
	struct buf header = { 0 };
	uint32_t length;

	put_header(&header, o, t, arrays, count);
	length = (uint32_t)header.len;
	buf_lit(out, "FTT1");
	buf_append(out, &length, sizeof(length));
	buf_str(out, buf_view(&header));
	buf_release(&header);
	pad(out, ' ');
	for (size_t i = 0; i < count; i++) {
		buf_append(out, arrays[i].data, (size_t)arrays[i].count * arrays[i].size);
		pad(out, '\0');
	}
}

static void strings_flatten(const struct strings *s, struct arena *arena, uint32_t **offsets,
			    struct buf *bytes)
{
	*offsets = arena_alloc_array(arena, s->count + 1, sizeof(uint32_t));
	for (uint32_t i = 0; i < s->count; i++) {
		(*offsets)[i] = (uint32_t)bytes->len;
		buf_str(bytes, s->list[i]);
	}
	(*offsets)[s->count] = (uint32_t)bytes->len;
}

void tree_write(const struct tree_out *o, struct arena *arena, struct buf *out)
{
	struct frame_arrays f;
	struct shown shown;
	struct node_arrays n;
	struct strings s;
	struct types *t = arena_zalloc(arena, sizeof(*t));
	struct buf text = { 0 };
	uint32_t *offsets, frames;

	shown_find(&shown, o->tree, arena);
	frames = FIRST_FRAME + shown.count;
	strings_init(&s, arena, 3 * frames + 4);
	frames_alloc(&f, arena, frames);
	frames_fill(&f, &s, t, o, &shown, arena);
	nodes_fill(&n, o, &shown, arena);
	strings_flatten(&s, arena, &offsets, &text);
	{
		const struct array arrays[] = {
			{ "parent", "u32", n.parent, n.count, 4 },
			{ "frame", "u32", n.frame, n.count, 4 },
			{ "self", "f64", n.self, n.count, 8 },
			{ "total", "f64", n.total, n.count, 8 },
			{ "name", "u32", f.name, frames, 4 },
			{ "file", "u32", f.file, frames, 4 },
			{ "binary", "u32", f.binary, frames, 4 },
			{ "line", "u32", f.line, frames, 4 },
			{ "flags", "u32", f.flags, frames, 4 },
			{ "key", "u64", f.key, frames, 8 },
			{ "string_offset", "u32", offsets, s.count + 1, 4 },
			{ "string_bytes", "u8", text.ptr, (uint32_t)text.len, 1 },
			{ "self2", "f64", n.self2, n.count, 8 },
			{ "total2", "f64", n.total2, n.count, 8 },
		};

		put_all(out, o, t, arrays, o->sides == 2 ? 14 : 12);
	}
	buf_release(&text);
}
