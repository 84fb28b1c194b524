#include "agent/process/table.h"

#include <assert.h>
#include <stdlib.h>

#include "agent/process/facts.h"
#include "agent/process/proc_maps.h"
#include "agent/process/read_proc.h"
#include "agent/process/walkers.h"
#include "agent/runtimes/attach.h"
#include "base/clock.h"

enum { BUCKETS = 4096, ANCESTORS_MOST = 1024, MAPS_BYTES_MOST = 16 << 20 };
#define REREAD_NS        (SECOND_NS / 2)
#define BURY_NS          SECOND_NS
#define STILL_SAMPLED_NS (SECOND_NS / 4) /* after exit() */
#define KERNEL_HALF      (UINT64_C(1) << 63)

void process_table_init(struct process_table *t)
{
	t->buckets = calloc(BUCKETS, sizeof(*t->buckets));
	t->dirty_buckets = calloc(BUCKETS / 64, sizeof(*t->dirty_buckets));
	assert(t->buckets && t->dirty_buckets);
}

static struct process **bucket_of(const struct process_table *t, uint32_t pid)
{
	return &t->buckets[pid & (BUCKETS - 1)];
}

struct process *process_table_find(const struct process_table *t, uint32_t pid)
{
	struct process *p = *bucket_of(t, pid);

	while (p && p->pid != pid)
		p = p->next;
	return p;
}

static void drop_runtimes(struct process_table *t, struct process *p)
{
	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++) {
		unwind_store_unref_runtime(t->store, p->runtimes[i]);
		p->runtimes[i] = 0;
	}
	p->runtimes_guessed = false;
	p->code_count = 0;
	p->runtimes_set = NULL;
	p->runtime_retry_ns = 0;
	p->runtime_tries = 0;
}

/* What is known of an image only; pid and parent stay. */
static void image_reset(struct process_table *t, struct process *p)
{
	drop_runtimes(t, p);
	replaced_free(&p->replaced);
	mapping_set_unref(t->sets, p->set);
	process_info_unref(p->info);
	free(p->path);
	p->set = NULL;
	p->info = NULL;
	p->path = NULL;
	p->judged = false;
	p->kernel_thread = p->ran = false;
	p->verdict = PROCESS_UNKNOWN;
	p->read_ns = 0;
	p->image = ++t->next_image ? t->next_image : ++t->next_image;
}

static void process_free(struct process_table *t, struct process *p)
{
	drop_runtimes(t, p);
	replaced_free(&p->replaced);
	mapping_set_unref(t->sets, p->set);
	process_info_unref(p->info);
	process_info_unref(p->parent);
	free(p->path);
	free(p);
}

static void process_remove(struct process_table *t, uint32_t pid)
{
	struct process **at = bucket_of(t, pid), *p;

	while (*at && (*at)->pid != pid)
		at = &(*at)->next;
	p = *at;
	if (!p)
		return;
	*at = p->next;
	t->count--;
	t->ended_count -= p->life != LIFE_WHOLE;
	if (p->published)
		unwind_store_drop_process(t->store, pid);
	process_free(t, p);
}

void process_table_release(struct process_table *t)
{
	if (!t->buckets)
		return;
	for (uint32_t i = 0; i < BUCKETS; i++) {
		while (t->buckets[i]) {
			struct process *p = t->buckets[i];

			t->buckets[i] = p->next;
			process_free(t, p);
		}
	}
	while (t->attach.building_count)
		module_unref(t->attach.building[--t->attach.building_count].module);
	free(t->buckets);
	free(t->dirty_buckets);
	t->buckets = NULL;
}

/* NULL: there are too many. */
static struct process *process_add(struct process_table *t, uint32_t pid)
{
	struct process **bucket = bucket_of(t, pid), *p;

