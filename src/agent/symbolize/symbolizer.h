/*
 * symbolizer.h - names of frames: kernel, native, Go and code that a runtime made and told of.
 *
 * One struct namer (report/namer.h) over all sources. Kernel: /proc/kallsyms, with modules and BPF
 * programs. Native: DWARF (lines, inlined functions), .symtab, .dynsym, .gnu_debugdata and PLT
 * entries, of the file itself and of its debug file (by build id and by .gnu_debuglink, under
 * /usr/lib/debug, or from a debuginfod server). Go: the function table of the binary, stripped or
 * not. Code that a process made: its perf map and jitdump, in its own root.
 *
 * Where a file is known but no name, the answer is "libc.so.6+0x2724a", marked as a fallback. Files
 * are mapped, not copied; tables of our own stay within memory_bytes and those used last are kept.
 * After namer.begin() naming may take so much CPU time; what is not done by then is answered with
 * what is known already (a symbol without its line) and `final` false, and goes on with the next
 * report.
 *
 * Memory: as namer.h says, an answer holds until the next call. Threads: the reporter's one thread;
 * symbolizer_stats() and symbolizer_kernel_changed() from any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "agent/report/namer.h"
#include "base/err.h"

struct process_info;

/*
 * How the symbolizer gets at files, which it may not open itself: each gives a new fd of a regular
 * file, which the symbolizer closes. Called on its thread. NULL: that source is left out.
 */
struct symbol_access {
	bool (*open_executable)(void *ctx, const struct executable *e, int *fd, struct err *err);
	/* By path in the root of a process (in the agent's pid namespace); pid 0: in ours. */
	bool (*open_path)(void *ctx, uint32_t pid, const char *path, int *fd, struct err *err);
	bool (*open_status)(void *ctx, uint32_t pid, int *fd,
			    struct err *err);                                 /* /proc/PID/status */
	bool (*open_maps)(void *ctx, uint32_t pid, int *fd, struct err *err); /* /proc/PID/maps */
	bool (*open_kallsyms)(void *ctx, int *fd, struct err *err);
	void *ctx;
};

/* The strings outlive the symbolizer. */
struct symbolizer_options {
	size_t memory_bytes; /* -symbol-memory; 0: 8 MiB */
	bool lines;          /* DWARF lines and inlined functions (-inlines) */
	/* A folder of our own, on a disk: lines found once outlive us there, and packed debug
	 * information, as distributions have it, is inflated there. NULL, "": none. */
	const char *cache_dir;
	/* Base addresses of debuginfod servers (debuginfod.h); NULL, "": none. Files that have to
	 * be fetched are waited for this long in all, then their names come with a later answer.
	 */
	const char *debuginfod_urls;
	uint64_t debuginfod_wait_ns;
	uint64_t kernel_read_interval_ns; /* its symbols are not read more often; 0: 30 s */
	uint64_t file_idle_ns; /* files that nothing was asked of for so long are closed; 0: 10 min
				*/
};

/* Counts since the start. */
struct symbolizer_stats {
	uint64_t asked, named, fallback; /* frames */
	uint64_t later;                  /* answers that were not final: the budget was spent */
	uint64_t files_opened, files_refused; /* not there any more, no ELF, changed under us */
	uint64_t tables_refused;              /* symbols or lines that did not fit the memory */
	uint64_t evicted;
	uint64_t cpu_ns;
	uint64_t cache_hits, cache_refused;     /* of cache_dir; refused: a file that was broken */
	uint64_t debug_files;                   /* found beside the executables */
	uint64_t fetched_files, fetch_failures; /* of debuginfod servers */
	size_t memory_bytes;                    /* now */
	uint32_t kernel_symbols;
	char kernel_problem[160]; /* why the kernel's frames have no names; "" = they have */
};

struct symbolizer;
struct symbolizer *symbolizer_new(const struct symbolizer_options *options,
				  const struct symbol_access *access);
void symbolizer_free(struct symbolizer *s); /* NULL is fine */
struct namer symbolizer_namer(struct symbolizer *s);

/* The kernel has loaded or dropped code (PERF_RECORD_KSYMBOL): read its symbols again when needed.
 */
void symbolizer_kernel_changed(struct symbolizer *s);
void symbolizer_stats(struct symbolizer *s, struct symbolizer_stats *out);
