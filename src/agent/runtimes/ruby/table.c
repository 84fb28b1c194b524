#include "agent/runtimes/ruby/table.h"

#include <string.h>

#include "agent/runtimes/ruby/ruby.h"
#include "bpf/records.h"

extern const char ruby_table_begin[], ruby_table_end[];
__asm__(".pushsection .rodata\n"
	".global ruby_table_begin\n"
	".global ruby_table_end\n"
	"ruby_table_begin:\n"
	".incbin \"" RUBY_TABLE "\"\n"
	"ruby_table_end:\n"
	".byte 0\n"
	".popsection\n");

struct str ruby_table_built_in(void)
{
	return str_from(ruby_table_begin, (size_t)(ruby_table_end - ruby_table_begin));
}

static const char *const fields[] = {
#define X(name) #name,
	RUBY_FIELDS(X)
#undef X
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };
_Static_assert(sizeof(struct ruby_offsets) == FIELDS * sizeof(int32_t), "a row is a ruby_offsets");

bool ruby_table_parse(struct offset_table *t, struct str text, struct err *err)
{
	return offset_table_parse(t, fields, FIELDS, text, err);
}

bool ruby_table_find(const struct offset_table *t, uint32_t version, struct ruby_offsets *out)
{
	const int32_t *row = offset_table_find(t, version);

	if (row)
		memcpy(out, row, sizeof(*out));
	return row;
}

/* A number of `least` to `most` that is a multiple of `align`. Least -1: it may be missing. */
#define BOUND(field, least, most, align)                                             \
	{                                                                            \
#field, offsetof(struct ruby_offsets, field), least, (most), (align) \
	}
#define WORD(field, bytes)  BOUND(field, 0, (bytes)-8, 8)
#define MAYBE(field, bytes) BOUND(field, -1, (bytes)-8, 1)

static const struct bound {
	const char *name;
	size_t offset;
	int32_t least, most, align;
} bounds[] = {
	WORD(ec_stack, CPYTHON_FRAME_BYTES),
	WORD(ec_stack_words, CPYTHON_FRAME_BYTES),
	WORD(ec_frame, CPYTHON_FRAME_BYTES),
	BOUND(frame_bytes, RUBY_FRAME_BYTES, RUBY_FRAME_MOST, 8),
	WORD(frame_pc, RUBY_FRAME_BYTES),
	WORD(frame_iseq, RUBY_FRAME_BYTES),
	WORD(frame_ep, RUBY_FRAME_BYTES),
	WORD(iseq_body, RUBY_OBJECT_BYTES),
	BOUND(body_size, 0, RUBY_BODY_BYTES - 8, 4),
	WORD(body_code, RUBY_BODY_BYTES),
	WORD(body_path, RUBY_BODY_BYTES),
	WORD(body_base_label, RUBY_BODY_BYTES),
	WORD(body_label, RUBY_BODY_BYTES),
	BOUND(body_first_line, 0, RUBY_BODY_BYTES - 8, 4),
	BOUND(first_line_tagged, 0, 1, 1),
	WORD(body_info, RUBY_BODY_BYTES),
	BOUND(body_info_count, 0, RUBY_BODY_BYTES - 8, 4),
	WORD(body_info_index, RUBY_BODY_BYTES),
	BOUND(info_bytes, 4, 64, 4),
	WORD(method_definition, RUBY_OBJECT_BYTES),
	WORD(method_owner, RUBY_OBJECT_BYTES),
	WORD(definition_id, 256),
	MAYBE(class_ext, 256),
	MAYBE(ext_variables, 256),
	MAYBE(class_path, 512),
	MAYBE(class_attached, 512),
	MAYBE(string_length, RUBY_OBJECT_BYTES),
	WORD(string_embedded, RUBY_OBJECT_BYTES),
	BOUND(last_operator, 127, 4096, 1),
};

bool ruby_offsets_usable(const struct ruby_offsets *o, struct err *err)
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
	if (o->method_definition != 16)
		return err_set(err, ERR_UNSUPPORTED, "method_definition is %d: the walk reads 16",
			       o->method_definition);
	return o->class_path >= 0 || (o->class_ext >= 0 && o->ext_variables >= 0) ||
	       err_set(err, ERR_UNSUPPORTED, "neither class_path nor ext_variables is there");
}
