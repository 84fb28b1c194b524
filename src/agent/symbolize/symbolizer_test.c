/* The namer as the reporter uses it: real files, the kernel's symbols, made code, small budgets. */
#include "agent/symbolize/symbolizer.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "base/cleanup.h"

/* A root folder with files of its own, and what the symbolizer asked for. */
struct world {
	char root[64];
	const char *executable; /* path of the next one to be opened */
	const char *kallsyms;
	uint32_t own_pid;
	uint32_t opened;
};

static bool open_file(const char *path, int *fd, struct err *err)
{
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	return *fd >= 0 || err_set_errno(err, "%s", path);
}

static bool open_executable(void *ctx, const struct executable *e, int *fd, struct err *err)
{
	struct world *w = ctx;

	(void)e;
	w->opened++;
	return open_file(w->executable, fd, err);
}

static bool open_path(void *ctx, uint32_t pid, const char *path, int *fd, struct err *err)
{
	struct world *w = ctx;
	char full[700];

	if (!pid && strncmp(path, "/sys/", 5) != 0)
		return err_set(err, ERR_NOT_FOUND, "nothing outside");
	snprintf(full, sizeof(full), "%s%s", w->root, path);
	return open_file(full, fd, err);
}

static bool open_text(const char *text, int *fd)
{
	FILE *f = tmpfile();

	assert_non_null(f);
	fputs(text, f);
	fflush(f);
	*fd = dup(fileno(f));
	lseek(*fd, 0, SEEK_SET);
	fclose(f);
	return true;
}

static bool open_status(void *ctx, uint32_t pid, int *fd, struct err *err)
{
	struct world *w = ctx;
	char text[100];

	(void)err;
	snprintf(text, sizeof(text), "Name:\tx\nPid:\t%u\nNSpid:\t%u\t%u\nThreads:\t1\n", pid, pid,
		 w->own_pid);
	return open_text(text, fd);
}

static bool open_maps(void *ctx, uint32_t pid, int *fd, struct err *err)
{
	struct world *w = ctx;
	char text[200];

	(void)pid;
	(void)err;
	snprintf(text, sizeof(text),
		 "00400000-00401000 r-xp 00000000 08:01 7 /bin/x\n"
		 "7f0000000000-7f0000001000 r-xp 00000000 08:01 9   /tmp/jit-%u.dump\n",
		 w->own_pid);
	return open_text(text, fd);
}

static bool open_kallsyms(void *ctx, int *fd, struct err *err)
{
	struct world *w = ctx;

	return w->kallsyms ? open_text(w->kallsyms, fd) : open_file("/proc/kallsyms", fd, err);
}

struct fixture {
	struct world world;
	struct symbolizer *s;
	struct namer namer;
	struct executable *executable;
	struct process_info *process;
};

