#include "agent/symbolize/symbolizer.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/symbolize/debuginfod.h"
#include "agent/symbolize/kernel_notes.h"
#include "agent/symbolize/kernel_symbols.h"
#include "agent/symbolize/module_symbols.h"
#include "agent/symbolize/process_code.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum {
	MODULES_KEPT = 512, /* open files */
	PROCESSES_KEPT = 64,
	LINES_MOST = 64,
	BUCKETS = 256,
	MEMORY_DEFAULT = 8 << 20,
	NAMES_MOST = 1 << 20, /* bytes of one answer */
};
/* The kernel's symbols take 60 ms to read: not more often, whatever comes and goes. */
#define KERNEL_READ_INTERVAL_NS (30 * SECOND_NS)
#define FILE_IDLE_NS            (10 * 60 * SECOND_NS)
#define FILE_RESIDENT_NS        (10 * SECOND_NS) /* how long pages of files stay ours at most */

struct module_slot {
	struct module_symbols *module;
	struct module_slot *next; /* in the bucket */
	uint64_t used, used_ns;
};
struct process_slot {
	struct process_code *code;
	uint64_t used, report;
	bool whole; /* read to the end in this report */
};

struct symbolizer {
	struct symbolizer_options options;
	struct symbol_access access;
	int cache_folder;              /* -1: none */
	struct debuginfod *debuginfod; /* NULL: none */
	struct work_budget budget;
	uint64_t stamp, report;
	uint64_t now_ns;    /* when this report began */
	uint64_t swept_ns;  /* when idle files were last looked for */
	uint64_t let_go_ns; /* when pages of files were last let go */
	struct arena arena;
	struct buf scratch;
	struct name_line lines[LINES_MOST];

	struct kernel_symbols *kernel;
	bool kernel_tried;
	uint64_t kernel_read_ns;
	struct kernel_notes kernel_notes;
	atomic_bool kernel_changed;

	struct module_slot *buckets[BUCKETS];
	uint32_t module_count;
	struct process_slot processes[PROCESSES_KEPT];

	struct symbolizer_stats stats; /* the thread's own */
	pthread_mutex_t lock;
	struct symbolizer_stats shown; /* under lock */
};

/* ---- life ---- */

static struct debuginfod *start_debuginfod(const struct symbolizer *s)
{
	struct debuginfod_options o = debuginfod_environment();

	o.urls = s->options.debuginfod_urls;
	o.cache_folder = s->cache_folder;
	return debuginfod_new(&o);
}

