#include "agent/unwind/store.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/process/modules.h"
#include "base/cleanup.h"

enum {
	LOCAL_MAPPINGS = 4096,
	LOCAL_EXECUTABLES = 1024,
	LOCAL_PAGES = 65536,
	LOCAL_RULES = 16384,
	LOCAL_RUNTIMES = 64,
	RUNTIMES_MOST = UINT16_MAX,
};
#define EXECUTABLE_GRACE_NS (30 * STORE_GRACE_NS)
/* Longer than BPF remembers what it found in mappings and rows. */
#define KNOWN_GRACE_NS (UNWIND_KNOWN_NS + STORE_GRACE_NS)
#define BLOCK_BYTES    (UNWIND_BLOCK_ROWS * sizeof(struct unwind_row))
#define GROUP_BYTES    (UNWIND_GROUP_BLOCKS * BLOCK_BYTES)

static size_t whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

/* A map's array, or plain memory where fd is -1. */
static void *map_array(int fd, uint32_t count, size_t item, const char *name, struct err *err)
{
	size_t bytes = whole_pages(count * item);
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

	if (at != MAP_FAILED)
		return at;
	err_set_errno(err, "mapping %zu bytes of %s", bytes, name);
	return NULL;
}

static void unmap_array(void *at, uint32_t count, size_t item)
{
	if (at)
		munmap(at, whole_pages(count * item));
}

static bool open_arrays(struct unwind_store *s, const struct seam_maps *maps, uint64_t memory_bytes,
			struct err *err)
{
	uint64_t groups = memory_bytes / GROUP_BYTES;
	struct unwind_rule *rules;

	s->mapping_count = maps->mapping_count;
	s->executable_count = maps->executable_count;
	s->page_count = maps->page_count;
	s->rule_count = maps->rule_count;
	s->runtime_count =
		maps->runtime_count < RUNTIMES_MOST ? maps->runtime_count : RUNTIMES_MOST;
	groups = groups ? groups : 1;
	s->block_limit = (uint32_t)(groups < UNWIND_GROUPS_MAX ? groups : UNWIND_GROUPS_MAX) *
			 UNWIND_GROUP_BLOCKS;
	s->mappings =
		map_array(maps->mappings, s->mapping_count, sizeof(*s->mappings), "mappings", err);
	s->executables = map_array(maps->executables, s->executable_count, sizeof(*s->executables),
				   "executables", err);
	s->pages = map_array(maps->pages, s->page_count, sizeof(*s->pages), "pages", err);
	s->runtimes =
		map_array(maps->runtimes, s->runtime_count, sizeof(*s->runtimes), "runtimes", err);
	s->runtime_users = calloc(s->runtime_count, sizeof(*s->runtime_users));
	assert(s->runtime_users);
	rules = map_array(maps->rules, s->rule_count, sizeof(*rules), "rules", err);
	if (rules)
		unwind_rules_init(&s->rules, rules, s->rule_count);
	extents_init(&s->mapping_runs, 0, s->mapping_count);
	extents_init(&s->executable_ids, 1, s->executable_count - 1);
	extents_init(&s->page_runs, 0, s->page_count);
	extents_init(&s->runtime_slots, 1, s->runtime_count - 1);
	if (maps->cpu_count)
		s->counters = map_array(maps->counters, maps->cpu_count, sizeof(*s->counters),
					"counters", err);
	s->cpu_count = maps->cpu_count;
	if (s->mappings && s->executables && s->pages && s->runtimes && rules &&
	    (s->counters || !s->cpu_count))
		return true;
	unwind_store_close(s);
	return false;
}

static bool add_group(struct unwind_store *s, struct err *err);

bool unwind_store_open(struct unwind_store *s, struct seam *seam, const struct seam_maps *maps,
		       uint64_t memory_bytes, struct err *err)
{
	*s = (struct unwind_store){ .seam = seam, .processes_fd = maps->processes };
	/* The first rows shall not wait for their room. */
	return open_arrays(s, maps, memory_bytes, err) && add_group(s, err);
}