	if (t->count >= PROCESSES_MOST) {
		t->refused++;
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	assert(p);
	p->pid = pid;
	p->pid_wanted = filter_lists(t->filter, pid);
	p->next = *bucket;
	*bucket = p;
	t->count++;
	image_reset(t, p);
	p->set = mapping_set_new(t->sets);
	return p;
}

static void mark_dirty(struct process_table *t, struct process *p)
{
	uint32_t bucket = p->pid & (BUCKETS - 1);

	p->dirty = true;
	t->dirty_buckets[bucket / 64] |= UINT64_C(1) << (bucket % 64);
}

/* ---- mappings ------------------------------------------------------------------------------- */

/* A file that may hold code we can read, as the kernel names it. */
static bool names_file(struct str path)
{
	return str_is(path, "[vdso]") ||
	       (path.len > 1 && path.ptr[0] == '/' && !str_has_prefix(path, STR("//anon")) &&
		!str_has_prefix(path, STR("/dev/")) && !str_has_prefix(path, STR("/SYSV")));
}

/* mmap(MAP_SHARED | MAP_ANONYMOUS), shmget(), shm_open(). */
static bool names_shared_memory(struct str path)
{
	return str_has_prefix(path, STR("/dev/zero")) || str_has_prefix(path, STR("/dev/shm/")) ||
	       str_has_prefix(path, STR("/SYSV"));
}

/* Whose code is the anonymous mapping? */
static uint32_t code_step(const struct process *p, const struct mapping *m)
{
	const struct runtime_code *best = NULL;

	for (uint32_t i = 0; i < p->code_count; i++) {
		const struct runtime_code *c = &p->code[i];

		if (m->start < c->start || m->start >= c->end || c->shared != m->shared)
			continue;
		if (!best || c->end - c->start < best->end - best->start)
			best = c;
	}
	return best ? best->step : UNWIND_STEP_NATIVE;
}

/* time_ns: when it was mapped, as far as the side band told; 0: some time before. */
static void add_mapping(struct process_table *t, struct process *p, uint64_t start, uint64_t end,
			uint64_t file_offset, const struct module_key *key, uint64_t time_ns)
{
	struct mapping m = { .start = start, .end = end, .file_offset = file_offset };
	struct mapping_set *old = p->set;
	uint32_t count = old->count;

	if (start >= KERNEL_HALF) /* [vsyscall] */
		return;
	if (names_file(key->path)) {
		m.module = modules_get(t->modules, key);
	} else {
		m.shared = names_shared_memory(key->path);
		m.step = code_step(p, &m);
	}
	if (time_ns && p->published && replaced_note(&p->replaced, p->set, &m, time_ns))
		t->replaced_ns = time_ns;
	p->set = mapping_set_add(t->sets, p->set, &m);
	module_unref(m.module);
	if (p->set != old || p->set->count != count || p->set->stale) {
		p->runtimes_set = NULL; /* there may be one among them */
		mark_dirty(t, p);
	}
}

/* False: the process is gone, or shows nothing. */
static bool read_maps(struct process_table *t, struct process *p)
{
	struct proc_mapping m;
	struct str rest, line;
	struct buf text;
	bool any = false;

	buf_init(&text, MAPS_BYTES_MOST);
	p->read_ns = clock_monotonic_ns();
	if (read_proc(t->seam, p->pid, SEAM_PROC_MAPS, &text)) {
		rest = buf_view(&text);
		while (rest.len && str_split(&rest, '\n', &line)) {
			struct module_key key;

			if (!proc_maps_parse(line, &m))
				continue;
			any = true;
			if (!m.executable)
				continue;
			key = (struct module_key){ .device = m.device,
						   .inode = m.inode,
						   .path = m.path };
			add_mapping(t, p, m.start, m.end, m.file_offset, &key, 0);
		}
	}
	buf_release(&text);
	return any;
}

bool process_reread(struct process_table *t, struct process *p, uint64_t now_ns)
{
	struct mapping_set *old = p->set;
	bool changed;

	if (p->read_ns && now_ns - p->read_ns < REREAD_NS)
		return false;
	t->resyncs++;
	p->set = mapping_set_new(t->sets);
	if (!read_maps(t, p)) { /* gone: what we knew is better than nothing */
		mapping_set_unref(t->sets, p->set);
		p->set = old;
		return false;
	}
	changed = p->set->count != old->count ||
		  (old->count &&
		   memcmp(p->set->list, old->list, old->count * sizeof(*old->list)) != 0);
	if (!changed) {
		mapping_set_unref(t->sets, p->set);
		p->set = old;
		return false;
	}
	mapping_set_unref(t->sets, old);
	mark_dirty(t, p);
	return true;
}

/* ---- the start, and losses --------------------------------------------------------------------
 */

/* Another program runs in p than we thought: an exec() was lost. Everything is read anew. */
static void image_from_proc(struct process_table *t, struct process *p)
{
	t->resyncs++;
	image_reset(t, p);
	p->set = mapping_set_new(t->sets);
	p->exec_id_known = false;
	p->comm[0] = 0;
	read_maps(t, p);
	mark_dirty(t, p);
}

static struct process *add_from_proc(struct process_table *t, uint32_t pid)
{
	struct process *p = process_add(t, pid);

