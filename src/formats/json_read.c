/*
 * json_read.c - speedscope's JSON and Chrome's .cpuprofile into the model.
 *
 * speedscope (https://www.speedscope.app/file-format-schema.json): shared.frames and profiles,
 * `sampled` (samples root first, with as many weights) or `evented` (frames open and close, each
 * inside of those before it, at values; what is open at the end stays so until endValue).
 * .cpuprofile (Chrome DevTools protocol, Profiler.Profile): nodes with children, samples of node
 * ids, timeDeltas in microseconds. What rests, "(idle)" and "(program)", is a type of its own.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/vec.h"
#include "formats/import_build.h"
#include "formats/readers_writers.h"
#include "wire/json_reader.h"

enum { FRAMES_MOST = 1 << 22, DEPTH_MOST = 64 };

/* ---- speedscope ---- */

/*
 * A profile is a thread, in the order of time where its unit is one: a sample begins where the ones
 * before it end, and its timestamp is its end, as of everything that carries its own time. Names
 * that we wrote tell the process and the thread; others' profiles get their place in the file as
 * thread.id, which tells them apart. Most files count from 0: what does not reach 1973 is counted
 * from where we wrote that it began, else from 2000-01-01.
 */
#define SCOPE_BEGAN    UINT64_C(946684800000000000)
#define SCOPE_ABSOLUTE 1e17
struct scope_reading {
	struct import im;
	struct json_reader j;
	struct location_index *frames;
	uint32_t frame_count, frame_cap;
	uint32_t *open; /* frames that are open now, root first; or a sample's */
	uint32_t open_count, open_cap;
	double *weights;
	struct stack_index *stacks;
	uint32_t weight_count, weight_cap, stack_count, stack_cap;
	uint32_t profile_count;
	double start;      /* of the profile at hand, in its unit */
	double end, last;  /* endValue, and what the last event is at */
	uint32_t no_stack; /* our frame that says so, + 1 */
	uint64_t began;
	bool evented; /* it has events: these say when it began */
	bool weighed; /* it has weights */
	bool ours;    /* we wrote the file */
	struct err *err;
};

static struct str keep_frame(struct import *im, struct str s)
{
	return str_dup(builder_arena(im->b), s); /* the reader's buffer is used again */
}

static void scope_frame(struct scope_reading *r)
{
	struct import_frame f = { 0 };
	struct str key;

	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (str_is(key, "name"))
			f.function = keep_frame(&r->im, json_string(&r->j));
		else if (str_is(key, "file"))
			f.file = keep_frame(&r->im, json_string(&r->j));
		else if (str_is(key, "line"))
			f.line = (int64_t)json_double(&r->j);
		else if (str_is(key, "col"))
			f.column = (int64_t)json_double(&r->j);
		else
			json_skip(&r->j);
	}
	VEC_ROOM(r->frames, r->frame_count, r->frame_cap);
	r->frames[r->frame_count++] = import_location(&r->im, &f);
	if (r->ours && str_is(f.function, SPEEDSCOPE_NO_STACK))
		r->no_stack = r->frame_count;
}

static void scope_shared(struct scope_reading *r)
{
	struct str key;

	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (!str_is(key, "frames")) {
			json_skip(&r->j);
			continue;
		}
		if (json_begin_array(&r->j))
			while (json_next_element(&r->j)) {
				if (r->frame_count == FRAMES_MOST)
					json_fail(&r->j, ERR_LIMIT, "more than %d frames",
						  FRAMES_MOST);
				else
					scope_frame(r);
			}
	}
}

static bool frame_is_there(struct scope_reading *r, uint64_t frame)
{
	return frame < r->frame_count || json_fail(&r->j, ERR_INVALID, "frame %llu, there are %u",
						   (unsigned long long)frame, r->frame_count);
}

/* The open frames as a stack: leaf first. */
static struct stack_index scope_stack(struct scope_reading *r)
{
	struct err err;

	import_stack_clear(&r->im);
	for (uint32_t i = r->open_count; i > 0; i--)
		if (!import_stack_push(&r->im, r->frames[r->open[i - 1]], &err)) {
			json_fail(&r->j, ERR_LIMIT, "%s", err.msg);
			break;
		}
	return import_stack(&r->im);
}

static void open_frame(struct scope_reading *r, uint64_t frame)
{
	if (!frame_is_there(r, frame))
		return;
	if (r->open_count == IMPORT_STACK_MOST) {
		json_fail(&r->j, ERR_LIMIT, "a stack of more than %d frames", IMPORT_STACK_MOST);
		return;
	}
	VEC_ROOM(r->open, r->open_count, r->open_cap);
	r->open[r->open_count++] = (uint32_t)frame;
}

static void add_stack(struct scope_reading *r, struct stack_index s)
{
	VEC_ROOM(r->stacks, r->stack_count, r->stack_cap);
	r->stacks[r->stack_count++] = s;
}

