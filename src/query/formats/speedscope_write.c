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
#include "base/hash.h"
#include "model/intern.h"
#include "query/formats/formats.h"

struct event {
	uint64_t time;
	int64_t value;
	uint32_t sample, track;
};

struct track {            /* a profile type of a thread */
	uint32_t profile; /* of the message: type, unit, period */
	struct str process, thread;
	int64_t pid, tid;
	bool timed; /* every event has a time, and lasts a period */
};

struct scope_writer {
	const struct profiles *p;
	struct buf *out;
	struct event *events;
	uint32_t event_count, event_cap;
	struct track *tracks;
	uint32_t track_count, track_cap;
	struct intern_table table;
	uint32_t *first_frame; /* of each location; its frames lie side by side, innermost first */
};

static struct str text_of(const struct any_value *v)
{
	return v && v->kind == ANY_STRING ? v->string : (struct str){ 0 };
}

static int64_t int_of(const struct any_value *v)
{
	return v && v->kind == ANY_INT ? v->integer : 0;
}

/* ---- tracks ---- */

static bool same_track(const void *ctx, uint32_t index, const void *key)
{
	const struct scope_writer *w = ctx;
	const struct track *a = &w->tracks[index], *b = key;
	const struct profile *x = &w->p->profiles[a->profile], *y = &w->p->profiles[b->profile];

	return a->pid == b->pid && a->tid == b->tid && str_equal(a->process, b->process) &&
	       str_equal(a->thread, b->thread) && x->period == y->period &&
	       str_equal(profiles_string(w->p, x->sample_type.type),
			 profiles_string(w->p, y->sample_type.type));
}

static uint32_t track_of(struct scope_writer *w, const struct track *t)
{
	uint64_t parts[] = { hash64(t->process), hash64(t->thread), (uint64_t)t->pid,
			     (uint64_t)t->tid };
	uint32_t found = intern_find_or_add(&w->table, hash64(str_from(parts, sizeof(parts))),
					    same_track, w, t, w->track_count);

	if (found != UINT32_MAX)
		return found;
	if (w->track_count == w->track_cap) {
		w->track_cap = w->track_cap ? w->track_cap * 2 : 32;
		w->tracks = realloc(w->tracks, w->track_cap * sizeof(*w->tracks));
		assert(w->tracks);
	}
	w->tracks[w->track_count] = *t;
	return w->track_count++;
}

static bool counts_time(const struct profiles *p, const struct profile *profile)
{
	return profile->period > 0 &&
	       str_is(profiles_string(p, profile->sample_type.unit), "count") &&
	       str_is(profiles_string(p, profile->sample_type.type), "samples") &&
	       str_is(profiles_string(p, profile->period_type.unit), "nanoseconds");
}

static void add_event(struct scope_writer *w, uint64_t time, int64_t value, uint32_t sample,
		      uint32_t track)
{
	if (w->event_count == w->event_cap) {
		w->event_cap = w->event_cap ? w->event_cap * 2 : 1024;
		w->events = realloc(w->events, w->event_cap * sizeof(*w->events));
		assert(w->events);
	}
	w->events[w->event_count++] = (struct event){ time, value, sample, track };
}

static void add_sample(struct scope_writer *w, const struct resource_profiles *resource,
		       uint32_t profile_index, uint32_t index)
{
	const struct profiles *p = w->p;
	const struct profile *profile = &p->profiles[profile_index];
	const struct sample *s = &p->samples[index];
	struct sample_values values = sample_values_to_write(p, profile, s);
	const struct any_value *name =
		profiles_attribute(p, s->attributes, STR("process.executable.name"));
	const struct any_value *pid = profiles_attribute(p, s->attributes, STR("process.pid"));
	int64_t total = sample_total(p, profile, s).value;
	struct track t = { .profile = profile_index, .timed = counts_time(p, profile) };
	uint32_t track;

	if (!name)
		name = key_values_find(resource->attributes, STR("process.executable.name"));
	if (!pid)
		pid = key_values_find(resource->attributes, STR("process.pid"));
	t.process = text_of(name);
	t.pid = int_of(pid);
	t.thread = text_of(profiles_attribute(p, s->attributes, STR("thread.name")));
	t.tid = int_of(profiles_attribute(p, s->attributes, STR("thread.id")));
	track = track_of(w, &t);
	if (s->timestamps.count == 0) {
		w->tracks[track].timed = false;
		add_event(w, profile->time_unix_nano, total, index, track);
	}
	for (uint32_t i = 0; i < s->timestamps.count; i++) {
		int64_t v = sample_value_at(&values, total, s->timestamps.count, i);

		add_event(w, p->timestamps[s->timestamps.first + i], v, index, track);
	}
}

static void gather(struct scope_writer *w)
{
	const struct profiles *p = w->p;

	for (uint32_t r = 0; r < p->resource_count; r++) {
		struct range scopes = p->resources[r].scopes;

		for (uint32_t k = scopes.first; k < scopes.first + scopes.count; k++) {
			struct range of = p->scopes[k].profiles;

			for (uint32_t i = of.first; i < of.first + of.count; i++) {
				struct range s = p->profiles[i].samples;

				for (uint32_t n = s.first;
				     !p->profiles[i].refused && n < s.first + s.count; n++)
					add_sample(w, &p->resources[r], i, n);
			}
		}
	}
}

static int event_order(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->sample < y->sample ? -1 : x->sample > y->sample;
}

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
	uint64_t to_next = i + 1 < end ? w->events[i + 1].time - w->events[i].time : UINT64_MAX;

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
		int64_t v = w->events[i].value;

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
		put_stack(w, w->events[i].sample);
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
	struct str type = counts_time(w->p, profile)
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
	const struct track *t = &w->tracks[w->events[first].track];
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

	if (w->event_count)
		qsort(w->events, w->event_count, sizeof(*w->events), event_order);
	while (first < w->event_count) {
		uint32_t end = first;

		while (end < w->event_count && w->events[end].track == w->events[first].track)
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

	intern_init(&w.table);
	gather(&w);
	buf_lit(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
		     "\"exporter\":\"flametap\",\"name\":");
	buf_json_string(out, o && o->title.len ? o->title : STR("profile"));
	buf_lit(out, ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[");
	put_frames(&w);
	buf_lit(out, "]},\"profiles\":[");
	put_tracks(&w);
	buf_lit(out, "]}\n");
	intern_release(&w.table);
	free(w.events);
	free(w.tracks);
	free(w.first_frame);
	if (out->failed)
		return err_set(err, ERR_LIMIT, "speedscope: more than %zu bytes", out->limit_bytes);
	return true;
}
