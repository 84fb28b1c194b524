#include "agent/report/window.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"

enum { KEEP_BYTES = 1 << 20 }; /* what an ordinary window needs, kept for the next one */

static const uint32_t NO_PROCESS = UINT32_MAX;

bool frame_kind_is_of_process(enum frame_kind kind)
{
	return kind >= FRAME_UNKNOWN && kind < FRAME_END;
}

static void grow_one(void **at, size_t cap, size_t size)
{
	*at = realloc(*at, cap * size);
	assert(*at);
}

/* Room for `more` entries; false past the limit. */
static bool reserve(struct window *w, void **at, uint32_t count, uint32_t *cap, uint32_t more,
		    size_t size)
{
	uint64_t need = (uint64_t)count + more, new_cap = *cap ? *cap : 64;

	if (need <= *cap)
		return true;
	while (new_cap < need)
		new_cap *= 2;
	if (new_cap > UINT32_MAX / 2 ||
	    (w->limit_bytes && w->bytes + (new_cap - *cap) * size > w->limit_bytes))
		return false;
	grow_one(at, (size_t)new_cap, size);
	w->bytes += (size_t)(new_cap - *cap) * size;
	*cap = (uint32_t)new_cap;
	return true;
}

#define RESERVE(w, array, count, cap, more) \
	reserve(w, (void **)&(w)->array, (w)->count, &(w)->cap, more, sizeof(*(w)->array))

void window_init(struct window *w, size_t limit_bytes, bool keep_end_markers)
{
	*w = (struct window){ .limit_bytes = limit_bytes, .keep_end_markers = keep_end_markers };
	intern_init(&w->process_ids);
	intern_init(&w->frame_ids);
	intern_init(&w->stack_ids);
	intern_init(&w->sample_ids);
	intern_init(&w->label_ids);
}

static void drop_references(struct window *w)
{
	for (uint32_t i = 0; i < w->process_count; i++)
		process_info_unref(w->processes[i]);
	for (uint32_t i = 0; i < w->frame_count; i++)
		executable_unref(w->frames[i].frame.executable);
}

void window_release(struct window *w)
{
	drop_references(w);
	free(w->processes);
	free(w->frames);
	free(w->stack_frames);
	free(w->stacks);
	free(w->samples);
	free(w->events);
	free(w->label_sets);
	free(w->label_text);
	free(w->scratch);
	intern_release(&w->process_ids);
	intern_release(&w->frame_ids);
	intern_release(&w->stack_ids);
	intern_release(&w->sample_ids);
	intern_release(&w->label_ids);
}

static void forget_ids(struct intern_table *t)
{
	if (t->used)
		memset(t->slots, 0, ((size_t)t->mask + 1) * sizeof(*t->slots));
	t->used = 0;
}

void window_reset(struct window *w)
{
	if (w->bytes > KEEP_BYTES) {
		bool go_as_native = w->go_as_native;

		window_release(w);
		window_init(w, w->limit_bytes, w->keep_end_markers);
		w->go_as_native = go_as_native;
		return;
	}
	drop_references(w);
	w->process_count = w->frame_count = w->stack_frame_count = w->stack_count = 0;
	w->sample_count = w->event_count = 0;
	w->label_set_count = w->label_text_count = 0;
	w->oldest_ns = w->newest_ns = 0;
	memset(w->cut, 0, sizeof(w->cut));
	forget_ids(&w->process_ids);
	forget_ids(&w->frame_ids);
	forget_ids(&w->stack_ids);
	forget_ids(&w->sample_ids);
	forget_ids(&w->label_ids);
}

/* ---- processes ---- */

static bool same_process(const void *ctx, uint32_t index, const void *key)
{
	const struct process_info *a = ((const struct window *)ctx)->processes[index], *b = key;

	return a == b || (a->pid == b->pid && str_equal(a->container_id, b->container_id) &&
			  str_equal(a->executable_path, b->executable_path) &&
			  str_equal(a->service_name, b->service_name));
}