	if (p) {
		p->kernel_thread = !read_maps(t, p);
		p->threaded = true;
	}
	return p;
}

/* Those that are asked for come first: there may be thousands of others. */
static void wanted_first(const struct process_table *t, uint32_t *pids, uint32_t count)
{
	uint32_t next = 0, wanted;

	for (uint32_t i = 0; i < count; i++) {
		if (!filter_lists(t->filter, pids[i]))
			continue;
		wanted = pids[i];
		pids[i] = pids[next];
		pids[next++] = wanted;
	}
}

bool process_table_scan_until(struct process_table *t, uint64_t deadline_ns, bool *whole,
			      struct err *err)
{
	uint32_t *pids = malloc(PROCESSES_MOST * sizeof(*pids)), count = 0;
	bool ok;

	assert(pids);
	ok = t->seam->ops->list(t->seam, pids, PROCESSES_MOST, &count, err);
	count = count < PROCESSES_MOST ? count : PROCESSES_MOST;
	*whole = true;
	if (ok)
		wanted_first(t, pids, count);
	for (uint32_t i = 0; ok && i < count && *whole; i++) {
		if (process_table_find(t, pids[i]))
			continue;
		*whole = clock_monotonic_ns() < deadline_ns || filter_lists(t->filter, pids[i]);
		if (*whole)
			add_from_proc(t, pids[i]);
	}
	free(pids);
	return ok;
}

bool process_table_scan(struct process_table *t, struct err *err)
{
	bool whole;

	return process_table_scan_until(t, UINT64_MAX, &whole, err);
}

void process_table_resync(struct process_table *t)
{
	struct err err;

	for (uint32_t i = 0; i < BUCKETS; i++) {
		for (struct process *p = t->buckets[i], *next; p; p = next) {
			char path[4096];

			next = p->next;
			p->read_ns = 0;
			p->exec_id_known = false; /* the next sample tells */
			if (p->kernel_thread)
				continue;
			if (!t->seam->ops->exe_path(t->seam, p->pid, path, sizeof(path), &err))
				process_remove(t, p->pid);
			else if (p->path && strcmp(p->path, path) != 0)
				image_from_proc(t, p);
			else
				process_reread(t, p, clock_monotonic_ns());
		}
	}
	if (!process_table_scan(t, &err))
		t->refused++;
}

/* ---- the side band ----------------------------------------------------------------------------
 */

static void set_comm(struct process *p, struct str name)
{
	snprintf(p->comm, sizeof(p->comm), "%.*s", STR_ARG(name));
}

static void apply_fork(struct process_table *t, const struct side_record *r)
{
	struct process *parent, *p;

	if (r->pid == r->ppid || r->tid != r->pid) {
		p = process_table_find(t, r->pid);
		if (p)
			p->threaded = true;
		return;
	}
	process_remove(t, r->pid);
	parent = process_table_find(t, r->ppid);
	p = process_add(t, r->pid);
	if (!p)
		return;
	p->ppid = r->ppid;
	p->start_ns = r->time_ns;
	if (!parent || parent->kernel_thread)
		return;
	mapping_set_unref(t->sets, p->set);
	p->set = mapping_set_ref(parent->set);
	memcpy(p->comm, parent->comm, sizeof(p->comm));
	p->path = parent->path ? strdup(parent->path) : NULL;
	p->exec_id = parent->exec_id;
	p->exec_id_known = parent->exec_id_known;
	p->verdict = parent->verdict;
	p->judged = parent->judged;
	p->pid_wanted |= parent->pid_wanted;
	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++) {
		p->runtimes[i] = parent->runtimes[i];
		unwind_store_ref_runtime(t->store, p->runtimes[i]);
	}
	p->runtimes_guessed = parent->runtimes_guessed;
	memcpy(p->code, parent->code, sizeof(p->code));
	p->code_count = parent->code_count;
	p->read_ns = r->time_ns; /* nothing to learn from /proc that the parent's set lacks */
	if (parent->info || parent->parent)
		p->parent = process_info_ref(parent->info ? parent->info : parent->parent);
	/* BPF takes over the parent's mappings with one small write. */
	if (parent->published)
		mark_dirty(t, p);
}

