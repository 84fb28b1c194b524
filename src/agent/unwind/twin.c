#include "agent/unwind/twin.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/modules.h"

/* What bpf/unwind.h asks for, found through the cursor, which is the first member of all. */
static bool env_read(struct unwind_cursor *c, void *to, uint32_t bytes, uint64_t address);
static const struct unwind_mapping *env_mapping(struct unwind_cursor *c, uint32_t index);
static struct unwind_executable *env_executable(struct unwind_cursor *c, uint32_t id);
static const struct unwind_page *env_page(struct unwind_cursor *c, uint32_t index);
static const struct unwind_row *env_block(struct unwind_cursor *c, uint32_t block);
static const struct unwind_rule *env_rule(struct unwind_cursor *c, uint32_t index);
static const struct unwind_runtime *env_runtime(struct unwind_cursor *c, uint32_t index);
static struct unwind_known *env_known(struct unwind_cursor *c, uint32_t slot);
static struct unwind_known_page *env_known_page(struct unwind_cursor *c, uint32_t slot);
static bool env_stack_miss(struct unwind_cursor *c, uint64_t at);
static uint32_t env_steps(struct unwind_cursor *c);
#define UNWIND_INLINE static
#include "bpf/unwind.h"

enum { KNOWN_HERE = 64, KNOWN_PAGES_HERE = 16 }; /* for one walk */

struct twin {
	struct unwind_walk walk; /* first: its first member is the cursor */
	struct unwind_store *store;
	struct twin_memory memory;
	const struct mapping_set *set;
	struct unwind_mapping from_set;
	uint32_t steps, lost;  /* bits 1 << enum unwind_step_kind */
	const uint64_t *ahead; /* what is left of the frames that were read ahead */
	uint32_t ahead_count;
	struct unwind_known known[KNOWN_HERE];
	struct unwind_known_page known_pages[KNOWN_PAGES_HERE];
};

static struct twin *twin_of(struct unwind_cursor *c)
{
	return (struct twin *)(void *)c;
}

static bool env_read(struct unwind_cursor *c, void *to, uint32_t bytes, uint64_t address)
{
	const struct twin_memory *m = &twin_of(c)->memory;

	return m->read(m->ctx, address, to, bytes);
}

static const struct unwind_mapping *env_mapping(struct unwind_cursor *c, uint32_t index)
{
	struct twin *t = twin_of(c);
	const struct mapping *m;

	if (!t->set)
		return index < t->store->mapping_count ? &t->store->mappings[index] : NULL;
	if (index >= t->set->count)
		return NULL;
	m = &t->set->list[index];
	t->from_set = (struct unwind_mapping){ .start = m->start, .end = m->end, .step = m->step };
	module_place(m, &t->from_set);
	return &t->from_set;
}

static struct unwind_executable *env_executable(struct unwind_cursor *c, uint32_t id)
{
	struct unwind_store *s = twin_of(c)->store;

	return id < s->executable_count ? &s->executables[id] : NULL;
}

static const struct unwind_page *env_page(struct unwind_cursor *c, uint32_t index)
{
	const struct unwind_store *s = twin_of(c)->store;

	return index < s->page_count ? &s->pages[index] : NULL;
}

static const struct unwind_row *env_block(struct unwind_cursor *c, uint32_t block)
{
	const struct unwind_store *s = twin_of(c)->store;

	return block < s->block_count ? s->blocks[block] : NULL;
}

static const struct unwind_rule *env_rule(struct unwind_cursor *c, uint32_t index)
{
	const struct unwind_store *s = twin_of(c)->store;

	return index < s->rules.count ? &s->rules.array[index] : NULL;
}

static const struct unwind_runtime *env_runtime(struct unwind_cursor *c, uint32_t index)
{
	const struct unwind_store *s = twin_of(c)->store;

	return index < s->runtime_count ? &s->runtimes[index] : NULL;
}

static struct unwind_known *env_known(struct unwind_cursor *c, uint32_t slot)
{
	return &twin_of(c)->known[slot % KNOWN_HERE];
}

static struct unwind_known_page *env_known_page(struct unwind_cursor *c, uint32_t slot)
{
	return &twin_of(c)->known_pages[slot % KNOWN_PAGES_HERE];
}

static bool env_stack_miss(struct unwind_cursor *c, uint64_t at)
{
	return unwind_stack_miss(&twin_of(c)->walk, at);
}

static uint32_t env_steps(struct unwind_cursor *c)
{
	return twin_of(c)->steps;
}

struct twin *twin_new(void)
{
	struct twin *t = calloc(1, sizeof(*t));

	assert(t);
	return t;
}

void twin_free(struct twin *t)
{
	free(t);
}

