/*
 * php.h - PHP 7.4 and later: which file holds it, and where a process has its globals and JIT code.
 *
 * Frames are {zend_function, PHP_FRAME_* and the instruction's offset | cookie << 32} (records.h).
 */
#pragma once
#include "agent/runtimes/php/table.h"
#include "agent/runtimes/runtime.h"

enum {
	PHP_FUNCTION_MOST = 256, /* bytes of a function that names need */
	PHP_STRING_HEAD = 32,
};

/* Of an executable that holds PHP (struct executable.runtime). All addresses are elf_vaddr. */
struct php_facts {
	uint32_t version; /* OFFSET_VERSION() */
	uint64_t globals; /* executor_globals */
	uint64_t body;    /* the end of execute_ex */
	struct php_offsets offsets;
};
_Static_assert(sizeof(struct php_facts) <= RUNTIME_FACTS_MOST, "facts fit");

bool php_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		   struct runtime_binary *out);
extern const struct runtime_ops php_runtime;

/* The facts of an executable, or NULL: it holds no PHP. */
const struct php_facts *php_facts(const struct executable *e);
/* The version in the text "X-Powered-By: PHP/8.2.32" anywhere in `data`. */
bool php_version_in(struct str data, uint32_t *version);
