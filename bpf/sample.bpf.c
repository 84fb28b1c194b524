/*
 * sample.bpf.c - on-CPU samples: a cpu-clock perf event per CPU runs sample_on_cpu(), which takes
 * the kernel stack, and goes on as the walker of the process, which walks the user stack (unwind.h)
 * and sends one record. A walker is walk() with the steps of the runtimes that it knows.
 *
 * Filters come first. The record is made in a per-CPU scratch value, since a program has 512 bytes
 * of stack; only the part that is used goes into the ring. Where the walk meets code whose tables
 * or mappings user space has not written yet, it copies registers and stack for user space to go on
 * with (rate-limited), so that nothing is lost when a process is new.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "registers.h"
#include "records.h"
#include "in_cgroups.h"
#include "pid_namespace.h"
#include "portable.h"
#include "unwind_rows.h"

#define WAKE_PAUSE_NS 20000000 /* between wake-ups for news, per CPU */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* CPU -> records for user space. Size: -ring; the default holds 2 s of 1,000 Hz at 30 frames. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

/* pid -> its mappings and the filter's verdict. Written by the worker; 32 k processes at once. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, GROWING_HASH);
	__type(key, u32);
	__type(value, struct unwind_process);
	__uint(max_entries, 32768);
} processes SEC(".maps");

/* Runs of mappings, sorted by address; processes says which run. Written through mmap; 32 k
 * executable mappings are a thousand processes of a desktop: 1 MiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct unwind_mapping);
	__uint(max_entries, 32768);
} mappings SEC(".maps");

/* Executable id -> where its pages are. Written through mmap; BPF writes `used`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct unwind_executable);
	__uint(max_entries, 4096);
} executables SEC(".maps");

/* Page directories of executables, each contiguous. Written through mmap; 64 Ki pages are 4 GiB of
 * code: 512 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct unwind_page);
	__uint(max_entries, 65536);
} pages SEC(".maps");

/* The machine's distinct unwind rules. Written through mmap; row.rule has 16 bits, a desktop has
 * 5 k. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct unwind_rule);
	__uint(max_entries, 16384);
} rules SEC(".maps");

/* Groups of row blocks: the outer map grows on demand up to -unwind-memory. */
struct row_group {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(u32));
	__uint(value_size, UNWIND_BLOCK_ROWS * sizeof(struct unwind_row));
	__uint(max_entries, UNWIND_GROUP_BLOCKS);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_GROUPS_MAX);
	__type(key, u32);
	__array(values, struct row_group);
} row_groups SEC(".maps");

/* What the steps of language runtimes know of processes, as processes.runtimes names it. Written
 * through mmap; processes that need the same share one, and few need their own: 256 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct unwind_runtime);
	__uint(max_entries, 1024);
} runtimes SEC(".maps");

/* CPU and slot -> what is remembered of an address (unwind_known). BPF alone: 32 KiB per CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct unwind_known);
	__uint(max_entries, UNWIND_KNOWN_SLOTS); /* times CPUs: set before loading */
} known SEC(".maps");

/* The same for 4 KiB of code (unwind_known_page). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct unwind_known_page);
	__uint(max_entries, UNWIND_KNOWN_PAGES); /* times CPUs: set before loading */
} known_pages SEC(".maps");

/* CPU -> what was counted there. Read through mmap; the worker writes the versions. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct sample_counters);
	__uint(max_entries, 1); /* CPUs: set before loading */
} counters SEC(".maps");

