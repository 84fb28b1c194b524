#include "agent/runtimes/cpython/table.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "bpf/records.h"

/* ---- the table ---- */

extern const char cpython_table_begin[], cpython_table_end[];
__asm__(".pushsection .rodata\n"
	".global cpython_table_begin\n"
	".global cpython_table_end\n"
	"cpython_table_begin:\n"
	".incbin \"" CPYTHON_TABLE "\"\n"
	"cpython_table_end:\n"
	".byte 0\n"
	".popsection\n");

struct str cpython_table_built_in(void)
{
	return str_from(cpython_table_begin, (size_t)(cpython_table_end - cpython_table_begin));
}

static const char *const fields[] = {
#define X(name) #name,
	CPYTHON_FIELDS(X)
#undef X
};
enum { FIELDS = ARRAY_LEN(fields) };
_Static_assert(sizeof(struct cpython_offsets) == FIELDS * sizeof(int32_t), "a row is all offsets");

bool cpython_table_parse(struct offset_table *t, struct str text, struct err *err)
{
	return offset_table_parse(t, fields, FIELDS, text, err);
}

bool cpython_table_find(const struct offset_table *t, uint32_t minor, struct cpython_offsets *out)
{
	const int32_t *row = offset_table_find(t, OFFSET_VERSION(3, minor));

	if (row)
		memcpy(out, row, sizeof(*out));
	return row;
}

/* ---- _Py_DebugOffsets ---- */

/*
 * Cookie "xdebugpy", version (as PY_VERSION_HEX), whether threads run freely, then groups of
 * offsets of 8 bytes each, the first of a group being the size of its structure
 * (pycore_debug_offsets.h, struct _Py_DebugOffsets).
 */
enum {
	DEBUG_VERSION = 8,
	DEBUG_FREE_THREADED = 16,
	DEBUG_FIRST_MINOR = 13, /* the first version with them */
	DEBUG_VERSIONS = 3,
};

/* A field of struct cpython_offsets, and where each version says it; 0: nowhere. */
struct debug_field {
	size_t to;
	uint16_t at[DEBUG_VERSIONS];
};

static bool take_debug_field(const struct debug_field *f, struct bytes debug, uint32_t minor,
			     struct cpython_offsets *o)
{
	struct byte_reader r = byte_reader_at(debug, f->at[minor - DEBUG_FIRST_MINOR]);
	uint64_t value;

	if (!byte_reader_take(&r, &value, sizeof(value)) || value > OFFSET_MOST)
		return false;
	*(int32_t *)(void *)((char *)o + f->to) = (int32_t)value;
	return true;
}

bool cpython_offsets_from_debug(struct cpython_offsets *o, struct bytes debug, uint32_t minor)
{
	static const struct debug_field list[] = {
		{ offsetof(struct cpython_offsets, runtime_interpreters), { 40, 40, 40 } },
		{ offsetof(struct cpython_offsets, interpreter_next), { 64, 64, 64 } },
		{ offsetof(struct cpython_offsets, interpreter_threads), { 72, 72, 72 } },
		{ offsetof(struct cpython_offsets, thread_next), { 168, 192, 192 } },
		{ offsetof(struct cpython_offsets, thread_interpreter), { 176, 200, 200 } },
		{ offsetof(struct cpython_offsets, thread_frame), { 184, 208, 208 } },
		{ offsetof(struct cpython_offsets, thread_id), { 192, 216, 240 } },
		{ offsetof(struct cpython_offsets, frame_previous), { 232, 256, 320 } },
		{ offsetof(struct cpython_offsets, frame_code), { 240, 264, 328 } },
		{ offsetof(struct cpython_offsets, frame_instruction), { 248, 272, 336 } },
		{ offsetof(struct cpython_offsets, frame_owner), { 264, 288, 352 } },
		{ offsetof(struct cpython_offsets, frame_tlbc), { 0, 304, 368 } },
		{ offsetof(struct cpython_offsets, code_file), { 280, 320, 384 } },
		{ offsetof(struct cpython_offsets, code_name), { 288, 328, 392 } },
		{ offsetof(struct cpython_offsets, code_qualified_name), { 296, 336, 400 } },
		{ offsetof(struct cpython_offsets, code_lines), { 304, 344, 408 } },
		{ offsetof(struct cpython_offsets, code_line), { 312, 352, 416 } },
		{ offsetof(struct cpython_offsets, code_instructions), { 344, 384, 448 } },
		{ offsetof(struct cpython_offsets, code_tlbc), { 0, 392, 456 } },
		{ offsetof(struct cpython_offsets, bytes_length), { 520, 600, 696 } },
		{ offsetof(struct cpython_offsets, bytes_data), { 528, 608, 704 } },
		{ offsetof(struct cpython_offsets, text_state), { 544, 624, 720 } },
		{ offsetof(struct cpython_offsets, text_length), { 552, 632, 728 } },
		{ offsetof(struct cpython_offsets, text_ascii), { 560, 640, 736 } },
	};
	struct cpython_offsets made = *o;
	uint64_t version, free_threaded;

	if (debug.len < DEBUG_FREE_THREADED + 8 || memcmp(debug.ptr, "xdebugpy", 8) != 0)
		return false;
	memcpy(&version, debug.ptr + DEBUG_VERSION, sizeof(version));
	memcpy(&free_threaded, debug.ptr + DEBUG_FREE_THREADED, sizeof(free_threaded));
	if (version >> 24 != 3 || (version >> 16 & 0xff) != minor || minor < DEBUG_FIRST_MINOR ||
	    minor >= DEBUG_FIRST_MINOR + DEBUG_VERSIONS)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		if (list[i].at[minor - DEBUG_FIRST_MINOR] &&
		    !take_debug_field(&list[i], debug, minor, &made))
			return false;
	if (!free_threaded)
		made.frame_tlbc = made.code_tlbc = -1;
	else
		made.interpreter_jit = -1;      /* elsewhere, and such builds compile nothing */
	made.text_other = made.text_ascii + 16; /* the UTF-8 form and its length lie between */
	*o = made;
	return true;
}

