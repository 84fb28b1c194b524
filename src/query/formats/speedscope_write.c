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
#include "query/formats/formats.h"
#include "query/formats/tracks.h"

struct scope_writer {
	const struct profiles *p;
	struct buf *out;
	struct tracks tracks;
	uint64_t first_time;   /* of all events that have their own: where startValue is 0 */
	uint32_t *first_frame; /* of each location; its frames lie side by side, innermost first */
	uint32_t no_stack;     /* the frame behind all others */
};

/* ---- frames ---- */

static void put_frame(struct scope_writer *w, const struct location *l, const struct line *line)
{
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
		buf_printf(&made, "+0x%llx", (unsigned long long)l->address);
		name = buf_view(&made);
	}
	buf_lit(w->out, "{\"name\":");
	buf_json_string(w->out, name);
	if (file.len || binary.len) {
		buf_lit(w->out, ",\"file\":");
		buf_json_string(w->out, file.len ? file : binary);
	}
	if (line && line->line > 0)
		buf_printf(w->out, ",\"line\":%lld", (long long)line->line);
	if (line && line->column > 0)
		buf_printf(w->out, ",\"col\":%lld", (long long)line->column);
	buf_char(w->out, '}');
	buf_release(&made);
}

static void put_frames(struct scope_writer *w)
{
	const struct dictionary *d = &w->p->dict;
	uint32_t count = 0;

	w->first_frame = calloc(d->location_count + 1u, sizeof(uint32_t));
	assert(w->first_frame);
	for (uint32_t i = 0; i < d->location_count; i++) {
		const struct location *l = &d->locations[i];
		uint32_t lines = l->lines.count ? l->lines.count : 1;

		w->first_frame[i] = count;
		for (uint32_t k = 0; k < lines; k++, count++) {
			if (count)
				buf_char(w->out, ',');
			put_frame(w, l, l->lines.count ? &d->lines[l->lines.first + k] : NULL);
		}
	}
	w->first_frame[d->location_count] = count;
	w->no_stack = count;
	buf_printf(w->out, "%s{\"name\":\"" SPEEDSCOPE_NO_STACK "\"}", count ? "," : "");
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

		for (uint32_t k = w->first_frame[l + 1]; k > w->first_frame[l]; k--) {
			if (!first)
				buf_char(w->out, ',');
			first = false;
			buf_u64(w->out, k - 1);
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
	struct scope_writer w = { .p = p, .out = out };

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
	tracks_release(&w.tracks);
	free(w.first_frame);
	if (out->failed)
		return err_set(err, ERR_LIMIT, "speedscope: more than %zu bytes", out->limit_bytes);
	return true;
}