/* enum unwind_walker -> the program walk() with its steps. Written by the sampler. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__type(key, u32);
	__type(value, u32);
	__uint(max_entries, UNWIND_WALKERS);
} walkers SEC(".maps");

static __always_inline bool env_read(struct unwind_cursor *c, void *to, u32 bytes, u64 address)
{
	(void)c;
	return bpf_probe_read_user(to, bytes, (const void *)address) == 0;
}

static __always_inline const struct unwind_mapping *env_mapping(struct unwind_cursor *c, u32 i)
{
	(void)c;
	return bpf_map_lookup_elem(&mappings, &i);
}

static __always_inline struct unwind_executable *env_executable(struct unwind_cursor *c, u32 i)
{
	(void)c;
	return bpf_map_lookup_elem(&executables, &i);
}

static __always_inline const struct unwind_page *env_page(struct unwind_cursor *c, u32 i)
{
	(void)c;
	return bpf_map_lookup_elem(&pages, &i);
}

static __always_inline const struct unwind_row *env_block(struct unwind_cursor *c, u32 block)
{
	u32 group = block / UNWIND_GROUP_BLOCKS, inside = block % UNWIND_GROUP_BLOCKS;
	void *inner = bpf_map_lookup_elem(&row_groups, &group);

	(void)c;
	return inner ? bpf_map_lookup_elem(inner, &inside) : NULL;
}

static __always_inline const struct unwind_rule *env_rule(struct unwind_cursor *c, u32 i)
{
	(void)c;
	return bpf_map_lookup_elem(&rules, &i);
}

static __always_inline const struct unwind_runtime *env_runtime(struct unwind_cursor *c, u32 i)
{
	(void)c;
	return bpf_map_lookup_elem(&runtimes, &i);
}

static __always_inline struct unwind_known *env_known(struct unwind_cursor *c, u32 slot)
{
	u32 i = bpf_get_smp_processor_id() * UNWIND_KNOWN_SLOTS + slot;

	(void)c;
	return bpf_map_lookup_elem(&known, &i);
}

static __always_inline struct unwind_known_page *env_known_page(struct unwind_cursor *c, u32 slot)
{
	u32 i = bpf_get_smp_processor_id() * UNWIND_KNOWN_PAGES + slot;

	(void)c;
	return bpf_map_lookup_elem(&known_pages, &i);
}

int stack_miss(u64 at);

static __always_inline bool env_stack_miss(struct unwind_cursor *c, u64 at)
{
	(void)c;
	return stack_miss(at);
}

static __always_inline u32 env_steps(struct unwind_cursor *c)
{
	(void)c;
	return options.steps_enabled;
}

#define UNWIND_INLINE static __always_inline
#include "unwind.h"
#include "ahead_cpython.h"
#include "go_labels.h"

/* What the last processes were, by pid: a look-up in `processes` touches five cold cache lines. */
enum { RECENT_PROCESSES = PROCESSES_VERSIONS };
struct recent_process {
	u32 version; /* sample_counters.processes_version */
	u32 pid;     /* 0: none */
	struct unwind_process process;
};

/* The one scratch of this program: perf events of one CPU do not interrupt each other. */
struct scratch {
	u64 woken_ns;       /* when the reader was last woken for news */
	u64 capture_window; /* second of the token bucket */
	u32 captures_left;
	u32 took;            /* by the record that was sent last, as in sample_record */
	u32 unlooked;        /* bytes sent since the last look at how full the ring is */
	struct pt_regs user; /* of a task that was interrupted in the kernel */
	struct recent_process recent[RECENT_PROCESSES];
	struct unwind_walk walk;
};
_Static_assert(sizeof(struct scratch) <= 32768, "a per-CPU value is at most 32 KiB");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch_get(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}

/* Global: the verifier looks at it once, not once per call. */
__noinline int stack_miss(u64 at)
{
	struct scratch *s = scratch_get();

	return s ? unwind_stack_miss(&s->walk, at) : 0;
}

/* A step is a function of its own: the verifier looks at it once per call, with its own stack. */
static __noinline int step_native(void)
{
	struct scratch *s = scratch_get();

	return s ? unwind_native_looked_up(&s->walk) : UNWIND_STOPPED;
}

static __noinline int step_cpython(void)
{
	struct scratch *s = scratch_get();

	return s ? unwind_cpython(&s->walk) : UNWIND_STOPPED;
}

static __noinline int step_cpython_ahead(void)
{
	struct scratch *s = scratch_get();

	return s ? unwind_cpython_ahead(&s->walk) : UNWIND_STOPPED;
}

static __noinline int step_hotspot(void)
{
	struct scratch *s = scratch_get();

	return s ? unwind_hotspot(&s->walk) : UNWIND_STOPPED;
}

static __noinline int step_php(void)
{
	struct scratch *s = scratch_get();

	return s ? unwind_php(&s->walk) : UNWIND_STOPPED;
}

static __noinline int step_pcre(void)
{
	struct scratch *s = scratch_get();

	return s ? unwind_pcre(&s->walk) : UNWIND_STOPPED;
}

static __noinline int step_ruby(void)
{
	struct scratch *s = scratch_get();

	return s ? unwind_ruby(&s->walk) : UNWIND_STOPPED;
}

static __noinline int step_v8(void)
{
	struct scratch *s = scratch_get();

	return s ? unwind_v8(&s->walk) : UNWIND_STOPPED;
}

