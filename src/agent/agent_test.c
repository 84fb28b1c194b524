/*
 * The agent against the running kernel: programs whose stacks are known, compiled in many ways
 * (tests/support/known_stack.c), all running at once and sampled together. Needs the capabilities
 * of the agent and a C compiler; says so and skips without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/kernel_test.h"
#include "agent/elf/elf_symbols.h"
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "base/clock.h"
#include "base/cleanup.h"

enum {
	RATE_HZ = 397,
	SAMPLES_ENOUGH = 60, /* of each program */
	LATE_MOST = 20,      /* times as many may come before it is known */
	FIRST_WRONG = 4,
	HANG_GUARD_S = 180,
	NAMES_MOST = 24,
	STACK_MOST = 1200,
};

/* Functions whose order on the stack is checked; frames of others are passed over. */
static const char *const known[] = {
	"leaf",      "level_8",     "level_7",     "level_6",
	"level_5",   "level_4",     "level_3",     "level_2",
	"level_1",   "main",        "_start",      "dive",
	"on_signal", "thread_main", "call_kernel", "call_without_cfi"
};
#define LEVELS "level_8 level_7 level_6 level_5 level_4 level_3 level_2 level_1 "
#define PLAIN  "leaf " LEVELS "main _start"

enum { ENTRY = 10 }; /* _start, in known[] */

struct program {
	const char *name, *compiler, *flags, *mode;
	const char *want; /* the known functions, leaf first; "*N" behind one: N times */
	enum unwind_end want_end;
	bool strip, kernel;   /* kernel: most samples begin in the kernel */
	bool unknown_frame;   /* one frame in anonymous code */
	bool exceeds_capture; /* its stack is too deep to be copied, or in two parts */
	uint32_t least_pids;

	/* filled by the test */
	char path[PATH_MAX];
	bool built;
	pid_t pid;
	struct range {
		uint64_t start, end;
	} ranges[ARRAY_LEN(known)];
	uint32_t samples, not_known_yet, right, wrong, kernel_samples, unknown_samples;
	uint32_t pids[64], pid_count;
	char example[600]; /* of a wrong stack */
	bool stripped_build_id_differs;
};

static struct program programs[] = {
	{ .name = "gcc-O0", .compiler = "gcc", .flags = "-O0", .mode = "plain", .want = PLAIN },
	{ .name = "gcc-O1", .compiler = "gcc", .flags = "-O1", .mode = "plain", .want = PLAIN },
	{ .name = "gcc-O2-fp",
	  .compiler = "gcc",
	  .flags = "-O2 -fno-omit-frame-pointer",
	  .mode = "plain",
	  .want = PLAIN },
	{ .name = "gcc-O3-lto",
	  .compiler = "gcc",
	  .flags = "-O3 -flto",
	  .mode = "plain",
	  .want = PLAIN },
	{ .name = "gcc-O2-static",
	  .compiler = "gcc",
	  .flags = "-O2 -static",
	  .mode = "plain",
	  .want = PLAIN },
	{ .name = "gcc-O2-nopie",
	  .compiler = "gcc",
	  .flags = "-O2 -no-pie -fno-pie",
	  .mode = "plain",
	  .want = PLAIN },
	{ .name = "gcc-O2-staticpie",
	  .compiler = "gcc",
	  .flags = "-O2 -static-pie",
	  .mode = "plain",
	  .want = PLAIN },
	{ .name = "gcc-stripped",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "plain",
	  .want = PLAIN,
	  .strip = true },
	{ .name = "gcc-debugframe",
	  .compiler = "gcc",
	  .flags = "-O2 -g -fno-asynchronous-unwind-tables -fno-exceptions",
	  .mode = "plain",
	  .want = PLAIN },
	{ .name = "clang-O2",
	  .compiler = "clang-14",
	  .flags = "-O2",
	  .mode = "plain",
	  .want = PLAIN },
	{ .name = "threads",
	  .compiler = "gcc",
	  .flags = "-O2 -DTHREADS -pthread",
	  .mode = "threads",
	  .want = "leaf " LEVELS "thread_main" },
	{ .name = "signal",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "signal",
	  .want = "leaf " LEVELS "on_signal main _start" },
	{ .name = "altstack",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "altstack",
	  .want = "leaf " LEVELS "on_signal main _start",
	  .exceeds_capture = true },
	{ .name = "deep",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "deep 899",
	  .want = "leaf dive*900 main _start",
	  .exceeds_capture = true },
	{ .name = "too-deep",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "deep 2000",
	  .want = "leaf dive*1023",
	  .want_end = UNWIND_END_DEPTH,
	  .exceeds_capture = true },
	{ .name = "fork",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "fork",
	  .want = PLAIN,
	  .least_pids = 3 },
	{ .name = "short",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "short self",
	  .want = PLAIN,
	  .least_pids = 3 },
	{ .name = "exec",
	  .compiler = "gcc",
	  .flags = "-O2 -DIMAGE=2",
	  .mode = "exec self",
	  .want = PLAIN },
	{ .name = "syscall",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "syscall",
	  .want = "call_kernel main _start",
	  .kernel = true },
	{ .name = "jit",
	  .compiler = "gcc",
	  .flags = "-O2",
	  .mode = "jit",
	  .want = PLAIN,
	  .unknown_frame = true },
	{ .name = "nocfi",
	  .compiler = "gcc",
	  .flags = "-O2 -DNOCFI",
	  .mode = "nocfi",
	  .want = "leaf call_without_cfi " LEVELS "main _start" },
};

