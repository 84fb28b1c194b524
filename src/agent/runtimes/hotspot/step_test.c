/*
 * The HotSpot step on a stopped Java virtual machine, by the twin: a thread that runs a known chain
 * of methods is stepped instruction by instruction with ptrace, and at each stop its stack must be
 * whole and name that chain: interpreted, compiled by C1 and by C2, in entries, exits, calls and
 * stubs.
 *
 * JDKs: the one on the PATH, which also compiles the program, and those in FLAMETAP_JDKS (folders,
 * colon-separated). Without java, javac or ptrace: skipped, aloud.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "agent/agent.h"
#include "agent/runtimes/hotspot/names.h"
#include "agent/process/table.h"
#include "agent/runtimes/attach.h"
#include "agent/unwind/twin.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

#ifdef __x86_64__

enum { STEPS = 1500, STEPS_LONG = 40000, STOPS = 6, SHOWN_MOST = 3 };

static char work_dir[] = "/tmp/flametap-java-XXXXXX";

struct rig {
	struct seam *seam;
	struct unwind_store store;
	struct mapping_sets sets;
	struct modules modules;
	struct process_table table;
	struct filter *filter;
	struct twin *twin;
	struct process *process;
	struct process_info *info;
	struct hotspot_names *names;
	struct namer namer;
	pid_t pid, tid;
	bool traced;
	int memory;
	struct user_regs_struct regs;
	struct buf text;
	uint64_t checks, whole, leaves, wrong;
};

/* ---- the target ---- */

static bool read_process(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	const struct rig *r = ctx;

	(void)pid;
	return pread(r->memory, to, bytes, (off_t)address) == (ssize_t)bytes;
}

static bool read_target(void *ctx, uint64_t address, void *to, uint32_t bytes)
{
	return read_process(ctx, 0, address, to, bytes);
}

/* Starts the program and reads the line in which it tells its thread: "PID/task/TID". */
static bool start(struct rig *r, const char *java, const char *flags)
{
	char command[600], line[80] = "";
	int out[2];
	FILE *told;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	snprintf(command, sizeof(command),
		 "exec %s -Xmx64m -XX:+UseSerialGC %s -cp %s KnownJava chain 60", java, flags,
		 work_dir);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0) {
		dup2(out[1], 1);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	told = fdopen(out[0], "r");
	assert_non_null(told);
	if (!fgets(line, sizeof(line), told))
		line[0] = 0;
	fclose(told);
	return sscanf(line, "%*d/task/%d", &r->tid) == 1;
}

static void open_rig(struct rig *r)
{
	const struct runtime_memory memory = { .read = read_process, .ctx = r };
	const struct sample_record sample = { .pid = (uint32_t)r->pid, .tid = (uint32_t)r->tid };
	char path[64];
	struct err err;

	snprintf(path, sizeof(path), "/proc/%d/mem", r->pid);
	r->memory = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(r->memory >= 0);
	r->seam = seam_local_new();
	assert_non_null(r->seam);
	assert_true(unwind_store_open_local(&r->store, 64 << 20, &err));
	r->sets = (struct mapping_sets){ .run_free = unwind_store_retire_run, .ctx = &r->store };
	modules_init(&r->modules, &r->store, r->seam, &r->sets);
	r->modules.steps = 1u << UNWIND_STEP_HOTSPOT;
	r->filter = filter_new(&(struct agent_filter){ 0 }, &err);
	assert_non_null(r->filter);
	r->table = (struct process_table){ .seam = r->seam,
					   .store = &r->store,
					   .modules = &r->modules,
					   .sets = &r->sets,
					   .filter = r->filter };
	process_table_init(&r->table);
	r->twin = twin_new();
	r->process = process_table_get(&r->table, &sample);
	assert_non_null(r->process);
	r->info = process_facts(&r->table, r->process);
	r->names = hotspot_names_new(&memory, 4 << 20);
	r->namer = hotspot_names_namer(r->names);
	buf_init(&r->text, 1 << 20);
}

