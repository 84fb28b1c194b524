/*
 * speedscope_write.c - speedscope's JSON (https://www.speedscope.app/file-format-schema.json).
 *
 * One `sampled` profile a (profile type, thread), its samples in the order of time. A sample weighs
 * what it is worth, so that sums are those of any other answer: sampled CPU time lasts a period for
 * each count. Where the next sample comes later an empty stack lies between; where it comes sooner
 * it waits for the end of those before it, so that the time order view shows real time up to that.
 * Its startValue is when it began, counted from the first of all.
 * Other values are weights one after another. A sample without a stack has the frame "(no stack)",
 * as an empty stack is a gap.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/vec.h"
#include "formats/readers_writers.h"
#include "formats/tracks.h"
#include "model/intern.h"

struct scope_writer {
	const struct profiles *p;
	struct buf *out;
	struct tracks tracks;
	uint64_t first_time; /* of all events that have their own: where startValue is 0 */
	bool addresses;
	struct intern_table known;
	struct buf frames;   /* their texts, one after another */
	uint32_t *frame_end; /* of each frame's text */
	uint32_t frame_count, frame_cap;
	uint32_t *first_line; /* of each location, in frame_of */
	uint32_t *frame_of;   /* of each line of a location, innermost first */
	uint32_t no_stack;
};

/* ---- frames ---- */

static void append_frame(struct scope_writer *w, const struct location *l, const struct line *line)
{
	struct buf *b = &w->frames;
	const struct dictionary *d = &w->p->dict;
	const struct function *f = line ? &d->functions[line->function.v] : &d->functions[0];
	struct str name = profiles_string(w->p, f->name), file = profiles_string(w->p, f->filename);
	struct str binary = profiles_string(w->p, d->mappings[l->mapping.v].filename);
	struct buf made;

	buf_init(&made, 0);
	if (!name.len)
		name = profiles_string(w->p, f->system_name);
	if (!name.len) {
		struct str type = location_frame_type(w->p, l);

		if (binary.len)
			buf_str(&made, binary);
		else
			buf_printf(&made, "[%.*s]", STR_ARG(type.len ? type : STR("unknown")));
		if (w->addresses)
			buf_printf(&made, "+0x%llx", (unsigned long long)l->address);
		else
			buf_lit(&made, "+?");
		name = buf_view(&made);
	}
	buf_lit(b, "{\"name\":");
	buf_json_string(b, name);
	if (file.len || binary.len) {
		buf_lit(b, ",\"file\":");
		buf_json_string(b, file.len ? file : binary);
	}
	if (line && line->line > 0)
		buf_printf(b, ",\"line\":%lld", (long long)line->line);
	if (line && line->column > 0)
		buf_printf(b, ",\"col\":%lld", (long long)line->column);
	buf_char(b, '}');
	buf_release(&made);
}

static struct str frame_text(const struct scope_writer *w, uint32_t frame)
{
	uint32_t first = frame ? w->frame_end[frame - 1] : 0;

	return str_from(w->frames.ptr + first, w->frame_end[frame] - first);
}

static bool frame_same(const void *ctx, uint32_t index, const void *key)
{
	return str_equal(frame_text(ctx, index), *(const struct str *)key);
}

/* What was written behind the last frame, as one of its own or as one that is there: speedscope
 * tells frames apart by their numbers. */
static uint32_t number_frame(struct scope_writer *w)
{
	size_t first = w->frame_count ? w->frame_end[w->frame_count - 1] : 0;
	struct str text = str_from(w->frames.ptr + first, w->frames.len - first);
	uint32_t found =
		intern_find_or_add(&w->known, hash64(text), frame_same, w, &text, w->frame_count);

	if (found != UINT32_MAX) {
		w->frames.len = first;
		return found;
	}
	VEC_ROOM(w->frame_end, w->frame_count, w->frame_cap);
	w->frame_end[w->frame_count] = (uint32_t)w->frames.len;
	return w->frame_count++;
}