static void begin_with(struct fixture *f, const struct symbolizer_options *options)
{
	struct symbol_access access = { open_executable, open_path,     open_status,
					open_maps,       open_kallsyms, &f->world };

	f->s = symbolizer_new(options, &access);
	f->namer = symbolizer_namer(f->s);
	f->namer.begin(f->namer.ctx, 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct executable e = { .id = 77, .filename = STR("thing.so") };
	struct process_info p = { .pid = 4242, .start_unix_nano = 5 };

	snprintf(f->world.root, sizeof(f->world.root), "/tmp/symbolizer_test.XXXXXX");
	assert_non_null(mkdtemp(f->world.root));
	f->world.own_pid = 12;
	f->world.executable = "/proc/self/exe";
	f->executable = executable_new(&e);
	f->process = process_info_new(&p);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	symbolizer_free(f->s);
	executable_unref(f->executable);
	process_info_unref(f->process);
	snprintf(command, sizeof(command), "rm -rf %s", f->world.root);
	free(f);
	*state = NULL;
	return system(command);
}

static struct frame_name ask(struct fixture *f, enum frame_kind kind, uint64_t address)
{
	struct trace_frame frame = { .kind = kind, .address = address };
	struct frame_name name;

	if (kind == FRAME_NATIVE || kind == FRAME_GO)
		frame.executable = f->executable;
	f->namer.name(f->namer.ctx, &frame, f->process, &name);
	return name;
}

static uint64_t own_vaddr(const void *pointer)
{
	struct link_map *map;
	Dl_info info;

	assert_true(dladdr1(pointer, &info, (void **)&map, RTLD_DL_LINKMAP));
	return (uint64_t)(uintptr_t)pointer - map->l_addr;
}

__attribute__((noinline)) static int a_static_function(int a)
{
	__asm__ volatile("");
	return a * 3;
}

static void test_own_function(void **state)
{
	struct fixture *f = *state;
	struct symbolizer_stats stats;
	struct frame_name name;

	begin_with(f, &(struct symbolizer_options){ .memory_bytes = 64 << 20, .lines = true });
	name = ask(f, FRAME_NATIVE, own_vaddr((const void *)(uintptr_t)&a_static_function) + 1);
	assert_true(name.line_count >= 1);
	assert_true(str_is(name.lines[0].function, "a_static_function"));
	assert_true(str_has_suffix(name.lines[0].file, STR("symbolizer_test.c")));
	assert_true(name.lines[0].line > 100);
	assert_true(name.final);
	assert_false(name.fallback);

	/* The table of sections is no code: the file is known, no name is. */
	name = ask(f, FRAME_NATIVE, 0x10);
	assert_int_equal(name.line_count, 1);
	assert_true(str_is(name.lines[0].function, "thing.so+0x10"));
	assert_true(name.fallback);
	assert_true(name.final);
	symbolizer_stats(f->s, &stats);
	assert_int_equal(stats.asked, 2);
	assert_int_equal(stats.named, 1);
	assert_int_equal(stats.fallback, 1);
	assert_int_equal(f->world.opened, 1);
	assert_int_equal(a_static_function(1), 3);
}

#if defined(__x86_64__)
static void on_signal(int number)
{
	(void)number;
}

/* libc's restorer has no symbol in a stripped libc; a frame of it is at its begin, or one less. */
static void test_signal_trampoline(void **state)
{
	struct { /* of the kernel */
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} now = { 0 };
	struct sigaction action = { .sa_handler = on_signal };
	struct fixture *f = *state;
	uint64_t vaddr;
	Dl_info info;

	sigaction(SIGUSR2, &action, NULL);
	assert_int_equal(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &now, sizeof(now.mask)), 0);
	assert_true(dladdr((const void *)(uintptr_t)now.restorer, &info));
	f->world.executable = info.dli_fname;
	begin_with(f, &(struct symbolizer_options){ .memory_bytes = 64 << 20 });
	vaddr = own_vaddr((const void *)(uintptr_t)now.restorer);
	for (uint64_t at = vaddr - 1; at <= vaddr; at++) {
		struct frame_name name = ask(f, FRAME_NATIVE, at);

		assert_int_equal(name.line_count, 1);
		assert_true(str_is(name.lines[0].function, "__restore_rt"));
		assert_true(name.final && !name.fallback);
	}
}
#endif

/* Without CPU time: a symbol at once or not, the line later, and the end is the same. */
static void test_budget(void **state)
{
	struct fixture *f = *state;
	uint64_t at = own_vaddr((const void *)(uintptr_t)&a_static_function) + 1;
	struct symbolizer_stats stats;
	struct frame_name name;
	uint32_t rounds = 0;

	begin_with(f, &(struct symbolizer_options){ .memory_bytes = 64 << 20, .lines = true });
	do {
		f->namer.begin(f->namer.ctx, 1);
		ask(f, FRAME_NATIVE, at);
		assert_true(rounds++ < 100000);
		f->namer.begin(f->namer.ctx, rounds == 1 ? 200000 : 1000000);
		name = ask(f, FRAME_NATIVE, at);
	} while (!name.final);
	assert_true(str_is(name.lines[0].function, "a_static_function"));
	assert_true(name.lines[0].line > 0);
	symbolizer_stats(f->s, &stats);
	assert_true(stats.later > 0);
}

