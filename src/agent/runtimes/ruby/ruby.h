/*
 * ruby.h - Ruby 2.7 and later: which file holds it, where its virtual machine's loop lies, and how
 * a thread finds its execution context.
 *
 * Frames are as bpf/records.h says (RUBY_FIRST, RUBY_SECOND).
 */
#pragma once
#include "agent/runtimes/ruby/table.h"
#include "agent/runtimes/runtime.h"

enum {
	RUBY_OBJECT_BYTES = 40, /* of an object of the heap: the least that any has */
	RUBY_BODY_BYTES = 256,  /* of an iseq's body that names need */
};

/* How a thread finds its execution context. */
enum ruby_context_kind {
	RUBY_CONTEXT_GLOBAL,  /* context: a word of the process's (up to 2.7) */
	RUBY_CONTEXT_STATIC,  /* context_offset: from the thread pointer */
	RUBY_CONTEXT_DYNAMIC, /* context: {module, offset} for __tls_get_addr(); context_offset:
			       * behind what that returns */
};

/* Of an executable that holds Ruby (struct executable.runtime). All addresses are elf_vaddr. */
struct ruby_facts {
	uint32_t version; /* OFFSET_VERSION() */
	uint32_t context_kind;
	uint64_t context;
	int64_t context_offset;
	uint64_t loop[2]; /* vm_exec_core */
	uint64_t symbols; /* the last ID, a table, and all names of IDs; 0: not found */
	struct ruby_offsets offsets;
};
_Static_assert(sizeof(struct ruby_facts) <= RUNTIME_FACTS_MOST, "facts fit");

bool ruby_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		    struct runtime_binary *out);
extern const struct runtime_ops ruby_runtime;

/* The facts of an executable, or NULL: it holds no Ruby. */
const struct ruby_facts *ruby_facts(const struct executable *e);
