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
	/* executor_globals; with threads (ZTS) the word that says where each thread has its own in
	 * its resources */
	uint64_t globals;
	uint64_t body; /* behind an instruction of execute_ex that enters a handler; 0: it has none
			*/
	bool threads;
	bool needs_pcre; /* a library of its own */
	/* ZTS: from the thread pointer to the word that leads to the thread's resources, or where
	 * the process has that distance */
	int32_t tls_offset;
	uint64_t tls_slot;
	struct php_offsets offsets;
};
_Static_assert(sizeof(struct php_facts) <= RUNTIME_FACTS_MOST, "facts fit");

bool php_recognise(const struct elf_file *f, struct str path, const struct runtime_tables *tables,
		   struct runtime_binary *out);
#define PHP_PCRE_NAME "libpcre2-8.so"

extern const struct runtime_ops php_runtime;

/* The facts of an executable, or NULL: it holds no PHP. */
const struct php_facts *php_facts(const struct executable *e);
/* What tsrm_get_ls_cache_tcb_offset() returns, from its instructions: *slot, or if that is 0
 * *offset. False: it is something else. */
bool php_decode_tls(struct bytes code, uint64_t vaddr, uint64_t *slot, int32_t *offset);
/* The version in the text "X-Powered-By: PHP/8.2.32" anywhere in `data`. */
bool php_version_in(struct str data, uint32_t *version);
