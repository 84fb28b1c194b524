/* Sources: V8's src/objects/shared-function-info.tq, scope-info.tq, script.tq. */
#include "agent/runtimes/v8/names.h"

#include "agent/process/executable.h"
#include "agent/runtimes/v8/code.h"
#include "agent/runtimes/v8/heap.h"
#include "agent/runtimes/v8/positions.h"
#include "base/text.h"
#include "bpf/records.h"

enum {
	NAME_MOST = 1000,
	FILE_MOST = 4000,
	SCOPE_LOCALS_MOST = 1 << 16,
	SCOPE_NAMES_INLINE = 75, /* more names are in a table of their own */
	SCOPE_LOOKED_AT = 5,     /* words behind the locals in which a name may stand */
};

/*
 * Behind the locals (a name and a word each) comes, if there is one: the class's variable (a name
 * and a word, or a word), then the function's name, then what it was called by where it was made.
 */
static bool put_scope_name(const struct v8_heap *h, uint64_t scope, struct buf *out)
{
	int32_t at = h->o->scope_first;
	uint64_t word;
	int32_t locals;

	if (!v8_word(h, scope, h->o->scope_count, &word) || !v8_is_integer(word))
		return false;
	locals = v8_integer(word);
	if (locals < 0 || locals > SCOPE_LOCALS_MOST)
		return false;
	at += locals < SCOPE_NAMES_INLINE ? 16 * locals : 8 + 8 * locals;
	for (int i = 0; i < SCOPE_LOOKED_AT; i++)
		if (v8_word(h, scope, at + 8 * i, &word) && v8_is_string(h, word) &&
		    v8_string(h, word, NAME_MOST, out))
			return true;
	return false;
}

/* As V8's own profiler calls it. */
static void put_function(const struct v8_heap *h, uint64_t shared, struct buf *out)
{
	uint64_t name;

	if (v8_word(h, shared, h->o->shared_name, &name)) {
		if (v8_is_string(h, name) ? v8_string(h, name, NAME_MOST, out)
					  : v8_type_of(h, name) == h->o->scope_type &&
						    put_scope_name(h, name, out))
			return;
	}
	buf_reset(out);
	buf_lit(out, "(anonymous)");
}

static bool find_script(const struct v8_heap *h, uint64_t shared, uint64_t *script)
{
	return v8_word(h, shared, h->o->shared_script, script) &&
	       v8_type_of(h, *script) == h->o->script_type;
}

static void put_place(const struct v8_heap *h, uint64_t script, int32_t position,
		      struct frame_text *out)
{
	uint32_t lines, column;
	uint64_t source;

	if (position < 0 || !v8_word(h, script, h->o->script_source, &source) ||
	    !v8_count_lines(h, source, (uint32_t)position, &lines, &column))
		return;
	out->line = lines + 1;
	out->column = column + 1;
}

static void put_file(const struct v8_heap *h, uint64_t script, struct buf *out)
{
	uint64_t name;

	if (v8_word(h, script, h->o->script_name, &name))
		v8_string(h, name, FILE_MOST, out);
}

/* The frame has where its byte code lies, and the offset in that. */
static int32_t interpreted_position(const struct v8_heap *h, const struct trace_frame *frame)
{
	uint64_t array = V8_FRAME_ARRAY(frame->extra) + 1, table;
	int32_t offset = (int32_t)V8_FRAME_OFFSET(frame->extra) - h->o->bytecode_first;
	struct v8_position position;

	if (offset < 0 || V8_FRAME_OFFSET(frame->extra) == V8_OFFSET_MOST ||
	    v8_type_of(h, array) != h->o->bytecode_type ||
	    !v8_word(h, array, h->o->bytecode_positions, &table) ||
	    !v8_position_find(h, table, (uint32_t)offset, &position))
		return -1;
	return position.script;
}

/* A function: its name, and where it is. position -1: not known. */
static bool put_shared(const struct v8_heap *h, uint64_t shared, int32_t position,
		       struct frame_text *out)
{
	uint64_t script;

	if (v8_type_of(h, shared) != h->o->shared_type)
		return false;
	put_function(h, shared, &out->function);
	if (find_script(h, shared, &script)) {
		put_file(h, script, &out->file);
		put_place(h, script, position, out);
	}
	return true;
}

static bool put_compiled(const struct v8_heap *h, uint64_t shared, uint64_t pc,
			 struct frame_text *out)
{
	struct v8_code_place places[V8_INLINED_MOST + 1];
	uint32_t count = v8_code_places(h, shared, pc, places);
	struct frame_text *innermost = out;

	for (uint32_t i = 0; i + 1 < count; i++) {
		if (!put_shared(h, places[i].shared, places[i].position, out))
			return false;
		out = frame_text_add_caller(innermost);
		if (!out)
			return false;
	}
	return put_shared(h, shared, count ? places[count - 1].position : -1, out);
}

static bool put_marked(const struct v8_heap *h, uint64_t type, struct buf *out)
{
	if (type == (uint64_t)h->o->frame_wasm)
		buf_lit(out, "[wasm]");
	else if (type == (uint64_t)h->o->frame_regexp)
		buf_lit(out, "[regexp]");
	else
		buf_lit(out, "[v8 stub]");
	return true;
}

static bool read_frame(const struct runtime_memory *m, const struct trace_frame *frame,
		       uint32_t pid, struct frame_text *out)
{
	const struct v8_facts *facts = v8_facts(frame->executable);
	uint64_t shared = V8_FRAME_WORD(frame->address) + 1;
	uint32_t kind = V8_FRAME_KIND(frame->address);
	struct v8_heap h = { .memory = m, .pid = pid };

	if (!facts)
		return false;
	h.facts = facts;
	h.o = &facts->offsets;
	if (kind == V8_KIND_MARKED)
		return put_marked(&h, V8_FRAME_WORD(frame->address), &out->function);
	if (kind == V8_KIND_COMPILED)
		return put_compiled(&h, shared, frame->extra, out);
	return put_shared(&h, shared, interpreted_position(&h, frame), out);
}

const struct frame_names_ops v8_names = { .fallback = "[v8]", .read = read_frame };