static void add_weight(struct scope_reading *r, double w)
{
	VEC_ROOM(r->weights, r->weight_count, r->weight_cap);
	r->weights[r->weight_count++] = w;
}

/* A sample without a stack, which an empty stack is not: that is a gap. */
static const struct stack_index no_stack = { UINT32_MAX };

static bool says_no_stack(const struct scope_reading *r)
{
	return r->no_stack && r->open_count == 1 && r->open[0] == r->no_stack - 1;
}

static void scope_samples(struct scope_reading *r)
{
	if (!json_begin_array(&r->j))
		return;
	while (json_next_element(&r->j)) {
		r->open_count = 0;
		if (json_begin_array(&r->j))
			while (json_next_element(&r->j))
				open_frame(r, json_uint64(&r->j));
		add_stack(r, says_no_stack(r) ? no_stack : scope_stack(r));
	}
}

static void scope_weights(struct scope_reading *r)
{
	if (!json_begin_array(&r->j))
		return;
	r->weighed = true;
	while (json_next_element(&r->j))
		add_weight(r, json_double(&r->j));
}

static void close_frame(struct scope_reading *r, uint64_t frame)
{
	uint32_t innermost;

	if (!r->open_count) {
		json_fail(&r->j, ERR_INVALID, "frame %llu is closed, none is open",
			  (unsigned long long)frame);
		return;
	}
	innermost = r->open[r->open_count - 1];
	if (frame == innermost)
		r->open_count--;
	else
		json_fail(&r->j, ERR_INVALID,
			  "frame %llu is closed where frame %u is the innermost",
			  (unsigned long long)frame, innermost);
}

static void put_open(struct scope_reading *r, double until)
{
	if (!(until > r->last)) /* an empty stack is a gap */
		return;
	add_stack(r, scope_stack(r));
	add_weight(r, until - r->last);
}

/* Between two events what is open costs the difference of their values. */
static void scope_events(struct scope_reading *r)
{
	struct str key;

	if (!json_begin_array(&r->j))
		return;
	r->open_count = 0;
	while (json_next_element(&r->j)) {
		bool opens = false;
		uint64_t frame = 0;
		double at = 0;

		if (!json_begin_object(&r->j))
			continue;
		while (json_next_key(&r->j, &key)) {
			if (str_is(key, "type"))
				opens = str_is(json_string(&r->j), "O");
			else if (str_is(key, "frame"))
				frame = json_uint64(&r->j);
			else if (str_is(key, "at"))
				at = json_double(&r->j);
			else
				json_skip(&r->j);
		}
		if (!r->evented)
			r->start = at;
		else
			put_open(r, at);
		r->evented = true;
		r->last = at;
		if (opens)
			open_frame(r, frame);
		else
			close_frame(r, frame);
	}
}

static int64_t rounded(double v)
{
	if (!(v > -9.2e18 && v < 9.2e18))
		return v > 0 ? INT64_MAX : 0;
	return llround(v);
}

enum { SCOPE_LABELS = 4 };

/* "name (12) thread [34]: type", as speedscope_write.c has it; *name: the thread's. */
static bool our_name(struct str *name, struct str *process, int64_t *pid, int64_t *tid)
{
	struct str rest = *name, thread;
	ptrdiff_t open = str_search(rest, STR(" (")), close;

	if (open <= 0)
		return false;
	*process = str_head(rest, (size_t)open);
	rest = str_skip(rest, (size_t)open + 2);
	close = str_find(rest, ')');
	if (close <= 0 || !str_to_i64(str_head(rest, (size_t)close), pid))
		return false;
	thread = str_skip(rest, (size_t)close + 1);
	close = str_search(thread, STR(": "));
	thread = str_trim(close >= 0 ? str_head(thread, (size_t)close) : thread);
	*tid = *pid;
	open = str_find(thread, '[');
	if (open >= 0 && str_has_suffix(thread, STR("]")) &&
	    str_to_i64(str_head(str_skip(thread, (size_t)open + 1), thread.len - (size_t)open - 2),
		       tid))
		thread = str_trim(str_head(thread, (size_t)open));
	*name = thread.len ? thread : *process;
	return true;
}

static uint32_t put_labels(struct scope_reading *r, struct str name,
			   struct attribute_index labels[SCOPE_LABELS])
{
	struct str process = { 0 };
	int64_t pid, tid = r->profile_count;
	uint32_t count = 0;

	if (r->ours && our_name(&name, &process, &pid, &tid)) {
		labels[count++] = import_text(&r->im, "process.executable.name", process);
		labels[count++] = import_int(&r->im, "process.pid", pid);
	}
	if (name.len)
		labels[count++] = import_text(&r->im, "thread.name", name);
	labels[count++] = import_int(&r->im, "thread.id", tid);
	return count;
}

static double unit_ns(struct str unit)
{
	/* Fractions of long units become whole nanoseconds. */
	return str_is(unit, "seconds")        ? 1e9
	       : str_is(unit, "milliseconds") ? 1e6
	       : str_is(unit, "microseconds") ? 1e3
					      : 1;
}