static void test_little_memory(void **state)
{
	struct fixture *f = *state;
	struct symbolizer_stats stats;
	struct frame_name name;

	begin_with(f, &(struct symbolizer_options){ .memory_bytes = 600, .lines = true });
	name = ask(f, FRAME_NATIVE, own_vaddr((const void *)(uintptr_t)&a_static_function) + 1);
	assert_true(name.fallback);
	assert_true(name.final);
	symbolizer_stats(f->s, &stats);
	assert_true(stats.tables_refused >= 1);
	assert_true(stats.memory_bytes <= 600);
}

/* ---- the kernel ---- */

static const char symbols[] = "ffffffff81000000 T _text\n"
			      "ffffffff81000010 T first\n"
			      "ffffffff81000010 T first_alias\n"
			      "ffffffff81000100 t __pfx_second\n"
			      "ffffffff81000110 t second\n"
			      "ffffffff81000200 d data\n"
			      "ffffffffc0001000 t of_module\t[some_module]\n"
			      "ffffffffc0000800 t lowest_of_module\t[some_module]\n"
			      "ffffffffc0200000 t bpf_prog_0123456789abcdef_watch\t[bpf]\n";

static const struct {
	uint64_t pc;
	const char *name, *module;
	uint64_t module_start;
	bool fallback;
} kernel_rows[] = {
	{ 0xffffffff81000010, "first", "vmlinux", 0xffffffff81000000, false },
	{ 0xffffffff810000ff, "first", "vmlinux", 0xffffffff81000000, false },
	{ 0xffffffff81000105, "first", "vmlinux", 0xffffffff81000000, false },
	{ 0xffffffff81000300, "second", "vmlinux", 0xffffffff81000000, false },
	{ 0xffffffffc0001004, "of_module", "some_module", 0xffffffffc0000800, false },
	{ 0xffffffffc0200004, "bpf_prog_0123456789abcdef_watch", "", 0, false },
	{ 0xffffffff90000000, "[kernel]", "", 0, true },
	{ 0xffff800000000000, "[kernel]", "", 0, true },
	{ 0x1000, "[kernel]", "", 0, true },
};

static void test_kernel_rows(void **state)
{
	struct fixture *f = *state;

	f->world.kallsyms = symbols;
	begin_with(f, &(struct symbolizer_options){ 0 });
	for (size_t i = 0; i < ARRAY_LEN(kernel_rows); i++) {
		struct frame_name name = ask(f, FRAME_KERNEL, kernel_rows[i].pc);

		if (name.line_count != 1 || !str_is(name.lines[0].function, kernel_rows[i].name) ||
		    !str_is(name.module, kernel_rows[i].module) ||
		    name.module_start != kernel_rows[i].module_start ||
		    name.fallback != kernel_rows[i].fallback)
			fail_msg("%lx: %.*s in \"%.*s\" from %lx", (unsigned long)kernel_rows[i].pc,
				 STR_ARG(name.lines[0].function), STR_ARG(name.module),
				 (unsigned long)name.module_start);
	}
}

/* A module comes, and another takes its place; what the kernel itself has stays. */
static void test_kernel_changes(void **state)
{
	static const char bare[] = "ffffffff81000000 T _text\nffffffff81000100 T first\n"
				   "ffffffff81001000 T _etext\n";
	static const char with_one[] = "ffffffff81000000 T _text\nffffffff81000100 T first\n"
				       "ffffffff81001000 T _etext\n"
				       "ffffffffc0000000 t of_one\t[one]\n";
	static const char with_other[] = "ffffffff81000000 T _text\nffffffff81000100 T first\n"
					 "ffffffff81001000 T _etext\n"
					 "ffffffffc0000000 t of_other\t[other]\n";
	struct fixture *f = *state;
	struct frame_name name;

	f->world.kallsyms = bare;
	begin_with(f, &(struct symbolizer_options){ .kernel_read_interval_ns = 1 });
	name = ask(f, FRAME_KERNEL, 0xffffffffc0000010);
	assert_true(name.fallback && !name.final);
	f->world.kallsyms = with_one;
	assert_true(ask(f, FRAME_KERNEL, 0xffffffffc0000010).fallback); /* nobody told us */
	symbolizer_kernel_changed(f->s);
	assert_true(str_is(ask(f, FRAME_KERNEL, 0xffffffffc0000010).lines[0].function, "of_one"));
	f->world.kallsyms = with_other;
	symbolizer_kernel_changed(f->s);
	assert_true(str_is(ask(f, FRAME_KERNEL, 0xffffffff81000110).lines[0].function, "first"));
	assert_true(str_is(ask(f, FRAME_KERNEL, 0xffffffffc0000010).module, "other"));
}