/* Runs for each frame. State is in the scratch: what lies on the stack here doubles the verifier's
 * work. */
STEP(walk_step)
{
	struct scratch *s = scratch_get();
	int result;

	if (!s)
		return 1;
	if (options.steps_enabled & 1u << UNWIND_STEP_CPYTHON &&
	    s->walk.cursor.step == UNWIND_STEP_CPYTHON)
		result = step_cpython();
	else if (options.steps_enabled & 1u << UNWIND_STEP_HOTSPOT &&
		 s->walk.cursor.step == UNWIND_STEP_HOTSPOT)
		result = step_hotspot();
	else if (options.steps_enabled & 1u << UNWIND_STEP_PHP &&
		 s->walk.cursor.step == UNWIND_STEP_PHP)
		result = step_php();
	else if (options.steps_enabled & 1u << UNWIND_STEP_PCRE &&
		 s->walk.cursor.step == UNWIND_STEP_PCRE)
		result = step_pcre();
	else if (options.steps_enabled & 1u << UNWIND_STEP_RUBY &&
		 s->walk.cursor.step == UNWIND_STEP_RUBY)
		result = step_ruby();
	else if (options.steps_enabled & 1u << UNWIND_STEP_V8 &&
		 s->walk.cursor.step == UNWIND_STEP_V8)
		result = step_v8();
	else
		result = unwind_native_known(&s->walk);
	if (result == UNWIND_NOT_KNOWN)
		result = step_native();
	return result == UNWIND_AGAIN ? 0 : 1;
}

STEP(ahead_step)
{
	return step_cpython_ahead() == UNWIND_AGAIN ? 0 : 1;
}

/* The stack was copied; what CPython's frames are can be read now or never. */
static __always_inline void read_ahead(struct unwind_walk *w)
{
	u32 frames = w->cursor.frame_count;

	if (!(options.steps_enabled & 1u << UNWIND_STEP_CPYTHON))
		return;
	w->cpython.ahead = w->cpython.ahead_tried = 0;
	w->cpython.window_bytes = 0;
	REPEAT(UNWIND_STEPS_MAX, ahead_step);
	w->cursor.frame_count = frames;
}

static __always_inline bool cursor_fits(struct unwind_walk *w, bool compat, bool user)
{
	if (compat) {
		w->end = UNWIND_END_COMPAT;
		return false;
	}
	if (!user) { /* no user mode below: a kernel thread that exec()s, or one just forked */
		w->end = UNWIND_END_KERNEL_ONLY;
		return false;
	}
	return true;
}

/* The user registers at the moment of the sample. False: the process is not ours to walk, and
 * walk.end says why. */
static __always_inline bool cursor_init(struct scratch *s, struct bpf_perf_event_data *ctx,
					struct task_struct *task)
{
	struct unwind_walk *w = &s->walk;
	struct unwind_cursor *c = &w->cursor;
	struct pt_regs *r = &s->user;

	c->frame_count = 0;
	c->return_address = 0;
	c->pushed = UNWIND_FRAME_NEW;
	c->step = UNWIND_STEP_NATIVE;
	c->leaf_known = 1;
	c->tp = THREAD_POINTER(task);
	if (REGISTERS_USER(&ctx->regs)) {
		w->record.flags |= SAMPLE_USER_MODE;
		REGISTERS_TAKE(c, &ctx->regs);
		return cursor_fits(w, REGISTERS_COMPAT(&ctx->regs), true);
	}
	if (bpf_probe_read_kernel(r, sizeof(*r), task_user_registers(task))) {
		w->end = UNWIND_END_UNREADABLE;
		return false;
	}
	REGISTERS_TAKE(c, r);
	/* Behind a syscall instruction: the function may end there. */
	c->return_address = REGISTERS_IN_SYSCALL(r);
	return cursor_fits(w, REGISTERS_COMPAT(r), REGISTERS_USER(r));
}

/* Ends that user space may be able to go on from, once it has tables or mappings. */
static __always_inline bool worth_capturing(u32 end)
{
	return end == UNWIND_END_NO_TABLE || end == UNWIND_END_NO_MAPPING ||
	       end == UNWIND_END_UNKNOWN_PROCESS || end == UNWIND_END_STALE;
}

/* A stack on its way into the ring: most are a few KiB, so room is taken when the size is known. */
struct capture {
	struct stack_record record;
	u8 stack[UNWIND_CAPTURE_MAX];
};
_Static_assert(sizeof(struct capture) <= 32768, "a per-CPU value is at most 32 KiB");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct capture);
	__uint(max_entries, 1);
} captures SEC(".maps");

