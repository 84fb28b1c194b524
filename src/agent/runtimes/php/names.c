#include "agent/runtimes/php/names.h"

#include <string.h>

#include "agent/runtimes/php/php.h"
#include "bpf/records.h"

enum {
	TEXT_MOST = 2048, /* bytes of a name or path; longer ones are refused */
};
#define HASH_BIT UINT64_C(0x8000000000000000)

struct reader {
	const struct runtime_memory *memory;
	const struct php_offsets *o;
	uint32_t pid;
};

struct function {
	uint64_t name, class_entry, code, file;
	uint32_t type, count, line;
};

static bool read_at(const struct reader *r, uint64_t address, void *to, size_t bytes)
{
	return address && r->memory->read(r->memory->ctx, r->pid, address, to, bytes);
}

/* As zend_inline_hash_func(). */
static uint64_t hash_of(const char *text, size_t length)
{
	uint64_t h = 5381;

	for (size_t i = 0; i < length; i++)
		h = h * 33 + (uint8_t)text[i];
	return h | HASH_BIT;
}

/* A zend_string whose hash, where it was computed already, is that of its text: memory that is used
 * for something else by now is not taken for a name. Cut at a NUL: behind it an anonymous class has
 * where it was declared. */
static bool read_string(const struct reader *r, uint64_t at, struct buf *out)
{
	uint64_t head[PHP_STRING_HEAD / 8], hash, length;
	const struct php_offsets *o = r->o;
	char text[TEXT_MOST];

	if (!read_at(r, at, head, (size_t)o->string_text))
		return false;
	hash = head[o->string_hash / 8];
	length = head[o->string_length / 8];
	if (!length || length > TEXT_MOST ||
	    !read_at(r, at + (uint64_t)o->string_text, text, length) ||
	    (hash && hash != hash_of(text, length)))
		return false;
	buf_append(out, text, strnlen(text, length));
	return true;
}

static uint64_t word_at(const uint8_t *block, int32_t offset)
{
	uint64_t word;

	memcpy(&word, block + offset, sizeof(word));
	return word;
}

static bool read_function(const struct reader *r, uint64_t at, struct function *f)
{
	const struct php_offsets *o = r->o;
	uint8_t block[PHP_FUNCTION_MOST] = { 0 };

	if (!read_at(r, at, block, PHP_FUNCTION_BYTES))
		return false;
	*f = (struct function){ .type = block[o->function_type],
				.name = word_at(block, o->function_name),
				.class_entry = word_at(block, o->function_class),
				.code = word_at(block, o->function_code),
				.count = (uint32_t)word_at(block, o->function_count) };
	if (f->type == PHP_INTERNAL)
		return true;
	if (!read_at(r, at, block, (size_t)o->function_line + sizeof(f->line)))
		return false;
	f->file = word_at(block, o->function_file);
	memcpy(&f->line, block + o->function_line, sizeof(f->line));
	return true;
}

static bool put_class(const struct reader *r, uint64_t class_entry, struct buf *out)
{
	uint64_t name = 0;

	if (!class_entry)
		return true;
	if (!read_at(r, class_entry + (uint64_t)r->o->class_name, &name, sizeof(name)) ||
	    !read_string(r, name, out))
		return false;
	buf_lit(out, "::");
	return true;
}

static uint32_t line_of(const struct reader *r, const struct function *f, uint32_t at)
{
	uint32_t line = 0, bytes = (uint32_t)r->o->instruction_bytes;

	if (at == PHP_AT_UNKNOWN || at / bytes >= f->count || at % bytes)
		return 0;
	read_at(r, f->code + at + (uint64_t)r->o->instruction_line, &line, sizeof(line));
	return line;
}

static bool put_function(const struct reader *r, const struct trace_frame *frame,
			 struct frame_text *out)
{
	uint64_t address = PHP_FRAME_ADDRESS(frame->address), cookie;
	uint32_t at = frame->extra & PHP_AT_UNKNOWN;
	struct function f;

	if (!read_function(r, address, &f))
		return false;
	cookie = php_cookie(f.name, f.class_entry, f.code);
	if (PHP_FIRST(PHP_KIND_FUNCTION, address, cookie) != frame->address ||
	    PHP_SECOND(cookie, at) != frame->extra ||
	    !put_class(r, f.class_entry, &out->function) || !read_string(r, f.name, &out->function))
		return false;
	if (f.type == PHP_INTERNAL)
		return true;
	read_string(r, f.file, &out->file);
	out->start_line = f.line;
	out->line = line_of(r, &f, at);
	return true;
}

static bool put_closure(const struct reader *r, const struct trace_frame *frame,
			struct frame_text *out)
{
	out->line = frame->extra & PHP_LINE_MOST;
	return read_string(r, PHP_FRAME_ADDRESS(frame->address), &out->function) &&
	       read_string(r, frame->extra >> 19 << 3, &out->file);
}

/* Code of a file has no name. */
static bool put_code(const struct reader *r, const struct trace_frame *frame,
		     struct frame_text *out)
{
	static const char *const names[] = {
		[PHP_KIND_MAIN] = "{main}",
		[PHP_KIND_INCLUDE] = "include",
		[PHP_KIND_EVAL] = "eval",
	};

	buf_str(&out->function, str_cstr(names[PHP_FRAME_KIND(frame->address)]));
	out->line = frame->extra & PHP_LINE_MOST;
	return read_string(r, PHP_FRAME_ADDRESS(frame->address), &out->file);
}

static bool read_frame(const struct runtime_memory *m, const struct trace_frame *frame,
		       uint32_t pid, struct frame_text *out)
{
	const struct php_facts *facts = php_facts(frame->executable);
	const struct reader r = { m, facts ? &facts->offsets : NULL, pid };

	if (!facts)
		return false;
	switch ((enum php_frame_kind)PHP_FRAME_KIND(frame->address)) {
	case PHP_KIND_FUNCTION:
		return put_function(&r, frame, out);
	case PHP_KIND_CLOSURE:
		return put_closure(&r, frame, out);
	case PHP_KIND_MAIN:
	case PHP_KIND_INCLUDE:
	case PHP_KIND_EVAL:
		return put_code(&r, frame, out);
	}
	return false;
}

const struct frame_names_ops php_names = { .fallback = "[php]", .read = read_frame };