static void close_rig(struct rig *r)
{
	int status;

	buf_release(&r->text);
	hotspot_names_free(r->names);
	twin_free(r->twin);
	process_table_release(&r->table);
	modules_release(&r->modules);
	unwind_store_close(&r->store);
	filter_free(r->filter);
	seam_free(r->seam);
	close(r->memory);
	kill(r->pid, SIGKILL);
	/* A traced thread is waited for first: the process ends with its last one. */
	while (r->traced && waitpid(r->tid, &status, __WALL) == r->tid && WIFSTOPPED(status))
		;
	waitpid(r->pid, NULL, 0);
}

/* ---- stopping and stepping one thread ---- */

static bool wait_stop(struct rig *r, int *signal_number)
{
	int status;

	if (waitpid(r->tid, &status, __WALL) != r->tid || !WIFSTOPPED(status))
		return false;
	*signal_number = WSTOPSIG(status);
	return ptrace(PTRACE_GETREGS, r->tid, NULL, &r->regs) == 0;
}

static bool interrupt(struct rig *r)
{
	int signal_number;

	return ptrace(PTRACE_INTERRUPT, r->tid, NULL, NULL) == 0 && wait_stop(r, &signal_number);
}

/* One instruction. The machine sends its threads signals (SIGSEGV, as a safepoint's page is
 * touched): they are delivered. */
static bool step(struct rig *r)
{
	int signal_number = 0;

	for (int tries = 0; tries < 10; tries++) {
		int deliver = signal_number && signal_number != SIGTRAP ? signal_number : 0;

		if (ptrace(PTRACE_SINGLESTEP, r->tid, NULL, (void *)(intptr_t)deliver) ||
		    !wait_stop(r, &signal_number))
			return false;
		if (signal_number == SIGTRAP)
			return true;
	}
	return false;
}

/* ---- the twin ---- */

static bool build_page(struct rig *r, uint64_t pc)
{
	const struct mapping *m = mapping_set_find(r->process->set, pc);
	uint64_t bias;

	if (!m || !m->module)
		return false;
	if (m->module->state == MODULE_NEW)
		return module_load(m->module, r->process->pid, m);
	return module_bias(m, &bias) && module_build(m->module, pc - bias);
}

static enum unwind_end unwind(struct rig *r)
{
	const struct user_regs_struct *g = &r->regs;
	const uint64_t leaf[UNWIND_LEAF_REGS] = {
		g->rax, g->rcx, g->rdx, g->rbx, g->rsi, g->rdi, g->r8,
		g->r9,  g->r10, g->r11, g->r12, g->r13, g->r14, g->r15,
	};
	struct unwind_cursor c = {
		.pc = g->rip, .sp = g->rsp, .fp = g->rbp, .tp = g->fs_base, .leaf_known = LEAF_ALL
	};
	const struct twin_memory memory = { read_target, r };
	enum unwind_end end;
	uint64_t last = 0;

	memcpy(c.leaf, leaf, sizeof(leaf));
	twin_start(r->twin, &r->store, &memory, &c, r->process->set);
	twin_runtimes(r->twin, 1u << UNWIND_STEP_HOTSPOT, r->process->runtimes);
	do {
		const struct unwind_cursor *at = twin_cursor(r->twin);
		uint64_t pc;

		end = twin_walk(r->twin);
		pc = at->pc - at->return_address;
		if (end != UNWIND_END_NO_TABLE || !build_page(r, pc))
			return end;
		last = pc;
	} while (last);
	return end;
}

