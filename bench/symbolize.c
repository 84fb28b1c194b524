/*
 * symbolize.c - what naming costs: for each file, CPU time and own memory until the first name, and
 * then per address, with symbols only and with lines.
 *
 *     build/release/bench/symbolize [-n ADDRESSES] FILE...
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "agent/elf/elf_file.h"
#include "agent/process/executable.h"
#include "agent/symbolize/go_pclntab.h"
#include "agent/symbolize/symbolizer.h"
#include "agent/symbolize/work_budget.h"
#include "base/cleanup.h"

static bool open_executable(void *ctx, const struct executable *e, int *fd, struct err *err)
{
	(void)e;
	*fd = open((const char *)ctx, O_RDONLY | O_CLOEXEC);
	return *fd >= 0 || err_set_errno(err, "%s", (const char *)ctx);
}

static bool open_path(void *ctx, uint32_t pid, const char *path, int *fd, struct err *err)
{
	(void)ctx;
	(void)pid;
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	return *fd >= 0 || err_set_errno(err, "%s", path);
}

static bool open_kallsyms(void *ctx, int *fd, struct err *err)
{
	return open_path(ctx, 0, "/proc/kallsyms", fd, err);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static bool text_of(const char *path, struct elf_section *text, bool *go)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct err err = { 0 };
	struct elf_file *f = fd < 0 ? NULL : elf_file_open(fd, &err);
	bool ok;

	if (!f) {
		fprintf(stderr, "%s: %s\n", path, fd < 0 ? "cannot be opened" : err.msg);
		return false;
	}
	ok = elf_file_section_named(f, ".text", text);
	*go = elf_file_is_go(f);
	elf_file_free(f);
	return ok;
}

static void measure(const char *path, uint32_t count, bool lines)
{
	struct symbol_access access = { .open_executable = open_executable,
					.open_path = open_path,
					.open_kallsyms = open_kallsyms,
					.ctx = (void *)(uintptr_t)path };
	struct symbolizer_options options = { .memory_bytes = 8 << 20, .lines = lines };
	struct symbolizer *s = symbolizer_new(&options, &access);
	struct namer namer = symbolizer_namer(s);
	struct executable facts = { .id = 1, .filename = str_cstr(path) }, *e;
	uint64_t random = 88172645463325252, first, all, inlined = 0, with_line = 0;
	struct symbolizer_stats stats;
	struct elf_section text;

	if (!text_of(path, &text, &facts.go))
		return;
	e = executable_new(&facts);
	namer.begin(namer.ctx, 0);
	first = thread_cpu_ns();
	for (uint32_t i = 0; i <= count; i++) {
		struct trace_frame frame = { .kind = FRAME_NATIVE,
					     .executable = e,
					     .address = text.vaddr +
							next_random(&random) % text.size };
		struct frame_name name;

		namer.name(namer.ctx, &frame, NULL, &name);
		if (i == 0) {
			all = thread_cpu_ns();
			first = all - first;
		}
		inlined += name.line_count > 1;
		with_line += name.line_count && name.lines[0].line;
	}
	all = thread_cpu_ns() - all;
	symbolizer_stats(s, &stats);
	printf("%-44s %-7s first %8.2f ms, then %8.0f ns each; %7zu bytes; named %.1f %%, lines "
	       "%.1f %%, "
	       "inlined %.1f %%, refused %llu\n",
	       path, lines ? "lines" : "symbols", (double)first / 1e6, (double)all / count,
	       stats.memory_bytes, 100.0 * (double)stats.named / (double)stats.asked,
	       100.0 * (double)with_line / (double)stats.asked,
	       100.0 * (double)inlined / (double)stats.asked,
	       (unsigned long long)stats.tables_refused);
	executable_unref(e);
	symbolizer_free(s);
}

static void measure_kernel(uint32_t count)
{
	struct symbol_access access = { .open_kallsyms = open_kallsyms };
	struct symbolizer_options options = { 0 };
	struct symbolizer *s = symbolizer_new(&options, &access);
	struct namer namer = symbolizer_namer(s);
	uint64_t random = 88172645463325252, first = thread_cpu_ns(), all = first;
	struct symbolizer_stats stats;

	namer.begin(namer.ctx, 0);
	for (uint32_t i = 0; i <= count; i++) {
		struct trace_frame frame = { .kind = FRAME_KERNEL,
					     .address = 0xffffffff81000000 +
							next_random(&random) % (16 << 20) };
		struct frame_name name;

		namer.name(namer.ctx, &frame, NULL, &name);
		if (i == 0)
			all = thread_cpu_ns();
	}
	symbolizer_stats(s, &stats);
	printf("%-44s %-7s first %8.2f ms, then %8.0f ns each; %7zu bytes; %u symbols %s\n",
	       "kernel", "", (double)(all - first) / 1e6, (double)(thread_cpu_ns() - all) / count,
	       stats.memory_bytes, stats.kernel_symbols, stats.kernel_problem);
	symbolizer_free(s);
}

int main(int argc, char **argv)
{
	uint32_t count = 20000;
	int opt;

	while ((opt = getopt(argc, argv, "n:")) != -1) {
		if (opt != 'n')
			return 2;
		count = (uint32_t)strtoul(optarg, NULL, 10);
	}
	measure_kernel(count ? count : 1);
	for (int i = optind; i < argc; i++) {
		measure(argv[i], count ? count : 1, false);
		measure(argv[i], count ? count : 1, true);
	}
	return 0;
}
