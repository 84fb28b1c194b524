/*
 * Python stacks of every CPython from 3.6 to 3.13 that is at hand (pyenv's and the system's; the
 * others skip aloud), of a program whose stack is known (tests/support/known_stack.py): walked by
 * the twin while the program is stopped at many places, which needs no privileges, and by the agent
 * on the running kernel, which needs the agent's capabilities. Functions, files and lines must be
 * right, and native frames must lie where C code calls back into Python.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/naming.h"
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/runtimes/attach.h"
#include "agent/runtimes/cpython/cpython.h"
#include "agent/runtimes/cpython/names.h"
#include "agent/unwind/twin.h"
#include "base/clock.h"
#include "base/cleanup.h"

#ifdef __x86_64__
#include "agent/kernel_test.h"

enum {
	MINOR_FIRST = 6,
	MINOR_LAST = 13,
	INTERPRETERS_MOST = 12,
	RUNS_MOST = 5 * INTERPRETERS_MOST,
	DEPTH_MOST = 1000,
	STOPS = 25,
	RATE_HZ = 397,
	SAMPLES_ENOUGH = 50,
	FIRST_WRONG = 3,
	HANG_GUARD_S = 180,
};

static const char script[] = "tests/support/known_stack.py";

/* ---- the interpreters ---- */

static struct interpreter {
	char path[PATH_MAX];
	uint32_t minor;
	bool has_testcapi; /* which can run an interpreter within this one */
} interpreters[INTERPRETERS_MOST];
static uint32_t interpreter_count;

static void add_interpreter(const char *path)
{
	char command[PATH_MAX + 100];
	unsigned minor = 0, has_testcapi = 0;
	FILE *f;

	snprintf(command, sizeof(command),
		 "'%s' -c 'import sys, zlib, importlib.util as u; print(sys.version_info[1], "
		 "int(u.find_spec(\"_testcapi\") is not None))' 2> /dev/null",
		 path);
	f = popen(command, "r");
	if (!f)
		return;
	if (fscanf(f, "%u %u", &minor, &has_testcapi) != 2)
		minor = 0;
	if (pclose(f) || minor < MINOR_FIRST || minor > MINOR_LAST ||
	    interpreter_count == INTERPRETERS_MOST)
		return;
	snprintf(interpreters[interpreter_count].path, PATH_MAX, "%s", path);
	interpreters[interpreter_count].has_testcapi = has_testcapi;
	interpreters[interpreter_count++].minor = minor;
}