/* The names of Java's frames, outermost first, as "main;chain;one;". */
static void put_names(struct rig *r, const uint64_t *words, uint32_t count, struct buf *out)
{
	uint32_t at[UNWIND_FRAMES_MAX], frames = 0;

	for (uint32_t i = 0; i < count; i += 1 + (words[i] >> 16 & 0xff))
		if ((words[i] & 0xff) == FRAME_TAG_HOTSPOT)
			at[frames++] = i;
	while (frames--) {
		const uint64_t *w = &words[at[frames]];
		const struct module *m = modules_by_id(&r->modules, (uint32_t)(w[0] >> 32));
		const struct trace_frame frame = { .kind = FRAME_HOTSPOT,
						   .executable = m ? m->facts : NULL,
						   .address = w[1],
						   .extra = w[2] };
		struct frame_name name;

		if (!r->namer.name(r->namer.ctx, &frame, r->info, &name)) {
			buf_lit(out, "?;");
			continue;
		}
		for (uint32_t i = name.line_count; i-- > 0;) {
			struct str full = name.lines[i].function;
			ptrdiff_t open = str_find(full, '('), dot;

			full = open < 0 ? full : str_head(full, (size_t)open);
			while ((dot = str_find(full, '.')) >= 0)
				full = str_skip(full, (size_t)dot + 1);
			buf_printf(out, "%.*s;", STR_ARG(full));
		}
	}
}

/*
 * Whole, and a known chain: some first part of it, since the innermost frames come and go. Stubs
 * (in brackets: how Java is entered, and what it calls) may stand anywhere; methods of the JDK may
 * not.
 */
static bool is_known(struct str names)
{
	static const char *const chain[] = { "main", "run", "chain", "one", "two", "three" };
	struct str name;
	size_t at = 0;

	while (str_split(&names, ';', &name)) {
		if (!name.len || *name.ptr == '[')
			continue;
		if (at < ARRAY_LEN(chain)) {
			if (!str_is(name, chain[at]))
				return false;
			at++;
		} else if (!str_is(name, "area") && !str_is(name, "leaf")) {
			return false;
		}
	}
	return at > 2; /* main, run and chain are always there */
}

/* The stack as it is now, its names in r->text. */
static enum unwind_end look(struct rig *r)
{
	enum unwind_end end = unwind(r);
	uint32_t count;
	const uint64_t *words = twin_words(r->twin, &count);

	buf_reset(&r->text);
	put_names(r, words, count, &r->text);
	return end;
}

static void check(struct rig *r)
{
	enum unwind_end end = look(r);
	struct str text = str_from(r->text.ptr, r->text.len);

	r->checks++;
	r->leaves += str_search(text, STR(";leaf;")) >= 0;
	if (end == UNWIND_END_BOTTOM && is_known(text))
		r->whole++;
	else if (r->wrong++ < SHOWN_MOST)
		print_message("  pc %llx sp %llx fp %llx: end %d, %.*s\n", r->regs.rip, r->regs.rsp,
			      r->regs.rbp, (int)end, STR_ARG(text));
}

/* ---- tests ---- */

static bool is_long(void)
{
	const char *whole = getenv("FLAMETAP_LONG");

	return whole && *whole;
}

/* Until the machine is ready and its code compiled, as far as it will be. */
static void attach(struct rig *r)
{
	uint64_t until = clock_monotonic_ns() + 60 * SECOND_NS;

	while (!r->table.attach.attached) {
		for (uint32_t i = 0; i < r->process->set->count; i++) {
			const struct mapping *m = &r->process->set->list[i];

			if (m->module && strstr(m->module->path, "libjvm.so"))
				module_load(m->module, r->process->pid, m);
		}
		runtimes_attach(&r->table, r->process, clock_monotonic_ns());
		if (r->table.attach.refused || clock_monotonic_ns() > until)
			fail_msg("not attached: refused %lu, later %lu", r->table.attach.refused,
				 r->table.attach.later);
		usleep(10000);
	}
}

/* Stopped where the program is in its loop: the threads of a machine that starts do other things.
 */