static void begin_scope_profile(struct scope_reading *r, struct str unit, bool time)
{
	import_profile(&r->im,
		       time                    ? STR("cpu")
		       : str_is(unit, "bytes") ? STR("space")
					       : STR("samples"),
		       time                    ? STR("nanoseconds")
		       : str_is(unit, "bytes") ? STR("bytes")
					       : STR("count"),
		       STR(""), STR(""), 0);
}

static void put_profile(struct scope_reading *r, struct str name, struct str unit)
{
	struct attribute_index labels[SCOPE_LABELS];
	bool time = !str_is(unit, "none") && !str_is(unit, "bytes") && unit.len;
	double scale = unit_ns(unit), at = r->start * scale;
	uint32_t label_count;

	r->profile_count++;
	begin_scope_profile(r, unit, time);
	label_count = put_labels(r, name, labels);
	for (uint32_t i = 0; i < r->stack_count; i++) {
		double weight = (i < r->weight_count ? r->weights[i] : 1) * scale;
		int64_t v = time ? rounded(weight) : import_whole(&r->im, weight);
		struct stack_index stack = r->stacks[i];
		uint64_t end;

		at += weight > 0 ? weight : 0;
		end = at > 0 ? (uint64_t)rounded(at) : 0;
		if (at < SCOPE_ABSOLUTE)
			end += r->began;
		if (stack.v == no_stack.v)
			stack.v = 0;
		else if (!stack.v) /* a gap */
			continue;
		builder_sample(r->im.b, stack, (struct link_index){ 0 }, labels, label_count, &v, 1,
			       &end, time && end ? 1 : 0);
	}
}

static void scope_profile(struct scope_reading *r)
{
	struct str key, name = { 0 }, unit = { 0 };

	r->stack_count = r->weight_count = 0;
	r->start = r->end = r->last = 0;
	r->evented = r->weighed = false;
	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (str_is(key, "name"))
			name = keep_frame(&r->im, json_string(&r->j));
		else if (str_is(key, "unit"))
			unit = keep_frame(&r->im, json_string(&r->j));
		else if (str_is(key, "startValue") && !r->evented)
			r->start = json_double(&r->j);
		else if (str_is(key, "endValue"))
			r->end = json_double(&r->j);
		else if (str_is(key, "samples"))
			scope_samples(r);
		else if (str_is(key, "weights"))
			scope_weights(r);
		else if (str_is(key, "events"))
			scope_events(r);
		else
			json_skip(&r->j);
	}
	if (r->evented && r->open_count)
		put_open(r, r->end);
	if (r->weighed && r->stack_count != r->weight_count)
		json_fail(&r->j, ERR_INVALID, "%u samples with %u weights", r->stack_count,
			  r->weight_count);
	if (!r->j.failed)
		put_profile(r, name, unit);
}

static void set_began(struct scope_reading *r, struct str text)
{
	uint64_t ns;

	if (str_to_u64(text, &ns) && ns < INT64_MAX)
		r->began = ns;
}

/* The frames may stand behind the profiles: they are read first. */
static bool scope_pass(struct scope_reading *r, struct str text, bool profiles)
{
	struct str key;
	bool ok;

	json_reader_init(&r->j, text, DEPTH_MOST);
	if (json_begin_object(&r->j))
		while (json_next_key(&r->j, &key)) {
			if (!profiles && str_is(key, "shared"))
				scope_shared(r);
			else if (str_is(key, "exporter"))
				r->ours = str_is(json_string(&r->j), "flametap");
			else if (str_is(key, "startTimeUnixNano"))
				set_began(r, json_string(&r->j));
			else if (profiles && str_is(key, "profiles") && json_begin_array(&r->j))
				while (json_next_element(&r->j))
					scope_profile(r);
			else if (!profiles || !str_is(key, "profiles"))
				json_skip(&r->j);
		}
	ok = json_finish(&r->j, r->err) || err_prefix(r->err, "speedscope");
	json_reader_release(&r->j);
	return ok;
}

bool speedscope_read(struct blob *bytes, struct profiles **out, struct err *err)
{
	struct scope_reading r = { .err = err, .began = SCOPE_BEGAN };
	bool ok;

	import_begin(&r.im, bytes);
	ok = scope_pass(&r, blob_view(bytes), false) && scope_pass(&r, blob_view(bytes), true);
	free(r.frames);
	free(r.open);
	free(r.weights);
	free(r.stacks);
	return import_end(&r.im, ok, out, err);
}

/* ---- .cpuprofile ---- */

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
			f->function = keep_frame(&r->im, json_string(&r->j));
		else if (str_is(key, "url"))
			f->file = keep_frame(&r->im, json_string(&r->j));
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
		(*out)[(*count)++] = rounded(json_double(j));
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
				r.start_us = rounded(json_double(&r.j));
			else if (str_is(key, "endTime"))
				r.end_us = rounded(json_double(&r.j));
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
