#include "agent/process/modules.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/elf/elf_file.h"
#include "agent/runtimes/runtime.h"
#include "agent/unwind/tables.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"

enum {
	BUCKETS = 1024,
	IDLE_MOST = 1024, /* modules kept that nobody has mapped */
	VDSO_BYTES_MOST = 64 * 1024,
	TABLE_PAGES_MOST = 16384,
};
#define IDLE_NS  (5 * MINUTE_NS)
#define SWEEP_NS (10 * SECOND_NS)
/* What BPF sees of a file that was not opened yet: no such executable, so ask user space. */
#define EXECUTABLE_NOT_OPENED UINT32_MAX

void modules_init(struct modules *all, struct unwind_store *store, struct seam *seam,
		  struct mapping_sets *sets)
{
	*all = (struct modules){ .store = store, .seam = seam, .sets = sets };
	all->buckets = calloc(BUCKETS, sizeof(*all->buckets));
	all->by_id = calloc(store->executable_count, sizeof(*all->by_id));
	all->scratch = malloc(UNWIND_BLOCK_ROWS * sizeof(*all->scratch));
	assert(all->buckets && all->by_id && all->scratch);
}

static struct module **bucket_of(struct modules *all, const struct module_key *key)
{
	uint64_t h = key->build_id.len ? hash64(key->build_id)
				       : (key->inode ^ key->device << 40) * 0x9e3779b97f4a7c15u;

	return &all->buckets[h >> 32 & (BUCKETS - 1)];
}

/* Does the file of m hold what it held when it was opened? */
static bool is_unwritten(const struct module *m)
{
	return file_stamp_unwritten(&m->stamp, m->fd >= 0 ? m->fd : m->same->fd);
}

static bool is_untouched(const struct module *m)
{
	return m->state != MODULE_READY ||
	       file_stamp_untouched(&m->stamp, m->fd >= 0 ? m->fd : m->same->fd);
}

static bool has_key(const struct module *m, const struct module_key *key)
{
	if (key->build_id.len)
		return !m->inode &&
		       str_equal(str_from(m->build_id, m->build_id_bytes), key->build_id);
	if (!key->inode)
		return !m->inode && !m->device && str_is(key->path, m->path);
	return m->inode == key->inode && m->device == key->device && is_untouched(m);
}

struct module *modules_get(struct modules *all, const struct module_key *key)
{
	struct module **bucket = bucket_of(all, key), *m;

	for (m = *bucket; m; m = m->next) {
		if (has_key(m, key)) {
			module_ref(m);
			return m;
		}
	}
	m = calloc(1, sizeof(*m));
	assert(m);
	m->refs = 1;
	m->owner = all;
	m->fd = -1;
	m->device = key->build_id.len ? 0 : key->device;
	m->inode = key->build_id.len ? 0 : key->inode;
	m->build_id_bytes = key->build_id.len < sizeof(m->build_id) ? (uint32_t)key->build_id.len
								    : sizeof(m->build_id);
	if (m->build_id_bytes)
		memcpy(m->build_id, key->build_id.ptr, m->build_id_bytes);
	m->path = strndup(key->path.ptr ? key->path.ptr : "", key->path.len);
	assert(m->path);
	m->next = *bucket;
	*bucket = m;
	all->count++;
	return m;
}

void module_ref(struct module *m)
{
	if (m && !m->refs++)
		m->owner->idle_count--;
}

void module_unref(struct module *m)
{
	if (!m || --m->refs)
		return;
	m->idle_since_ns = m->owner->store->now_ns;
	m->owner->idle_count++;
}

static void module_free(struct module *m)
{
	struct modules *all = m->owner;

	if (m->id) {
		all->by_id[m->id] = NULL;
		unwind_store_drop_executable(all->store, m->id);
	}
	unwind_tables_free(m->tables);
	elf_file_free(m->file);
	if (m->fd >= 0)
		close(m->fd);
	executable_unref(m->facts);
	free(m->path);
	free(m);
	all->count--;
}

void modules_release(struct modules *all)
{
	if (!all->buckets)
		return;
	for (uint32_t i = 0; i < BUCKETS; i++) {
		while (all->buckets[i]) {
			struct module *m = all->buckets[i];

			all->buckets[i] = m->next;
			module_free(m);
		}
	}
	free(all->buckets);
	free(all->by_id);
	free(all->scratch);
}

struct module *modules_by_id(const struct modules *all, uint32_t id)
{
	return id && id < all->store->executable_count ? all->by_id[id] : NULL;
}

struct module *modules_by_executable(const struct modules *all, const struct executable *e)
{
	struct module *m = modules_by_id(all, executable_bpf_id(e));

