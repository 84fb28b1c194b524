#include "agent/runtimes/hotspot/layout.h"

#include <string.h>

#include "agent/runtimes/hotspot/file_data.h"
#include "base/cleanup.h"

enum { OFFSET_MOST = 4096, STRUCT_BYTES_MOST = 8192 };

/* Fields of which a build may lack some: what must be there is said in check(). */
static const struct wanted_field {
	const char *type, *name;
	size_t at; /* in the layout: a struct vm_slot, or for statics a uint64_t */
} wanted_fields[] = {
#define SLOT(type, name, member)                                    \
	{                                                           \
		type, name, offsetof(struct hotspot_layout, member) \
	}
	SLOT("CodeCache", "_heaps", code_heaps),
	SLOT("CodeCache", "_heap", code_heap), /* 8 */
	SLOT("AbstractInterpreter", "_code", interpreter),
	SLOT("Abstract_VM_Version", "_vm_major_version", major_version),
	SLOT("GenericGrowableArray", "_len", array_len), /* until 15 */
	SLOT("GrowableArrayBase", "_len", array_len),
	SLOT("GrowableArray<int>", "_data", array_data),
	SLOT("VirtualSpace", "_low", space_low),
	SLOT("VirtualSpace", "_low_boundary", space_low_boundary),
	SLOT("VirtualSpace", "_high_boundary", space_high_boundary),
	SLOT("CodeHeap", "_memory", heap_memory),
	SLOT("CodeHeap", "_segmap", heap_segmap),
	SLOT("CodeHeap", "_log2_segment_size", heap_shift),
	SLOT("StubQueue", "_stub_buffer", queue_buffer),
	SLOT("StubQueue", "_buffer_limit", queue_limit),
	SLOT("CodeBlob", "_name", blob_name),
	SLOT("CodeBlob", "_size", blob_size),
	SLOT("CodeBlob", "_code_begin", blob_code_begin), /* until 22 */
	SLOT("CodeBlob", "_code_offset", blob_code_offset),
	SLOT("CodeBlob", "_data_offset", blob_data_offset),
	SLOT("CodeBlob", "_frame_size", blob_frame_size),
	SLOT("CodeBlob", "_frame_complete_offset", blob_frame_complete),
	SLOT("CodeBlob", "_mutable_data", blob_mutable), /* from 25 */
	SLOT("CodeBlob", "_mutable_data_size", blob_mutable_bytes),
	SLOT("CodeBlob", "_relocation_size", blob_relocation_bytes),
	SLOT("CompiledMethod", "_method", nmethod_method), /* until 22 */
	SLOT("nmethod", "_method", nmethod_method),
	SLOT("nmethod", "_compile_id", nmethod_compile_id),
	SLOT("nmethod", "_orig_pc_offset", nmethod_orig_pc),
	SLOT("CompiledMethod", "_deopt_handler_begin", nmethod_deopt), /* until 22 */
	SLOT("CompiledMethod", "_deopt_mh_handler_begin", nmethod_deopt_mh),
	SLOT("nmethod", "_deopt_handler_offset", nmethod_deopt_offset),
	SLOT("nmethod", "_deopt_handler_entry_offset", nmethod_deopt_offset), /* from 26 */
	SLOT("nmethod", "_deopt_mh_handler_offset", nmethod_deopt_mh_offset), /* 23 to 25 */
	SLOT("nmethod", "_deoptimize_offset", nmethod_deopt_offset),          /* 8 */
	SLOT("nmethod", "_deoptimize_mh_offset", nmethod_deopt_mh_offset),
	SLOT("CompiledMethod", "_scopes_data_begin", nmethod_scopes_begin), /* until 22 */
	SLOT("nmethod", "_scopes_data_offset", nmethod_scopes_offset),      /* 8, and from 23 */
	SLOT("nmethod", "_scopes_pcs_offset", nmethod_pcs_offset),
	SLOT("nmethod", "_dependencies_offset", nmethod_dependencies_offset), /* until 22 */
	SLOT("nmethod", "_metadata_offset", nmethod_metadata_offset),         /* until 24 */
	SLOT("nmethod", "_immutable_data", nmethod_immutable),                /* from 23 */
	SLOT("nmethod", "_immutable_data_size", nmethod_immutable_bytes),
	SLOT("PcDesc", "_pc_offset", pc_desc_pc),
	SLOT("PcDesc", "_scope_decode_offset", pc_desc_scope),
	SLOT("Method", "_constMethod", method_const),
	SLOT("Method", "_i2i_entry", method_i2i_entry),
	SLOT("ConstMethod", "_constants", const_constants),
	SLOT("ConstMethod", "_constMethod_size", const_size), /* words */
	SLOT("ConstMethod", "_flags", const_flags),
	SLOT("ConstMethod", "_flags._flags", const_flags), /* from 21 */
	SLOT("ConstMethod", "_code_size", const_code_size),
	SLOT("ConstMethod", "_name_index", const_name),
	SLOT("ConstMethod", "_signature_index", const_signature),
	SLOT("ConstantPool", "_pool_holder", pool_holder),
	SLOT("ConstantPool", "_length", pool_length),
	SLOT("ConstantPool", "_source_file_name_index", pool_source_file), /* from 15 */
	SLOT("Klass", "_name", klass_name),
	SLOT("InstanceKlass", "_source_file_name_index", klass_source_file), /* until 14 */
	SLOT("Symbol", "_length", symbol_length),
	SLOT("Symbol", "_body[0]", symbol_body),
	SLOT("Symbol", "_body", symbol_body), /* 8 */
#undef SLOT
};

