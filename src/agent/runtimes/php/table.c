#include "agent/runtimes/php/table.h"

#include <string.h>

#include "agent/runtimes/php/php.h"
#include "bpf/records.h"

extern const char php_table_begin[], php_table_end[];
__asm__(".pushsection .rodata\n"
	".global php_table_begin\n"
	".global php_table_end\n"
	"php_table_begin:\n"
	".incbin \"" PHP_TABLE "\"\n"
	"php_table_end:\n"
	".byte 0\n"
	".popsection\n");

struct str php_table_built_in(void)
{
	return str_from(php_table_begin, (size_t)(php_table_end - php_table_begin));
}

static const char *const fields[] = {
#define X(name) #name,
	PHP_FIELDS(X)
#undef X
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };
_Static_assert(sizeof(struct php_offsets) == FIELDS * sizeof(int32_t), "a row is a php_offsets");

bool php_table_parse(struct offset_table *t, struct str text, struct err *err)
{
	return offset_table_parse(t, fields, FIELDS, text, err);
}

bool php_table_find(const struct offset_table *t, uint32_t version, struct php_offsets *out)
{
	const int32_t *row = offset_table_find(t, version);

	if (row)
		memcpy(out, row, sizeof(*out));
	return row;
}

/* clang-format off */
#define BOUND(field, least, most, align) { #field, offsetof(struct php_offsets, field), least, most, align }
/* clang-format on */
/* A word of 8 bytes, or one of 4, in so many that are read; any number; a word that a version may
 * not have. */
#define WORD(field, bytes) BOUND(field, 0, (bytes)-8, 8)
#define HALF(field, bytes) BOUND(field, 0, (bytes)-4, 4)
#define ANY(field, most)   BOUND(field, 0, most, 1)
#define MAYBE(field, most) BOUND(field, -1, most, 1)

static const struct bound {
	const char *name;
	size_t offset;
	int32_t least, most, align;
} bounds[] = {
	ANY(globals_current, 1 << 16),
	WORD(frame_instruction, CPYTHON_FRAME_BYTES),
	WORD(frame_function, CPYTHON_FRAME_BYTES),
	WORD(frame_object, CPYTHON_FRAME_BYTES),
	HALF(frame_info, CPYTHON_FRAME_BYTES),
	WORD(frame_previous, CPYTHON_FRAME_BYTES),
	ANY(frame_top, OFFSET_MOST),
	ANY(frame_code, OFFSET_MOST),
	ANY(frame_generator, OFFSET_MOST),
	ANY(function_type, PHP_FUNCTION_BYTES - 1),
	HALF(function_flags, PHP_FUNCTION_BYTES),
	WORD(function_name, PHP_FUNCTION_BYTES),
	WORD(function_class, PHP_FUNCTION_BYTES),
	WORD(function_code, PHP_FUNCTION_BYTES),
	HALF(function_count, PHP_FUNCTION_BYTES),
	WORD(function_file, PHP_FUNCTION_MOST),
	HALF(function_line, PHP_FUNCTION_MOST),
	ANY(flag_passing, OFFSET_MOST),
	ANY(flag_copy, OFFSET_MOST),
	ANY(instruction_bytes, 256),
	HALF(instruction_line, 256),
	ANY(class_name, 1 << 12),
	WORD(string_hash, PHP_STRING_HEAD),
	WORD(string_length, PHP_STRING_HEAD),
	ANY(string_text, PHP_STRING_HEAD),
	WORD(generator_frame, 1 << 12),
	WORD(generator_parent, 1 << 12),
	WORD(generator_stand_in, 1 << 12),
	MAYBE(globals_fiber, 1 << 16),
	MAYBE(fiber_context, 1 << 12),
	MAYBE(fiber_caller, 1 << 12),
	MAYBE(fiber_bottom, 1 << 12),
	MAYBE(context_stack, 1 << 12),
};

bool php_offsets_usable(const struct php_offsets *o, struct err *err)
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
	return o->instruction_bytes > 0 || err_set(err, ERR_UNSUPPORTED, "instruction_bytes is 0");
}
