/*
 * cpuprofile_read.c - Chrome's .cpuprofile into the model.
 *
 * Chrome DevTools protocol, Profiler.Profile: nodes with children, samples of node ids, timeDeltas
 * in microseconds. What rests, "(idle)" and "(program)", is a type of its own.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/vec.h"
#include "formats/import_build.h"
#include "formats/readers_writers.h"
#include "wire/json_reader.h"

enum { DEPTH_MOST = 64 };

struct cpu_node {
	int64_t id;
	bool rests; /* "(idle)", "(program)": V8 ran nothing */
	struct location_index location;
	uint32_t parent; /* place + 1; 0: none */
};

struct child { /* an id that a node names as its child */
	int64_t id;
	uint32_t parent;
};

struct cpu_reading {
	struct import im;
	struct json_reader j;
	struct cpu_node *nodes;
	struct child *children;
	int64_t *samples, *deltas;
	uint32_t node_count, node_cap, child_count, child_cap, sample_count, sample_cap,
		delta_count, delta_cap;
	int64_t start_us, end_us;
};

static void call_frame(struct cpu_reading *r, struct import_frame *f)
{
	struct str key;

	f->type = STR("v8js");
	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (str_is(key, "functionName"))
			f->function = import_keep(&r->im, json_string(&r->j));
		else if (str_is(key, "url"))
			f->file = import_keep(&r->im, json_string(&r->j));
		else if (str_is(key, "lineNumber"))
			f->line = (int64_t)json_double(&r->j) + 1; /* counted from 0 */
		else if (str_is(key, "columnNumber"))
			f->column = (int64_t)json_double(&r->j) + 1;
		else
			json_skip(&r->j);
	}
	if (!f->function.len)
		f->function = STR("(anonymous)");
}

static void cpu_children(struct cpu_reading *r)
{
	if (!json_begin_array(&r->j))
		return;
	while (json_next_element(&r->j)) {
		VEC_ROOM(r->children, r->child_count, r->child_cap);
		r->children[r->child_count++] = (struct child){ json_int64(&r->j), r->node_count };
	}
}

static void cpu_node(struct cpu_reading *r)
{
	struct import_frame f = { 0 };
	struct cpu_node n = { 0 };
	struct str key;

	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (str_is(key, "id"))
			n.id = json_int64(&r->j);
		else if (str_is(key, "callFrame"))
			call_frame(r, &f);
		else if (str_is(key, "children"))
			cpu_children(r);
		else
			json_skip(&r->j);
	}
	n.rests = str_is(f.function, "(idle)") || str_is(f.function, "(program)");
	n.location = import_location(&r->im, &f);
	VEC_ROOM(r->nodes, r->node_count, r->node_cap);
	r->nodes[r->node_count++] = n;
}

static void numbers(struct json_reader *j, int64_t **out, uint32_t *count, uint32_t *cap)
{
	if (!json_begin_array(j))
		return;
	while (json_next_element(j)) {
		VEC_ROOM(*out, *count, *cap);
		(*out)[(*count)++] = import_rounded(json_double(j));
	}
}

static int node_order(const void *a, const void *b)
{
	int64_t x = ((const struct cpu_node *)a)->id, y = ((const struct cpu_node *)b)->id;

	return x < y ? -1 : x > y;
}

static struct cpu_node *node_by_id(struct cpu_reading *r, int64_t id)
{
	struct cpu_node key = { .id = id };

	return r->node_count ? bsearch(&key, r->nodes, r->node_count, sizeof(key), node_order)
			     : NULL;
}

/* Parents by place: ids are remembered before the nodes are put in order. */
static void link_parents(struct cpu_reading *r)
{
	int64_t *ids = calloc(r->node_count + 1u, sizeof(*ids));

	assert(ids);
	for (uint32_t i = 0; i < r->node_count; i++)
		ids[i] = r->nodes[i].id;
	if (r->node_count)
		qsort(r->nodes, r->node_count, sizeof(*r->nodes), node_order);
	for (uint32_t i = 0; i < r->child_count; i++) {
		struct cpu_node *child = node_by_id(r, r->children[i].id), *parent;

		if (!child || r->children[i].parent >= r->node_count)
			continue;
		parent = node_by_id(r, ids[r->children[i].parent]);
		child->parent = (uint32_t)(parent - r->nodes) + 1;
	}
	free(ids);
}