static void set_life(struct process_table *t, struct process *p, enum process_life life)
{
	t->ended_count += (uint32_t)(life != LIFE_WHOLE) - (uint32_t)(p->life != LIFE_WHOLE);
	p->life = life;
}

/* BPF asks anew about a process that it does not know. */
static void unpublish(struct process_table *t, struct process *p)
{
	if (p->published)
		unwind_store_drop_process(t->store, p->pid);
	p->published = false;
}

/* The first thread may end long before the last (pthread_exit() in main). */
static void apply_exit(struct process_table *t, const struct side_record *r)
{
	struct process *p = r->pid == r->tid ? process_table_find(t, r->pid) : NULL;

	if (!p)
		return;
	set_life(t, p, p->threaded ? LIFE_FIRST_ENDED : LIFE_ENDED);
	p->ended_ns = r->time_ns;
	if (p->life == LIFE_ENDED)
		unpublish(t, p); /* its number may be another's soon */
}

void process_table_bury(struct process_table *t, uint64_t now_ns)
{
	char path[4096];
	struct err err;

	if (!t->ended_count || now_ns - t->buried_ns < BURY_NS)
		return;
	t->buried_ns = now_ns;
	for (uint32_t i = 0; i < BUCKETS; i++) {
		for (struct process *p = t->buckets[i], *next; p; p = next) {
			next = p->next;
			if (now_ns - p->ended_ns < STILL_SAMPLED_NS)
				continue;
			if (p->life == LIFE_ENDED ||
			    (p->life == LIFE_FIRST_ENDED &&
			     !t->seam->ops->exe_path(t->seam, p->pid, path, sizeof(path), &err)))
				process_remove(t, p->pid);
		}
	}
}

static void apply_comm(struct process_table *t, const struct side_record *r)
{
	struct process *p = r->pid == r->tid ? process_table_find(t, r->pid) : NULL;

	if (!p)
		return;
	set_comm(p, r->name);
	if (filter_is_empty(t->filter))
		return;
	p->judged = false; /* the filter knows processes by this name, too */
	p->verdict = PROCESS_UNKNOWN;
	unpublish(t, p);
}

static void apply_exec(struct process_table *t, const struct side_record *r)
{
	struct process *p = process_table_find(t, r->pid);

	if (!p)
		p = process_add(t, r->pid);
	if (!p)
		return;
	if (p->info) { /* its container is the old image's */
		process_info_unref(p->parent);
		p->parent = process_info_ref(p->info);
	}
	image_reset(t, p);
	set_life(t, p, LIFE_WHOLE); /* whichever thread did this is the first now, and alone */
	p->threaded = false;
	p->set = mapping_set_new(t->sets);
	p->start_ns = r->time_ns;
	p->read_ns = r->time_ns;
	p->exec_id++;
	set_comm(p, r->name);
	mark_dirty(t, p);
}