static const struct wanted_type {
	const char *name;
	size_t at; /* in the layout: a uint32_t */
} wanted_types[] = {
	{ "HeapBlock", offsetof(struct hotspot_layout, block_header_bytes) },
	{ "nmethod", offsetof(struct hotspot_layout, nmethod_bytes) },
	{ "PcDesc", offsetof(struct hotspot_layout, pc_desc_bytes) },
	{ "Method", offsetof(struct hotspot_layout, method_bytes) },
	{ "ConstMethod", offsetof(struct hotspot_layout, const_bytes) },
	{ "ConstantPool", offsetof(struct hotspot_layout, pool_bytes) },
};

/* How wide a C++ type of the tables is. Structs that are embedded count as there, with 1. */
static struct vm_slot slot_of(struct str kind, uint64_t offset)
{
	static const struct {
		const char *name;
		uint8_t bytes;
		bool is_signed;
	} widths[] = {
		{ "address", 8, false },      { "size_t", 8, false },
		{ "int", 4, true },           { "jint", 4, true },
		{ "u4", 4, false },           { "uint32_t", 4, false },
		{ "unsigned int", 4, false }, { "short", 2, true },
		{ "int16_t", 2, true },       { "u2", 2, false },
		{ "jushort", 2, false },      { "unsigned short", 2, false },
		{ "uint16_t", 2, false },
	};
	struct vm_slot slot = { .offset = (uint16_t)offset, .bytes = 1 };

	if (str_has_suffix(kind, STR("*")))
		slot.bytes = 8;
	for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
		if (!str_is(kind, widths[i].name))
			continue;
		slot.bytes = widths[i].bytes;
		slot.is_signed = widths[i].is_signed;
	}
	return slot;
}

_Static_assert(ARRAY_LEN(wanted_fields) <= HOTSPOT_FIELDS_MOST, "a place for each");

static void take_field(void *ctx, const struct vm_field *f)
{
	struct hotspot_layout *l = ctx;
	struct vm_slot slot = slot_of(f->kind, f->offset);

	if (!l->first_offset_at)
		l->first_offset_at = f->offset_at;

	for (size_t i = 0; i < ARRAY_LEN(wanted_fields); i++) {
		const struct wanted_field *w = &wanted_fields[i];

		if (!str_is(f->name, w->name) || !str_is(f->type, w->type))
			continue;
		if (f->is_static) {
			memcpy((char *)ctx + w->at, &f->elf_vaddr, sizeof(f->elf_vaddr));
		} else {
			memcpy((char *)ctx + w->at, &slot, sizeof(slot));
			l->offset_at[i] = (int32_t)(f->offset_at - l->first_offset_at);
		}
	}
}

static void take_type(void *ctx, const struct vm_type *t)
{
	uint32_t bytes = (uint32_t)t->bytes;

	for (size_t i = 0; i < ARRAY_LEN(wanted_types); i++)
		if (str_is(t->name, wanted_types[i].name) && t->bytes <= STRUCT_BYTES_MOST)
			memcpy((char *)ctx + wanted_types[i].at, &bytes, sizeof(bytes));
}

/* Either of two fields, and what the lack of both is called. */
static bool has(const struct vm_slot *a, const struct vm_slot *b, uint32_t bytes, const char *what,
		struct err *err)
{
	if (a->bytes == bytes || (b && b->bytes))
		return true;
	return err_set(err, ERR_UNSUPPORTED, "this JVM's vmStructs lack %s", what);
}