static void run_to_chain(struct rig *r)
{
	uint64_t until = clock_monotonic_ns() + 60 * SECOND_NS;

	while (true) {
		if (!interrupt(r))
			fail_msg("cannot be stopped: %s", strerror(errno));
		process_reread(&r->table, r->process, clock_monotonic_ns());
		look(r);
		if (str_search(str_from(r->text.ptr, r->text.len), STR(";chain;")) >= 0)
			return;
		if (clock_monotonic_ns() > until)
			fail_msg("never in its loop: %.*s", (int)r->text.len, r->text.ptr);
		ptrace(PTRACE_CONT, r->tid, NULL, NULL);
		usleep(20000);
	}
}

static void step_through(const char *java, const char *flags)
{
	struct rig *r = calloc(1, sizeof(*r));
	int steps = (is_long() ? STEPS_LONG : STEPS) / STOPS;

	if (!start(r, java, flags)) {
		print_message("SKIPPED: %s %s does not run here\n", java, flags);
		waitpid(r->pid, NULL, 0);
		free(r);
		return;
	}
	open_rig(r);
	attach(r);
	if (ptrace(PTRACE_SEIZE, r->tid, NULL, NULL) != 0) {
		print_message("SKIPPED: no ptrace here\n");
		close_rig(r);
		free(r);
		return;
	}
	r->traced = true;
	for (int stop = 0; stop < STOPS; stop++) {
		run_to_chain(r);
		for (int i = 0; i < steps; i++) {
			check(r);
			if (!step(r))
				break;
		}
		ptrace(PTRACE_CONT, r->tid, NULL, NULL);
		usleep(100000); /* some more is compiled, and another place is met */
	}
	print_message("%s %s: %lu stops, %lu whole, %lu in leaf\n", java, flags, r->checks,
		      r->whole, r->leaves);
	assert_true(r->checks > (uint64_t)steps);
	assert_true(r->leaves > r->checks / 20);
	/* A thread may just be on its way from interpreted into compiled code of a loop, or back: a
	 * hundred instructions or two, of which few runs of the test see any. */
	if (r->wrong * (is_long() ? 200 : 20) > r->checks)
		fail_msg("%s %s: %lu of %lu stacks are not the known one", java, flags, r->wrong,
			 r->checks);
	close_rig(r);
	free(r);
}

static void step_all(const char *java)
{
	static const char *const ways[] = {
		"-Xint",
		"-XX:TieredStopAtLevel=1 -XX:CompileCommand=quiet "
		"-XX:CompileCommand=dontinline,KnownJava*::*",
		"-XX:-TieredCompilation -XX:CompileCommand=quiet "
		"-XX:CompileCommand=dontinline,KnownJava*::*",
		/* What is inlined into what is told exactly. */
		"-XX:+UnlockDiagnosticVMOptions -XX:+DebugNonSafepoints",
	};

	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		step_through(java, ways[i]);
}

static void test_every_instruction(void **state)
{
	const char *more = getenv("FLAMETAP_JDKS");
	struct str rest = str_cstr(more ? more : ""), folder;
	char command[300], java[300];

	(void)state;
	snprintf(command, sizeof(command),
		 "javac --release 11 -d %s tests/support/KnownJava.java > %s/log 2>&1", work_dir,
		 work_dir);
	if (system(command) != 0) {
		print_message("SKIPPED: no javac here\n");
		skip();
	}
	step_all("java");
	while (str_split(&rest, ':', &folder)) {
		if (!folder.len)
			continue;
		snprintf(java, sizeof(java), "%.*s/bin/java", STR_ARG(folder));
		step_all(java);
	}
}

static int make_work_dir(void **state)
{
	(void)state;
	return mkdtemp(work_dir) ? 0 : -1;
}

static int remove_work_dir(void **state)
{
	char command[80];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", work_dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_instruction),
	};

	return cmocka_run_group_tests(tests, make_work_dir, remove_work_dir);
}

#else

int main(void)
{
	printf("SKIPPED: written for x86-64's registers\n");
	return 0;
}

#endif