static void apply_mmap(struct process_table *t, const struct side_record *r)
{
	struct process *p = process_table_find(t, r->pid);
	const struct module_key key = {
		.device = r->device,
		.inode = r->inode,
		.build_id = str_from(r->build_id, r->build_id_bytes),
		.path = r->name,
	};

	if (!p || !r->executable)
		return;
	if (!p->path && p->start_ns && !p->set->count && names_file(r->name) &&
	    r->name.ptr[0] == '/')
		p->path = strndup(r->name.ptr, r->name.len); /* the first file is the program */
	add_mapping(t, p, r->start, r->start + r->length, r->file_offset, &key, r->time_ns);
}

void process_table_apply(struct process_table *t, const struct side_record *r)
{
	switch (r->kind) {
	case SIDE_FORK:
		apply_fork(t, r);
		break;
	case SIDE_EXIT:
		apply_exit(t, r);
		break;
	case SIDE_EXEC:
		apply_exec(t, r);
		break;
	case SIDE_COMM:
		apply_comm(t, r);
		break;
	case SIDE_MMAP:
		apply_mmap(t, r);
		break;
	case SIDE_KSYMBOL:
	case SIDE_LOST:
	case SIDE_OTHER:
		break;
	}
}

/* ---- samples ----------------------------------------------------------------------------------
 */

struct process *process_table_get(struct process_table *t, const struct sample_record *r)
{
	struct process *p = process_table_find(t, r->pid);

	/* Another process has the pid by now, and nobody told us. */
	if (p && p->start_boottime_ns && p->start_boottime_ns != r->start_boottime_ns) {
		process_remove(t, r->pid);
		p = NULL;
	}
	if (!p)
		p = r->flags & SAMPLE_KTHREAD ? process_add(t, r->pid) : add_from_proc(t, r->pid);
	if (!p)
		return NULL;
	/* Samples come in order with the side band, so that both must agree; but exec() counts up a
	 * moment after it has told. */
	if (p->exec_id_known && !p->kernel_thread && r->exec_id != p->exec_id &&
	    r->exec_id + 1 != p->exec_id)
		image_from_proc(t, p);
	p->start_boottime_ns = r->start_boottime_ns;
	p->kernel_thread = r->flags & SAMPLE_KTHREAD;
	if (!p->comm[0] || r->pid == r->tid)
		set_comm(p, str_from(r->comm, strnlen(r->comm, sizeof(r->comm))));
	if (!p->exec_id_known && !p->kernel_thread) {
		p->exec_id = r->exec_id;
		p->exec_id_known = true;
		mark_dirty(t, p);
	}
	if (!p->published && !p->kernel_thread && p->life != LIFE_ENDED)
		mark_dirty(t, p);
	return p;
}

/* The parts of anonymous mappings that lie in `code` are its runtime's. */
static void claim_code(struct process_table *t, struct process *p, const struct runtime_code *code)
{
	struct mapping_set *was = mapping_set_ref(p->set);

	for (uint32_t i = 0; i < was->count; i++) {
		struct mapping m = was->list[i];

		if (m.module || m.end <= code->start || m.start >= code->end ||
		    code->shared != m.shared)
			continue;
		m.start = m.start > code->start ? m.start : code->start;
		m.end = m.end < code->end ? m.end : code->end;
		m.step = code->step;
		p->set = mapping_set_add(t->sets, p->set, &m);
	}
	mapping_set_unref(t->sets, was);
}