	return m && m->facts == e ? m : NULL;
}

static void let_go_of_files(struct modules *all, uint64_t now_ns)
{
	if (now_ns - all->let_go_ns < SWEEP_NS)
		return;
	all->let_go_ns = now_ns;
	for (uint32_t i = 1; i < all->store->executable_count; i++) {
		struct module *m = all->by_id[i];

		if (m && m->read) {
			elf_file_let_go(m->file);
			m->read = false;
		}
	}
}

void modules_sweep(struct modules *all, uint64_t now_ns)
{
	let_go_of_files(all, now_ns);
	if (!all->idle_count || now_ns - all->swept_ns < SWEEP_NS)
		return;
	all->swept_ns = now_ns;
	for (uint32_t i = 0; i < BUCKETS; i++) {
		for (struct module **at = &all->buckets[i]; *at;) {
			struct module *m = *at;

			if (m->refs ||
			    (now_ns - m->idle_since_ns < IDLE_NS && all->idle_count < IDLE_MOST)) {
				at = &m->next;
				continue;
			}
			*at = m->next;
			all->idle_count--;
			if (m->same != m)
				module_unref(m->same);
			module_free(m);
		}
	}
}

/* The vDSO is one for all processes of our kind, ours too; as a file, it is read like any other. */
static bool open_vdso(int *fd, struct err *err)
{
	const char *start = (const char *)getauxval(AT_SYSINFO_EHDR);
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to, bytes = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			bytes = to - from;
	if (maps)
		fclose(maps);
	if (!start || !bytes || bytes > VDSO_BYTES_MOST)
		return err_set(err, ERR_NOT_FOUND, "the vDSO, of %lu bytes", bytes);
	*fd = memfd_create("vdso", MFD_CLOEXEC);
	if (*fd < 0)
		return err_set_errno(err, "a file for the vDSO");
	if (write(*fd, start, bytes) == (ssize_t)bytes)
		return true;
	err_set_errno(err, "copying the vDSO");
	close(*fd);
	*fd = -1;
	return false;
}

static bool open_file(struct module *m, uint32_t pid, const struct mapping *at, int *fd,
		      struct err *err)
{
	struct seam_file file = { .start = at->start,
				  .end = at->end,
				  .path = m->path,
				  .device = m->device,
				  .inode = m->inode };
	struct seam *seam = m->owner->seam;

	if (strcmp(m->path, "[vdso]") == 0)
		return open_vdso(fd, err);
	if (!seam)
		return err_set(err, ERR_NOT_FOUND, "no files without a seam");
	if (pid && seam->ops->open_mapped(seam, pid, &file, fd, err))
		return true;
	/* The process may be gone, and its file still be where ours is. */
	file.start = file.end = 0;
	return seam->ops->open_mapped(seam, 0, &file, fd, err);
}

static struct elf_file *open_elf(struct module *m, uint32_t pid, const struct mapping *at, int *out,
				 struct err *err)
{
	AUTO(fd_close) int fd = -1;
	struct elf_file *f;
	struct bytes id;

	if (!open_file(m, pid, at, &fd, err))
		return NULL;
	f = elf_file_open(fd, err);
	if (!f)
		return NULL;
	id = elf_file_build_id(f);
	if (m->build_id_bytes &&
	    (id.len < m->build_id_bytes || memcmp(id.ptr, m->build_id, m->build_id_bytes) != 0)) {
		elf_file_free(f);
		err_set(err, ERR_NOT_FOUND, "%s is another build by now", m->path);
		return NULL;
	}
	*out = fd;
	fd = -1;
	return f;
}

static struct str to_hex(char *out, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return str_from(out, 2 * count);
}

static struct str base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return str_cstr(slash ? slash + 1 : path);
}

/* Once for each version. */
static void tell_unknown_version(struct modules *all, const struct module *m,
				 const struct runtime_binary *b)
{
	char version[24];

	for (uint32_t i = 0; i < all->unknown_count; i++)
		if (all->unknown[i].step == b->ops->step &&
		    all->unknown[i].version == b->unknown_version)
			return;
	if (all->unknown_count == ARRAY_LEN(all->unknown))
		return;
	all->unknown[all->unknown_count].step = b->ops->step;
	all->unknown[all->unknown_count++].version = b->unknown_version;
	snprintf(version, sizeof(version), "%u.%u", b->unknown_version >> 16,
		 b->unknown_version & 0xffff);
	LOG(LOG_WARN, "Unknown version of a language runtime: its frames are shown as native code",
	    LOG_S("runtime", b->ops->name), LOG_S("version", version), LOG_S("file", m->path));
}