static void find_interpreters(void)
{
	const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
	char pattern[PATH_MAX];
	glob_t found = { 0 };

	if (root)
		snprintf(pattern, sizeof(pattern), "%s/versions/3.*/bin/python", root);
	else
		snprintf(pattern, sizeof(pattern), "%s/.pyenv/versions/3.*/bin/python",
			 home ? home : "");
	if (glob(pattern, 0, NULL, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++)
			add_interpreter(found.gl_pathv[i]);
	globfree(&found);
	add_interpreter("/usr/bin/python3");
	for (uint32_t minor = MINOR_FIRST; minor <= MINOR_LAST; minor++) {
		bool there = false;

		for (uint32_t i = 0; i < interpreter_count; i++)
			there |= interpreters[i].minor == minor;
		if (!there)
			print_message("SKIPPED: CPython 3.%u is not at hand\n", minor);
	}
}

/* ---- the program, and what its stack must be ---- */

struct level {
	const char *function;
	uint32_t line, line2; /* line2: of a second possibility; 0: any */
	uint32_t times;
	bool native_above; /* C code called this one */
};

struct mode {
	const char *name;
	struct level levels[13]; /* leaf first */
};

/* clang-format off */
#define PLAIN                                                                                 \
	{ "leaf", 18, 19, 1, false }, { "<genexpr>", 32, 32, 1, true },                       \
	{ "key", 32, 32, 1, true }, { "run", 29, 29, 1, false },                              \
	{ "__init__", 26, 26, 1, false }, { "plain", 37, 37, 1, false },                      \
	{ "<module>", 92, 92, 1, true }
#define IN_THREAD                                                                             \
	{ "run", 0, 0, 1, false }, { "_bootstrap_inner", 0, 0, 1, false },                    \
	{ "_bootstrap", 0, 0, 1, true }
/* The script that an inner interpreter got, and who gave it. */
#define INNER     { "<module>", 0, 0, 1, true }
#define IN_SUB    INNER, { "sub", 70, 70, 1, false }, { "<module>", 92, 92, 1, true }
/* clang-format on */

static const struct mode plain = { "plain", { PLAIN } };
static const struct mode in_thread = { "thread", { { "crunch", 51, 51, 1, false }, IN_THREAD } };
static const struct mode in_sub = { "sub", { PLAIN, IN_SUB } };
static const struct mode zip_in_sub = { "subzip",
					{ { "crunch", 51, 51, 1, false },
					  { "zipped", 61, 61, 1, false },
					  { "<module>", 92, 92, 1, true },
					  IN_SUB } };
static const struct mode thread_in_sub = { "subthread", { PLAIN, INNER, IN_THREAD } };
/* Up to 3.10 each Python call is some native frames, too: 1,024 in all. */
static const struct mode deep = { "deep",
				  { { "leaf", 18, 19, 1, false },
				    { "dive", 41, 41, 151, false },
				    { "deep", 46, 46, 1, false },
				    { "<module>", 92, 92, 1, true } } };
static const struct mode deeper = { "deep",
				    { { "leaf", 18, 19, 1, false },
				      { "dive", 41, 41, 901, false },
				      { "deep", 46, 46, 1, false },
				      { "<module>", 92, 92, 1, true } } };

struct run {
	const struct interpreter *interpreter;
	const struct mode *mode;
	pid_t pid;
	int out; /* the program's standard output */
	bool begun;
	uint32_t samples, right, wrong, early;
	char example[1500];
};

static void start_program(struct run *r)
{
	int pipes[2];
	char depth[16];

	snprintf(depth, sizeof(depth), "%u", r->mode->levels[1].times - 1);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipes[1], STDOUT_FILENO);
		execl(r->interpreter->path, r->interpreter->path, script, r->mode->name, depth,
		      (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	r->out = pipes[0];
}

/* The program has come to where its stack is known. */
static void wait_ready(const struct run *r)
{
	char c = 0;

	while (c != '\n')
		assert_int_equal(read(r->out, &c, 1), 1);
}

static void end_program(struct run *r)
{
	if (r->pid > 0) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
		close(r->out);
	}
	r->pid = 0;
}

/* ---- a stack against what it must be ---- */

struct seen {
	char function[48];
	uint32_t line;
	bool native_above, ours;
};

struct stack {
	struct seen list[DEPTH_MOST + 8];
	uint32_t count;
	bool unnamed;
};

static struct str last_part(struct str name)
{
	while (str_find(name, '.') >= 0)
		name = str_skip(name, (size_t)str_find(name, '.') + 1);
	return name;
}

static void take_frame(struct stack *s, const struct trace_frame *f, struct process_info *process,
		       const struct namer *namer)
{
	struct frame_name name;
	struct seen *to;

	if (f->kind != FRAME_CPYTHON) {
		if (s->count && f->kind == FRAME_NATIVE)
			s->list[s->count - 1].native_above = true;
		return;
	}
	if (s->count == ARRAY_LEN(s->list))
		return;
	to = &s->list[s->count++];
	*to = (struct seen){ .line = 0 };
	if (namer->prepare)
		namer->prepare(namer->ctx, f, process);
	if (!namer->name(namer->ctx, f, process, &name) || name.fallback || !name.line_count) {
		s->unnamed = true;
		return;
	}
	snprintf(to->function, sizeof(to->function), "%.*s",
		 STR_ARG(last_part(name.lines[0].function)));
	to->line = name.lines[0].line;
	to->ours = str_has_suffix(name.lines[0].file, STR("known_stack.py"));
}

static bool is_level(const struct seen *s, const struct level *l)
{
	if (strcmp(s->function, l->function) != 0)
		return false;
	if (!l->line)
		return s->line > 0 && !s->ours;
	return s->ours && (s->line == l->line || s->line == l->line2);
}

static bool is_right(const struct mode *m, const struct stack *s)
{
	uint32_t at = 0;

	for (const struct level *l = m->levels; l->function; l++) {
		for (uint32_t i = 0; i < l->times; i++, at++) {
			if (at >= s->count || !is_level(&s->list[at], l))
				return false;
			if (l->native_above && i + 1 == l->times && !s->list[at].native_above)
				return false;
		}
	}
	return at == s->count;
}

static void keep_example(struct run *r, const struct stack *s, enum unwind_end end)
{
	size_t cap = sizeof(r->example);
	int n = snprintf(r->example, cap, "end %d, %u Python frames:", (int)end, s->count);

	for (uint32_t i = 0; i < s->count && (size_t)n + 60 < cap; i++)
		n += snprintf(r->example + n, cap - (size_t)n, " %s:%u%s", s->list[i].function,
			      s->list[i].line, s->list[i].native_above ? " +native" : "");
}

static void judge(struct run *r, const struct stack *s, enum unwind_end end)
{
	bool right = end == UNWIND_END_BOTTOM && !s->unnamed && is_right(r->mode, s);

	r->samples++;
	r->right += right;
	if (!right && !r->wrong++)
		keep_example(r, s, end);
}

/* ---- the twin over a stopped program ---- */

struct bench {
	struct seam *seam;
	struct unwind_store store;
	struct mapping_sets sets;
	struct modules modules;
	struct process_table table;
	struct filter *filter;
	struct runtime_tables *tables;
	struct twin *twin;
	struct runtime_memory memory;
	struct cpython_names *names;
	pid_t pid;
	int mem; /* /proc/PID/mem */
};

static bool read_stopped(void *ctx, uint64_t address, void *to, uint32_t bytes)
{
	const struct bench *b = ctx;

	return pread(b->mem, to, bytes, (off_t)address) == (ssize_t)bytes;
}

static bool read_for_names(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	const struct bench *b = ctx;

	return (pid_t)pid == b->pid && pread(b->mem, to, bytes, (off_t)address) == (ssize_t)bytes;
}

static void set_up_bench(struct bench *b)
{
	static const struct agent_filter everything;
	struct err err;

	memset(b, 0, sizeof(*b));
	b->seam = seam_local_new();
	assert_true(unwind_store_open_local(&b->store, 16 << 20, &err));
	b->sets = (struct mapping_sets){ .run_free = unwind_store_retire_run, .ctx = &b->store };
	modules_init(&b->modules, &b->store, b->seam, &b->sets);
	b->tables = runtime_tables_load(NULL, &err);
	assert_non_null(b->tables);
	b->modules.tables = b->tables;
	b->modules.steps = 1u << UNWIND_STEP_CPYTHON;
	b->filter = filter_new(&everything, &err);
	b->table = (struct process_table){ .seam = b->seam,
					   .store = &b->store,
					   .modules = &b->modules,
					   .sets = &b->sets,
					   .filter = b->filter };
	process_table_init(&b->table);
	b->twin = twin_new();
	b->memory = (struct runtime_memory){ .read = read_for_names, .ctx = b };
	b->names = cpython_names_new(&b->memory, 1 << 20);
}

static void tear_down_bench(struct bench *b)
{
	cpython_names_free(b->names);
	twin_free(b->twin);
	process_table_release(&b->table);
	modules_release(&b->modules);
	unwind_store_close(&b->store);
	runtime_tables_free(b->tables);
	filter_free(b->filter);
	seam_free(b->seam);
}

static bool mend(const struct process *p, uint64_t pc)
{
	const struct mapping *m = mapping_set_find(p->set, pc);
	uint64_t bias;

	if (!m || !m->module)
		return false;
	if (m->module->state == MODULE_NEW)
		return module_load(m->module, p->pid, m);
	return module_bias(m, &bias) && module_build(m->module, pc - bias);
}

static void walk_stopped(struct bench *b, struct process *p, struct run *r)
{
	const struct twin_memory memory = { read_stopped, b };
	const struct namer namer = cpython_names_namer(b->names);
	struct process_info info = { .pid = (uint32_t)r->pid, .start_unix_nano = 1 };
	struct user_regs_struct regs;
	struct unwind_cursor c = { .leaf_known = LEAF_ALL };
	struct stack *s = calloc(1, sizeof(*s));
	enum unwind_end end;
	const uint64_t *words;
	uint32_t count, mends = 0;

	assert_int_equal(ptrace(PTRACE_GETREGS, r->pid, NULL, &regs), 0);
	c.pc = regs.rip;
	c.sp = regs.rsp;
	c.fp = regs.rbp;
	c.tp = regs.fs_base;
	memcpy(c.leaf,
	       (const uint64_t[]){ regs.rax, regs.rcx, regs.rdx, regs.rbx, regs.rsi, regs.rdi,
				   regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13,
				   regs.r14, regs.r15 },
	       sizeof(c.leaf));
	/* In a system call the instruction before pc is what counts. */
	c.return_address = (int64_t)regs.orig_rax >= 0;
	/* From the start for each page that was missing: a walk goes on without runtimes. */
	do {
		twin_start(b->twin, &b->store, &memory, &c, p->set);
		twin_runtimes(b->twin, b->modules.steps, p->runtimes);
		end = twin_walk(b->twin);
	} while (end == UNWIND_END_NO_TABLE && mends++ < 300 &&
		 mend(p, twin_cursor(b->twin)->pc - twin_cursor(b->twin)->return_address));
	words = twin_words(b->twin, &count);
	for (uint32_t i = 0; i < count; i += 1 + (words[i] >> 16 & 0xff)) {
		const struct module *m = modules_by_id(&b->modules, (uint32_t)(words[i] >> 32));
		struct trace_frame f = { .kind = (words[i] & 0xff) == FRAME_TAG_CPYTHON
							 ? FRAME_CPYTHON
							 : FRAME_NATIVE,
					 .executable = m ? m->facts : NULL,
					 .address = words[i + 1] };

		f.extra = f.kind == FRAME_CPYTHON ? words[i + 2] : 0;
		take_frame(s, &f, &info, &namer);
	}
	judge(r, s, end);
	free(s);
}

/* In 3.6 no thread is current while the one that there is has let go of the GIL, as it has in
 * the write that wait_ready() waits for: then it is too early, and we are to ask again. */
static void attach_at_last(struct bench *b, struct process *p, const struct run *r)
{
	uint64_t give_up = clock_monotonic_ns() + HANG_GUARD_S * SECOND_NS;

	runtimes_attach(&b->table, p, clock_monotonic_ns());
	while (!p->runtimes[0] && clock_monotonic_ns() < give_up) {
		usleep(5000);
		runtimes_attach(&b->table, p, clock_monotonic_ns());
	}
	if (!p->runtimes[0])
		fail_msg("%s: no runtime was found in the process", r->interpreter->path);
}

static void stop_and_walk(struct bench *b, struct run *r)
{
	const struct sample_record sample = { .pid = (uint32_t)r->pid, .tid = (uint32_t)r->pid };
	struct process *p;
	char path[64];
	int status;

	b->pid = r->pid;
	snprintf(path, sizeof(path), "/proc/%d/mem", r->pid);
	assert_int_equal(ptrace(PTRACE_SEIZE, r->pid, NULL, NULL), 0);
	b->mem = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(b->mem >= 0);
	p = process_table_get(&b->table, &sample);
	assert_non_null(p);
	attach_at_last(b, p, r);
	for (int i = 0; i < STOPS; i++) {
		usleep(1500); /* to be somewhere else each time */
		assert_int_equal(ptrace(PTRACE_INTERRUPT, r->pid, NULL, NULL), 0);
		assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
		assert_true(WIFSTOPPED(status));
		walk_stopped(b, p, r);
		assert_int_equal(ptrace(PTRACE_CONT, r->pid, NULL, NULL), 0);
	}
	close(b->mem);
}

static bool has_mode(const struct interpreter *p, const struct mode *m)
{
	if (m == &thread_in_sub)
		return p->minor >= 8;
	if (m == &in_sub)
		return p->has_testcapi;
	/* 3.6 does not say which interpreters it has. */
	return m != &zip_in_sub || (p->has_testcapi && p->minor >= 7);
}

/* Modes in which the first thread is the one that runs. */
static void check_stopped(const struct mode *mode)
{
	struct bench b;
	uint32_t bad = 0;

	set_up_bench(&b);
	for (uint32_t i = 0; i < interpreter_count; i++) {
		struct run r = { .interpreter = &interpreters[i], .mode = mode };

		if (!has_mode(r.interpreter, mode))
			continue;
		start_program(&r);
		wait_ready(&r);
		stop_and_walk(&b, &r);
		end_program(&r);
		/* A stop while a frame is being made or unmade sees one more or one less. */
		if (r.right + 2 < r.samples) {
			bad++;
			print_error("%s, %s: %u of %u stacks are right; %s\n", r.interpreter->path,
				    mode->name, r.right, r.samples, r.example);
		}
	}
	tear_down_bench(&b);
	assert_int_equal(bad, 0);
}

static void test_stopped(void **state)
{
	(void)state;
	if (!interpreter_count)
		skip();
	check_stopped(&plain);
	check_stopped(&in_sub);
	check_stopped(&zip_in_sub);
}

/* ---- the agent ---- */

struct watcher {
	struct run runs[RUNS_MOST];
	uint32_t run_count;
	atomic_uint lacking;
	const struct namer *namer;
	struct stack stack;
};

static enum unwind_end end_of(const struct trace *t)
{
	const struct trace_frame *last = &t->frames[t->frame_count ? t->frame_count - 1 : 0];

	return t->frame_count && last->kind == FRAME_END ? (enum unwind_end)last->address
							 : UNWIND_END_BOTTOM;
}

/*
 * A walk that met code whose tables or mappings were not there yet: it ends there, or went on over
 * the copied stack, without the interpreter's memory, which is a lost runtime where that was only
 * guessed yet. On a machine that is so busy that we come late there are more of these than one
 * would wish; but they must become the smaller part.
 */
static bool too_early(const struct stack *s, enum unwind_end end)
{
	return end == UNWIND_END_UNKNOWN_PROCESS || end == UNWIND_END_STALE ||
	       end == UNWIND_END_NO_TABLE || end == UNWIND_END_NO_MAPPING ||
	       end == UNWIND_END_CAPTURE ||
	       (s->count == 0 && (end == UNWIND_END_BOTTOM || end == UNWIND_END_RUNTIME));
}

static void take_trace(void *ctx, const struct trace *t)
{
	struct watcher *w = ctx;
	struct run *r = NULL;

	for (uint32_t i = 0; i < w->run_count; i++)
		if ((uint32_t)w->runs[i].pid == t->pid)
			r = &w->runs[i];
	/* The maker of an inner interpreter runs for a moment after "ready", and waits. */
	if (!r || (r->mode == &thread_in_sub && t->tid == t->pid))
		return;
	w->stack.count = 0;
	w->stack.unnamed = false;
	for (uint32_t i = 0; i < t->frame_count; i++)
		take_frame(&w->stack, &t->frames[i], t->process, w->namer);
	/* Until it is there for the first time, the program starts, and is found out about. */
	if (!r->begun && end_of(t) == UNWIND_END_BOTTOM && is_right(r->mode, &w->stack))
		r->begun = true;
	if (!r->begun)
		return;
	if (too_early(&w->stack, end_of(t))) {
		r->early++;
		return;
	}
	judge(r, &w->stack, end_of(t));
	if (r->samples == SAMPLES_ENOUGH)
		w->lacking--;
}

static void add_runs(struct watcher *w)
{
	for (uint32_t i = 0; i < interpreter_count; i++) {
		const struct interpreter *p = &interpreters[i];
		bool ends = i == 0 || i + 1 == interpreter_count;

		w->runs[w->run_count++] = (struct run){ .interpreter = p, .mode = &plain };
		w->runs[w->run_count++] = (struct run){ .interpreter = p, .mode = &in_thread };
		if (i + 1 == interpreter_count && has_mode(p, &in_sub))
			w->runs[w->run_count++] = (struct run){ .interpreter = p, .mode = &in_sub };
		if (p->minor >= 9 && has_mode(p, &thread_in_sub))
			w->runs[w->run_count++] =
				(struct run){ .interpreter = p, .mode = &thread_in_sub };
		if (ends || p->minor == 10 || p->minor == 12)
			w->runs[w->run_count++] =
				(struct run){ .interpreter = p,
					      .mode = p->minor <= 10 ? &deep : &deeper };
	}
	w->lacking = w->run_count;
}

static void check_run(const struct run *r, uint32_t *bad)
{
	/* Up to 3.11 which state a thread runs is told by what the loop has on its stack, and what
	 * it calls may have saved that further away than is looked at. */
	uint64_t least = r->mode == &thread_in_sub && r->interpreter->minor <= 11 ? 80 : 99;

	if (r->samples >= SAMPLES_ENOUGH && r->early <= r->samples &&
	    (r->wrong <= FIRST_WRONG || r->right * 100ull >= r->samples * least))
		return;
	++*bad;
	print_error("%s %s: %u samples, %u right, %u too early; %s\n", r->interpreter->path,
		    r->mode->name, r->samples, r->right, r->early, r->example);
}

static void test_sampled(void **state)
{
	const struct agent_options options = { .sampling = { .samples_per_second = RATE_HZ,
							     .captures_per_second = 10 * RATE_HZ,
							     .ring_bytes = 16 << 20,
							     .steps = 1u << UNWIND_STEP_CPYTHON },
					       .frames_of_ends = true,
					       .poll_ns = 20 * MILLI_NS };
	struct watcher *w = calloc(1, sizeof(*w));
	const struct trace_sink sink = { take_trace, w };
	struct naming *naming = naming_new(&(struct naming_options){ .symbol_memory_bytes = 0 });
	struct seam *seam = seam_local_new();
	uint64_t give_up = clock_monotonic_ns() + HANG_GUARD_S * SECOND_NS;
	const char *why_not = no_kernel_for_tests();
	uint32_t bad = 0;
	struct agent *a;
	struct err err;

	(void)state;
	w->namer = naming_namer(naming);
	if (interpreter_count && !why_not) {
		add_runs(w);
		for (uint32_t i = 0; i < w->run_count; i++)
			start_program(&w->runs[i]);
	}
	a = w->run_count ? agent_start(&options, seam, &sink, &err) : NULL;
	if (!a) {
		print_message("SKIPPED: the agent over CPython: %s\n",
			      !interpreter_count ? "no interpreter at hand"
			      : why_not          ? why_not
						 : err.msg);
		if (w->run_count && err.kind != ERR_PERMISSION)
			fail_msg("agent_start: %s", err.msg);
	} else {
		naming_bind(naming, a, seam);
		while (w->lacking && clock_monotonic_ns() < give_up)
			usleep(50000);
		naming_bind(naming, NULL, NULL);
	}
	if (a)
		agent_stop(a); /* its thread looks at the runs */
	for (uint32_t i = 0; i < w->run_count; i++)
		end_program(&w->runs[i]);
	agent_free(a);
	seam_free(seam);
	naming_free(naming);
	for (uint32_t i = 0; a && i < w->run_count; i++)
		check_run(&w->runs[i], &bad);
	free(w);
	assert_int_equal(bad, 0);
	if (!a)
		skip();
}

static int set_up(void **state)
{
	(void)state;
	find_interpreters();
	if (!interpreter_count)
		print_message("SKIPPED: no CPython is at hand\n");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_sampled),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}

#else

int main(void)
{
	printf("SKIPPED: written for x86-64's registers\n");
	return 0;
}

#endif
