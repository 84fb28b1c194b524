/*
 * agent.h - the profiler as a whole: samples of every process, unwound and resolved, to one sink.
 *
 * agent_start() attaches through the seam, reads which processes there are, starts sampling and a
 * thread of its own, the trace thread, which calls the sink for each sample in the order of their
 * times (as far as CPUs' clocks agree). Names are not its business: symbolize/ and report/ are.
 *
 * Memory: options are copied; the seam belongs to the caller and must live until agent_free().
 * Threads: any one at a time, besides the sink; agent_stats() and agent_open_executable() from any
 * thread at any time, the sink included.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/labels.h"
#include "agent/seam.h"
#include "agent/trace.h"
#include "base/buf.h"
#include "bpf/records.h"

/* Which processes are sampled. All that are set must agree; all zero: every process. */
struct agent_filter {
	const uint32_t *pids; /* these, and what descends from them */
	uint32_t pid_count;
	/* POSIX extended, unanchored: executable name, comm, or the name of a script (the base name
	 * of the first argument that is a file). "" and NULL: all. */
	const char *process_regex;
	/* Paths below the hierarchy, as /proc/PID/cgroup has them, or of folders where one is
	 * mounted, with all below; where a process is at the moment of the sample, if the kernel
	 * can tell (process/cgroups.h). */
	const char *const *cgroups;
	uint32_t cgroup_count;
};

struct agent_options {
	struct seam_options sampling;
	struct agent_filter filter;
	uint64_t unwind_memory_bytes; /* of rows; 0: 128 MiB */
	uint64_t poll_ns;             /* how often rings are read; 0: 250 ms, faster at first,
				       and up to 1 s where nothing happens */
	uint64_t clock_sync_ns;       /* 0: 3 min */
	const char *runtime_tables;   /* folder of tables that replace built-in ones; NULL: none */
	const char *const *variables; /* of the environment, for process_info */
	uint32_t variable_count;
	bool frames_of_ends; /* append FRAME_END to stacks that were cut */
	/* The kernel loaded or dropped code. On the trace thread; NULL: nobody asks. */
	void (*kernel_changed)(void *ctx);
	void *kernel_changed_ctx;
};

/* Everything that was seen and lost since the start. */
struct agent_stats {
	struct sample_counters kernel; /* sums over CPUs */
	uint64_t traces;               /* handed to the sink */
	uint64_t frames;
	uint64_t ended[UNWIND_END_COUNT]; /* final: after user space went on */
	uint64_t resumed;                 /* walks that user space went on with */
	uint64_t held_dropped;            /* samples whose process the filter then refused */
	uint64_t side_band_records, side_band_lost; /* lost: counted by the kernel */
	uint64_t resyncs;     /* /proc/PID/maps read after a loss or a surprise */
	uint64_t bad_records; /* in either ring: cut or senseless */
	uint64_t pages_built, pages_empty, pages_refused, pages_evicted;
	uint64_t build_ns;                            /* CPU time of building rows */
	uint64_t files_opened, files_refused;         /* executables */
	uint64_t runtimes_attached, runtimes_refused; /* language runtimes of processes */
	uint64_t labels_lost[LABEL_LOSSES];
	uint32_t processes, mappings, executables, row_blocks, rules; /* now */
	bool cgroups_in_kernel; /* the filter's are, and this many were found */
	uint32_t cgroups;
	uint64_t ring_late; /* samples that came out of order by more than the slack */
	/* Median time in the kernel, of samples of native stacks, and of those with frames of
	 * language runtimes. */
	uint64_t native_ns, runtime_ns;
	uint64_t bpf_ns, bpf_runs; /* if the kernel's BPF statistics are on */
};

struct agent;
struct agent *agent_start(const struct agent_options *options, struct seam *seam,
			  const struct trace_sink *sink, struct err *err) MUST_CHECK;
/* Stops sampling, hands out what is in the rings and ends the thread; statistics and executables
 * can still be asked for. */
void agent_stop(struct agent *a);
/* Samples go on and wait in the rings (a second of them and more), and nobody is told of them until
 * it is resumed: with the same options, but for the filter and kernel_changed, and with any sink.
 * The old sink is not called any more. */
void agent_pause(struct agent *a);
bool agent_resume(struct agent *a, const struct agent_options *options,
		  const struct trace_sink *sink, struct err *err) MUST_CHECK;
void agent_free(struct agent *a); /* stops it first; NULL is fine */

/* New filter, from any thread; processes are judged anew. */
bool agent_set_filter(struct agent *a, const struct agent_filter *filter,
		      struct err *err) MUST_CHECK;
/* Appends the filter's pids, and its control groups, that are not there now; ", " between them. */
void agent_list_absent(struct agent *a, struct buf *pids, struct buf *cgroups);
void agent_enable(struct agent *a,
		  bool on); /* probabilistic profiling: takes effect at the next round */
void agent_stats(struct agent *a, struct agent_stats *out);
/* Opens the file behind an executable, for its symbols; ERR_NOT_FOUND when no process maps it any
 * more and its path leads elsewhere. */
bool agent_open_executable(struct agent *a, const struct executable *e, int *fd,
			   struct err *err) MUST_CHECK;
