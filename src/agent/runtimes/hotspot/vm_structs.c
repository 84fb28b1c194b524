#include "agent/runtimes/hotspot/vm_structs.h"

#include <string.h>

#include "agent/elf/elf_symbols.h"
#include "agent/runtimes/hotspot/file_data.h"

enum {
	ROWS_MOST = 16384, /* JDK 11 has 1,700 */
	ROW_BYTES_MOST = 128,
	CHUNK_BYTES = 16384,
	TEXT_MOST = 400,
};

/* One of the tables, and where its columns are. */
struct table {
	const struct elf_file *file;
	struct hotspot_memory memory;
	uint64_t rows, stride;
	uint8_t chunk[CHUNK_BYTES + ROW_BYTES_MOST + 8]; /* columns may lie behind their row */
	uint64_t chunk_first, chunk_count;               /* rows */
};

static bool symbol_word(struct table *t, const char *name, uint64_t *out, struct err *err)
{
	struct elf_symbol symbol;

	if (!elf_file_find_symbol(t->file, str_cstr(name), &symbol))
		return err_set(err, ERR_NOT_FOUND, "libjvm has no symbol %s", name);
	if (!hotspot_read(&t->memory, symbol.value, out, sizeof(*out)))
		return err_set(err, ERR_UNSUPPORTED, "%s is not in the file", name);
	return true;
}

/* A constant of the tables' shape. Some builds compute them as they start: in their file there are
 * zeros, or nothing. All known ones have the same. */
static bool constant(struct table *t, const char *name, uint64_t usual, uint64_t *out,
		     struct err *err)
{
	struct err ignored;

	if (!symbol_word(t, name, out, &ignored) || (!*out && usual))
		*out = usual;
	if (*out > ROW_BYTES_MOST)
		return err_set(err, ERR_INVALID, "%s is %llu", name, (unsigned long long)*out);
	return true;
}

static bool open_table(struct table *t, const char *rows, struct err *err)
{
	t->chunk_first = t->chunk_count = 0;
	if (!symbol_word(t, rows, &t->rows, err))
		return false;
	if (!t->rows)
		return err_set(err, ERR_UNSUPPORTED, "%s is not set in the file", rows);
	if (t->stride < 16)
		return err_set(err, ERR_INVALID, "%s has rows of %llu bytes", rows,
			       (unsigned long long)t->stride);
	return true;
}

/* The i-th row; the table ends where a row's name is NULL. */
static const uint8_t *row_at(struct table *t, uint64_t i)
{
	uint64_t count = CHUNK_BYTES / t->stride;

	if (i - t->chunk_first >= t->chunk_count) {
		/* Behind the last row memory may end. */
		while (count && !hotspot_read(&t->memory, t->rows + i * t->stride, t->chunk,
					      count * t->stride))
			count /= 2;
		t->chunk_first = i;
		t->chunk_count = count;
	}
	return count ? t->chunk + (i - t->chunk_first) * t->stride : NULL;
}

static uint64_t word_at(const uint8_t *row, uint64_t offset)
{
	uint64_t word;

	memcpy(&word, row + offset, sizeof(word));
	return word;
}

/* A text of the library's constants. */
static struct str text_at(const struct table *t, uint64_t pointer)
{
	struct bytes bytes = { 0 };

	if (pointer)
		bytes = elf_file_at_vaddr(t->file, pointer);
	return str_from(bytes.ptr, strnlen((const char *)bytes.ptr ?: "",
					   bytes.len < TEXT_MOST ? bytes.len : TEXT_MOST));
}

bool vm_structs_there(const struct elf_file *libjvm)
{
	struct elf_symbol symbol;

	return elf_file_find_symbol(libjvm, STR("gHotSpotVMStructs"), &symbol);
}

static bool visit_fields(struct table *t, const struct vm_visitor *v, struct err *err)
{
	uint64_t type, name, kind, is_static, offset, address;

	if (!constant(t, "gHotSpotVMStructEntryArrayStride", 48, &t->stride, err) ||
	    !constant(t, "gHotSpotVMStructEntryTypeNameOffset", 0, &type, err) ||
	    !constant(t, "gHotSpotVMStructEntryFieldNameOffset", 8, &name, err) ||
	    !constant(t, "gHotSpotVMStructEntryTypeStringOffset", 16, &kind, err) ||
	    !constant(t, "gHotSpotVMStructEntryIsStaticOffset", 24, &is_static, err) ||
	    !constant(t, "gHotSpotVMStructEntryOffsetOffset", 32, &offset, err) ||
	    !constant(t, "gHotSpotVMStructEntryAddressOffset", 40, &address, err) ||
	    !open_table(t, "gHotSpotVMStructs", err))
		return false;
	for (uint64_t i = 0; i < ROWS_MOST; i++) {
		const uint8_t *row = row_at(t, i);
		struct vm_field f;

		if (!row)
			return err_set(err, ERR_INVALID, "row %llu of vmStructs cannot be read",
				       (unsigned long long)i);
		if (!word_at(row, type))
			return true;
		f = (struct vm_field){ .type = text_at(t, word_at(row, type)),
				       .name = text_at(t, word_at(row, name)),
				       .kind = text_at(t, word_at(row, kind)),
				       .is_static = (uint32_t)word_at(row, is_static) != 0,
				       .offset = word_at(row, offset),
				       .offset_at = t->rows + i * t->stride + offset,
				       .elf_vaddr = word_at(row, address) };
		if (!f.type.len || !f.name.len)
			return err_set(err, ERR_INVALID, "row %llu of vmStructs has no name",
				       (unsigned long long)i);
		v->field(v->ctx, &f);
	}
	return err_set(err, ERR_INVALID, "vmStructs has more than %d rows", ROWS_MOST);
}

static bool visit_types(struct table *t, const struct vm_visitor *v, struct err *err)
{
	uint64_t name, bytes;

	if (!constant(t, "gHotSpotVMTypeEntryArrayStride", 40, &t->stride, err) ||
	    !constant(t, "gHotSpotVMTypeEntryTypeNameOffset", 0, &name, err) ||
	    !constant(t, "gHotSpotVMTypeEntrySizeOffset", 32, &bytes, err) ||
	    !open_table(t, "gHotSpotVMTypes", err))
		return false;
	for (uint64_t i = 0; i < ROWS_MOST; i++) {
		const uint8_t *row = row_at(t, i);

		if (!row)
			return err_set(err, ERR_INVALID, "row %llu of vmTypes cannot be read",
				       (unsigned long long)i);
		if (!word_at(row, name))
			return true;
		v->type(v->ctx, &(struct vm_type){ .name = text_at(t, word_at(row, name)),
						   .bytes = word_at(row, bytes) });
	}
	return err_set(err, ERR_INVALID, "vmTypes has more than %d rows", ROWS_MOST);
}

bool vm_structs_visit(const struct elf_file *libjvm, const struct vm_visitor *visitor,
		      struct err *err)
{
	struct file_data data;
	struct table t = { .file = libjvm };

	if (!file_data_open(libjvm, &data))
		return err_set(err, ERR_UNSUPPORTED, "libjvm has no relocations");
	t.memory = file_data_memory(&data);
	return visit_fields(&t, visitor, err) && visit_types(&t, visitor, err);
}
