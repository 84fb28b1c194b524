#include "agent/report/frame_cache.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/report/window.h"
#include "base/hash.h"

static const uint32_t NONE = UINT32_MAX;

struct cache_key {
	uint64_t owner; /* hash of the file's or the process's identity */
	uint64_t address, extra;
	uint32_t kind;
	uint32_t return_address;
};

struct cache_entry {
	struct cache_key key;
	struct frame_name *name; /* one block with its lines and text */
	uint32_t next;           /* in its bucket */
	uint32_t newer, older;   /* by use */
};

struct frame_cache {
	struct cache_entry *entries;
	uint32_t *buckets; /* as many as entries have room, a power of two */
	uint32_t count, room, most;
	uint32_t newest, oldest;
};

struct frame_cache *frame_cache_new(uint32_t entries)
{
	struct frame_cache *c = calloc(1, sizeof(*c));

	assert(c);
	c->most = entries ? entries : 1;
	c->newest = c->oldest = NONE;
	return c;
}

void frame_cache_free(struct frame_cache *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->count; i++)
		free(c->entries[i].name);
	free(c->entries);
	free(c->buckets);
	free(c);
}

uint32_t frame_cache_count(const struct frame_cache *c)
{
	return c->count;
}

static uint64_t executable_identity(const struct executable *e)
{
	if (e->htlhash.len)
		return hash64(e->htlhash);
	return hash64(e->build_id_gnu) ^ hash64(e->build_id_go) * 31 ^ hash64(e->filename) * 961 ^
	       e->id;
}

static uint64_t owner_of(const struct trace_frame *f, const struct process_info *p)
{
	uint64_t owner = f->executable ? executable_identity(f->executable) : 0;

	if (p && frame_kind_is_of_process(f->kind)) {
		const uint64_t words[] = { owner, p->pid, p->start_unix_nano };

		owner = hash64(str_from(words, sizeof(words)));
	}
	return owner;
}

static struct cache_key key_of(const struct trace_frame *f, const struct process_info *p)
{
	return (struct cache_key){ .owner = owner_of(f, p),
				   .address = f->address,
				   .extra = f->extra,
				   .kind = (uint32_t)f->kind,
				   .return_address = f->return_address };
}

static uint32_t bucket_of(const struct frame_cache *c, const struct cache_key *k)
{
	return (uint32_t)(hash64(str_from(k, sizeof(*k))) >> 32) & (c->room - 1);
}

static uint32_t find(const struct frame_cache *c, const struct cache_key *k)
{
	uint32_t at = c->room ? c->buckets[bucket_of(c, k)] : NONE;

	while (at != NONE && memcmp(&c->entries[at].key, k, sizeof(*k)) != 0)
		at = c->entries[at].next;
	return at;
}

/* ---- order of use ---- */

static void take_out_of_order(struct frame_cache *c, uint32_t at)
{
	struct cache_entry *e = &c->entries[at];

	*(e->newer == NONE ? &c->newest : &c->entries[e->newer].older) = e->older;
	*(e->older == NONE ? &c->oldest : &c->entries[e->older].newer) = e->newer;
}

static void make_newest(struct frame_cache *c, uint32_t at)
{
	struct cache_entry *e = &c->entries[at];

	e->newer = NONE;
	e->older = c->newest;
	*(c->newest == NONE ? &c->oldest : &c->entries[c->newest].newer) = at;
	c->newest = at;
}

static void link_entry(struct frame_cache *c, uint32_t at)
{
	uint32_t *bucket = &c->buckets[bucket_of(c, &c->entries[at].key)];

	c->entries[at].next = *bucket;
	*bucket = at;
}

static void unlink_entry(struct frame_cache *c, uint32_t at)
{
	uint32_t *link = &c->buckets[bucket_of(c, &c->entries[at].key)];

	while (*link != at)
		link = &c->entries[*link].next;
	*link = c->entries[at].next;
}

static void grow(struct frame_cache *c)
{
	uint32_t room = c->room ? c->room * 2 : 256;

	c->entries = realloc(c->entries, room * sizeof(*c->entries));
	c->buckets = realloc(c->buckets, room * sizeof(*c->buckets));
	assert(c->entries && c->buckets);
	c->room = room;
	memset(c->buckets, 0xff, room * sizeof(*c->buckets));
	for (uint32_t i = 0; i < c->count; i++)
		link_entry(c, i);
}

/* A place for a new entry: a fresh one, or that of the least recently used. */
static uint32_t take_place(struct frame_cache *c)
{
	uint32_t at = c->oldest;

	if (c->count < c->most) {
		if (c->count == c->room)
			grow(c);
		return c->count++;
	}
	take_out_of_order(c, at);
	unlink_entry(c, at);
	free(c->entries[at].name);
	return at;
}

/* ---- names ---- */

static struct str put_text(char **at, struct str s)
{
	struct str copy = { *at, s.len };

	if (s.len)
		memcpy(*at, s.ptr, s.len);
	*at += s.len;
	return copy;
}

static struct frame_name *copy_name(const struct frame_name *n)
{
	size_t text = n->module.len + n->module_build_id_gnu.len;
	struct name_line *lines;
	struct frame_name *copy;
	char *at;

	for (uint32_t i = 0; i < n->line_count; i++)
		text += n->lines[i].function.len + n->lines[i].system_name.len +
			n->lines[i].file.len;
	copy = malloc(sizeof(*copy) + n->line_count * sizeof(*lines) + text);
	assert(copy);
	*copy = *n;
	lines = (struct name_line *)(copy + 1);
	at = (char *)(lines + n->line_count);
	copy->module = put_text(&at, n->module);
	copy->module_build_id_gnu = put_text(&at, n->module_build_id_gnu);
	for (uint32_t i = 0; i < n->line_count; i++) {
		lines[i] = n->lines[i];
		lines[i].function = put_text(&at, n->lines[i].function);
		lines[i].system_name = put_text(&at, n->lines[i].system_name);
		lines[i].file = put_text(&at, n->lines[i].file);
	}
	copy->lines = lines;
	return copy;
}

const struct frame_name *frame_cache_find(struct frame_cache *c, const struct trace_frame *frame,
					  const struct process_info *process)
{
	struct cache_key key = key_of(frame, process);
	uint32_t at = find(c, &key);

	if (at == NONE)
		return NULL;
	if (at != c->newest) {
		take_out_of_order(c, at);
		make_newest(c, at);
	}
	return c->entries[at].name;
}

void frame_cache_put(struct frame_cache *c, const struct trace_frame *frame,
		     const struct process_info *process, const struct frame_name *name)
{
	struct cache_key key = key_of(frame, process);
	uint32_t at = find(c, &key);

	if (at != NONE) {
		free(c->entries[at].name);
		c->entries[at].name = copy_name(name);
		return;
	}
	at = take_place(c);
	c->entries[at].key = key;
	c->entries[at].name = copy_name(name);
	link_entry(c, at);
	make_newest(c, at);
}