static char folder[] = "/tmp/flametap-agent-test-XXXXXX";
static const char *skip_reason;

/* ---- building and running the programs
 * ------------------------------------------------------------ */

static bool find_ranges(struct program *p)
{
	AUTO(fd_close) int fd = open(p->path, O_RDONLY | O_CLOEXEC);
	struct elf_symbol symbol;
	struct elf_file *f;
	struct err err;

	f = fd >= 0 ? elf_file_open(fd, &err) : NULL;
	if (!f)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (elf_file_find_symbol(f, str_cstr(known[i]), &symbol))
			p->ranges[i] = (struct range){ symbol.value, symbol.value + symbol.size };
	elf_file_free(f);
	return p->ranges[0].end > p->ranges[0].start;
}

static bool build(struct program *p)
{
	char command[PATH_MAX + 512];

	snprintf(p->path, sizeof(p->path), "%s/%s", folder, p->name);
	snprintf(command, sizeof(command),
		 "%s %s -DNAME='\"%s\"' -fno-stack-protector -o %s tests/support/known_stack.c 2> "
		 "%s/errors",
		 p->compiler, p->flags, p->name, p->path, folder);
	if (system(command) != 0) {
		print_message("skipped: %s: %s %s does not build here\n", p->name, p->compiler,
			      p->flags);
		return false;
	}
	if (!find_ranges(p))
		return false;
	snprintf(command, sizeof(command), "strip %s", p->path);
	return !p->strip || system(command) == 0;
}

static void run(struct program *p)
{
	char mode[64], *argument;

	snprintf(mode, sizeof(mode), "%s", p->mode);
	argument = strchr(mode, ' ');
	if (argument)
		*argument++ = 0;
	if (argument && strcmp(argument, "self") == 0)
		argument = p->path;
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (p->pid == 0) {
		execl(p->path, p->path, mode, argument, (char *)NULL);
		_exit(127);
	}
}

/* Processes that a program has forked die with it (PR_SET_PDEATHSIG). */
static void end(struct program *p)
{
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
	}
}

/* ---- looking at traces
 * ------------------------------------------------------------------------------ */

struct stack {
	uint8_t names[STACK_MOST]; /* indices into known */
	uint32_t count;
};

static void wanted_stack(const struct program *p, struct stack *out)
{
	struct str rest = str_cstr(p->want), word;

	out->count = 0;
	while (rest.len && str_split(&rest, ' ', &word)) {
		ptrdiff_t star = str_find(word, '*');
		struct str name = star < 0 ? word : str_head(word, (size_t)star);
		uint64_t times = 1;

		assert_true(star < 0 || str_to_u64(str_skip(word, (size_t)star + 1), &times));
		for (uint8_t i = 0; i < ARRAY_LEN(known); i++)
			for (uint64_t t = 0; str_is(name, known[i]) && t < times; t++)
				out->names[out->count++] = i;
	}
}