void twin_start(struct twin *t, struct unwind_store *store, const struct twin_memory *memory,
		const struct unwind_cursor *cursor, const struct mapping_set *set)
{
	struct unwind_walk *w = &t->walk;

	t->store = store;
	t->memory = *memory;
	t->set = set;
	t->steps = t->lost = 0;
	t->ahead = NULL;
	w->cursor = *cursor;
	unwind_begin(w);
	w->mapping = (struct unwind_mapping){ 0 };
	w->first_mapping = 0;
	w->mapping_count = set ? set->count : 0;
	w->word_count = 0;
	memset(w->runtimes, 0, sizeof(w->runtimes));
	w->now = (uint32_t)(store->now_ns >> 30);
}

/* As unwind_cpython(), by what was read ahead. */
static int step_ahead(struct twin *t)
{
	struct unwind_walk *w = &t->walk;
	const uint64_t *item = t->ahead;
	uint32_t tag = t->ahead_count ? item[0] & 0xff : FRAME_TAG_COUNT;
	uint32_t words = t->ahead_count ? 1 + (item[0] >> 16 & 0xff) : 0;

	if (w->cpython.scanned)
		return unwind_cpython_scan(w);
	if (unwind_cpython_is_behind(w))
		return unwind_cpython_leave(w);
	if (tag == FRAME_TAG_AHEAD_END)
		return unwind_cpython_finish(w, CPYTHON_DONE);
	if (words > t->ahead_count || words != (tag == FRAME_TAG_CPYTHON ? 3 : 2) ||
	    (tag != FRAME_TAG_CPYTHON && tag != FRAME_TAG_AHEAD_LOOP)) {
		t->ahead_count = 0;
		return unwind_cpython_finish(w, CPYTHON_LOST);
	}
	t->ahead += words;
	t->ahead_count -= words;
	if (tag == FRAME_TAG_AHEAD_LOOP)
		return unwind_cpython_leave(w);
	if (!unwind_push_runtime(w, FRAME_TAG_CPYTHON, w->executable, item[1], item[2]))
		return unwind_stop(w, UNWIND_END_DEPTH);
	w->cpython.pushed = 1;
	return UNWIND_AGAIN;
}

/* As walk_step() of the BPF program. */
static int step(struct unwind_walk *w)
{
	switch (w->cursor.step) {
	case UNWIND_STEP_CPYTHON:
		if (twin_of(&w->cursor)->ahead)
			return step_ahead(twin_of(&w->cursor));
		if (twin_of(&w->cursor)->lost & 1u << UNWIND_STEP_CPYTHON)
			w->cpython.state = CPYTHON_LOST;
		return unwind_cpython(w);
	case UNWIND_STEP_HOTSPOT:
		return unwind_hotspot(w);
	case UNWIND_STEP_PHP:
		if (twin_of(&w->cursor)->lost & 1u << UNWIND_STEP_PHP)
			w->php.state = PHP_LOST;
		return unwind_php(w);
	case UNWIND_STEP_PCRE:
		return unwind_pcre(w);
	case UNWIND_STEP_RUBY:
		if (twin_of(&w->cursor)->lost & 1u << UNWIND_STEP_RUBY)
			w->ruby.state = RUBY_LOST;
		return unwind_ruby(w);
	case UNWIND_STEP_V8:
		return unwind_v8(w);
	default:
		return unwind_native(w);
	}
}

enum unwind_end twin_walk(struct twin *t)
{
	struct unwind_walk *w = &t->walk;

	/* What was known when it stopped may be old. */
	w->mapping = (struct unwind_mapping){ 0 };
	memset(t->known, 0, sizeof(t->known));
	memset(t->known_pages, 0, sizeof(t->known_pages));
	w->stack.bytes = w->cpython.window_bytes = 0;
	w->end = UNWIND_END_DEPTH;
	for (uint32_t i = 0; i < UNWIND_STEPS_MAX; i++)
		if (step(w) != UNWIND_AGAIN)
			break;
	unwind_finish(w);
	return (enum unwind_end)w->end;
}

void twin_set(struct twin *t, const struct mapping_set *set)
{
	t->set = set;
	t->walk.mapping_count = set->count;
}

void twin_run(struct twin *t, uint32_t first_mapping, uint32_t count)
{
	t->set = NULL;
	t->walk.first_mapping = first_mapping;
	t->walk.mapping_count = count;
}

void twin_runtimes(struct twin *t, uint32_t steps, const uint16_t *runtimes)
{
	t->steps = steps;
	for (uint32_t i = 0; i < UNWIND_PROCESS_RUNTIMES; i++)
		t->walk.runtimes[i] = runtimes[i];
}

void twin_lose(struct twin *t, uint32_t steps)
{
	t->lost = steps;
}

void twin_ahead(struct twin *t, const uint64_t *items, uint32_t count)
{
	t->ahead = items;
	t->ahead_count = count;
}

const struct unwind_cursor *twin_cursor(const struct twin *t)
{
	return &t->walk.cursor;
}

const uint64_t *twin_words(const struct twin *t, uint32_t *count)
{
	*count = t->walk.word_count;
	return (const uint64_t *)(const void *)t->walk.words;
}