bool unwind_store_open_local(struct unwind_store *s, uint64_t memory_bytes, struct err *err)
{
	const struct seam_maps maps = {
		.mappings = -1,
		.executables = -1,
		.pages = -1,
		.rules = -1,
		.runtimes = -1,
		.mapping_count = LOCAL_MAPPINGS,
		.executable_count = LOCAL_EXECUTABLES,
		.page_count = LOCAL_PAGES,
		.rule_count = LOCAL_RULES,
		.runtime_count = LOCAL_RUNTIMES,
	};

	*s = (struct unwind_store){ .processes_fd = -1, .local = true };
	return open_arrays(s, &maps, memory_bytes, err);
}

void unwind_store_close(struct unwind_store *s)
{
	for (uint32_t i = 0; i < s->block_count; i++) {
		extents_release(&s->rows[i]);
		if (i % UNWIND_GROUP_BLOCKS == 0)
			munmap(s->blocks[i], GROUP_BYTES);
	}
	unmap_array(s->mappings, s->mapping_count, sizeof(*s->mappings));
	unmap_array(s->executables, s->executable_count, sizeof(*s->executables));
	unmap_array(s->pages, s->page_count, sizeof(*s->pages));
	unmap_array(s->runtimes, s->runtime_count, sizeof(*s->runtimes));
	unmap_array(s->counters, s->cpu_count, sizeof(*s->counters));
	unmap_array(s->rules.array, s->rule_count, sizeof(*s->rules.array));
	free(s->runtime_users);
	unwind_rules_release(&s->rules);
	extents_release(&s->mapping_runs);
	extents_release(&s->executable_ids);
	extents_release(&s->page_runs);
	extents_release(&s->runtime_slots);
	*s = (struct unwind_store){ .processes_fd = -1 };
}

void unwind_store_tick(struct unwind_store *s, uint64_t now_ns)
{
	s->now_ns = now_ns;
	extents_reclaim(&s->mapping_runs, now_ns, KNOWN_GRACE_NS);
	extents_reclaim(&s->executable_ids, now_ns, EXECUTABLE_GRACE_NS);
	extents_reclaim(&s->page_runs, now_ns, STORE_GRACE_NS);
	extents_reclaim(&s->runtime_slots, now_ns, STORE_GRACE_NS);
	for (uint32_t i = 0; i < s->block_count; i++)
		extents_reclaim(&s->rows[i], now_ns, KNOWN_GRACE_NS);
}

/* BPF forgets what it remembers of code. */
static void tables_changed(struct unwind_store *s)
{
	for (uint32_t i = 0; i < s->cpu_count; i++)
		__atomic_fetch_add(&s->counters[i].tables_version, 1, __ATOMIC_RELEASE);
}

bool unwind_store_take_executable(struct unwind_store *s, uint32_t *id)
{
	if (!extents_take(&s->executable_ids, 1, id))
		return false;
	memset(&s->executables[*id], 0, sizeof(s->executables[*id]));
	return true;
}

void unwind_store_drop_executable(struct unwind_store *s, uint32_t id)
{
	struct unwind_executable *e = &s->executables[id];

	unwind_store_evict(s, id);
	__atomic_store_n(&e->flags, 0, __ATOMIC_RELEASE);
	extents_retire(&s->page_runs, e->page_base, e->page_count, s->now_ns);
	e->page_count = 0;
	extents_retire(&s->executable_ids, id, 1, s->now_ns);
}

bool unwind_store_set_pages(struct unwind_store *s, uint32_t id, uint64_t first_page,
			    uint32_t count)
{
	struct unwind_executable *e = &s->executables[id];
	uint32_t base = 0;

	if (count && !extents_take(&s->page_runs, count, &base))
		return false;
	if (count)
		memset(&s->pages[base], 0, count * sizeof(*s->pages));
	e->page_base = base;
	e->first_page = first_page;
	e->page_count = count;
	__atomic_store_n(&e->flags, EXECUTABLE_LOADED, __ATOMIC_RELEASE);
	return true;
}

void unwind_store_tracks_rbx(struct unwind_store *s, uint32_t id)
{
	__atomic_or_fetch(&s->executables[id].flags, EXECUTABLE_TRACKS_RBX, __ATOMIC_RELEASE);
}

