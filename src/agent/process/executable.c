#include "agent/process/executable.h"

#include <assert.h>
#include <stdlib.h>

/* One block: the struct, its segments, its runtime's facts, then all text. */
static struct str put_text(char **at, struct str s)
{
	struct str copy = { *at, s.len };

	if (s.len)
		memcpy(*at, s.ptr, s.len);
	(*at)[s.len] = 0;
	*at += s.len + 1;
	return copy;
}

struct executable *executable_new(const struct executable *facts)
{
	size_t list_bytes = facts->segment_count * sizeof(struct executable_segment);
	size_t text_bytes = facts->filename.len + facts->build_id_gnu.len + facts->build_id_go.len +
			    facts->htlhash.len + 4;
	size_t runtime_bytes = (facts->runtime_bytes + 7u) & ~7u;
	struct executable *e = malloc(sizeof(*e) + list_bytes + runtime_bytes + text_bytes);
	char *runtime, *text;

	assert(e);
	runtime = (char *)(e + 1) + list_bytes;
	text = runtime + runtime_bytes;
	*e = *facts;
	atomic_init(&e->refs, 1);
	e->segments = (struct executable_segment *)(e + 1);
	if (list_bytes)
		memcpy(e + 1, facts->segments, list_bytes);
	e->runtime = runtime;
	if (facts->runtime_bytes)
		memcpy(runtime, facts->runtime, facts->runtime_bytes);
	e->filename = put_text(&text, facts->filename);
	e->build_id_gnu = put_text(&text, facts->build_id_gnu);
	e->build_id_go = put_text(&text, facts->build_id_go);
	e->htlhash = put_text(&text, facts->htlhash);
	return e;
}

struct executable *executable_ref(struct executable *e)
{
	atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	return e;
}

void executable_unref(struct executable *e)
{
	if (e && atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1)
		free(e);
}
