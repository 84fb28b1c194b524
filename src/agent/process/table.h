/*
 * table.h - the processes of the machine as they were at one moment: the side band moves that
 * moment on, record by record.
 *
 * A process is known by its pid until its last thread exits (the first may before it); what runs in
 * it is its image, which exec() replaces. Facts that cost file reads (process_info) are gathered
 * when its first sample comes. What the kernel did not tell, because the ring was full or the agent
 * started late, is read from /proc.
 *
 * Memory: all owned by the table; infos are counted references. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/process/filter.h"
#include "agent/process/mappings.h"
#include "agent/process/modules.h"
#include "agent/process/process_info.h"
#include "agent/process/replaced.h"
#include "agent/runtimes/runtime.h"
#include "agent/sample/side_band.h"
#include "agent/seam.h"
#include "bpf/records.h"

enum { PROCESSES_MOST = 65536, ATTACH_WAITING_MOST = 32, ATTACH_BUILDING_MOST = 8 };

enum process_life {
	LIFE_WHOLE,
	LIFE_FIRST_ENDED, /* the first thread, maybe others go on */
	LIFE_ENDED, /* known for a moment still: exit() goes on in the kernel, and is sampled */
};

struct process {
	struct process *next; /* in its bucket */
	uint32_t pid, ppid;
	uint32_t image;             /* never 0, a new one for each exec() */
	uint32_t exec_id;           /* task_struct.self_exec_id, once a sample has told */
	uint64_t start_boottime_ns; /* 0: not told yet */
	uint64_t start_ns;          /* of the image, CLOCK_MONOTONIC; 0: before we came */
	uint64_t read_ns;           /* when /proc/PID/maps was last read */
	struct mapping_set *set;
	struct replaced *replaced;   /* what BPF may still take for what it was; NULL: nothing */
	struct process_info *info;   /* NULL until the first sample */
	struct process_info *parent; /* info of the process it was forked from, if that had one */
	char *path;                  /* of the executable, as the side band told; NULL: not told */
	char comm[16];
	enum process_verdict verdict;
	bool exec_id_known, kernel_thread;
	bool threaded; /* it has had other threads than the first, or may have had */
	enum process_life life;
	uint64_t ended_ns; /* when that changed, CLOCK_MONOTONIC */
	bool ran;          /* a sample has met this image's own code */
	bool published;    /* BPF knows it */
	bool dirty;        /* what BPF knows is old */
	bool judged;       /* the verdict stands until exec() */
	bool pid_wanted;   /* the filter's pids name it, or a process it descends from */
	/* Its language runtimes: slots of the store, with a reference each; 0: none. */
	uint16_t runtimes[UNWIND_PROCESS_RUNTIMES];
	bool runtimes_guessed; /* runtimes[0] is what others of its file need */
	struct runtime_code code[RUNTIME_CODE_MOST]; /* anonymous mappings there are theirs */
	uint32_t code_count;
	/* Attaching (runtimes/attach.c): what was looked at, how often in vain, and when next. */
	const struct mapping_set *runtimes_set;
	uint64_t runtimes_opened, runtime_retry_ns;
	uint32_t runtime_tries;
};

struct process_table {
	struct seam *seam;
	struct unwind_store *store;
	struct modules *modules;
	struct mapping_sets *sets;
	const struct filter *filter;
	const char *const *variables; /* of the environment, that go into infos */
	uint32_t variable_count;
	struct process **buckets;
	uint64_t *dirty_buckets; /* bits: those that hold a dirty process */
	uint32_t count, next_image;
	uint32_t ended_count; /* processes whose life is not LIFE_WHOLE */
	uint64_t buried_ns;
	uint64_t replaced_ns; /* when code was last mapped over other code */
	uint64_t resyncs, refused;
	uint32_t walkers_asked, walkers_refused; /* bits 1 << enum unwind_walker */
	struct attach_state {                    /* runtimes/attach.c */
		uint64_t attached, refused, later;
		uint32_t waiting[ATTACH_WAITING_MOST], waiting_count; /* pids: runtimes_retry() */
		struct attach_building {
			struct module *module; /* a reference */
			uint32_t next;         /* of its pages */
		} building[ATTACH_BUILDING_MOST];
		uint32_t building_count;
	} attach;
};

void process_table_init(struct process_table *t);
void process_table_release(struct process_table *t);

/* Reads all of /proc. */
bool process_table_scan(struct process_table *t, struct err *err) MUST_CHECK;
/* As much of it as is done before `deadline_ns`, at least those that the filter names by pid;
 * *whole: all of it. */
bool process_table_scan_until(struct process_table *t, uint64_t deadline_ns, bool *whole,
			      struct err *err) MUST_CHECK;
/* Tells BPF, ahead of their first samples, of the processes that the filter names by pid and of
 * those that have a language runtime, as far as that is done before `deadline_ns`. */
void process_table_publish_runtimes(struct process_table *t, uint64_t deadline_ns);
/* What the side band tells. Losses (SIDE_LOST) are the caller's: process_table_resync(). */
void process_table_apply(struct process_table *t, const struct side_record *r);
/* After lost records: all processes that are known are read anew, those that are gone forgotten. */
void process_table_resync(struct process_table *t);
/* The process of a sample, made from /proc or from the sample itself if it is new. */
struct process *process_table_get(struct process_table *t, const struct sample_record *r);
struct process *process_table_find(const struct process_table *t, uint32_t pid);
/* Reads /proc/PID/maps, if that is due: a walk met memory that we do not know. True: it changed. */
bool process_reread(struct process_table *t, struct process *p, uint64_t now_ns);
/* Until it can be told: what others of its file need (the step sees when that is wrong). */
void process_guess_runtime(struct process_table *t, struct process *p,
			   const struct unwind_runtime *usual);
/* It has this runtime from now on; BPF is told, and whose code its anonymous mappings are. False:
 * no room. */
bool process_add_runtime(struct process_table *t, struct process *p,
			 const struct runtime_attachment *found);
/* Its facts, gathered now if that was not done. The table's reference. */
struct process_info *process_facts(struct process_table *t, struct process *p);
/* May this process be sampled? Judged by its facts, once per image. */
bool process_wanted(struct process_table *t, struct process *p);
void process_table_judge_again(struct process_table *t); /* the filter is a new one */
/* Forgets processes of which no thread is left; each second. */
void process_table_bury(struct process_table *t, uint64_t now_ns);
/* Tells BPF whatever has changed, once per round. */
void process_table_publish(struct process_table *t);