void unwind_store_set_interpreter(struct unwind_store *s, uint32_t id, uint32_t step,
				  const uint64_t range[2], const uint64_t cold[2])
{
	struct unwind_executable *e = &s->executables[id];

	memcpy(e->interpreter, range, sizeof(e->interpreter));
	memcpy(e->interpreter2, cold, sizeof(e->interpreter2));
	__atomic_store_n(&e->interpreter_step, step, __ATOMIC_RELEASE);
	tables_changed(s);
}

uint16_t unwind_store_take_runtime(struct unwind_store *s, const struct unwind_runtime *r)
{
	uint32_t slot;

	for (slot = 1; slot < s->runtime_count; slot++) {
		if (!s->runtime_users[slot] || s->runtimes[slot].step != r->step ||
		    memcmp(s->runtimes[slot].words, r->words, sizeof(r->words)) != 0)
			continue;
		s->runtime_users[slot]++;
		return (uint16_t)slot;
	}
	if (!extents_take(&s->runtime_slots, 1, &slot)) {
		s->runtimes_refused++;
		return 0;
	}
	/* No process has it, nor any walk: free slots have rested. */
	s->runtimes[slot] = *r;
	s->runtime_users[slot] = 1;
	return (uint16_t)slot;
}

void unwind_store_ref_runtime(struct unwind_store *s, uint16_t slot)
{
	if (slot)
		s->runtime_users[slot]++;
}

void unwind_store_unref_runtime(struct unwind_store *s, uint16_t slot)
{
	if (slot && --s->runtime_users[slot] == 0)
		extents_retire(&s->runtime_slots, slot, 1, s->now_ns);
}

void unwind_store_make_usual(struct unwind_store *s, uint16_t slot)
{
	uint32_t *slots = s->runtimes[0].usual.slots, *at;

	for (uint32_t i = 0; slot && i < UNWIND_USUAL_RUNTIMES; i++) {
		if (slots[i] == slot) {
			unwind_store_unref_runtime(s, slot);
			return;
		}
	}
	if (!slot)
		return;
	at = &slots[s->usual_next++ % UNWIND_USUAL_RUNTIMES];
	unwind_store_unref_runtime(s, (uint16_t)*at);
	__atomic_store_n(at, slot, __ATOMIC_RELEASE);
}

struct unwind_page *unwind_store_page(struct unwind_store *s, uint32_t id, uint64_t page)
{
	const struct unwind_executable *e = &s->executables[id];

	if (page - e->first_page >= e->page_count)
		return NULL;
	return &s->pages[e->page_base + (page - e->first_page)];
}

static void publish(struct unwind_page *to, struct unwind_page page)
{
	uint64_t word;

	memcpy(&word, &page, sizeof(word));
	__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
}

/* One more group of blocks. False: the limit is reached, or the kernel refuses. */
static bool add_group(struct unwind_store *s, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	void *at;

	if (s->block_count >= s->block_limit)
		return err_set(err, ERR_LIMIT, "unwind rows fill all of %u blocks of 256 KiB",
			       s->block_limit);
	if (!s->local &&
	    !s->seam->ops->add_blocks(s->seam, s->block_count / UNWIND_GROUP_BLOCKS, &fd, err))
		return false;
	at = map_array(fd, 1, GROUP_BYTES, "unwind rows", err);
	if (!at)
		return false;
	for (uint32_t i = 0; i < UNWIND_GROUP_BLOCKS; i++) {
		s->blocks[s->block_count] = (void *)((char *)at + i * BLOCK_BYTES);
		extents_init(&s->rows[s->block_count++], 0, UNWIND_BLOCK_ROWS);
	}
	return true;
}

void unwind_store_make_room(struct unwind_store *s)
{
	uint32_t left = 0;
	struct err err;

	for (uint32_t i = 0; i < s->block_count; i++)
		left += UNWIND_BLOCK_ROWS - s->rows[i].used;
	if (left < UNWIND_BLOCK_ROWS && s->block_count < s->block_limit && !s->room_refused &&
	    !add_group(s, &err))
		s->room_refused = true;
}