static void seen_stack(const struct program *p, const struct trace *t, struct stack *out,
		       bool *kernel, bool *unknown)
{
	out->count = 0;
	*kernel = *unknown = false;
	for (uint32_t i = 0; i < t->frame_count; i++) {
		const struct trace_frame *f = &t->frames[i];
		uint64_t at = f->address - f->return_address;

		*kernel |= f->kind == FRAME_KERNEL;
		*unknown |= f->kind == FRAME_UNKNOWN;
		if (!f->executable || !str_is(f->executable->filename, p->name))
			continue;
		for (uint8_t n = 0; n < ARRAY_LEN(known); n++)
			if (at >= p->ranges[n].start && at < p->ranges[n].end &&
			    out->count < STACK_MOST)
				out->names[out->count++] = n;
	}
}

static void keep_example(struct program *p, const struct trace *t, const struct stack *s)
{
	int n = snprintf(p->example, sizeof(p->example), "tid %u, %u frames:", t->tid,
			 t->frame_count);

	for (uint32_t i = 0; i < s->count && n < 300; i++)
		n += snprintf(p->example + n, sizeof(p->example) - (size_t)n, " %s",
			      known[s->names[i]]);
	for (uint32_t i = 0; i < t->frame_count && n < 520; i++)
		n += snprintf(p->example + n, sizeof(p->example) - (size_t)n, "%s%d:%llx",
			      i ? " " : " | ", t->frames[i].kind,
			      (unsigned long long)t->frames[i].address);
}

static void note_pid(struct program *p, uint32_t pid)
{
	for (uint32_t i = 0; i < p->pid_count; i++)
		if (p->pids[i] == pid)
			return;
	if (p->pid_count < ARRAY_LEN(p->pids))
		p->pids[p->pid_count++] = pid;
}

struct watcher {
	atomic_uint lacking; /* programs that have not enough samples yet */
	uint64_t start_unix_ns, last_ns;
	uint32_t early, disordered, idle_threads;
};

static void take_trace(void *ctx, const struct trace *t)
{
	struct watcher *w = ctx;
	const struct process_info *info = t->process;
	struct stack want, got;
	bool kernel, unknown, complete, right;
	enum unwind_end end_seen = UNWIND_END_BOTTOM;

	w->early += t->time_unix_nano + 10 * MILLI_NS < w->start_unix_ns ||
		    t->time_unix_nano > clock_realtime_ns() + 10 * MILLI_NS;
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		struct program *p = &programs[i];

		if (!p->built || !str_is(info->executable_path, p->path))
			continue;
		if (t->frame_count && t->frames[t->frame_count - 1].kind == FRAME_END)
			end_seen = (enum unwind_end)t->frames[t->frame_count - 1].address;
		wanted_stack(p, &want);
		seen_stack(p, t, &got, &kernel, &unknown);
		/* Until BPF knows a new program its stacks are copied: 31 KiB of one stack, if
		 * there is room. On a machine that is so busy that we come late there may be none.
		 */
		if (end_seen == UNWIND_END_UNKNOWN_PROCESS || end_seen == UNWIND_END_STALE ||
		    end_seen == UNWIND_END_NO_TABLE || end_seen == UNWIND_END_NO_MAPPING ||
		    (end_seen == UNWIND_END_CAPTURE && p->exceeds_capture)) {
			p->not_known_yet++;
			return;
		}
		/* Not in main() yet: exec(), the dynamic linker; or in exit(). */
		if (got.count == 0 && (kernel || end_seen == UNWIND_END_BOTTOM))
			return;
		if (got.count == 1 && got.names[0] == ENTRY && end_seen == UNWIND_END_BOTTOM)
			return;
		complete = end_seen == p->want_end;
		right = complete && got.count == want.count &&
			memcmp(got.names, want.names, got.count) == 0;
		p->right += right;
		if (!right && !p->wrong++)
			keep_example(p, t, &got);
		p->kernel_samples += kernel;
		p->unknown_samples += unknown;
		note_pid(p, t->pid);
		if (++p->samples == SAMPLES_ENOUGH)
			w->lacking--;
	}
}

/* ---- the test
 * ------------------------------------------------------------------------------------------ */

static int set_up(void **state)
{
	uint32_t count = 0;

	(void)state;
	skip_reason = no_kernel_for_tests();
	if (skip_reason)
		return 0;
	if (!mkdtemp(folder)) {
		return -1;
	} else {
		for (size_t i = 0; i < ARRAY_LEN(programs); i++)
			count += programs[i].built = build(&programs[i]);
		if (!count)
			skip_reason = "no C compiler";
	}
	return 0;
}