static void put_file(const struct fixture *f, const char *path, const char *data, size_t len)
{
	char full[256], command[300];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", f->world.root, path);
	snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", full);
	assert_int_equal(system(command), 0);
	file = fopen(full, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, len, file), len);
	fclose(file);
}

static void test_kernel_build_ids(void **state)
{
	/* Another's note first, then GNU's: name 4 bytes, content 6 of which 2 are padding. */
	static const char notes[] = "\4\0\0\0\5\0\0\0\7\0\0\0Xen\0hello\0\0\0"
				    "\4\0\0\0\6\0\0\0\3\0\0\0GNU\0\xde\xad\xbe\xef\x01\x02\0";
	static const char cut[] = "\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0\xde";
	static const char list[] = "ffffffff81000000 T _text\nffffffff81000100 T first\n"
				   "ffffffffc0000000 t of_one\t[one]\n"
				   "ffffffffc0001000 t of_cut\t[cut]\n"
				   "ffffffffc0002000 t of_bare\t[bare]\n"
				   "ffffffffc0003000 t of_path\t[../module/one]\n";
	static const struct {
		uint64_t pc;
		const char *id;
	} rows[] = {
		{ 0xffffffff81000110, "deadbeef0102" },
		{ 0xffffffffc0000004, "deadbeef0102" },
		{ 0xffffffffc0001004, "" },
		{ 0xffffffffc0002004, "" },
		{ 0xffffffffc0003004, "" },
		{ 0xffffffff81000110, "deadbeef0102" },
	};
	struct fixture *f = *state;

	put_file(f, "sys/kernel/notes", notes, sizeof(notes));
	put_file(f, "sys/module/one/notes/.note.gnu.build-id", notes, sizeof(notes));
	put_file(f, "sys/module/cut/notes/.note.gnu.build-id", cut, sizeof(cut) - 1);
	f->world.kallsyms = list;
	begin_with(f, &(struct symbolizer_options){ 0 });
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str id = ask(f, FRAME_KERNEL, rows[i].pc).module_build_id_gnu;

		if (!str_is(id, rows[i].id))
			fail_msg("%lx: \"%.*s\", not \"%s\"", (unsigned long)rows[i].pc,
				 STR_ARG(id), rows[i].id);
	}
}

static void test_kernel_hides(void **state)
{
	struct fixture *f = *state;
	struct symbolizer_stats stats;

	f->world.kallsyms = "0000000000000000 T _text\n0000000000000000 T first\n";
	begin_with(f, &(struct symbolizer_options){ 0 });
	assert_true(ask(f, FRAME_KERNEL, 0xffffffff81000010).fallback);
	symbolizer_stats(f->s, &stats);
	assert_non_null(strstr(stats.kernel_problem, "CAP_SYSLOG"));
	assert_int_equal(stats.kernel_symbols, 0);
}