/* ---- can they be used? ---- */

static bool in_range(int32_t value, int32_t most, const char *name, struct err *err)
{
	return (value >= 0 && value <= most) ||
	       err_set(err, ERR_UNSUPPORTED, "%s is %d, it should be 0 to %d", name, value, most);
}

bool cpython_offsets_usable(const struct cpython_offsets *o, struct err *err)
{
	int32_t frame =
		o->loop == CPYTHON_LOOP_OF_ONE ? CPYTHON_FRAME_OBJECT_BYTES : CPYTHON_FRAME_BYTES;
	int32_t base = (o->code_line < o->code_file ? o->code_line : o->code_file) & ~7;

	if (!in_range(o->loop, CPYTHON_LOOP_TO_SHIM, "loop", err) ||
	    !in_range(o->lines, 2, "lines", err) ||
	    !in_range(o->frame_previous, frame - 8, "frame_previous", err) ||
	    !in_range(o->frame_code, frame - 8, "frame_code", err) ||
	    !in_range(o->frame_instruction, frame - 8, "frame_instruction", err) ||
	    !in_range(o->thread_id, UINT16_MAX, "thread_id", err) ||
	    !in_range(o->thread_frame, UINT16_MAX, "thread_frame", err) ||
	    !in_range(o->thread_interpreter, UINT16_MAX, "thread_interpreter", err) ||
	    !in_range(o->thread_next, UINT16_MAX, "thread_next", err) ||
	    !in_range(o->interpreter_next, UINT16_MAX, "interpreter_next", err) ||
	    !in_range(o->interpreter_threads, UINT16_MAX, "interpreter_threads", err) ||
	    !in_range(o->code_line, UINT16_MAX, "code_line", err) ||
	    !in_range(o->code_file, UINT16_MAX, "code_file", err) ||
	    !in_range(o->code_line - base, CPYTHON_CODE_BYTES - 4, "code_line", err) ||
	    !in_range(o->code_file - base, CPYTHON_CODE_BYTES - 24, "code_file", err) ||
	    !in_range(o->code_lines, UINT16_MAX, "code_lines", err))
		return false;
	if ((o->code_file | o->frame_previous | o->frame_code) & 7)
		return err_set(err, ERR_UNSUPPORTED, "a pointer that is not aligned");
	if (o->code_name != o->code_file + 8)
		return err_set(err, ERR_UNSUPPORTED, "code_name does not follow code_file");
	if (o->loop == CPYTHON_LOOP_OF_ONE)
		return in_range(o->instruction_bytes, 2, "instruction_bytes", err);
	if (o->frame_tlbc >= 0 && (!in_range(o->frame_tlbc, frame - 4, "frame_tlbc", err) ||
				   !in_range(o->code_tlbc, UINT16_MAX, "code_tlbc", err)))
		return false;
	return in_range(o->frame_owner, frame - 1, "frame_owner", err) &&
	       in_range(o->code_instructions, UINT16_MAX, "code_instructions", err) &&
	       in_range(o->loop == CPYTHON_LOOP_TO_SHIM ? o->owner_shim : 0, UINT8_MAX,
			"owner_shim", err);
}
