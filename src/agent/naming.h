/*
 * naming.h - the names of frames, from all who know some: symbolize/ and runtimes/, put together
 * for the reporter.
 *
 * Memory: its own, within symbol_memory_bytes and what the runtimes take. Threads: made and freed
 * by the owner, asked by the reporter's thread.
 */
#pragma once
#include "agent/agent.h"
#include "agent/report/namer.h"

struct naming_options {
	uint64_t symbol_memory_bytes;
	const char *cache_dir; /* NULL: nothing is kept over restarts */
	bool inlines;
	const char *debuginfod_urls; /* NULL: none */
	uint64_t debuginfod_wait_ns; /* for a file, when it is first needed */
};

struct naming;

struct naming *naming_new(const struct naming_options *options);
/* From now on files are opened through these; both NULL: there are none any more. Before, and then,
 * native frames have no names yet. They must outlive the binding. */
void naming_bind(struct naming *n, struct agent *agent, struct seam *seam);
/* As symbolizer_kernel_changed(). */
void naming_kernel_changed(struct naming *n);
void naming_free(struct naming *n); /* NULL is fine */
const struct namer *naming_namer(const struct naming *n);
/* Memory that symbols take now. Any thread. */
uint64_t naming_bytes(const struct naming *n);