/* Is it a language runtime's? Then where its main loop lies goes to BPF. */
static bool recognise(const struct module *m, const struct elf_file *f, struct runtime_binary *out)
{
	struct modules *all = m->owner;

	for (int i = 0; runtimes_all[i]; i++) {
		const struct runtime_ops *ops = runtimes_all[i];

		if (!(all->steps & 1u << ops->step))
			continue;
		*out = (struct runtime_binary){ .ops = ops };
		if (!ops->recognise(f, str_cstr(m->path), all->tables, out)) {
			if (out->unknown_version)
				tell_unknown_version(all, m, out);
			continue;
		}
		if (!ops->no_loop)
			unwind_store_set_interpreter(all->store, m->id, ops->step, out->loop,
						     out->cold);
		return true;
	}
	return false;
}

static struct executable *make_facts(const struct module *m, const struct elf_file *f)
{
	static uint64_t serial; /* the trace thread's */
	struct executable_segment segments[ELF_LOADS_MOST];
	uint8_t hash[ELF_HTLHASH_BYTES];
	char build_id[2 * ELF_BUILD_ID_MOST + 1], htlhash[2 * ELF_HTLHASH_BYTES + 1];
	struct bytes id = elf_file_build_id(f);
	struct runtime_binary runtime;
	const uint64_t page = 4096;
	struct executable e = {
		.id = ++serial << EXECUTABLE_BPF_ID_BITS | m->id,
		.filename = base_name(m->path),
		.build_id_go = elf_file_go_build_id(f),
		.segments = segments,
		.go = elf_file_is_go(f),
	};
	struct elf_segment s;

	if (recognise(m, f, &runtime)) {
		e.runtime_step = runtime.ops->step;
		e.runtime = runtime.facts;
		e.runtime_bytes = (uint32_t)runtime.facts_bytes;
	}
	elf_file_htlhash(f, hash);
	e.htlhash = to_hex(htlhash, hash, sizeof(hash));
	e.build_id_gnu =
		to_hex(build_id, id.ptr, id.len < ELF_BUILD_ID_MOST ? id.len : ELF_BUILD_ID_MOST);
	for (uint32_t i = 0; i < elf_file_segment_count(f) && e.segment_count < ELF_LOADS_MOST;
	     i++) {
		if (!elf_file_segment(f, i, &s) || s.type != PT_LOAD || !(s.flags & PF_X))
			continue;
		segments[e.segment_count++] = (struct executable_segment){
			.vaddr_start = s.vaddr & ~(page - 1),
			.vaddr_limit = (s.vaddr + s.memory_bytes + page - 1) & ~(page - 1),
			.file_offset = s.file_offset & ~(page - 1),
		};
	}
	return executable_new(&e);
}

/* A module of the same build that is ready, or NULL. Its file may have been written over: what it
 * was is in its facts. */
static struct module *find_build(const struct modules *all, const struct elf_file *f)
{
	struct bytes id = elf_file_build_id(f);
	char text[2 * ELF_BUILD_ID_MOST + 1];
	struct str hex;

	if (!id.len || id.len > ELF_BUILD_ID_MOST)
		return NULL;
	hex = to_hex(text, id.ptr, id.len);
	for (uint32_t i = 1; i < all->store->executable_count; i++) {
		struct module *o = all->by_id[i];

		if (o && str_equal(o->facts->build_id_gnu, hex) && is_unwritten(o))
			return o;
	}
	return NULL;
}

static void open_tables(struct module *m)
{
	struct unwind_store *store = m->owner->store;
	uint64_t first = 0, count = 0;
	struct err err;

	m->tables = unwind_tables_open(m->file, NULL, &err);
	if (m->tables)
		unwind_tables_pages(m->tables, &first, &count);
	if (count > TABLE_PAGES_MOST ||
	    !unwind_store_set_pages(store, m->id, first, (uint32_t)count)) {
		m->owner->pages_refused += count;
		unwind_store_set_pages(store, m->id, 0, 0);
	}
	if (m->tables && unwind_tables_tracks_rbx(m->tables))
		unwind_store_tracks_rbx(store, m->id);
}

static void make_ready(struct module *m, struct elf_file *f, int fd)
{
	struct modules *all = m->owner;
	struct module *same = find_build(all, f);

	m->stamp = file_stamp_of(fd);
	if (same) {
		m->same = same;
		module_ref(same);
		m->state = MODULE_READY;
		elf_file_free(f);
		if (file_stamp_same_file(&m->stamp, &same->stamp))
			close(fd);
		else
			m->fd = fd;
		return;
	}
	if (!unwind_store_take_executable(all->store, &m->id)) {
		elf_file_free(f);
		close(fd);
		m->state = MODULE_REFUSED;
		all->refused++;
		return;
	}
	m->file = f;
	m->fd = fd;
	m->same = m;
	m->facts = make_facts(m, f);
	all->by_id[m->id] = m;
	m->state = MODULE_READY;
	m->read = true;
	open_tables(m);
}

