/*
 * speedscope_read.c - speedscope's JSON into the model.
 *
 * https://www.speedscope.app/file-format-schema.json: shared.frames and profiles, `sampled`
 * (samples root first, with as many weights) or `evented` (frames open and close, each inside of
 * those before it, at values; what is open at the end stays so until endValue).
 */
#include <math.h>
#include <stdlib.h>

#include "base/vec.h"
#include "formats/import_build.h"
#include "formats/readers_writers.h"
#include "wire/json_reader.h"

enum { FRAMES_MOST = 1 << 22, DEPTH_MOST = 64 };

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

static void scope_frame(struct scope_reading *r)
{
	struct import_frame f = { 0 };
	struct str key;

	if (!json_begin_object(&r->j))
		return;
	while (json_next_key(&r->j, &key)) {
		if (str_is(key, "name"))
			f.function = import_keep(&r->im, json_string(&r->j));
		else if (str_is(key, "file"))
			f.file = import_keep(&r->im, json_string(&r->j));
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
		int64_t v = time ? import_rounded(weight) : import_whole(&r->im, weight);
		struct stack_index stack = r->stacks[i];
		uint64_t end;

		at += weight > 0 ? weight : 0;
		end = at > 0 ? (uint64_t)import_rounded(at) : 0;
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
			name = import_keep(&r->im, json_string(&r->j));
		else if (str_is(key, "unit"))
			unit = import_keep(&r->im, json_string(&r->j));
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