/* This machine's kernel: each function is found at its address, read in small parts. */
static void test_kernel_here(void **state)
{
	struct fixture *f = *state;
	FILE *p = fopen("/proc/kallsyms", "r");
	uint32_t seen = 0, rounds = 0, every = 0;
	char line[700], name[513], type;
	struct symbolizer_stats stats;
	unsigned long at;

	begin_with(f, &(struct symbolizer_options){ 0 });
	do {
		f->namer.begin(f->namer.ctx, 1000);
		assert_true(rounds++ < 100000);
		ask(f, FRAME_KERNEL, 1);
		symbolizer_stats(f->s, &stats);
	} while (!stats.kernel_symbols && !stats.kernel_problem[0]);
	f->namer.begin(f->namer.ctx, 0);
	while (p && fgets(line, sizeof(line), p)) {
		struct frame_name got;

		if (sscanf(line, "%lx %c %512s", &at, &type, name) != 3 || !at ||
		    !strchr("tTwW", type) || strncmp(name, "__pfx_", 6) == 0 || every++ % 17)
			continue;
		got = ask(f, FRAME_KERNEL, at);
		if (got.fallback)
			fail_msg("%s at %lx has no name", name, at);
		seen++;
	}
	if (p)
		fclose(p);
	if (!seen) {
		print_message("no addresses in /proc/kallsyms: skipped\n");
		skip();
	}
	symbolizer_stats(f->s, &stats);
	print_message("%u kernel symbols in %zu bytes, read in %u parts\n", stats.kernel_symbols,
		      stats.memory_bytes, rounds);
	assert_true(stats.memory_bytes < (4 << 20));
}

/* ---- code that a process made ---- */

static void write_file(const struct fixture *f, const char *path, const void *data, size_t len,
		       const char *mode)
{
	char full[300];
	FILE *out;

	snprintf(full, sizeof(full), "%s%s", f->world.root, path);
	out = fopen(full, mode);
	assert_non_null(out);
	assert_int_equal(fwrite(data, 1, len, out), len);
	fclose(out);
}

static void make_tmp(const struct fixture *f)
{
	char command[128];

	snprintf(command, sizeof(command), "mkdir -p %s/tmp", f->world.root);
	assert_int_equal(system(command), 0);
}

static void expect_made(struct fixture *f, uint64_t pc, const char *want)
{
	struct frame_name name = ask(f, FRAME_UNKNOWN, pc);

	if (!want && name.line_count)
		fail_msg("%lx is %.*s, expected no name", (unsigned long)pc,
			 STR_ARG(name.lines[0].function));
	if (want && (name.line_count != 1 || !str_is(name.lines[0].function, want)))
		fail_msg("%lx is \"%.*s\", expected %s", (unsigned long)pc,
			 name.line_count ? (int)name.lines[0].function.len : 0,
			 name.line_count ? name.lines[0].function.ptr : "", want);
	assert_false(name.final);
}

static void test_perf_map(void **state)
{
	static const char first[] = "1000 100 first thing\n0x1100 20 second\nnonsense\n1200 zz x\n"
				    "3000 10 cut of";
	static const char more[] = "f\n1000 40 newer\n";
	struct fixture *f = *state;

	begin_with(f, &(struct symbolizer_options){ 0 });
	make_tmp(f);
	write_file(f, "/tmp/perf-12.map", first, sizeof(first) - 1, "w");
	expect_made(f, 0x1000, "first thing");
	expect_made(f, 0x10ff, "first thing");
	expect_made(f, 0x1110, "second");
	expect_made(f, 0x1120, NULL);
	expect_made(f, 0x3000, NULL);
	write_file(f, "/tmp/perf-12.map", more, sizeof(more) - 1, "a");
	expect_made(f, 0x3000, NULL); /* files are looked at once a report */
	f->namer.begin(f->namer.ctx, 0);
	expect_made(f, 0x3000, "cut off");
	expect_made(f, 0x1000, "newer");
	expect_made(f, 0x1050, NULL); /* the runtime has put something shorter there */
	write_file(f, "/tmp/perf-12.map", "1000 10 again\n", 14, "w");
	f->namer.begin(f->namer.ctx, 0);
	expect_made(f, 0x1000, "again");
	expect_made(f, 0x1110, NULL);
}

static void put(char *out, size_t *at, const void *data, size_t len)
{
	memcpy(out + *at, data, len);
	*at += len;
}

