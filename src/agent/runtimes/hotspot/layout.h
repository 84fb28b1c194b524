/*
 * layout.h - where one build of HotSpot keeps what a profiler needs: offsets from its own
 * vmStructs, and the few things that those do not tell, by version.
 *
 * Generations of the code cache:
 *   8         one code heap, offsets instead of addresses, another interpreted frame
 *   11 to 22  a compiled method is one blob: header, code, oops, metadata, scopes data, PcDescs
 *   23        PcDescs and scopes data in a block of their own (nmethod::_immutable_data)
 *   25        metadata in another one (CodeBlob::_mutable_data)
 * Seen and tested: 11, 17, 21, 25. JDK 8 and before (one code heap) is refused.
 *
 * Many offsets are computed by the library as it is loaded: they are completed from the first
 * process that is attached to.
 *
 * Memory: a value. Threads: hotspot_layout_complete() on one; others may read once `complete`.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "agent/runtimes/hotspot/vm_structs.h"
#include "bpf/hotspot_data.h"

/* A field: `bytes` wide, 0 if this build has none such. */
struct vm_slot {
	uint16_t offset;
	uint8_t bytes;
	bool is_signed;
};

enum { HOTSPOT_FIELDS_MOST = 72 };

struct hotspot_layout {
	_Atomic bool complete;
	uint32_t major;                         /* of the JDK */
	uint64_t first_offset_at;               /* elf_vaddr of the offsets in vmStructs... */
	int32_t offset_at[HOTSPOT_FIELDS_MOST]; /* ...from there on; -1: no such field, or static */

	/* elf_vaddr of statics, 0: not there */
	uint64_t code_heaps, code_heap, interpreter, major_version;

	struct vm_slot array_len, array_data; /* GrowableArray */
	struct vm_slot space_low, space_low_boundary, space_high_boundary;
	struct vm_slot heap_memory, heap_segmap, heap_shift;
	struct vm_slot queue_buffer, queue_limit;

	struct vm_slot blob_name, blob_size, blob_code_begin, blob_code_offset, blob_data_offset,
		blob_frame_size, blob_frame_complete, blob_mutable, blob_mutable_bytes,
		blob_relocation_bytes;

	struct vm_slot nmethod_method, nmethod_compile_id, nmethod_orig_pc, nmethod_deopt,
		nmethod_deopt_mh, nmethod_deopt_offset, nmethod_deopt_mh_offset;
	struct vm_slot nmethod_scopes_begin, nmethod_scopes_offset, nmethod_pcs_offset,
		nmethod_dependencies_offset, nmethod_metadata_offset, nmethod_immutable,
		nmethod_immutable_bytes;

	struct vm_slot pc_desc_pc, pc_desc_scope;
	struct vm_slot method_const, method_i2i_entry;
	struct vm_slot const_constants, const_size, const_flags, const_code_size, const_name,
		const_signature;
	struct vm_slot pool_holder, pool_length, pool_source_file;
	struct vm_slot klass_name, klass_source_file;
	struct vm_slot symbol_length, symbol_body;

	uint32_t block_header_bytes, nmethod_bytes, pc_desc_bytes, method_bytes, const_bytes,
		pool_bytes;
};

/* What the file says. ERR_UNSUPPORTED: a build that lacks something. */
bool hotspot_layout_read(const struct elf_file *libjvm, struct hotspot_layout *out,
			 struct err *err) MUST_CHECK;
/* The offsets, from a process that has this file at load_bias. ERR_UNAVAILABLE: it is too young. */
bool hotspot_layout_complete(struct hotspot_layout *l, uint64_t load_bias,
			     const struct hotspot_memory *memory, struct err *err) MUST_CHECK;
/* The part that BPF needs. */
void hotspot_layout_for_bpf(const struct hotspot_layout *l, struct unwind_hotspot *out);

/* A field's value out of a copy of its struct; 0 where the build has none, or the copy ends. */
uint64_t vm_slot_get(struct vm_slot slot, const void *copy, size_t copy_bytes);
/* Out of the process. */
bool vm_slot_read(struct vm_slot slot, const struct hotspot_memory *memory, uint64_t at,
		  uint64_t *out) MUST_CHECK;
