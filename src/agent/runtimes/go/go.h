/*
 * go.h - Go 1.13 and later: where a process keeps the labels of its goroutines (pprof.Do).
 *
 * Go's frames are walked and named as native code; what BPF needs to know is where the labels are
 * (bpf/go_labels.h). All of it comes from the file: how a thread finds its g from the code of
 * runtime.morestack, where a g has its labels from the version and the table below, checked against
 * the code of runtime.setProfLabel. Without that function, which the linker leaves out where nobody
 * calls it, a program has no labels, and nothing is looked for in its processes.
 */
#pragma once
#include "agent/runtimes/runtime.h"

/* Of an executable (struct executable.runtime). */
struct go_facts {
	uint32_t minor;            /* 1.minor */
	uint32_t tls_in_memory;    /* tls_vaddr is where a process has its tls_offset, as 64 bits */
	uint64_t tls_vaddr;        /* elf_vaddr */
	struct go_runtime offsets; /* tls_offset unless tls_in_memory */
};
_Static_assert(sizeof(struct go_facts) <= RUNTIME_FACTS_MOST, "facts fit");

/* "go1.23.4 X:nocoverageredesign", "devel go1.27-5c6ee0d": 1.minor. */
bool go_version_minor(struct str version, uint32_t *minor);
/* Of a Go binary (cmd/go's build information); "": it has none, or one that only a process can
 * read. */
struct str go_version_of(const struct elf_file *f);
/* The offsets of 1.minor; false: older than 1.13. Of versions that were not there when this was
 * written those of the newest, to be checked by code. */
bool go_offsets_of(uint32_t minor, struct go_runtime *out);

/* Where the first instructions of runtime.morestack, at `vaddr`, find g. */
struct go_tls {
	bool in_memory;
	int32_t offset; /* from the thread pointer */
	uint64_t vaddr; /* in_memory: of a word that holds the offset */
};
bool go_tls_decode(struct bytes code, uint64_t vaddr, struct go_tls *out);

bool go_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		  struct runtime_binary *out);
extern const struct runtime_ops go_runtime;