/* A sample lasts until the next one: delta i leads to it. The last one lasts until the end. */
static int64_t cpu_value_ns(const struct cpu_reading *r, uint32_t i, uint64_t at_us)
{
	int64_t us = i + 1 < r->delta_count ? r->deltas[i + 1] : 0;

	if (i + 1 == r->sample_count && r->end_us > 0 && (uint64_t)r->end_us > at_us)
		us = r->end_us - (int64_t)at_us;
	return us > 0 && us < INT64_MAX / 1000 ? us * 1000 : 0;
}

static bool push_nodes(struct cpu_reading *r, const struct cpu_node *n, struct err *err)
{
	import_stack_clear(&r->im);
	for (uint32_t depth = 0; n; depth++) {
		if (depth == IMPORT_STACK_MOST)
			return err_set(err, ERR_INVALID,
				       "cpuprofile: nodes are each other's parents");
		if (!import_stack_push(&r->im, n->location, err))
			return false;
		n = n->parent ? &r->nodes[n->parent - 1] : NULL;
	}
	return true;
}

/* Those that ran, or those that did not. */
static bool put_cpu_samples(struct cpu_reading *r, bool rests, struct err *err)
{
	uint64_t time = r->start_us > 0 ? (uint64_t)r->start_us : 0;
	bool any = false;

	for (uint32_t i = 0; i < r->sample_count; i++) {
		const struct cpu_node *n = node_by_id(r, r->samples[i]);
		int64_t value;
		uint64_t ns;

		if (i < r->delta_count && r->deltas[i] > 0)
			time += (uint64_t)r->deltas[i];
		if ((n && n->rests) != rests)
			continue;
		if (!any)
			import_profile(&r->im, rests ? STR("idle") : STR("cpu"), STR("nanoseconds"),
				       STR(""), STR(""), 0);
		any = true;
		value = cpu_value_ns(r, i, time);
		ns = time < UINT64_MAX / 1000 ? time * 1000 : UINT64_MAX;
		if (!push_nodes(r, n, err))
			return false;
		builder_sample(r->im.b, import_stack(&r->im), (struct link_index){ 0 }, NULL, 0,
			       &value, 1, &ns, 1);
	}
	return true;
}

bool cpuprofile_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct cpu_reading r = { 0 };
	struct str key;
	bool ok;

	import_begin(&r.im, bytes);
	json_reader_init(&r.j, blob_view(bytes), DEPTH_MOST);
	if (json_begin_object(&r.j))
		while (json_next_key(&r.j, &key)) {
			if (str_is(key, "nodes") && json_begin_array(&r.j))
				while (json_next_element(&r.j))
					cpu_node(&r);
			else if (str_is(key, "samples"))
				numbers(&r.j, &r.samples, &r.sample_count, &r.sample_cap);
			else if (str_is(key, "timeDeltas"))
				numbers(&r.j, &r.deltas, &r.delta_count, &r.delta_cap);
			else if (str_is(key, "startTime"))
				r.start_us = import_rounded(json_double(&r.j));
			else if (str_is(key, "endTime"))
				r.end_us = import_rounded(json_double(&r.j));
			else if (!str_is(key, "nodes"))
				json_skip(&r.j);
		}
	ok = json_finish(&r.j, err) || err_prefix(err, "cpuprofile");
	json_reader_release(&r.j);
	if (ok) {
		link_parents(&r);
		ok = put_cpu_samples(&r, false, err) && put_cpu_samples(&r, true, err);
	}
	free(r.nodes);
	free(r.children);
	free(r.samples);
	free(r.deltas);
	return import_end(&r.im, ok, out, err);
}