void process_guess_runtime(struct process_table *t, struct process *p,
			   const struct unwind_runtime *usual)
{
	if (p->runtimes[0])
		return;
	p->runtimes[0] = unwind_store_take_runtime(t->store, usual);
	p->runtimes_guessed = p->runtimes[0];
	mark_dirty(t, p);
}

bool process_add_runtime(struct process_table *t, struct process *p,
			 const struct runtime_attachment *found)
{
	uint16_t slot;
	int i = 0;

	if (p->runtimes_guessed) {
		unwind_store_unref_runtime(t->store, p->runtimes[0]);
		p->runtimes[0] = 0;
		p->runtimes_guessed = false;
	}
	while (i < UNWIND_PROCESS_RUNTIMES && p->runtimes[i])
		i++;
	if (i == UNWIND_PROCESS_RUNTIMES)
		return false;
	slot = unwind_store_take_runtime(t->store, &found->data);
	if (!slot)
		return false;
	p->runtimes[i] = slot;
	for (uint32_t k = 0; k < found->code_count && p->code_count < RUNTIME_CODE_MOST; k++) {
		p->code[p->code_count++] = found->code[k];
		claim_code(t, p, &found->code[k]);
	}
	mark_dirty(t, p);
	return true;
}

struct process_info *process_facts(struct process_table *t, struct process *p)
{
	const struct facts_wish wish = {
		.pid = p->pid,
		.path = p->path,
		.comm = p->comm,
		.start_ns = p->start_ns,
		.start_boottime_ns = p->start_boottime_ns,
		.parent = p->parent,
		.kernel_thread = p->kernel_thread,
		.variables = t->variables,
		.variable_count = t->variable_count,
	};

	if (!p->info)
		p->info = facts_gather(t->seam, &wish);
	return p->info;
}

/* 1234 (name that may hold anything) S 1 ...: the parent (proc(5)); 0: none, or it is gone. */
static uint32_t ppid_from_proc(struct process_table *t, uint32_t pid)
{
	struct str rest, state, parent;
	uint64_t ppid = 0;
	struct buf text;
	ptrdiff_t at;

	buf_init(&text, 1 << 16);
	if (read_proc(t->seam, pid, SEAM_PROC_STAT, &text)) {
		rest = buf_view(&text);
		while ((at = str_find(rest, ')')) >= 0)
			rest = str_skip(rest, (size_t)at + 1);
		rest = str_trim(rest);
		if (!str_split(&rest, ' ', &state) || !str_split(&rest, ' ', &parent) ||
		    !str_to_u64(parent, &ppid) || ppid > INT32_MAX)
			ppid = 0;
	}
	buf_release(&text);
	return (uint32_t)ppid;
}

/* Those that run when the filter comes have no fork that was seen: /proc knows whose they are. */
static bool descends_from_wanted(struct process_table *t, const struct process *of)
{
	uint32_t pid = of->pid;

	for (int i = 0; i < ANCESTORS_MOST; i++) {
		struct process *p = process_table_find(t, pid); /* NULL: not looked at yet */
		uint32_t ppid = p && p->ppid ? p->ppid : ppid_from_proc(t, pid);

		if (p && p->pid_wanted)
			return true;
		if (p)
			p->ppid = ppid;
		if (!ppid)
			return false;
		if (filter_lists(t->filter, ppid))
			return true;
		pid = ppid;
	}
	return false;
}