static uint32_t add_process(struct window *w, struct process_info *p)
{
	uint64_t hash = hash64(p->executable_path) ^ hash64(p->container_id) * 31 ^
			(uint64_t)p->pid * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t at;

	at = intern_find_or_add(&w->process_ids, hash, same_process, w, p, w->process_count);
	if (at != UINT32_MAX)
		return at;
	w->processes[w->process_count] = process_info_ref(p);
	return w->process_count++;
}

/* ---- frames ---- */

struct frame_key {
	const struct trace_frame *frame;
	uint32_t process; /* NO_PROCESS unless the kind is bound to one */
};

static bool same_frame(const void *ctx, uint32_t index, const void *key)
{
	const struct window *w = ctx;
	const struct frame_key *k = key;
	const struct trace_frame *a = &w->frames[index].frame, *b = k->frame;

	return a->address == b->address && a->kind == b->kind && a->executable == b->executable &&
	       a->extra == b->extra && w->frames[index].process == k->process;
}

static uint64_t hash_frame(const struct frame_key *k)
{
	const uint64_t words[] = { k->frame->address, k->frame->extra,
				   (uint64_t)(uintptr_t)k->frame->executable,
				   (uint64_t)k->process << 16 | (uint64_t)k->frame->kind };

	return hash64(str_from(words, sizeof(words)));
}

static uint32_t add_frame(struct window *w, const struct trace_frame *came, uint32_t process)
{
	struct trace_frame frame = *came;
	struct frame_key key = { &frame,
				 frame_kind_is_of_process(frame.kind) ? process : NO_PROCESS };
	uint32_t at;

	if (frame.kind == FRAME_GO && w->go_as_native)
		frame.kind = FRAME_NATIVE;
	if (frame.return_address) {
		frame.address--;
		frame.return_address = false;
	}
	at = intern_find_or_add(&w->frame_ids, hash_frame(&key), same_frame, w, &key,
				w->frame_count);

	if (at != UINT32_MAX)
		return at;
	w->frames[w->frame_count] = (struct window_frame){ .frame = frame, .process = key.process };
	if (frame.executable)
		executable_ref(frame.executable);
	return w->frame_count++;
}

/* ---- stacks and samples ---- */

struct stack_key {
	const uint32_t *frames;
	uint32_t count;
};

static bool same_stack(const void *ctx, uint32_t index, const void *key)
{
	const struct window *w = ctx;
	const struct stack_key *k = key;
	const struct window_stack *s = &w->stacks[index];

	return s->count == k->count && (!k->count || memcmp(w->stack_frames + s->first, k->frames,
							    k->count * sizeof(uint32_t)) == 0);
}

static uint32_t add_stack(struct window *w, const uint32_t *frames, uint32_t count)
{
	struct stack_key key = { frames, count };
	uint64_t hash = hash64(str_from(frames, count * sizeof(*frames)));
	uint32_t at = intern_find_or_add(&w->stack_ids, hash, same_stack, w, &key, w->stack_count);

	if (at != UINT32_MAX)
		return at;
	if (count)
		memcpy(w->stack_frames + w->stack_frame_count, frames, count * sizeof(*frames));
	w->stacks[w->stack_count] = (struct window_stack){ w->stack_frame_count, count };
	w->stack_frame_count += count;
	return w->stack_count++;
}

static bool same_labels(const void *ctx, uint32_t index, const void *key)
{
	const struct window *w = ctx;

	return str_equal(window_labels(w, index + 1), *(const struct str *)key);
}

/* What window_sample.labels will be. */
static uint32_t add_labels(struct window *w, struct str text)
{
	uint32_t at;

	if (!text.len)
		return 0;
	at = intern_find_or_add(&w->label_ids, hash64(text), same_labels, w, &text,
				w->label_set_count);
	if (at != UINT32_MAX)
		return at + 1;
	memcpy(w->label_text + w->label_text_count, text.ptr, text.len);
	w->label_sets[w->label_set_count] =
		(struct window_labels){ w->label_text_count, (uint32_t)text.len };
	w->label_text_count += (uint32_t)text.len;
	return ++w->label_set_count;
}

