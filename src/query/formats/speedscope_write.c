/*
 * speedscope_write.c - speedscope's JSON (https://www.speedscope.app/file-format-schema.json).
 *
 * One `sampled` profile a (profile type, thread), its samples in the order of time. Sampled CPU
 * time lasts a period (less where the next sample comes sooner) and what lies between is an empty
 * stack, so that the time order view shows real time. Other values are weights one after another.
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
	uint32_t *first_frame; /* of each location; its frames lie side by side, innermost first */
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
}

static void put_stack(struct scope_writer *w, uint32_t sample)
{
	const struct dictionary *d = &w->p->dict;
	struct range r = d->stacks[w->p->samples[sample].stack.v].locations;
	bool first = true;

	buf_char(w->out, '[');
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

/* How long an event of a timed track lasts, and the gap behind it. */
static int64_t length_of(const struct scope_writer *w, uint32_t i, uint32_t end, int64_t period,
			 int64_t *gap)
{
	uint64_t to_next =
		i + 1 < end ? w->tracks.events[i + 1].time - w->tracks.events[i].time : UINT64_MAX;

	*gap = 0;
	if (to_next == UINT64_MAX)
		return period;
	if (to_next <= (uint64_t)period)
		return (int64_t)to_next;
	/* Two periods late is a gap; a little late is a sampler's way. */
	if (to_next < (uint64_t)period * 3 / 2 || to_next > INT64_MAX)
		return to_next > INT64_MAX ? period : (int64_t)to_next;
	*gap = (int64_t)to_next - period;
	return period;
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
	int64_t period = w->p->profiles[t->profile].period, gap;

	for (uint32_t i = first; i < end; i++) {
		int64_t v = w->tracks.events[i].value;

		if (t->timed)
			v = length_of(w, i, end, period, &gap);
		buf_str(w->out, i > first ? STR(",") : STR(""));
		buf_i64(w->out, v);
		*total += v;
		if (t->timed && gap) {
			buf_char(w->out, ',');
			buf_i64(w->out, gap);
			*total += gap;
		}
	}
}

static void put_samples(struct scope_writer *w, const struct track *t, uint32_t first, uint32_t end)
{
	int64_t period = w->p->profiles[t->profile].period, gap;

	for (uint32_t i = first; i < end; i++) {
		buf_str(w->out, i > first ? STR(",") : STR(""));
		put_stack(w, w->tracks.events[i].sample);
		if (!t->timed)
			continue;
		length_of(w, i, end, period, &gap);
		if (gap)
			buf_lit(w->out, ",[]");
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
	int64_t total = 0;

	buf_lit(w->out, "{\"type\":\"sampled\",\"name\":");
	put_name(w, t);
	buf_printf(w->out, ",\"unit\":\"%s\",\"startValue\":0,\"samples\":[",
		   t->timed ? "nanoseconds" : unit_name(unit));
	put_samples(w, t, first, end);
	buf_lit(w->out, "],\"weights\":[");
	put_weights(w, t, first, end, &total);
	buf_printf(w->out, "],\"endValue\":%lld}", (long long)total);
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
	buf_lit(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
		     "\"exporter\":\"flametap\",\"name\":");
	buf_json_string(out, o && o->title.len ? o->title : STR("profile"));
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