bool unwind_store_put_rows(struct unwind_store *s, struct unwind_page *page,
			   const struct unwind_row *rows, uint32_t count, struct err *err)
{
	uint32_t block = 0, first;

	if (!count || count > UNWIND_BLOCK_ROWS)
		return err_set(err, ERR_LIMIT, "a page of %u rows, a block has %u", count,
			       UNWIND_BLOCK_ROWS);
	while (block == s->block_count || !extents_take(&s->rows[block], count, &first)) {
		if (block < s->block_count) {
			block++;
		} else if (!add_group(s, err)) {
			s->rows_refused += count;
			return false;
		}
	}
	memcpy(s->blocks[block] + first, rows, count * sizeof(*rows));
	publish(page, (struct unwind_page){ .block = (uint16_t)block,
					    .first = (uint16_t)first,
					    .last = (uint16_t)(first + count - 1),
					    .state = UNWIND_PAGE_ROWS });
	return true;
}

void unwind_store_put_empty(struct unwind_page *page)
{
	publish(page, (struct unwind_page){ .state = UNWIND_PAGE_EMPTY });
}

uint32_t unwind_store_evict(struct unwind_store *s, uint32_t id)
{
	const struct unwind_executable *e = &s->executables[id];
	uint32_t rows = 0;

	for (uint32_t i = 0; i < e->page_count; i++) {
		struct unwind_page *page = &s->pages[e->page_base + i], old = *page;

		if (old.state != UNWIND_PAGE_ROWS)
			continue;
		publish(page, (struct unwind_page){ .state = UNWIND_PAGE_ABSENT });
		extents_retire(&s->rows[old.block], old.first, old.last - old.first + 1u,
			       s->now_ns);
		rows += old.last - old.first + 1u;
	}
	return rows;
}

bool unwind_store_put_mappings(struct unwind_store *s, struct mapping_set *set)
{
	uint32_t first = 0;

	if (set->run_count && !set->stale)
		return true;
	if (set->count && !extents_take(&s->mapping_runs, set->count, &first)) {
		s->mappings_refused += set->count;
		return false;
	}
	for (uint32_t i = 0; i < set->count; i++) {
		const struct mapping *m = &set->list[i];
		struct unwind_mapping *to = &s->mappings[first + i];

		to->start = m->start;
		to->end = m->end;
		to->step = m->step;
		module_place(m, to);
	}
	extents_retire(&s->mapping_runs, set->run_first, set->run_count, s->now_ns);
	set->run_first = first;
	set->run_count = set->count;
	set->stale = false;
	return true;
}

void unwind_store_retire_run(void *store, uint32_t first, uint32_t count)
{
	struct unwind_store *s = store;

	extents_retire(&s->mapping_runs, first, count, s->now_ns);
}

/* BPF forgets what it remembers of this process. */
static void process_changed(struct unwind_store *s, uint32_t pid)
{
	for (uint32_t i = 0; i < s->cpu_count; i++)
		__atomic_fetch_add(&s->counters[i].processes_version[pid % PROCESSES_VERSIONS], 1,
				   __ATOMIC_RELEASE);
}

bool unwind_store_put_process(struct unwind_store *s, uint32_t pid, const struct unwind_process *p,
			      struct err *err)
{
	if (s->processes_fd >= 0 && bpf_map_update_elem(s->processes_fd, &pid, p, BPF_ANY))
		return err_set_errno(err, "telling BPF of process %u", pid);
	process_changed(s, pid);
	return true;
}

void unwind_store_set_unknown_walker(struct unwind_store *s, uint32_t walker)
{
	for (uint32_t i = 0; i < s->cpu_count; i++)
		__atomic_store_n(&s->counters[i].unknown_walker, walker, __ATOMIC_RELAXED);
}

void unwind_store_drop_process(struct unwind_store *s, uint32_t pid)
{
	if (s->processes_fd >= 0)
		bpf_map_delete_elem(s->processes_fd, &pid);
	process_changed(s, pid);
}