static void put_load(char *out, size_t *at, uint64_t address, uint64_t size, const char *name)
{
	uint32_t head[2] = { 0, (uint32_t)(56 + strlen(name) + 1 + size) }, ids[2] = { 12, 12 };
	uint64_t body[5] = { address, address, size, 1, 0 }, time = 0;
	char code[256] = { 0 };

	put(out, at, head, 8);
	put(out, at, &time, 8);
	put(out, at, ids, 8);
	put(out, at, body, 32);
	put(out, at, name, strlen(name) + 1);
	put(out, at, code, size);
}

static void put_lines(char *out, size_t *at, uint64_t address)
{
	uint32_t head[2] = { 2, 16 + 16 + (16 + 7) + (16 + 2) }, line[2] = { 10, 0 };
	uint64_t body[2] = { address, 2 }, time = 0, second = address + 8;

	put(out, at, head, 8);
	put(out, at, &time, 8);
	put(out, at, body, 16);
	put(out, at, &address, 8);
	put(out, at, line, 8);
	put(out, at, "app.js", 7);
	line[0] = 11;
	put(out, at, &second, 8);
	put(out, at, line, 8);
	put(out, at, "\xff", 2);
}

static void put_move(char *out, size_t *at, uint64_t from, uint64_t to, uint64_t size)
{
	uint32_t head[2] = { 1, 16 + 8 + 40 }, ids[2] = { 12, 12 };
	uint64_t body[5] = { to, from, to, size, 1 }, time = 0;

	put(out, at, head, 8);
	put(out, at, &time, 8);
	put(out, at, ids, 8);
	put(out, at, body, 40);
}

static void test_jitdump(void **state)
{
	uint32_t header[10] = { 0x4a695444, 1, 40, 62, 0, 12 };
	struct fixture *f = *state;
	struct frame_name name;
	char dump[2000];
	size_t at = 0, whole;

	begin_with(f, &(struct symbolizer_options){ 0 });
	make_tmp(f);
	put(dump, &at, header, sizeof(header));
	put_lines(dump, &at, 0x5000);
	put_load(dump, &at, 0x5000, 64, "Interpreted:go");
	put_load(dump, &at, 0x6000, 32, "plain");
	whole = at;
	put_move(dump, &at, 0x6000, 0x7000, 32);
	put_load(dump, &at, 0x5000, 16, "newer");
	write_file(f, "/tmp/jit-12.dump", dump, whole, "w");
	expect_made(f, 0x5001, "Interpreted:go");
	name = ask(f, FRAME_UNKNOWN, 0x5009);
	assert_true(str_is(name.lines[0].file, "app.js"));
	assert_int_equal(name.lines[0].line, 11);
	expect_made(f, 0x601f, "plain");
	expect_made(f, 0x7000, NULL);
	write_file(f, "/tmp/jit-12.dump", dump + whole, at - whole - 1, "a");
	f->namer.begin(f->namer.ctx, 0);
	expect_made(f, 0x7000, "plain");
	expect_made(f, 0x5001, "Interpreted:go"); /* the last record is not whole yet */
	write_file(f, "/tmp/jit-12.dump", dump + at - 1, 1, "a");
	f->namer.begin(f->namer.ctx, 0);
	expect_made(f, 0x5001, "newer");
}

/* ---- debug files, and files that change ---- */

static bool run_in(const struct fixture *f, const char *command)
{
	char full[2000];

	snprintf(full, sizeof(full), "cd %s && (%s) > /dev/null 2>&1", f->world.root, command);
	return system(full) == 0;
}

static unsigned maps_of(const char *path)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[600];
	unsigned n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, path) != NULL;
	fclose(f);
	return n;
}

/* What nobody asks for is closed, and opened again for who asks. */
static void test_idle_files_are_closed(void **state)
{
	struct fixture *f = *state;
	char copy[200], command[100];

	begin_with(f, &(struct symbolizer_options){ .file_idle_ns = 1 });
	snprintf(copy, sizeof(copy), "%s/idle.so", f->world.root);
	snprintf(command, sizeof(command), "cp -L /proc/%d/exe idle.so", (int)getpid());
	assert_true(run_in(f, command));
	f->world.executable = copy;
	for (unsigned round = 0; round < 2; round++) {
		assert_true(ask(f, FRAME_NATIVE, 0x1000).line_count > 0);
		assert_true(maps_of("idle.so") > 0);
		f->namer.begin(f->namer.ctx, 0);
		assert_int_equal(maps_of("idle.so"), 0);
	}
}