static bool check(const struct hotspot_layout *l, struct err *err)
{
	if (!l->code_heaps && !l->code_heap)
		return err_set(err, ERR_UNSUPPORTED, "this JVM's vmStructs lack CodeCache::_heaps");
	if (!l->interpreter || !l->major_version)
		return err_set(err, ERR_UNSUPPORTED, "this JVM's vmStructs lack statics");
	if (!l->block_header_bytes || !l->nmethod_bytes || l->pc_desc_bytes < 8 ||
	    l->pc_desc_bytes > 64 || !l->method_bytes || !l->const_bytes || !l->pool_bytes)
		return err_set(err, ERR_UNSUPPORTED, "this JVM's vmTypes lack sizes");
	return has(&l->array_len, NULL, 4, "GrowableArray::_len", err) &&
	       has(&l->array_data, NULL, 8, "GrowableArray::_data", err) &&
	       has(&l->space_low, NULL, 8, "VirtualSpace::_low", err) &&
	       has(&l->space_low_boundary, NULL, 8, "VirtualSpace::_low_boundary", err) &&
	       has(&l->space_high_boundary, NULL, 8, "VirtualSpace::_high_boundary", err) &&
	       has(&l->heap_memory, NULL, 1, "CodeHeap::_memory", err) &&
	       has(&l->heap_segmap, NULL, 1, "CodeHeap::_segmap", err) &&
	       has(&l->heap_shift, NULL, 4, "CodeHeap::_log2_segment_size", err) &&
	       has(&l->queue_buffer, NULL, 8, "StubQueue::_stub_buffer", err) &&
	       has(&l->queue_limit, NULL, 4, "StubQueue::_buffer_limit", err) &&
	       has(&l->blob_name, NULL, 8, "CodeBlob::_name", err) &&
	       has(&l->blob_size, NULL, 4, "CodeBlob::_size", err) &&
	       has(&l->blob_code_begin, &l->blob_code_offset, 8, "CodeBlob::_code_begin", err) &&
	       has(&l->blob_frame_size, NULL, 4, "CodeBlob::_frame_size", err) &&
	       has(&l->blob_frame_complete, &l->blob_code_offset, 4,
		   "CodeBlob::_frame_complete_offset", err) &&
	       has(&l->nmethod_method, NULL, 8, "nmethod::_method", err) &&
	       has(&l->nmethod_compile_id, NULL, 4, "nmethod::_compile_id", err) &&
	       has(&l->nmethod_orig_pc, NULL, 4, "nmethod::_orig_pc_offset", err) &&
	       has(&l->nmethod_deopt, &l->nmethod_deopt_offset, 8, "nmethod's deopt handler",
		   err) &&
	       has(&l->nmethod_scopes_begin, &l->nmethod_scopes_offset, 8, "nmethod's scopes",
		   err) &&
	       has(&l->nmethod_pcs_offset, NULL, 4, "nmethod::_scopes_pcs_offset", err) &&
	       has(&l->nmethod_dependencies_offset, &l->nmethod_immutable, 4,
		   "nmethod::_dependencies_offset", err) &&
	       has(&l->nmethod_metadata_offset, &l->blob_mutable, 4, "nmethod's metadata", err) &&
	       has(&l->pc_desc_pc, NULL, 4, "PcDesc::_pc_offset", err) &&
	       has(&l->pc_desc_scope, NULL, 4, "PcDesc::_scope_decode_offset", err) &&
	       has(&l->method_const, NULL, 8, "Method::_constMethod", err) &&
	       has(&l->method_i2i_entry, NULL, 8, "Method::_i2i_entry", err) &&
	       has(&l->const_constants, NULL, 8, "ConstMethod::_constants", err) &&
	       has(&l->const_size, NULL, 4, "ConstMethod::_constMethod_size", err) &&
	       has(&l->const_flags, &l->const_flags, 2, "ConstMethod::_flags", err) &&
	       has(&l->const_code_size, NULL, 2, "ConstMethod::_code_size", err) &&
	       has(&l->const_name, NULL, 2, "ConstMethod::_name_index", err) &&
	       has(&l->const_signature, NULL, 2, "ConstMethod::_signature_index", err) &&
	       has(&l->pool_holder, NULL, 8, "ConstantPool::_pool_holder", err) &&
	       has(&l->pool_length, NULL, 4, "ConstantPool::_length", err) &&
	       has(&l->klass_name, NULL, 8, "Klass::_name", err) &&
	       has(&l->symbol_length, NULL, 2, "Symbol::_length", err) &&
	       has(&l->symbol_body, NULL, 1, "Symbol::_body", err);
}