/* Copies what the walk needs to go on in user space: the cursor and the stack above it. */
static __always_inline bool capture(struct scratch *s, struct sample_counters *count,
				    struct task_struct *task, u64 now, u32 cpu)
{
	u32 zero = 0, bytes;
	struct capture *r = bpf_map_lookup_elem(&captures, &zero);
	struct mm_struct *mm = KERNEL_FIELD(task, mm);
	u64 second = now >> 30, sp = s->walk.cursor.sp, start;
	u32 limit = options.capture_bytes;

	if (!r)
		return false;
	/* Above a main thread's entry lie only arguments and environment. */
	start = KERNEL_FIELD(mm, start_stack);
	if (start > sp && start - sp < limit)
		limit = (start - sp + 31) & ~31u;
	if (s->capture_window != second) {
		s->capture_window = second;
		s->captures_left = options.captures_per_second;
	}
	if (!s->captures_left) {
		count->capture_limit++;
		return false;
	}
	/* Half of the ring is for samples alone: a stack less is better than a sample less. */
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > options.ring_wake_bytes) {
		count->capture_ring++;
		return false;
	}
	s->captures_left--;
	/* A read fails as a whole where the stack ends: piece by piece, each half of the one
	 * before, up to the last 32 bytes. The count lives in a map, where the verifier knows no
	 * value of it: else it would follow each of the 2^11 ways through this loop. */
	r->record.bytes = 0;
#pragma unroll
	for (u32 piece = 16384; piece >= 32; piece >>= 1) {
		u32 at = r->record.bytes;

		if (at + piece > limit)
			continue;
		/* A sum of larger pieces: nothing but what the verifier wants to see. */
		asm volatile("" : "+r"(at));
		at &= 32767 & ~(2 * piece - 1);
		if (at <= UNWIND_CAPTURE_MAX - piece &&
		    bpf_probe_read_user(r->stack + at, piece, (void *)(sp + at)) == 0)
			r->record.bytes = at + piece;
	}
	r->record.kind = RECORD_STACK;
	r->record.cpu = cpu;
	r->record.cursor = s->walk.cursor;
	bytes = r->record.bytes;
	if (bytes > UNWIND_CAPTURE_MAX)
		bytes = UNWIND_CAPTURE_MAX;
	if (bpf_ringbuf_output(&ring, r, sizeof(r->record) + bytes, BPF_RB_NO_WAKEUP)) {
		count->capture_ring++;
		return false;
	}
	count->captured++;
	return true;
}

/* Labels on their way into the ring: their number is known when they are copied. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct go_labels);
	__uint(max_entries, 1);
} labels SEC(".maps");

STEP(labels_step)
{
	struct scratch *s = scratch_get();
	u32 zero = 0;
	struct go_labels *l = bpf_map_lookup_elem(&labels, &zero);

	return s && l && go_labels_step(l, &s->walk.cursor) ? 0 : 1;
}

/* Sends the labels of the goroutine that the current thread runs, before its sample. */
static __noinline int send_labels(void)
{
	struct scratch *s = scratch_get();
	u32 zero = 0, bytes;
	struct go_labels *l = bpf_map_lookup_elem(&labels, &zero);
	const struct unwind_runtime *r;
	enum go_labels_found found;

	if (!s || !l)
		return 0;
	r = unwind_runtime_of(&s->walk, UNWIND_STEP_GO);
	if (!r)
		return 0;
	found = go_labels_begin(l, &s->walk.cursor, &r->go);
	if (found == GO_LABELS_UNREADABLE)
		s->walk.record.flags |= SAMPLE_LABELS_UNREADABLE;
	if (found != GO_LABELS_SOME)
		return 0;
	REPEAT(GO_LABELS_STEPS_MOST, labels_step);
	l->record.kind = RECORD_LABELS;
	l->record.cpu = s->walk.record.cpu;
	bytes = l->record.bytes;
	if (bytes > LABELS_ROOM)
		bytes = LABELS_ROOM;
	if (bpf_ringbuf_output(&ring, &l->record, sizeof(l->record) + bytes, BPF_RB_NO_WAKEUP))
		s->walk.record.flags |= SAMPLE_LABELS_RING;
	else
		s->walk.record.flags |= SAMPLE_LABELS;
	return 0;
}