static const struct {
	const char *what, *command;
	bool line;
} splits[] = {
	{ "by build id",
	  "id=$(readelf -n t.full | sed -n 's/.*Build ID: //p'); d=usr/lib/debug/.build-id/$(echo "
	  "$id | cut -c 1-2); "
	  "mkdir -p $d; objcopy --only-keep-debug t.full $d/$(echo $id | cut -c 3-).debug; "
	  "strip -o t t.full",
	  true },
	{ "by name, without build ids",
	  "gcc -g -O1 -Wl,--build-id=none -o t.full t.c; objcopy --only-keep-debug t.full t.debug; "
	  "strip -o t t.full; objcopy --add-gnu-debuglink=t.debug t; mkdir -p ./$PWD/.debug; "
	  "mv t.debug ./$PWD/.debug/",
	  true },
	{ "only .gnu_debugdata",
	  "nm t.full --format=posix | awk '$2 ~ /[Tt]/ {print $1}' > keep; "
	  "objcopy --only-keep-debug t.full t.debug; objcopy -S --keep-symbols=keep t.debug mini; "
	  "xz mini; "
	  "strip -o t t.full; objcopy --add-section .gnu_debugdata=mini.xz t",
	  false },
	{ "a debug file of another build",
	  "id=$(readelf -n t.full | sed -n 's/.*Build ID: //p'); d=usr/lib/debug/.build-id/$(echo "
	  "$id | cut -c 1-2); "
	  "mkdir -p $d; gcc -g -O2 -DOTHER -o other t.c; cp other $d/$(echo $id | cut -c "
	  "3-).debug; "
	  "strip --strip-debug -o t t.full",
	  false },
};

static void test_debug_files(void **state)
{
	static const char source[] =
		"__attribute__((noinline)) static int hidden(int a)\n{\n\treturn a * 3;\n}\n"
		"int main(int c, char **v)\n{\n\t(void)v;\n\treturn hidden(c) == hidden(c + "
		"1);\n}\n";
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(splits); i++) {
		char path[128], line[100] = "";
		struct frame_name name;
		unsigned long at;
		FILE *nm;

		run_in(f, "rm -rf *");
		write_file(f, "/t.c", source, sizeof(source) - 1, "w");
		if (!run_in(f, "gcc -g -O1 -o t.full t.c") || !run_in(f, splits[i].command)) {
			print_message("%s: no gcc, objcopy or xz here: skipped\n", splits[i].what);
			continue;
		}
		snprintf(path, sizeof(path), "nm %s/t.full | grep ' hidden'", f->world.root);
		nm = popen(path, "r");
		assert_non_null(nm);
		assert_non_null(fgets(line, sizeof(line), nm));
		pclose(nm);
		assert_int_equal(sscanf(line, "%lx", &at), 1);
		snprintf(path, sizeof(path), "%s/t", f->world.root);
		f->world.executable = path;
		symbolizer_free(f->s);
		begin_with(f, &(struct symbolizer_options){ .lines = true });
		name = ask(f, FRAME_NATIVE, at + 2);
		if (name.fallback || !str_is(name.lines[0].function, "hidden"))
			fail_msg("%s: %.*s", splits[i].what, STR_ARG(name.lines[0].function));
		if ((name.lines[0].line == 3) != splits[i].line)
			fail_msg("%s: line %u", splits[i].what, name.lines[0].line);
	}
}

/* Packed lines that the memory has no room for go to disk; and what was found is found again
 * without the file. */
