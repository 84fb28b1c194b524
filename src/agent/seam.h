/*
 * seam.h - the one way from the worker to what needs privileges (docs/decisions/, the agent).
 *
 * Behind it is the sampler: it holds the capabilities, loads the BPF programs, opens perf events
 * and target files, reads target memory, and parses only what the kernel itself writes. In front of
 * it is the worker, which has no capability: it reads the ring and the side band through mapped
 * file descriptors, fills maps through theirs, and asks here for the rest. seam_local.c calls
 * straight into the sampler of the same process (tests, and machines where one process must do);
 * the supervised agent puts a socketpair between (supervise/).
 *
 * All calls block; none is needed on the way of a usual sample. File descriptors handed out belong
 * to the caller. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

enum { SEAM_CPUS_MAX = 1024 };

/* What the sampler must know before it loads anything. */
struct seam_options {
	uint32_t samples_per_second; /* 1..10000 */
	bool send_idle;
	uint32_t cpu_count; /* 0: every online CPU, also those that come later; else only cpus[] */
	const uint32_t *cpus; /* as -pin-cpu-ids lists them */
	bool only_listed;     /* processes that are not in the map are dropped in the kernel */
	uint32_t ring_bytes;  /* power of two; 0: 1 MiB, or what the rate asks for */
	uint32_t scale; /* maps are 2^scale times as large as usual: -map-scale-factor, 0..8 */
	uint32_t captures_per_second; /* stacks copied per CPU and second; 0: as samples,
					  up to 1,000 or a quarter of them */
	uint32_t capture_bytes;       /* of each; 0: 31.5 KiB */
	uint32_t verifier_log;        /* 0..2: -bpf-log-level */
	bool bounded_loops;           /* for tests: the programs of kernels before 6.1 */
	uint32_t steps; /* runtimes to walk: bits 1 << enum unwind_step_kind (bpf/records.h) */
};

/* File descriptors of what was loaded. The worker maps those marked M. */
struct seam_maps {
	int ring;        /* M */
	int processes;   /* pid -> struct unwind_process */
	int mappings;    /* M */
	int executables; /* M */
	int pages;       /* M */
	int rules;       /* M */
	int runtimes;    /* M */
	int counters;    /* M, one struct sample_counters per possible CPU */
	int cgroups;     /* struct unwind_cgroup -> 1 */
	uint32_t mapping_count, executable_count, page_count, rule_count, runtime_count,
		cpu_count;                    /* elements */
	uint32_t ring_bytes, side_band_bytes; /* of data, without the control pages */
};

/* The side band of one CPU: a perf event to map (one control page and side_band_bytes). */
struct seam_side_band {
	int fd;
	uint32_t cpu;
};

enum seam_proc_file {
	SEAM_PROC_MAPS,
	SEAM_PROC_STAT,
	SEAM_PROC_STATUS,
	SEAM_PROC_COMM,
	SEAM_PROC_CGROUP,
	SEAM_PROC_ENVIRON,
	SEAM_PROC_CMDLINE,
	SEAM_PROC_FILES,
};

/* Which file is meant by a mapping: [start, end) as /proc/PID/maps has it, its path there, and what
 * fstat() must say. device and inode 0: anything that the path leads to. */
struct seam_file {
	uint64_t start, end;
	const char *path; /* NULL: only through map_files */
	uint64_t device, inode;
};

struct seam;
struct seam_ops {
	/* Makes the maps, to be filled at once, and one side band per CPU, which runs. Sampling is
	 * off; the programs load meanwhile. */
	bool (*attach)(struct seam *s, const struct seam_options *options, struct seam_maps *maps,
		       struct err *err) MUST_CHECK;
	/* The next side band that the caller has not got yet; false with err->kind ERR_NONE: none.
	 * CPUs come and go: ask until there is none when they have (sample/online.h). */
	bool (*side_band)(struct seam *s, struct seam_side_band *out, struct err *err);
	/* Sampling on or off (probabilistic profiling). The first call waits until the programs are
	 * loaded, and tells why they are not. */
	bool (*enable)(struct seam *s, bool on, struct err *err) MUST_CHECK;

	/* A process whose first thread has ended is shown by another of its threads, here and
	 * below.
	 *
	 * /proc/PID/<file>, or with pid 0 /proc/kallsyms and the like is not here: see kallsyms. */
	bool (*open_proc)(struct seam *s, uint32_t pid, enum seam_proc_file file, int *fd,
			  struct err *err) MUST_CHECK;
	/* Where /proc/PID/exe points, NUL-terminated. */
	bool (*exe_path)(struct seam *s, uint32_t pid, char *path, size_t cap,
			 struct err *err) MUST_CHECK;
	/* All pids in /proc; at most cap are written, *count may be larger. */
	bool (*list)(struct seam *s, uint32_t *pids, uint32_t cap, uint32_t *count,
		     struct err *err) MUST_CHECK;
	/* A mapped file, regular ones only: through /proc/PID/map_files, else by path in the
	 * process's root. Without a pid: by path in ours. */
	bool (*open_mapped)(struct seam *s, uint32_t pid, const struct seam_file *file, int *fd,
			    struct err *err) MUST_CHECK;
	/* A regular file in the root of the process (perf maps, debug files). */
	bool (*open_in_root)(struct seam *s, uint32_t pid, const char *path, int *fd,
			     struct err *err) MUST_CHECK;
	/* *got may be short where memory ends. */
	bool (*read_memory)(struct seam *s, uint32_t pid, uint64_t address, void *to, size_t bytes,
			    size_t *got, struct err *err) MUST_CHECK;
	/* /proc/kallsyms with addresses, if SYSLOG allows. */
	bool (*open_kallsyms)(struct seam *s, int *fd, struct err *err) MUST_CHECK;

	/* A new group of row blocks at `index` of the outer map, mmap-able as a whole:
	 * UNWIND_GROUP_BLOCKS blocks of UNWIND_BLOCK_ROWS rows (bpf/records.h). */
	bool (*add_blocks)(struct seam *s, uint32_t index, int *fd, struct err *err) MUST_CHECK;
	bool (*drop_blocks)(struct seam *s, uint32_t index, struct err *err) MUST_CHECK;
	/* Loads a program that walks stacks with these steps (bpf/records.h, enum unwind_walker);
	 * it is used once it is there. Again: nothing happens. */
	bool (*load_walker)(struct seam *s, uint32_t index, uint32_t steps,
			    struct err *err) MUST_CHECK;
	/* Nanoseconds that the BPF programs ran (needs BPF statistics on), and how often. */
	bool (*run_time)(struct seam *s, uint64_t *ns, uint64_t *runs, struct err *err) MUST_CHECK;
	void (*free)(struct seam *s);
};

/* Embedded by each implementation. */
struct seam {
	const struct seam_ops *ops;
};

/* The sampler in this process. */
struct seam *seam_local_new(void);
static inline void seam_free(struct seam *s)
{
	if (s)
		s->ops->free(s);
}