static __always_inline void send(struct scratch *s, struct sample_counters *count)
{
	struct sample_record *r = &s->walk.record;
	u32 words = s->walk.word_count;
	u64 flags = BPF_RB_NO_WAKEUP;

	if (words > UNWIND_WORDS_MAX)
		words = UNWIND_WORDS_MAX;
	/* Wake the reader when room gets scarce; and, but not too often, when it has something to
	 * tell us: each sample of a process that we do not know costs a copied stack. */
	s->unlooked += sizeof(*r) + words * 8;
	if (s->unlooked >= options.ring_look_bytes) {
		s->unlooked = 0;
		if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > options.ring_wake_bytes)
			flags = BPF_RB_FORCE_WAKEUP;
	}
	if (flags == BPF_RB_FORCE_WAKEUP) {
		s->woken_ns = r->time_ns;
	} else if (worth_capturing(r->end) && r->time_ns - s->woken_ns > WAKE_PAUSE_NS) {
		s->woken_ns = r->time_ns;
		flags = BPF_RB_FORCE_WAKEUP;
	}
	if (bpf_ringbuf_output(&ring, r, sizeof(*r) + words * 8, flags)) {
		count->dropped_ring++;
		s->took = 0;
		return;
	}
	count->sampled++;
	s->took = 1; /* and is known at the end */
}

/* What a walk of the current task begins with. False: nothing is known yet to walk by, and walk.end
 * says why. */
static __always_inline bool begin_walk(struct unwind_walk *w, const struct unwind_process *p)
{
	unwind_begin(w);
#pragma unroll
	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++)
		w->runtimes[i] = 0;
	if (!p) {
		w->end = UNWIND_END_UNKNOWN_PROCESS;
		w->record.flags |= SAMPLE_UNKNOWN;
		return false;
	}
	w->record.image = p->image;
	if (p->flags & PROCESS_EXEC_ID && p->exec_id != w->record.exec_id) {
		w->end = UNWIND_END_STALE;
		return false;
	}
	w->first_mapping = p->first_mapping;
	w->mapping_count = p->mapping_count;
#pragma unroll
	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++)
		w->runtimes[i] = p->runtimes[i];
	if (options.steps_enabled & 1u << UNWIND_STEP_GO && p->flags & PROCESS_LABELS)
		send_labels(); /* before the walk moves the cursor */
	return true;
}

static __always_inline void take_comm(struct sample_record *r, struct task_struct *task)
{
#ifdef BOUNDED_LOOPS
	(void)task;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
#else
	/* Without the helper's call: a task's own fields may be read directly. */
	const u64 *from = (const u64 *)(const void *)task->comm;
	u64 *to = (u64 *)(void *)r->comm;

	to[0] = from[0];
	to[1] = from[1];
#endif
	r->comm[15] = 0; /* it may be being changed */
}

/* The walk has ended: copies the stack where that helps, and sends the record. */
static __always_inline void finish(struct scratch *s, struct sample_counters *count,
				   struct task_struct *task)
{
	struct unwind_walk *w = &s->walk;
	struct sample_record *r = &w->record;
	u64 took;

	if (worth_capturing(w->end)) {
		if (capture(s, count, task, r->time_ns, r->cpu)) {
			r->flags |= SAMPLE_STACK;
			read_ahead(w);
		} else if (!w->cursor.frame_count) { /* user space knows at least where that is */
			unwind_push(w, FRAME_TAG_PC, 0, w->cursor.pc);
		}
	}
	r->word_count = w->word_count - r->kernel_count;
	r->frame_count = w->cursor.frame_count;
	r->end = w->end;
	count->frames += r->frame_count;
	if (w->end < UNWIND_END_COUNT)
		count->ended[w->end]++;
	send(s, count);
	took = bpf_ktime_get_ns() - r->time_ns;
	count->time_ns += took;
	took /= SAMPLE_TOOK_NS;
	if (s->took)
		s->took = took > 0xffff ? 0xffff : took;
}

/* The record's head and the kernel's stack. */
static __always_inline void begin_record(struct bpf_perf_event_data *ctx, struct scratch *s,
					 const struct sample_counters *count,
					 struct task_struct *task, u32 pid, u32 tid, u64 now)
{
	struct unwind_walk *w = &s->walk;
	struct sample_record *r = &w->record;
	struct task_struct *leader = KERNEL_FIELD(task, group_leader);
	long n;

