/*
 * v8.h - V8, as Node.js 12 and later has it: which file holds it, and where its builtins lie.
 *
 * Frames are as bpf/records.h says (V8_FIRST, V8_SECOND).
 */
#pragma once
#include "agent/runtimes/runtime.h"
#include "agent/runtimes/v8/table.h"

enum { V8_BYTECODES_MOST = 256 };

/* Of an executable that holds V8 (struct executable.runtime). */
struct v8_facts {
	uint32_t version; /* OFFSET_VERSION() */
	struct v8_offsets offsets;
	/* How long byte codes are, by scale of their operands: 1, 2, 4; all 0: not found. */
	uint8_t bytecode_bytes[3][V8_BYTECODES_MOST];
};
_Static_assert(sizeof(struct v8_facts) <= RUNTIME_FACTS_MOST, "facts fit");

bool v8_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		  struct runtime_binary *out);
extern const struct runtime_ops v8_runtime;

/* The facts of an executable, or NULL: it holds no V8. */
const struct v8_facts *v8_facts(const struct executable *e);
