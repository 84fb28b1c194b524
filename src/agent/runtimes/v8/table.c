#include "agent/runtimes/v8/table.h"

#include <string.h>

#include "agent/runtimes/v8/heap.h"
#include "bpf/records.h"

extern const char v8_table_begin[], v8_table_end[];
__asm__(".pushsection .rodata\n"
	".global v8_table_begin\n"
	".global v8_table_end\n"
	"v8_table_begin:\n"
	".incbin \"" V8_TABLE "\"\n"
	"v8_table_end:\n"
	".byte 0\n"
	".popsection\n");

struct str v8_table_built_in(void)
{
	return str_from(v8_table_begin, (size_t)(v8_table_end - v8_table_begin));
}

static const char *const fields[] = {
#define X(name) #name,
	V8_FIELDS(X)
#undef X
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };
_Static_assert(sizeof(struct v8_offsets) == FIELDS * sizeof(int32_t), "a row is a v8_offsets");

bool v8_table_parse(struct offset_table *t, struct str text, struct err *err)
{
	return offset_table_parse(t, fields, FIELDS, text, err);
}

bool v8_table_find(const struct offset_table *t, uint32_t version, struct v8_offsets *out)
{
	const int32_t *row = offset_table_find(t, version);

	if (row)
		memcpy(out, row, sizeof(*out));
	return row;
}

/* A number of `least` to `most` that is a multiple of `align`. */
#define BOUND(field, least, most, align)                                           \
	{                                                                          \
#field, offsetof(struct v8_offsets, field), least, (most), (align) \
	}
#define TYPE(field)        BOUND(field, 0, UINT16_MAX, 1)
#define WORD(field, bytes) BOUND(field, 0, (bytes)-8, 8)

static const struct bound {
	const char *name;
	size_t offset;
	int32_t least, most, align;
} bounds[] = {
	BOUND(map_type, 0, 64, 2),
	TYPE(first_nonstring),
	TYPE(first_function),
	TYPE(last_function),
	TYPE(shared_type),
	TYPE(scope_type),
	TYPE(script_type),
	TYPE(bytecode_type),
	TYPE(positions_type),
	BOUND(function_shared, 24, 32, 8),
	WORD(shared_name, V8_OBJECT_BYTES),
	WORD(shared_script, V8_OBJECT_BYTES),
	WORD(script_source, V8_OBJECT_BYTES),
	WORD(script_name, V8_OBJECT_BYTES),
	WORD(scope_count, V8_OBJECT_BYTES),
	WORD(scope_first, V8_OBJECT_BYTES),
	BOUND(frame_array, 24, 64, 8),
	BOUND(bytecode_first, 0, 128, 1),
	WORD(bytecode_positions, V8_OBJECT_BYTES),
	BOUND(positions_before, 0, 1, 1),
	BOUND(positions_packed, 0, 1, 1),
	BOUND(frame_wasm, 0, V8_MARKER_MOST, 1),
	BOUND(frame_regexp, -1, V8_MARKER_MOST, 1),
	TYPE(stream_type),
	TYPE(code_type),
	BOUND(stream_code, -1, V8_OBJECT_BYTES - 8, 1),
	WORD(stream_first, 256),
	BOUND(code_size, 0, 128, 4),
	WORD(code_deopt, V8_OBJECT_BYTES),
	WORD(code_positions, V8_OBJECT_BYTES),
	BOUND(deopt_literals, 0, 16, 1),
	BOUND(deopt_inlined, 0, 16, 1),
	BOUND(shared_code, -1, V8_OBJECT_BYTES - 8, 1),
	BOUND(baseline_bytecode, -1, V8_OBJECT_BYTES - 8, 1),
};

bool v8_offsets_usable(const struct v8_offsets *o, struct err *err)
{
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const struct bound *b = &bounds[i];
		int32_t value;

		memcpy(&value, (const char *)o + b->offset, sizeof(value));
		if (value < b->least || value > b->most || value % b->align)
			return err_set(err, ERR_UNSUPPORTED,
				       "%s is %d: must be a multiple of %d from %d to %d", b->name,
				       value, b->align, b->least, b->most);
	}
	return true;
}
