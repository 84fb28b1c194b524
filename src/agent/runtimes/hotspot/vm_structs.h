/*
 * vm_structs.h - the tables in which libjvm.so describes its own structs: for each a row of type,
 * field, the field's type, and its offset or (of a static one) its address.
 *
 * The tables lie in the library's data (gHotSpotVMStructs and gHotSpotVMTypes; how wide a row is
 * and where its columns are is told by further symbols, gHotSpotVMStructEntry...), with pointers
 * that the dynamic linker makes, and in some builds with offsets that the library computes as it is
 * loaded: all but those can be read from the file.
 * Source: HotSpot, runtime/vmStructs.hpp. Threads: no state.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "agent/elf/elf_file.h"
#include "base/err.h"
#include "base/str.h"

/* Memory of a process. False: not all of it could be read. */
struct hotspot_memory {
	bool (*read)(void *ctx, uint64_t address, void *to, size_t bytes);
	void *ctx;
};

static inline bool hotspot_read(const struct hotspot_memory *m, uint64_t address, void *to,
				size_t bytes)
{
	return m->read(m->ctx, address, to, bytes);
}

struct vm_field {
	struct str type, name, kind; /* "CodeBlob", "_size", "int" */
	bool is_static;
	uint64_t offset;    /* not static; 0 also where it is not computed yet */
	uint64_t offset_at; /* elf_vaddr of it, 64 bits */
	uint64_t elf_vaddr; /* static */
};

struct vm_type {
	struct str name;
	uint64_t bytes;
};

struct vm_visitor {
	void (*field)(void *ctx, const struct vm_field *f);
	void (*type)(void *ctx, const struct vm_type *t);
	void *ctx;
};

/* Is this a libjvm.so? */
bool vm_structs_there(const struct elf_file *libjvm);
/* Visits all rows. ERR_NOT_FOUND: no such tables; ERR_UNSUPPORTED: they are not in the file;
 * ERR_INVALID: rows that make no sense. */
bool vm_structs_visit(const struct elf_file *libjvm, const struct vm_visitor *visitor,
		      struct err *err) MUST_CHECK;
