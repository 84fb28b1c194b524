/*
 * fake_vm_test.h - the layout of a Java virtual machine that does not exist, for tests and fuzzing
 * of what reads a machine's memory: memory is an array, from address 0 on.
 */
#pragma once
#include <string.h>
#include "agent/runtimes/hotspot/layout.h"

enum fake_vm {
	/* nmethod, code blob, from the struct's begin */
	FAKE_BLOB_NAME = 8,
	FAKE_BLOB_SIZE = 16,
	FAKE_BLOB_CODE = 24,
	FAKE_BLOB_DATA = 32,
	FAKE_BLOB_FRAME_SIZE = 36,
	FAKE_BLOB_FRAME_COMPLETE = 40,
	FAKE_BLOB_MUTABLE = 48,
	FAKE_BLOB_MUTABLE_BYTES = 56,
	FAKE_BLOB_RELOCATION_BYTES = 60,
	FAKE_NMETHOD_METHOD = 64,
	FAKE_NMETHOD_COMPILE_ID = 72,
	FAKE_NMETHOD_ORIG_PC = 76,
	FAKE_NMETHOD_DEOPT = 80,
	FAKE_NMETHOD_SCOPES = 96,
	FAKE_NMETHOD_PCS = 104,
	FAKE_NMETHOD_DEPENDENCIES = 108,
	FAKE_NMETHOD_METADATA = 112,
	FAKE_NMETHOD_IMMUTABLE = 120,
	FAKE_NMETHOD_IMMUTABLE_BYTES = 128,
	FAKE_NMETHOD_BYTES = 136,
	FAKE_PC_DESC_BYTES = 16, /* pc, scope */

	FAKE_METHOD_CONST = 8,
	FAKE_METHOD_BYTES = 64,
	FAKE_CONST_POOL = 8,
	FAKE_CONST_SIZE = 16, /* words */
	FAKE_CONST_FLAGS = 20,
	FAKE_CONST_CODE_SIZE = 22,
	FAKE_CONST_NAME = 24,
	FAKE_CONST_SIGNATURE = 26,
	FAKE_CONST_BYTES = 48,
	FAKE_POOL_HOLDER = 8,
	FAKE_POOL_LENGTH = 16,
	FAKE_POOL_FILE = 20,
	FAKE_POOL_BYTES = 64,
	FAKE_KLASS_NAME = 16,
	FAKE_SYMBOL_LENGTH = 0,
	FAKE_SYMBOL_BODY = 6,

	/* of a machine as a whole */
	FAKE_CODE_HEAPS = 8, /* statics: pointers at these addresses */
	FAKE_INTERPRETER = 16,
	FAKE_SPACE_LOW_BOUNDARY = 8, /* of a VirtualSpace */
	FAKE_SPACE_HIGH_BOUNDARY = 16,
	FAKE_HEAP_MEMORY = 8, /* of a CodeHeap: two VirtualSpaces and a number */
	FAKE_HEAP_SEGMAP = 32,
	FAKE_HEAP_SHIFT = 56,
	FAKE_QUEUE_BUFFER = 8,
	FAKE_QUEUE_LIMIT = 16,
	FAKE_ARRAY_DATA = 8,
};

static inline struct vm_slot fake_slot(uint16_t offset, uint8_t bytes)
{
	return (struct vm_slot){ .offset = offset, .bytes = bytes, .is_signed = bytes == 4 };
}