bool process_wanted(struct process_table *t, struct process *p)
{
	struct process_info *info;
	struct buf arguments, cgroups;
	bool wanted;

	if (filter_is_empty(t->filter)) {
		p->verdict = PROCESS_SAMPLE;
		return true;
	}
	if (p->judged)
		return p->verdict == PROCESS_SAMPLE;
	info = process_facts(t, p);
	if (filter_needs_parents(t->filter) && !p->pid_wanted && !p->kernel_thread)
		p->pid_wanted = descends_from_wanted(t, p);
	buf_init(&arguments, 1 << 16);
	buf_init(&cgroups, 1 << 16);
	if (filter_needs_command_line(t->filter) &&
	    !read_proc(t->seam, p->pid, SEAM_PROC_CMDLINE, &arguments))
		buf_reset(&arguments);
	if (filter_needs_cgroups(t->filter) &&
	    !read_proc(t->seam, p->pid, SEAM_PROC_CGROUP, &cgroups))
		buf_reset(&cgroups);
	wanted = filter_wants(t->filter, &(struct filter_subject){
						 .executable_name = info->executable_name,
						 .comm = str_cstr(p->comm),
						 .command_line = buf_view(&arguments),
						 .cgroups = buf_view(&cgroups),
						 .pid_wanted = p->pid_wanted,
					 });
	buf_release(&arguments);
	buf_release(&cgroups);
	p->verdict = wanted ? PROCESS_SAMPLE : PROCESS_DROP;
	p->judged = true;
	mark_dirty(t, p);
	return wanted;
}

void process_table_judge_again(struct process_table *t)
{
	for (uint32_t i = 0; i < BUCKETS; i++) {
		for (struct process *p = t->buckets[i]; p; p = p->next) {
			p->judged = false;
			p->verdict = PROCESS_UNKNOWN;
			p->pid_wanted = filter_lists(t->filter, p->pid);
			unpublish(t, p); /* the next sample of it brings the new verdict */
		}
	}
}

static void publish(struct process_table *t, struct process *p)
{
	struct unwind_process value = {
		.image = p->image,
		.exec_id = p->exec_id,
		.flags = p->exec_id_known ? PROCESS_EXEC_ID : 0,
		.verdict = (uint8_t)(p->verdict == PROCESS_DROP ? PROCESS_DROP : PROCESS_SAMPLE),
	};
	struct err err;

	if (p->kernel_thread || p->life == LIFE_ENDED) {
		p->dirty = false;
		return;
	}
	runtimes_attach(t, p, clock_monotonic_ns());
	p->dirty = false;
	memcpy(value.runtimes, p->runtimes, sizeof(value.runtimes));
	value.walker = walkers_for(t, p->runtimes);
	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++)
		if (p->runtimes[i] && t->store->runtimes[p->runtimes[i]].step == UNWIND_STEP_GO)
			value.flags |= PROCESS_LABELS;
	if (value.verdict == PROCESS_SAMPLE) {
		if (!unwind_store_put_mappings(t->store, p->set))
			return;
		value.first_mapping = p->set->run_first;
		value.mapping_count = p->set->run_count;
	}
	p->published = unwind_store_put_process(t->store, p->pid, &value, &err);
	if (p->published)
		replaced_known(p->replaced, clock_monotonic_ns());
}

void process_table_publish(struct process_table *t)
{
	for (uint32_t word = 0; word < BUCKETS / 64; word++) {
		uint64_t bits = t->dirty_buckets[word];

		t->dirty_buckets[word] = 0;
		for (; bits; bits &= bits - 1) {
			uint32_t bucket = word * 64 + (uint32_t)__builtin_ctzll(bits);

			for (struct process *p = t->buckets[bucket]; p; p = p->next)
				if (p->dirty)
					publish(t, p);
		}
	}
}

static void publish_some(struct process_table *t, bool wanted, uint64_t deadline_ns)
{
	uint64_t now = clock_monotonic_ns();

	for (uint32_t i = 0; i < BUCKETS && now < deadline_ns; i++) {
		for (struct process *p = t->buckets[i]; p && now < deadline_ns; p = p->next) {
			if (p->kernel_thread || p->pid_wanted != wanted)
				continue;
			runtimes_attach(t, p, now);
			if (p->pid_wanted || p->runtimes[0])
				publish(t, p);
			now = clock_monotonic_ns();
		}
	}
}

void process_table_publish_runtimes(struct process_table *t, uint64_t deadline_ns)
{
	publish_some(t, true, deadline_ns);
	if (filter_is_empty(t->filter))
		publish_some(t, false, deadline_ns);
}