struct symbolizer *symbolizer_new(const struct symbolizer_options *options,
				  const struct symbol_access *access)
{
	struct symbolizer *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	s->options = *options;
	s->access = *access;
	s->kernel_notes.open_path = access->open_path;
	s->kernel_notes.ctx = access->ctx;
	if (!s->options.kernel_read_interval_ns)
		s->options.kernel_read_interval_ns = KERNEL_READ_INTERVAL_NS;
	if (!s->options.memory_bytes)
		s->options.memory_bytes = MEMORY_DEFAULT;
	if (!s->options.file_idle_ns)
		s->options.file_idle_ns = FILE_IDLE_NS;
	s->now_ns = s->swept_ns = clock_monotonic_ns();
	s->cache_folder = -1;
	if (s->options.cache_dir && s->options.cache_dir[0])
		s->cache_folder = open(s->options.cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->debuginfod = start_debuginfod(s);
	arena_init(&s->arena, 4096, NAMES_MOST);
	buf_init(&s->scratch, NAMES_MOST);
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void symbolizer_kernel_changed(struct symbolizer *s)
{
	atomic_store(&s->kernel_changed, true);
}

void symbolizer_stats(struct symbolizer *s, struct symbolizer_stats *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->shown;
	pthread_mutex_unlock(&s->lock);
}

/* ---- memory ---- */

/* What a part took before a call and takes now. */
static void charge(struct symbolizer *s, size_t before, size_t after)
{
	s->stats.memory_bytes = s->stats.memory_bytes - before + after;
}

/* The one used longest ago that has something to give; `files`: that is open at all. */
static struct module_slot **oldest_module(struct symbolizer *s, uint64_t but, bool files)
{
	struct module_slot **oldest = NULL;

	for (int i = 0; i < BUCKETS; i++) {
		for (struct module_slot **at = &s->buckets[i]; *at; at = &(*at)->next) {
			if ((*at)->used == but || (!files && !module_symbols_bytes((*at)->module)))
				continue;
			if (!oldest || (*at)->used < (*oldest)->used)
				oldest = at;
		}
	}
	return oldest;
}

static void module_free(struct symbolizer *s, struct module_slot **at)
{
	struct module_slot *slot = *at;

	*at = slot->next;
	charge(s, module_symbols_bytes(slot->module), 0);
	module_symbols_free(slot->module);
	free(slot);
	s->module_count--;
}

static void evict(struct symbolizer *s)
{
	struct module_slot **oldest;

	while (s->stats.memory_bytes > s->options.memory_bytes &&
	       (oldest = oldest_module(s, s->stamp, false)) != NULL) {
		charge(s, module_symbols_bytes((*oldest)->module), 0);
		module_symbols_trim((*oldest)->module);
		s->stats.evicted++;
	}
	while (s->module_count > MODULES_KEPT &&
	       (oldest = oldest_module(s, s->stamp, true)) != NULL) {
		module_free(s, oldest);
		s->stats.evicted++;
	}
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	for (int i = 0; i < BUCKETS; i++) {
		while (s->buckets[i])
			module_free(s, &s->buckets[i]);
	}
	for (int i = 0; i < PROCESSES_KEPT; i++)
		process_code_free(s->processes[i].code);
	kernel_symbols_free(s->kernel);
	debuginfod_free(s->debuginfod);
	fd_close(&s->cache_folder);
	arena_release(&s->arena);
	buf_release(&s->scratch);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- kernel ---- */

static void kernel_read(struct symbolizer *s)
{
	uint64_t now = clock_monotonic_ns(), interval = s->options.kernel_read_interval_ns;
	struct err err;
	int fd;

	if (s->kernel_tried &&
	    (!atomic_load(&s->kernel_changed) || now - s->kernel_read_ns < interval))
		return;
	atomic_store(&s->kernel_changed, false);
	s->kernel_tried = true;
	s->kernel_read_ns = now;
	kernel_notes_forget(&s->kernel_notes);
	if (!s->access.open_kallsyms || !s->access.open_kallsyms(s->access.ctx, &fd, &err)) {
		snprintf(s->stats.kernel_problem, sizeof(s->stats.kernel_problem),
			 "/proc/kallsyms cannot be read: %.120s",
			 s->access.open_kallsyms ? err.msg : "no access");
		return;
	}
	if (!s->kernel)
		s->kernel = kernel_symbols_new(s->options.memory_bytes / 2);
	kernel_symbols_read(s->kernel, fd);
}

static void kernel_go_on(struct symbolizer *s)
{
	size_t before;

	if (!s->kernel)
		return;
	before = kernel_symbols_bytes(s->kernel);
	if (kernel_symbols_step(s->kernel, &s->budget)) {
		snprintf(s->stats.kernel_problem, sizeof(s->stats.kernel_problem), "%s",
			 kernel_symbols_problem(s->kernel));
		s->stats.kernel_symbols = kernel_symbols_count(s->kernel);
	}
	charge(s, before, kernel_symbols_bytes(s->kernel));
}

/* What the kernel itself has does not change: the list is read anew, after a change, for others. */
static bool find_kernel(struct symbolizer *s, uint64_t address, struct kernel_hit *hit)
{
	for (int round = 0; round < 2; round++) {
		if (round == 1 || !s->kernel_tried)
			kernel_read(s);
		kernel_go_on(s);
		if (s->kernel && kernel_symbols_find(s->kernel, address, hit) &&
		    (round == 1 || str_is(hit->module, "vmlinux")))
			return true;
	}
	return false;
}

static bool name_kernel(struct symbolizer *s, const struct trace_frame *frame,
			struct frame_name *out)
{
	struct kernel_hit hit;

	bool found = find_kernel(s, frame->address - frame->return_address, &hit);

	out->lines = s->lines;
	out->line_count = 1;
	if (!found) {
		/* Code may come there yet, unless the list has no addresses at all. */
		out->final = !s->kernel ||
			     (kernel_symbols_ready(s->kernel) && !kernel_symbols_count(s->kernel));
		out->fallback = true;
		s->lines[0] = (struct name_line){ .function = STR("[kernel]") };
		return true;
	}
	s->lines[0] = (struct name_line){ .function = hit.name };
	out->module = str_is(hit.module, "bpf") ? (struct str){ 0 } : hit.module;
	out->module_start = out->module.len ? hit.module_start : 0;
	out->module_build_id_gnu = kernel_notes_build_id(&s->kernel_notes, out->module);
	/* A module or BPF program may go, and another come to its place. */
	out->final = str_is(hit.module, "vmlinux");
	return true;
}

/* ---- files ---- */

static struct module_symbols *module_of(struct symbolizer *s, const struct executable *e)
{
	struct module_slot **bucket = &s->buckets[e->id % BUCKETS], *slot;

	for (slot = *bucket; slot; slot = slot->next) {
		if (module_symbols_id(slot->module) == e->id) {
			slot->used = ++s->stamp;
			slot->used_ns = s->now_ns;
			return slot->module;
		}
	}
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		abort();
	slot->module = module_symbols_new(e);
	slot->used = ++s->stamp;
	slot->used_ns = s->now_ns;
	slot->next = *bucket;
	*bucket = slot;
	s->module_count++;
	return slot->module;
}

static void name_place(struct symbolizer *s, const struct executable *e, uint64_t elf_vaddr,
		       struct frame_name *out)
{
	s->lines[0] = (struct name_line){ .function = str_printf(&s->arena, "%.*s+0x%llx",
								 STR_ARG(e->filename),
								 (unsigned long long)elf_vaddr) };
	out->lines = s->lines;
	out->line_count = 1;
	out->fallback = true;
}

static bool name_in_file(struct symbolizer *s, const struct trace_frame *frame,
			 const struct process_info *process, struct frame_name *out)
{
	struct module_context c = { .access = &s->access,
				    .options = &s->options,
				    .stats = &s->stats,
				    .budget = &s->budget,
				    .arena = &s->arena,
				    .scratch = &s->scratch,
				    .cache_folder = s->cache_folder,
				    .debuginfod = s->debuginfod,
				    .debuginfod_wait_ns = &s->options.debuginfod_wait_ns,
				    .pid = process ? process->pid : 0 };
	uint64_t elf_vaddr = frame->address - frame->return_address;
	struct module_symbols *m = module_of(s, frame->executable);
	size_t before = module_symbols_bytes(m);
	enum module_answer answer =
		module_symbols_name(m, &c, elf_vaddr, s->lines, LINES_MOST, &out->line_count);

	charge(s, before, module_symbols_bytes(m));
	out->lines = s->lines;
	out->final = answer == MODULE_NAMED || answer == MODULE_UNNAMED;
	if (!out->line_count)
		name_place(s, frame->executable, frame->address, out);
	evict(s);
	return true;
}

/* ---- code that a process made ---- */

static struct process_slot *process_of(struct symbolizer *s, const struct process_info *process)
{
	struct process_slot *oldest = &s->processes[0];

	for (int i = 0; i < PROCESSES_KEPT; i++) {
		struct process_slot *slot = &s->processes[i];

		if (slot->code &&
		    process_code_is(slot->code, process->pid, process->start_unix_nano))
			return slot;
		if (slot->used < oldest->used)
			oldest = slot;
	}
	if (oldest->code)
		charge(s, process_code_bytes(oldest->code), 0);
	process_code_free(oldest->code);
	*oldest = (struct process_slot){ .code = process_code_new(process->pid,
								  process->start_unix_nano,
								  s->options.memory_bytes / 4) };
	charge(s, 0, process_code_bytes(oldest->code));
	return oldest;
}

/* Never final: the runtime may put other code there, and tell of this one later. */
static bool name_made_code(struct symbolizer *s, const struct trace_frame *frame,
			   const struct process_info *process, struct frame_name *out)
{
	struct process_slot *slot;
	struct code_hit hit;
	size_t before;

	if (!process)
		return false;
	slot = process_of(s, process);
	slot->used = ++s->stamp;
	if (slot->report != s->report || !slot->whole) {
		before = process_code_bytes(slot->code);
		slot->whole = process_code_update(slot->code, &s->access, &s->budget);
		slot->report = s->report;
		charge(s, before, process_code_bytes(slot->code));
	}
	buf_reset(&s->scratch);
	if (!process_code_find(slot->code, frame->address - frame->return_address, &s->scratch,
			       &hit))
		return false;
	s->lines[0] = (struct name_line){ .function = str_dup(&s->arena, hit.name),
					  .file = str_dup(&s->arena, hit.file),
					  .line = hit.line };
	out->lines = s->lines;
	out->line_count = 1;
	return true;
}

/* ---- the namer ---- */

static void publish(struct symbolizer *s, const struct frame_name *out, bool named)
{
	struct debuginfod_stats fetched = { 0 };

	if (s->debuginfod)
		debuginfod_stats(s->debuginfod, &fetched);
	s->stats.fetched_files = fetched.fetched;
	s->stats.fetch_failures = fetched.failed;
	s->stats.asked++;
	s->stats.named += named && !out->fallback;
	s->stats.fallback += named && out->fallback;
	s->stats.later += s->budget.spent && !out->final;
	pthread_mutex_lock(&s->lock);
	s->shown = s->stats;
	pthread_mutex_unlock(&s->lock);
}

static bool name(void *ctx, const struct trace_frame *frame, struct process_info *process,
		 struct frame_name *out)
{
	struct symbolizer *s = ctx;
	bool named = false;

	memset(out, 0, sizeof(*out));
	arena_reset(&s->arena);
	switch (frame->kind) {
	case FRAME_KERNEL:
		named = name_kernel(s, frame, out);
		break;
	case FRAME_NATIVE:
	case FRAME_GO:
		if (frame->executable)
			named = name_in_file(s, frame, process, out);
		break;
	case FRAME_UNKNOWN:
		named = name_made_code(s, frame, process, out);
		break;
	default:
		break;
	}
	publish(s, out, named);
	return named;
}

/* A file that is mapped keeps what it takes on the disk, also once it is deleted: those of programs
 * that ended, and of images that went, are let go. */
static void close_idle(struct symbolizer *s)
{
	s->now_ns = clock_monotonic_ns();
	if (s->now_ns - s->swept_ns < s->options.file_idle_ns / 4)
		return;
	s->swept_ns = s->now_ns;
	for (int i = 0; i < BUCKETS; i++) {
		struct module_slot **at = &s->buckets[i];

		while (*at) {
			if (s->now_ns - (*at)->used_ns < s->options.file_idle_ns) {
				at = &(*at)->next;
				continue;
			}
			module_free(s, at);
		}
	}
}

static void let_go_of_files(struct symbolizer *s)
{
	if (s->now_ns - s->let_go_ns < FILE_RESIDENT_NS)
		return;
	for (int i = 0; i < BUCKETS; i++)
		for (struct module_slot *at = s->buckets[i]; at; at = at->next)
			if (at->used_ns >= s->let_go_ns)
				module_symbols_let_go(at->module);
	s->let_go_ns = s->now_ns;
}

static void begin(void *ctx, uint64_t budget_ns)
{
	struct symbolizer *s = ctx;

	s->report++;
	close_idle(s);
	let_go_of_files(s);
	s->budget = budget_ns ? work_budget_of(budget_ns) : (struct work_budget){ 0 };
}

struct namer symbolizer_namer(struct symbolizer *s)
{
	return (struct namer){ .name = name, .begin = begin, .ctx = s };
}