/* JDK 17: all in one blob; or JDK 25, where PcDescs, scopes and metadata are elsewhere. */
static inline void fake_vm_layout(struct hotspot_layout *l, bool jdk25)
{
	memset(l, 0, sizeof(*l));
	memset(l->offset_at, 0xff, sizeof(l->offset_at));
	l->major = jdk25 ? 25 : 17;
	l->code_heaps = FAKE_CODE_HEAPS;
	l->interpreter = FAKE_INTERPRETER;
	l->array_len = fake_slot(0, 4);
	l->array_data = fake_slot(FAKE_ARRAY_DATA, 8);
	l->space_low = fake_slot(0, 8);
	l->space_low_boundary = fake_slot(FAKE_SPACE_LOW_BOUNDARY, 8);
	l->space_high_boundary = fake_slot(FAKE_SPACE_HIGH_BOUNDARY, 8);
	l->heap_memory = fake_slot(FAKE_HEAP_MEMORY, 1);
	l->heap_segmap = fake_slot(FAKE_HEAP_SEGMAP, 1);
	l->heap_shift = fake_slot(FAKE_HEAP_SHIFT, 4);
	l->queue_buffer = fake_slot(FAKE_QUEUE_BUFFER, 8);
	l->queue_limit = fake_slot(FAKE_QUEUE_LIMIT, 4);
	l->blob_name = fake_slot(FAKE_BLOB_NAME, 8);
	l->blob_size = fake_slot(FAKE_BLOB_SIZE, 4);
	l->blob_frame_size = fake_slot(FAKE_BLOB_FRAME_SIZE, 4);
	l->blob_frame_complete = fake_slot(FAKE_BLOB_FRAME_COMPLETE, 4);
	l->nmethod_method = fake_slot(FAKE_NMETHOD_METHOD, 8);
	l->nmethod_compile_id = fake_slot(FAKE_NMETHOD_COMPILE_ID, 4);
	l->nmethod_orig_pc = fake_slot(FAKE_NMETHOD_ORIG_PC, 4);
	l->nmethod_pcs_offset = fake_slot(FAKE_NMETHOD_PCS, 4);
	if (jdk25) {
		l->blob_code_offset = fake_slot(FAKE_BLOB_CODE, 4);
		l->blob_mutable = fake_slot(FAKE_BLOB_MUTABLE, 8);
		l->blob_mutable_bytes = fake_slot(FAKE_BLOB_MUTABLE_BYTES, 4);
		l->blob_relocation_bytes = fake_slot(FAKE_BLOB_RELOCATION_BYTES, 4);
		l->nmethod_deopt_offset = fake_slot(FAKE_NMETHOD_DEOPT, 4);
		l->nmethod_scopes_offset = fake_slot(FAKE_NMETHOD_SCOPES, 4);
		l->nmethod_immutable = fake_slot(FAKE_NMETHOD_IMMUTABLE, 8);
		l->nmethod_immutable_bytes = fake_slot(FAKE_NMETHOD_IMMUTABLE_BYTES, 4);
	} else {
		l->blob_code_begin = fake_slot(FAKE_BLOB_CODE, 8);
		l->blob_data_offset = fake_slot(FAKE_BLOB_DATA, 4);
		l->nmethod_deopt = fake_slot(FAKE_NMETHOD_DEOPT, 8);
		l->nmethod_scopes_begin = fake_slot(FAKE_NMETHOD_SCOPES, 8);
		l->nmethod_dependencies_offset = fake_slot(FAKE_NMETHOD_DEPENDENCIES, 4);
		l->nmethod_metadata_offset = fake_slot(FAKE_NMETHOD_METADATA, 4);
	}
	l->pc_desc_pc = fake_slot(0, 4);
	l->pc_desc_scope = fake_slot(4, 4);
	l->method_const = fake_slot(FAKE_METHOD_CONST, 8);
	l->const_constants = fake_slot(FAKE_CONST_POOL, 8);
	l->const_size = fake_slot(FAKE_CONST_SIZE, 4);
	l->const_flags = fake_slot(FAKE_CONST_FLAGS, 2);
	l->const_code_size = fake_slot(FAKE_CONST_CODE_SIZE, 2);
	l->const_name = fake_slot(FAKE_CONST_NAME, 2);
	l->const_signature = fake_slot(FAKE_CONST_SIGNATURE, 2);
	l->pool_holder = fake_slot(FAKE_POOL_HOLDER, 8);
	l->pool_length = fake_slot(FAKE_POOL_LENGTH, 4);
	l->pool_source_file = fake_slot(FAKE_POOL_FILE, 2);
	l->klass_name = fake_slot(FAKE_KLASS_NAME, 8);
	l->symbol_length = fake_slot(FAKE_SYMBOL_LENGTH, 2);
	l->symbol_body = fake_slot(FAKE_SYMBOL_BODY, 1);
	l->block_header_bytes = 16;
	l->nmethod_bytes = FAKE_NMETHOD_BYTES;
	l->pc_desc_bytes = FAKE_PC_DESC_BYTES;
	l->method_bytes = FAKE_METHOD_BYTES;
	l->const_bytes = FAKE_CONST_BYTES;
	l->pool_bytes = FAKE_POOL_BYTES;
	atomic_store(&l->complete, true);
}
