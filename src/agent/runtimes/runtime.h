/*
 * runtime.h - what a language runtime gives the agent, so that its frames can be walked and named.
 *
 * The way of a runtime: a file is opened because a walk came through it -> recognise() looks
 * whether it is the runtime's, and where its main loop lies -> a process that maps it is sampled ->
 * attach() finds, in that process's memory, what the BPF step (bpf/step_*.h) needs -> the step
 * pushes frames -> the runtime's names (naming.c) read what they point at.
 *
 * Memory: facts are copied into the struct executable and live as long as it does. Threads:
 * recognise() and attach() run on the trace thread.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "agent/elf/elf_file.h"
#include "base/str.h"
#include "bpf/records.h"

struct offset_table;
struct executable;
struct mapping_set;

enum { RUNTIME_FACTS_MOST = 1024, RUNTIME_CODE_MOST = 8 };

/* Where things lie in runtimes that do not say it themselves: built in, or from a folder whose
 * files replace what is built in. */
struct runtime_tables {
	struct offset_table *cpython, *php, *ruby, *v8;
};

struct runtime_tables *runtime_tables_load(const char *folder, /* NULL, "": none */
					   struct err *err) MUST_CHECK;
void runtime_tables_free(struct runtime_tables *t); /* NULL is fine */

/* Memory of processes. False, or fewer bytes than asked for: not there. */
struct runtime_memory {
	bool (*read)(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes);
	void *ctx;
	/* Where a file lies in a process, for names; NULL: cannot be told. */
	bool (*load_bias)(void *ctx, uint32_t pid, const struct executable *e, uint64_t *bias);
};

/* What recognise() found out about a file. All addresses are elf_vaddr. */
struct runtime_binary {
	const struct runtime_ops *ops;
	_Alignas(8) uint8_t facts[RUNTIME_FACTS_MOST]; /* flat: no pointers */
	size_t facts_bytes;
	/* The main loop, [from, to), and its cold part; 0, 0: there is none. Walks that get there
	 * are handed to the runtime's step. */
	uint64_t loop[2], cold[2];
	/* OFFSET_VERSION() of a file that is the runtime's, where it was refused because the table
	 * does not have its version; 0: it is not the runtime's. */
	uint32_t unknown_version;
};

/* A process to attach to. */
struct runtime_target {
	uint32_t pid;
	uint64_t load_bias; /* of the runtime's file */
	const struct mapping_set *set;
	const struct runtime_memory *memory;
};

struct runtime_code {
	uint64_t start, end; /* pc */
	uint32_t step;
	bool shared; /* what is shared memory; else what is not */
};

/* What attach() found out about a process. */
struct runtime_attachment {
	struct unwind_runtime data; /* its `step` is set already, the rest zero */
	/* Anonymous code that is the runtime's, now and when it is mapped later. */
	struct runtime_code code[RUNTIME_CODE_MOST];
	uint32_t code_count;
};

enum runtime_attached {
	RUNTIME_ATTACHED,
	RUNTIME_LATER,   /* not ready yet: ask again */
	RUNTIME_REFUSED, /* never: a version that we do not know, memory that makes no sense */
};

struct runtime_ops {
	const char *name; /* as -tracers calls it */
	uint32_t step;    /* enum unwind_step_kind */
	bool no_loop;     /* its code is walked as native code: all there is, is data */
	/* Files whose names start like these, NULL at the end, are opened as soon as a process maps
	 * them, before a walk comes through them. NULL: none. */
	const char *const *file_names;
	/* False: not this runtime's file. Called for every file that is opened: be quick. */
	bool (*recognise)(const struct elf_file *f, struct str path,
			  const struct runtime_tables *tables, struct runtime_binary *out);
	/* What a process of this file will most likely need, where none was seen yet; `out` has its
	 * step already. The step must see when it is wrong. False: cannot be guessed. NULL: never.
	 */
	bool (*guess)(const struct executable *e, struct unwind_runtime *out);
	enum runtime_attached (*attach)(const struct runtime_target *t, const struct executable *e,
					struct runtime_attachment *out);
};

/* All there are, NULL at the end (all.c). docs/write-a-runtime.md has the other lists that a new
 * runtime is added to. */
extern const struct runtime_ops *const runtimes_all[];