static int tear_down(void **state)
{
	char command[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		end(&programs[i]);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return geteuid() == 0 ? system(command) : 0;
}

static struct agent *start(const struct agent_options *options, struct seam *seam,
			   const struct trace_sink *sink)
{
	struct err err;
	struct agent *a = skip_reason ? NULL : agent_start(options, seam, sink, &err);

	if (!a) {
		print_message("SKIPPED: the agent's end-to-end test: %s\n",
			      skip_reason ? skip_reason : err.msg);
		if (!skip_reason && err.kind != ERR_PERMISSION)
			fail_msg("agent_start: %s", err.msg);
	}
	return a;
}

/* A machine so busy that the kernel's records found no room, which is counted: then the agent knows
 * programs late or never, and only what it says of them is judged. */
static bool overloaded(const struct agent_stats *stats)
{
	return stats->side_band_lost || stats->kernel.dropped_ring * 50 > stats->kernel.fired;
}

static void check_program(const struct program *p, bool late_is_bad, uint32_t *bad)
{
	/* The first samples of a program come before anything of it is known: how many is a matter
	 * of the machine, of a sanitizer, and of how deep the stacks of others are that are named
	 * before it. Not nearly all of them may. */
	bool late = p->samples < SAMPLES_ENOUGH ||
		    p->not_known_yet > LATE_MOST * (uint64_t)p->samples ||
		    p->pid_count < p->least_pids;

	if ((late && late_is_bad) ||
	    (p->wrong > FIRST_WRONG && p->right * 100ull < p->samples * 99ull) ||
	    (p->kernel && p->kernel_samples * 2 < p->samples) ||
	    (p->unknown_frame && p->unknown_samples * 100ull < p->samples * 99ull)) {
		++*bad;
		print_error("%s: %u samples (%u before it was known), %u right, %u with kernel "
			    "frames, %u in anonymous "
			    "code, %u pids; %s\n",
			    p->name, p->samples, p->not_known_yet, p->right, p->kernel_samples,
			    p->unknown_samples, p->pid_count, p->example);
	}
}

static void test_known_stacks(void **state)
{
	const struct agent_options options = { .sampling = { .samples_per_second = RATE_HZ,
							     .captures_per_second = 10 * RATE_HZ,
							     .ring_bytes = 16 << 20 },
					       .frames_of_ends = true,
					       .poll_ns = 20 * MILLI_NS };
	struct watcher w = { .start_unix_ns = clock_realtime_ns() };
	const struct trace_sink sink = { take_trace, &w };
	struct seam *seam = seam_local_new();
	uint64_t give_up = clock_monotonic_ns() + HANG_GUARD_S * SECOND_NS;
	struct agent_stats stats;
	uint32_t bad = 0;
	struct agent *a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		w.lacking += programs[i].built;
	a = start(&options, seam, &sink);
	if (!a) {
		seam_free(seam);
		skip();
	}
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		if (programs[i].built)
			run(&programs[i]);
	while (w.lacking && clock_monotonic_ns() < give_up)
		usleep(50000);
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		end(&programs[i]);
	agent_stop(a);
	agent_stats(a, &stats);
	agent_free(a);
	seam_free(seam);
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		if (programs[i].built)
			check_program(&programs[i], !overloaded(&stats), &bad);
	if (overloaded(&stats))
		print_message("a busy machine: %llu records of the side band and %llu samples had "
			      "no room\n",
			      (unsigned long long)stats.side_band_lost,
			      (unsigned long long)stats.kernel.dropped_ring);
	if (bad)
		print_error("fired %llu sampled %llu dropped %llu captured %llu refused %llu+%llu "
			    "lost %llu resumed %llu\n",
			    (unsigned long long)stats.kernel.fired,
			    (unsigned long long)stats.kernel.sampled,
			    (unsigned long long)stats.kernel.dropped_ring,
			    (unsigned long long)stats.kernel.captured,
			    (unsigned long long)stats.kernel.capture_limit,
			    (unsigned long long)stats.kernel.capture_ring,
			    (unsigned long long)stats.side_band_lost,
			    (unsigned long long)stats.resumed);
	assert_int_equal(bad, 0);
	assert_int_equal(w.early, 0);
	assert_int_equal(stats.bad_records, 0);
	assert_int_equal(stats.kernel.sampled, stats.traces);
	assert_int_equal(stats.kernel.fired,
			 stats.kernel.sampled + stats.kernel.idle + stats.kernel.dropped_ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_stacks),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