struct str window_labels(const struct window *w, uint32_t labels)
{
	const struct window_labels *at = labels ? &w->label_sets[labels - 1] : NULL;

	return at ? str_from(w->label_text + at->first, at->bytes) : STR("");
}

static bool same_sample(const void *ctx, uint32_t index, const void *key)
{
	const struct window_sample *a = &((const struct window *)ctx)->samples[index], *b = key;

	return a->stack == b->stack && a->tid == b->tid && a->cpu == b->cpu &&
	       a->process == b->process && a->origin == b->origin && a->labels == b->labels &&
	       memcmp(a->comm, b->comm, sizeof(a->comm)) == 0;
}

static uint32_t add_sample(struct window *w, const struct window_sample *s)
{
	const uint64_t words[] = { (uint64_t)s->process << 32 | s->stack,
				   (uint64_t)s->tid << 32 | s->cpu,
				   (uint64_t)s->labels << 32 | (uint64_t)s->origin };
	uint64_t hash =
		hash64(str_from(words, sizeof(words))) ^ hash64(str_from(s->comm, sizeof(s->comm)));
	uint32_t at = intern_find_or_add(&w->sample_ids, hash, same_sample, w, s, w->sample_count);

	if (at != UINT32_MAX)
		return at;
	w->samples[w->sample_count] = *s;
	return w->sample_count++;
}

/* All that one trace can need, before anything of it is added. */
static bool make_room(struct window *w, uint32_t frame_count, size_t label_bytes)
{
	return RESERVE(w, processes, process_count, process_cap, 1) &&
	       RESERVE(w, frames, frame_count, frame_cap, frame_count) &&
	       RESERVE(w, stack_frames, stack_frame_count, stack_frame_cap, frame_count) &&
	       RESERVE(w, stacks, stack_count, stack_cap, 1) &&
	       RESERVE(w, samples, sample_count, sample_cap, 1) &&
	       RESERVE(w, events, event_count, event_cap, 1) &&
	       (!label_bytes || (RESERVE(w, label_sets, label_set_count, label_set_cap, 1) &&
				 RESERVE(w, label_text, label_text_count, label_text_cap,
					 (uint32_t)label_bytes))) &&
	       reserve(w, (void **)&w->scratch, 0, &w->scratch_cap, frame_count + 1,
		       sizeof(*w->scratch));
}

static bool keeps_frame(const struct window *w, const struct trace *t, uint32_t at)
{
	return t->frames[at].kind != FRAME_END || w->keep_end_markers || t->frame_count == 1;
}

static void count_end(struct window *w, uint64_t reason)
{
	w->cut[reason < WINDOW_REASONS ? reason : WINDOW_REASONS - 1]++;
}

static void note_time(struct window *w, uint64_t time_ns)
{
	if (!w->event_count || time_ns < w->oldest_ns)
		w->oldest_ns = time_ns;
	if (!w->event_count || time_ns > w->newest_ns)
		w->newest_ns = time_ns;
}

bool window_add(struct window *w, const struct trace *t)
{
	struct window_sample s = { .tid = t->tid, .cpu = t->cpu, .origin = t->origin };
	uint32_t count = 0, at;

	if (!make_room(w, t->frame_count, t->labels.len))
		return false;
	memcpy(s.comm, t->comm, strnlen(t->comm, sizeof(t->comm))); /* what follows NUL is noise */
	s.process = add_process(w, t->process);
	for (uint32_t i = 0; i < t->frame_count; i++) {
		if (t->frames[i].kind == FRAME_END)
			count_end(w, t->frames[i].address);
		if (!keeps_frame(w, t, i))
			continue;
		w->scratch[count] = add_frame(w, &t->frames[i], s.process);
		w->frames[w->scratch[count++]].uses++;
	}
	s.stack = add_stack(w, w->scratch, count);
	s.labels = add_labels(w, t->labels);
	at = add_sample(w, &s);
	w->samples[at].event_count++;
	note_time(w, t->time_unix_nano);
	w->events[w->event_count++] = (struct window_event){ t->time_unix_nano, t->value, at };
	return true;
}
