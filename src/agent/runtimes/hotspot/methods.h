/*
 * methods.h - the names and line numbers of the Java methods of one process, read when first asked
 * for and kept.
 *
 * Method -> ConstMethod (byte codes, then the line table) -> ConstantPool -> Symbols; the class is
 * the pool's holder. A method is known by the addresses of Method and ConstMethod together: memory
 * of unloaded classes is used again.
 *
 * Memory: at most limit_bytes; when they are spent, all is forgotten (methods_trim()). Threads:
 * one.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/runtimes/hotspot/layout.h"

struct java_method {
	struct str function, system_name, file; /* as name_line has them */
	struct str lines;                       /* the compressed table */
	uint32_t lines_least;                   /* of struct unsigned5 */
	uint32_t code_bytes;
};

struct methods;

/* The layout is borrowed. */
struct methods *methods_new(const struct hotspot_layout *layout, size_t limit_bytes);
void methods_free(struct methods *m); /* NULL is fine */
size_t methods_bytes(const struct methods *m);
/* To be called between answers: forgets what is too much. */
void methods_trim(struct methods *m);
/* NULL: nothing that looks like a method is there. `cookie`, if not NULL, gets ConstMethod * >> 3.
 * What it points at holds until methods_trim(). */
const struct java_method *methods_get(struct methods *m, const struct hotspot_memory *memory,
				      uint64_t method, uint32_t *cookie);
/* 0: not known. */
uint32_t java_method_line(const struct java_method *m, uint32_t bci);