static void test_cache_folder(void **state)
{
	static const char id[] = "00112233445566778899aabbccddeeff00112233";
	struct executable facts = { .id = 78, .filename = STR("t"), .build_id_gnu = str_cstr(id) };
	struct fixture *f = *state;
	struct symbolizer_options options = { .memory_bytes = 128 << 10, .lines = true };
	struct symbolizer_stats stats;
	struct frame_name name;
	unsigned long at = 0;
	char path[128], line[200];
	FILE *nm;

	snprintf(path, sizeof(path), "cp %s/tests/symbolize/inline.cc .",
		 getcwd(line, sizeof(line)));
	if (!run_in(f, path) ||
	    !run_in(f, "g++ -O2 -g -gz -o t inline.cc && nm t | grep ' main$' > at")) {
		print_message("no g++ here: skipped\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/at", f->world.root);
	nm = fopen(path, "r");
	assert_non_null(nm);
	assert_int_equal(fscanf(nm, "%lx", &at), 1);
	fclose(nm);
	executable_unref(f->executable);
	f->executable = executable_new(&facts);
	snprintf(path, sizeof(path), "%s/t", f->world.root);
	f->world.executable = path;

	begin_with(f, &options);
	name = ask(f, FRAME_NATIVE, at + 4);
	assert_int_equal(name.lines[name.line_count - 1].line, 0);
	symbolizer_stats(f->s, &stats);
	assert_true(stats.tables_refused > 0);
	symbolizer_free(f->s);

	options.cache_dir = f->world.root;
	begin_with(f, &options);
	name = ask(f, FRAME_NATIVE, at + 4);
	if (!name.lines[name.line_count - 1]
		     .line) { /* tmpfs and some overlays have no such files */
		print_message("no nameless files in /tmp: skipped\n");
		skip();
	}
	symbolizer_free(f->s);

	f->world.executable = "/nowhere";
	begin_with(f, &options);
	name = ask(f, FRAME_NATIVE, at + 4);
	assert_true(str_is(name.lines[name.line_count - 1].function, "main"));
	assert_true(name.lines[name.line_count - 1].line > 0);
	assert_true(name.final);
	symbolizer_stats(f->s, &stats);
	assert_int_equal(stats.cache_hits, 1);
	assert_true(ask(f, FRAME_NATIVE, at + 400000).fallback);
}

static void test_program_rewrites_itself(void **state)
{
	struct fixture *f = *state;
	struct symbolizer_stats stats;
	struct frame_name name;
	char path[128];

	if (!run_in(f, "cp /proc/$PPID/exe t || cp $(readlink -f /bin/sh) t"))
		fail_msg("cannot copy a program");
	snprintf(path, sizeof(path), "%s/t", f->world.root);
	f->world.executable = path;
	begin_with(f, &(struct symbolizer_options){ .lines = true });
	ask(f, FRAME_NATIVE, 0x10);
	assert_int_equal(truncate(path, 4096), 0);
	for (uint64_t at = 0x1000; at < 0x40000; at += 0x1000)
		name = ask(f, FRAME_NATIVE, at);
	assert_true(name.fallback);
	symbolizer_stats(f->s, &stats);
	assert_true(stats.files_refused >= 1);
}

static void test_no_file(void **state)
{
	static const char *const paths[] = { "/nowhere", "/dev/null", "/", "/etc/passwd" };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct frame_name name;

		f->world.executable = paths[i];
		symbolizer_free(f->s);
		begin_with(f, &(struct symbolizer_options){ .lines = true });
		name = ask(f, FRAME_NATIVE, 0x1234);
		assert_true(name.fallback && name.final);
		assert_true(str_is(name.lines[0].function, "thing.so+0x1234"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_own_function, setup, teardown),
#if defined(__x86_64__)
		cmocka_unit_test_setup_teardown(test_signal_trampoline, setup, teardown),
#endif
		cmocka_unit_test_setup_teardown(test_budget, setup, teardown),
		cmocka_unit_test_setup_teardown(test_little_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kernel_rows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kernel_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kernel_build_ids, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kernel_hides, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kernel_here, setup, teardown),
		cmocka_unit_test_setup_teardown(test_perf_map, setup, teardown),
		cmocka_unit_test_setup_teardown(test_jitdump, setup, teardown),
		cmocka_unit_test_setup_teardown(test_debug_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cache_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_program_rewrites_itself, setup, teardown),
		cmocka_unit_test_setup_teardown(test_idle_files_are_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_file, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