static void put_frames(struct scope_writer *w)
{
	const struct dictionary *d = &w->p->dict;
	uint32_t count = 0;

	for (uint32_t i = 0; i < d->location_count; i++)
		count += d->locations[i].lines.count ? d->locations[i].lines.count : 1;
	w->first_line = calloc(d->location_count + 1u, sizeof(uint32_t));
	w->frame_of = calloc(count + 1u, sizeof(uint32_t));
	count = 0;
	assert(w->first_line && w->frame_of);
	for (uint32_t i = 0; i < d->location_count; i++) {
		const struct location *l = &d->locations[i];
		uint32_t lines = l->lines.count ? l->lines.count : 1;

		w->first_line[i] = count;
		for (uint32_t k = 0; k < lines && !w->frames.failed; k++, count++) {
			append_frame(w, l, l->lines.count ? &d->lines[l->lines.first + k] : NULL);
			w->frame_of[count] = number_frame(w);
		}
	}
	w->first_line[d->location_count] = count;
	buf_lit(&w->frames, "{\"name\":\"" SPEEDSCOPE_NO_STACK "\"}");
	w->no_stack = number_frame(w);
	for (uint32_t i = 0; i < w->frame_count; i++) {
		if (i)
			buf_char(w->out, ',');
		buf_str(w->out, frame_text(w, i));
	}
}

static void put_stack(struct scope_writer *w, uint32_t sample)
{
	const struct dictionary *d = &w->p->dict;
	struct range r = d->stacks[w->p->samples[sample].stack.v].locations;
	bool first = true;

	buf_char(w->out, '[');
	if (!r.count)
		buf_u64(w->out, w->no_stack);
	for (uint32_t i = r.count; i > 0; i--) {
		uint32_t l = d->stack_locations[r.first + i - 1].v;

		for (uint32_t k = w->first_line[l + 1]; k > w->first_line[l]; k--) {
			if (!first)
				buf_char(w->out, ',');
			first = false;
			buf_u64(w->out, w->frame_of[k - 1]);
		}
	}
	buf_char(w->out, ']');
}

/* ---- profiles ---- */

static int64_t weight_of(const struct scope_writer *w, const struct track *t, uint32_t i)
{
	const struct profile *profile = &w->p->profiles[t->profile];
	int64_t v = w->tracks.events[i].value, weight;

	if (!tracks_counts_time(w->p, profile))
		return v;
	if (!__builtin_mul_overflow(v, profile->period, &weight))
		return weight;
	return v < 0 ? INT64_MIN : INT64_MAX;
}

/* The empty time before an event of a timed track; *at: where the one before ended, from the first
 * event on. Less than half a period is a sampler's way. */
static int64_t gap_before(const struct scope_writer *w, const struct track *t, uint32_t first,
			  uint32_t i, int64_t *at)
{
	uint64_t from = w->tracks.events[i].time - w->tracks.events[first].time;
	int64_t weight = weight_of(w, t, i), gap = 0, end;

	if (!t->timed)
		return 0;
	if (from <= INT64_MAX && (int64_t)from > *at &&
	    (int64_t)from - *at >= w->p->profiles[t->profile].period / 2)
		gap = (int64_t)from - *at;
	if (__builtin_add_overflow(*at + gap, weight > 0 ? weight : 0, &end))
		end = INT64_MAX;
	*at = end;
	return gap;
}

static const char *unit_name(struct str unit)
{
	static const char *const known[] = { "nanoseconds", "microseconds", "milliseconds",
					     "seconds", "bytes" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_is(unit, known[i]))
			return known[i];
	return "none";
}

static void put_weights(struct scope_writer *w, const struct track *t, uint32_t first, uint32_t end,
			int64_t *total)
{
	int64_t at = 0, sum;

	for (uint32_t i = first; i < end; i++) {
		int64_t v = weight_of(w, t, i), gap = gap_before(w, t, first, i, &at);

		buf_str(w->out, i > first ? STR(",") : STR(""));
		if (gap) {
			buf_i64(w->out, gap);
			buf_char(w->out, ',');
		}
		buf_i64(w->out, v);
		*total = __builtin_add_overflow(*total, gap, &sum) ? INT64_MAX : sum;
		*total = __builtin_add_overflow(*total, v, &sum) ? INT64_MAX : sum;
	}
}