	r->kind = RECORD_SAMPLE;
	r->flags = 0;
	r->cpu = bpf_get_smp_processor_id();
	r->took_before = (u16)s->took;
	r->time_ns = now;
	r->pid = pid;
	r->tid = tid;
	r->start_boottime_ns = KERNEL_FIELD(leader, start_boottime);
	r->image = 0;
	r->exec_id = (u32)KERNEL_FIELD(task, self_exec_id);
	r->kernel_count = 0;
	take_comm(r, task);
	w->word_count = 0;
	w->now = now >> 30;
	w->known_at = UNWIND_KNOWN_AT(w->now, count->tables_version);
	w->mapping.start = w->mapping.end = 0;
	w->cursor.frame_count = 0;
	if (!REGISTERS_USER(&ctx->regs)) {
		n = bpf_get_stack(ctx, w->words, UNWIND_KERNEL_FRAMES_MAX * 8, 0);
		if (n > 0)
			w->word_count = r->kernel_count = (u32)n >> 3;
	}
}

/* Is there a user stack to be walked or copied? Else walk.end says why not. */
static __always_inline bool has_user_stack(struct bpf_perf_event_data *ctx, struct scratch *s,
					   struct task_struct *task)
{
	struct unwind_walk *w = &s->walk;

	w->end = UNWIND_END_KERNEL_ONLY;
	if (!w->record.tid) {
		w->record.flags = SAMPLE_IDLE;
		return false;
	}
	if (KERNEL_FIELD(task, flags) & PF_KTHREAD) {
		w->record.flags = SAMPLE_KTHREAD;
		return false;
	}
	if (!KERNEL_FIELD(task, mm)) /* on its way out */
		return false;
	return cursor_init(s, ctx, task);
}

/* What is known of a process; NULL: nothing. */
static __always_inline const struct unwind_process *find_process(
	struct scratch *s, const struct sample_counters *count, u32 pid)
{
	struct recent_process *r = &s->recent[pid % RECENT_PROCESSES];
	u32 version = count->processes_version[pid % PROCESSES_VERSIONS];
	const struct unwind_process *p;

	if (r->pid == pid && r->version == version && pid)
		return &r->process;
	/* The version was read before: what is changed meanwhile is looked up again. */
	barrier();
	p = bpf_map_lookup_elem(&processes, &pid);
	if (!p)
		return NULL;
	r->process = *p;
	r->pid = pid;
	r->version = version;
	return &r->process;
}

SEC("perf_event")
int sample_on_cpu(struct bpf_perf_event_data *ctx)
{
	u32 cpu = bpf_get_smp_processor_id(), pid, tid;
	struct sample_counters *count = bpf_map_lookup_elem(&counters, &cpu);
	struct task_struct *task = current_task();
	struct scratch *s = scratch_get();
	const struct unwind_process *p;
	u64 now = bpf_ktime_get_ns();
	u32 walker;

	if (!s || !count)
		return 0;
	count->fired++;
	if (!KERNEL_FIELD(task, pid) && !options.send_idle) {
		count->idle++;
		return 0;
	}
	if (count->by_cgroup && !in_cgroups()) {
		count->filtered++;
		return 0;
	}
	if (!task_ids(task, &pid, &tid)) {
		count->dropped_ns++;
		return 0;
	}
	p = find_process(s, count, pid);
	if (p ? p->verdict == PROCESS_DROP : options.only_listed) {
		count->filtered++;
		return 0;
	}
	begin_record(ctx, s, count, task, pid, tid, now);
	if (has_user_stack(ctx, s, task)) {
		walker = begin_walk(&s->walk, p) ? p->walker : count->unknown_walker;
		bpf_tail_call(ctx, &walkers, walker);
		/* It is not loaded yet. */
		count->no_walker++;
		if (s->walk.end == UNWIND_END_DEPTH)
			s->walk.end = UNWIND_END_NO_TABLE;
	}
	finish(s, count, task);
	return 0;
}

/* A walker: loaded once for each set of steps (steps_enabled), and called by sample_on_cpu(). */
SEC("perf_event")
int walk(struct bpf_perf_event_data *ctx)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct sample_counters *count = bpf_map_lookup_elem(&counters, &cpu);
	struct scratch *s = scratch_get();

	(void)ctx;
	if (!s || !count)
		return 0;
	if (s->walk.end == UNWIND_END_DEPTH) { /* as it begins: nothing speaks against a walk */
		REPEAT(UNWIND_STEPS_MAX, walk_step);
		unwind_finish(&s->walk);
	}
	finish(s, count, current_task());
	return 0;
}