bool hotspot_layout_read(const struct elf_file *libjvm, struct hotspot_layout *out, struct err *err)
{
	struct hotspot_layout l = { 0 };
	const struct vm_visitor visitor = { take_field, take_type, &l };
	struct file_data data;
	struct hotspot_memory memory;
	int32_t major = 8; /* which calls itself 25, as HotSpot was counted then */

	memset(l.offset_at, 0xff, sizeof(l.offset_at));
	if (!vm_structs_visit(libjvm, &visitor, err) || !check(&l, err))
		return false;
	if (!file_data_open(libjvm, &data))
		return err_set(err, ERR_UNSUPPORTED, "libjvm has no relocations");
	memory = file_data_memory(&data);
	if (l.code_heaps && (!hotspot_read(&memory, l.major_version, &major, sizeof(major)) ||
			     major < 9 || major > 1000))
		return err_set(err, ERR_UNSUPPORTED, "the JVM's version is not in its file");
	l.major = (uint32_t)major;
	memcpy(out, &l, sizeof(l));
	return true;
}

bool hotspot_layout_complete(struct hotspot_layout *l, uint64_t load_bias,
			     const struct hotspot_memory *memory, struct err *err)
{
	if (atomic_load_explicit(&l->complete, memory_order_acquire))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(wanted_fields); i++) {
		struct vm_slot *slot = (void *)((char *)l + wanted_fields[i].at);
		uint64_t offset;

		if (l->offset_at[i] < 0)
			continue;
		if (!hotspot_read(memory,
				  l->first_offset_at + load_bias + (uint32_t)l->offset_at[i],
				  &offset, sizeof(offset)))
			return err_set(err, ERR_UNAVAILABLE, "vmStructs cannot be read");
		if (offset > OFFSET_MOST)
			return err_set(err, ERR_INVALID, "%s::%s lies at %llu",
				       wanted_fields[i].type, wanted_fields[i].name,
				       (unsigned long long)offset);
		slot->offset = (uint16_t)offset;
	}
	/* None of these is the first of its struct. */
	if (!l->array_data.offset || !l->heap_segmap.offset || !l->nmethod_compile_id.offset ||
	    !l->method_i2i_entry.offset || !l->const_name.offset)
		return err_set(err, ERR_UNAVAILABLE, "the JVM has not computed its vmStructs yet");
	atomic_store_explicit(&l->complete, true, memory_order_release);
	return true;
}

void hotspot_layout_for_bpf(const struct hotspot_layout *l, struct unwind_hotspot *out)
{
	bool offsets = l->blob_code_offset.bytes;

	out->block_header = (uint16_t)l->block_header_bytes;
	out->blob_name = l->blob_name.offset;
	out->blob_frame_size = l->blob_frame_size.offset;
	out->blob_frame_complete = l->blob_frame_complete.offset;
	out->blob_code = offsets ? l->blob_code_offset.offset : l->blob_code_begin.offset;
	out->nmethod_compile_id = l->nmethod_compile_id.offset;
	out->nmethod_orig_pc = l->nmethod_orig_pc.offset;
	out->nmethod_deopt = offsets ? l->nmethod_deopt_offset.offset : l->nmethod_deopt.offset;
	out->nmethod_deopt_mh =
		offsets ? l->nmethod_deopt_mh_offset.offset : l->nmethod_deopt_mh.offset;
	out->method_const = l->method_const.offset;
	out->method_i2i_entry = l->method_i2i_entry.offset;
	out->const_code_size = l->const_code_size.offset;
	out->const_bytes = (uint16_t)l->const_bytes;
	out->flags = offsets ? HOTSPOT_OFFSETS : 0;
	if (l->blob_frame_complete.bytes == 2)
		out->flags |= HOTSPOT_SHORT_COMPLETE;
	if (l->major == 8)
		out->flags |= HOTSPOT_SEVENTH_BCP;
	if (offsets ? l->nmethod_deopt_mh_offset.bytes : l->nmethod_deopt_mh.bytes)
		out->flags |= HOTSPOT_HAS_DEOPT_MH;
}

uint64_t vm_slot_get(struct vm_slot slot, const void *copy, size_t copy_bytes)
{
	uint64_t value = 0;

	if (!slot.bytes || slot.offset > copy_bytes || slot.bytes > copy_bytes - slot.offset)
		return 0;
	memcpy(&value, (const char *)copy + slot.offset, slot.bytes);
	if (slot.is_signed && slot.bytes < 8 && value >> (slot.bytes * 8 - 1))
		value |= ~UINT64_C(0) << slot.bytes * 8;
	return value;
}

bool vm_slot_read(struct vm_slot slot, const struct hotspot_memory *memory, uint64_t at,
		  uint64_t *out)
{
	uint8_t copy[8];
	const struct vm_slot here = { .bytes = slot.bytes, .is_signed = slot.is_signed };

	if (!slot.bytes || !hotspot_read(memory, at + slot.offset, copy, slot.bytes))
		return false;
	*out = vm_slot_get(here, copy, slot.bytes);
	return true;
}
