#include "formats/tracks.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/vec.h"
static struct str text_of(const struct any_value *v)
{
	return v && v->kind == ANY_STRING ? v->string : (struct str){ 0 };
}

static int64_t int_of(const struct any_value *v)
{
	return v && v->kind == ANY_INT ? v->integer : 0;
}

static bool same_type(const struct profiles *p, struct value_type a, struct value_type b)
{
	return str_equal(profiles_string(p, a.type), profiles_string(p, b.type)) &&
	       str_equal(profiles_string(p, a.unit), profiles_string(p, b.unit));
}

static bool same_track(const void *ctx, uint32_t index, const void *key)
{
	const struct tracks *w = ctx;
	const struct track *a = &w->ptr[index], *b = key;
	const struct profile *x = &w->p->profiles[a->profile], *y = &w->p->profiles[b->profile];

	return a->pid == b->pid && a->tid == b->tid && str_equal(a->process, b->process) &&
	       str_equal(a->thread, b->thread) && x->period == y->period &&
	       same_type(w->p, x->sample_type, y->sample_type) &&
	       same_type(w->p, x->period_type, y->period_type);
}

static uint32_t track_of(struct tracks *w, const struct track *t)
{
	uint64_t parts[] = { hash64(t->process), hash64(t->thread), (uint64_t)t->pid,
			     (uint64_t)t->tid };
	uint32_t found = intern_find_or_add(&w->table, hash64(str_from(parts, sizeof(parts))),
					    same_track, w, t, w->count);

	if (found != UINT32_MAX)
		return found;
	VEC_ROOM(w->ptr, w->count, w->cap);
	w->ptr[w->count] = *t;
	return w->count++;
}

bool tracks_counts_time(const struct profiles *p, const struct profile *profile)
{
	return profile->period > 0 &&
	       str_is(profiles_string(p, profile->sample_type.unit), "count") &&
	       str_is(profiles_string(p, profile->sample_type.type), "samples") &&
	       str_is(profiles_string(p, profile->period_type.unit), "nanoseconds");
}

static void add_event(struct tracks *w, uint64_t time, int64_t value, uint32_t sample,
		      uint32_t track)
{
	VEC_ROOM(w->events, w->event_count, w->event_cap);
	w->events[w->event_count++] = (struct event){ time, value, sample, track };
}

static void add_sample(struct tracks *w, const struct resource_profiles *resource,
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
	struct track t = { .profile = profile_index, .timed = tracks_counts_time(p, profile) };
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
		w->ptr[track].timed = false;
		add_event(w, profile->time_unix_nano, total, index, track);
	}
	for (uint32_t i = 0; i < s->timestamps.count; i++) {
		int64_t v = sample_value_at(&values, total, s->timestamps.count, i);

		add_event(w, p->timestamps[s->timestamps.first + i], v, index, track);
	}
}

static void gather_events(struct tracks *w)
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

void tracks_gather(struct tracks *t, const struct profiles *p)
{
	*t = (struct tracks){ .p = p };
	intern_init(&t->table);
	gather_events(t);
	if (t->event_count)
		qsort(t->events, t->event_count, sizeof(*t->events), event_order);
}

void tracks_release(struct tracks *t)
{
	intern_release(&t->table);
	free(t->events);
	free(t->ptr);
}