bool module_bias(const struct mapping *mapping, uint64_t *load_bias)
{
	const struct module *m = mapping->module;

	return m && m->state == MODULE_READY &&
	       elf_file_load_bias(m->same->file, mapping->start, mapping->file_offset, true,
				  load_bias);
}

void module_place(const struct mapping *mapping, struct unwind_mapping *to)
{
	const struct module *m = mapping->module;
	uint64_t bias = UNWIND_BIAS_UNKNOWN;
	uint32_t executable = 0;

	if (m && m->state == MODULE_NEW)
		executable = EXECUTABLE_NOT_OPENED;
	else if (module_bias(mapping, &bias))
		executable = m->same->id;
	/* BPF reads while we write: an executable only ever shows with a bias that is its own. */
	__atomic_store_n(&to->executable,
			 bias == UNWIND_BIAS_UNKNOWN ? executable : EXECUTABLE_NOT_OPENED,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&to->load_bias, bias, __ATOMIC_RELEASE);
	__atomic_store_n(&to->executable, executable, __ATOMIC_RELEASE);
}

/* What was found out about m, into all mappings that BPF has already. */
static void place_everywhere(const struct module *m)
{
	const struct modules *all = m->owner;

	for (const struct mapping_set *s = all->sets->first; s; s = s->next) {
		if (!s->run_count || s->stale)
			continue;
		for (uint32_t i = 0; i < s->count; i++)
			if (s->list[i].module == m)
				module_place(&s->list[i], &all->store->mappings[s->run_first + i]);
	}
}

bool module_load(struct module *m, uint32_t pid, const struct mapping *mapping)
{
	struct elf_file *f;
	struct err err;
	int fd;

	if (m->state != MODULE_NEW)
		return m->state == MODULE_READY;
	f = open_elf(m, pid, mapping, &fd, &err);
	if (f) {
		m->owner->opened++;
		make_ready(m, f, fd);
	} else {
		m->owner->refused++;
		m->state = MODULE_REFUSED;
	}
	place_everywhere(m);
	return m->state == MODULE_READY;
}

/* Room for rows: the executable that was walked through longest ago gives up its own. */
static void evict_oldest(struct modules *all, const struct module *but)
{
	struct unwind_store *store = all->store;
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < store->executable_count; i++) {
		if (!all->by_id[i] || all->by_id[i] == but)
			continue;
		if (!oldest || store->executables[i].used < store->executables[oldest].used)
			oldest = i;
	}
	if (oldest && unwind_store_evict(store, oldest))
		all->evicted++;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

bool module_build(struct module *m, uint64_t elf_vaddr)
{
	struct modules *all = m->owner;
	struct unwind_page *page;
	uint64_t since;
	uint32_t count = 0;
	enum unwind_build result;
	struct err err;

	if (m->state != MODULE_READY)
		return false;
	m = m->same;
	page = unwind_store_page(all->store, m->id, elf_vaddr >> UNWIND_PAGE_SHIFT);
	if (!page || !m->tables)
		return false;
	if (page->state != UNWIND_PAGE_ABSENT)
		return true;
	m->read = true;
	since = thread_cpu_ns();
	result = unwind_tables_build_page(m->tables, elf_vaddr >> UNWIND_PAGE_SHIFT,
					  &all->store->rules, all->scratch, UNWIND_BLOCK_ROWS,
					  &count);
	all->build_ns += thread_cpu_ns() - since;
	if (result == UNWIND_BUILD_ROWS) {
		if (!unwind_store_put_rows(all->store, page, all->scratch, count, &err)) {
			all->pages_refused++;
			evict_oldest(all, m);
			return false;
		}
		all->built++;
		return true;
	}
	unwind_store_put_empty(page);
	all->empty++;
	return true;
}

bool module_open_again(const struct module *m, int *fd, struct err *err)
{
	if (m->same->fd < 0)
		return err_set(err, ERR_NOT_FOUND, "%s has no file", m->path);
	if (!is_unwritten(m->same))
		return err_set(err, ERR_NOT_FOUND, "%s was written over since it was opened",
			       m->path);
	*fd = fcntl(m->same->fd, F_DUPFD_CLOEXEC, 3);
	return *fd >= 0 || err_set_errno(err, "another descriptor of %s", m->path);
}
