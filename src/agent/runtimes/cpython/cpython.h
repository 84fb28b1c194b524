/*
 * cpython.h - CPython 3.6 to 3.15: which file holds it, and where a process has its threads' state.
 *
 * How a thread finds its own state differs from version to version and from libc to libc; what does
 * not differ is that it finds it: attach() goes through the interpreter's own list of threads, each
 * of which names its thread pointer, and looks which word of the thread's control block leads to
 * the state. No code is decoded, and what was found holds for all threads, forked children too.
 *
 * Frames are {code object, offset of the instruction in bytes << 32 | cookie}.
 */
#pragma once
#include "agent/runtimes/cpython/table.h"
#include "agent/runtimes/runtime.h"

/* Of an executable that holds CPython (struct executable.runtime). */
struct cpython_facts {
	uint32_t minor;        /* 3.minor */
	uint32_t thread_first; /* entry is _PyThreadState_Current, not _PyRuntime */
	uint64_t entry;        /* elf_vaddr */
	struct cpython_offsets offsets;
};
_Static_assert(sizeof(struct cpython_facts) <= RUNTIME_FACTS_MOST, "facts fit");

bool cpython_recognise(const struct elf_file *f, struct str path,
		       const struct runtime_tables *tables, struct runtime_binary *out);
extern const struct runtime_ops cpython_runtime;

/* The facts of an executable, or NULL: it holds no CPython. */
const struct cpython_facts *cpython_facts(const struct executable *e);