static void put_samples(struct scope_writer *w, const struct track *t, uint32_t first, uint32_t end)
{
	int64_t at = 0;

	for (uint32_t i = first; i < end; i++) {
		buf_str(w->out, i > first ? STR(",") : STR(""));
		if (gap_before(w, t, first, i, &at))
			buf_lit(w->out, "[],");
		put_stack(w, w->tracks.events[i].sample);
	}
}

static void put_name(struct scope_writer *w, const struct track *t)
{
	const struct profile *profile = &w->p->profiles[t->profile];
	struct str type = tracks_counts_time(w->p, profile)
				  ? profiles_string(w->p, profile->period_type.type)
				  : profiles_string(w->p, profile->sample_type.type);
	struct buf name;

	buf_init(&name, 0);
	buf_str(&name, t->process.len ? t->process : type);
	if (t->pid)
		buf_printf(&name, " (%lld)", (long long)t->pid);
	if (t->thread.len && !str_equal(t->thread, t->process))
		buf_printf(&name, " %.*s", STR_ARG(t->thread));
	if (t->tid && t->tid != t->pid)
		buf_printf(&name, " [%lld]", (long long)t->tid);
	if (t->process.len)
		buf_printf(&name, ": %.*s", STR_ARG(type));
	buf_json_string(w->out, buf_view(&name));
	buf_release(&name);
}

static void put_track(struct scope_writer *w, uint32_t first, uint32_t end)
{
	const struct track *t = &w->tracks.ptr[w->tracks.events[first].track];
	const struct profile *profile = &w->p->profiles[t->profile];
	struct str unit = profiles_string(w->p, profile->sample_type.unit);
	/* What is in the order of time begins when it does. */
	int64_t start = t->timed ? (int64_t)(w->tracks.events[first].time - w->first_time) : 0;
	int64_t total = 0, stop;

	buf_lit(w->out, "{\"type\":\"sampled\",\"name\":");
	put_name(w, t);
	buf_printf(w->out, ",\"unit\":\"%s\",\"startValue\":%lld,\"samples\":[",
		   tracks_counts_time(w->p, profile) ? "nanoseconds" : unit_name(unit),
		   (long long)start);
	put_samples(w, t, first, end);
	buf_lit(w->out, "],\"weights\":[");
	put_weights(w, t, first, end, &total);
	if (__builtin_add_overflow(start, total, &stop))
		stop = INT64_MAX;
	buf_printf(w->out, "],\"endValue\":%lld}", (long long)stop);
}

static uint64_t first_time_of(const struct tracks *t)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < t->event_count; i++)
		if (t->ptr[t->events[i].track].timed && t->events[i].time < first)
			first = t->events[i].time;
	return first;
}

static void put_tracks(struct scope_writer *w)
{
	uint32_t first = 0;

	while (first < w->tracks.event_count) {
		uint32_t end = first;

		while (end < w->tracks.event_count &&
		       w->tracks.events[end].track == w->tracks.events[first].track)
			end++;
		if (first)
			buf_char(w->out, ',');
		put_track(w, first, end);
		first = end;
	}
}

bool speedscope_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		      struct err *err)
{
	struct scope_writer w = { .p = p, .out = out, .addresses = o && o->addresses };

	buf_init(&w.frames,
		 out->limit_bytes && out->limit_bytes < UINT32_MAX ? out->limit_bytes : UINT32_MAX);
	intern_init(&w.known);
	tracks_gather(&w.tracks, p);
	w.first_time = first_time_of(&w.tracks);
	buf_lit(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
		     "\"exporter\":\"flametap\",\"name\":");
	buf_json_string(out, o && o->title.len ? o->title : STR("profile"));
	if (w.first_time != UINT64_MAX) /* an own key: the format has no place for it */
		buf_printf(out, ",\"startTimeUnixNano\":\"%llu\"",
			   (unsigned long long)w.first_time);
	buf_lit(out, ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[");
	put_frames(&w);
	buf_lit(out, "]},\"profiles\":[");
	put_tracks(&w);
	buf_lit(out, "]}\n");
	out->failed |= w.frames.failed;
	tracks_release(&w.tracks);
	intern_release(&w.known);
	buf_release(&w.frames);
	free(w.frame_end);
	free(w.first_line);
	free(w.frame_of);
	if (out->failed)
		return err_set(err, ERR_LIMIT, "speedscope: more than %zu bytes", out->limit_bytes);
	return true;
}
