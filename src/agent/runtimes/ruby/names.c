#include "agent/runtimes/ruby/names.h"

#include <string.h>

#include "agent/process/executable.h"
#include "agent/runtimes/ruby/lines.h"
#include "bpf/records.h"

enum { METHOD_C = 1, METHOD_TYPE_MASK = 15, LABEL_MOST = 2048, CODE_MOST = 1 << 28 };

static uint64_t word_at(const uint8_t *block, int32_t offset)
{
	uint64_t word;

	memcpy(&word, block + offset, sizeof(word));
	return word;
}

static uint32_t half_at(const uint8_t *block, int32_t offset)
{
	uint32_t half;

	memcpy(&half, block + offset, sizeof(half));
	return half;
}

static bool read_object(const struct ruby_heap *h, uint64_t at, uint32_t kind,
			uint8_t object[RUBY_OBJECT_BYTES])
{
	return ruby_read(h, at, object, RUBY_OBJECT_BYTES) && RUBY_KIND(word_at(object, 0)) == kind;
}

/* "Class#" of a method entry; nothing where it is gone. */
static void put_owner(const struct ruby_heap *h, uint64_t method, struct buf *out)
{
	uint8_t entry[RUBY_OBJECT_BYTES];

	if (method && read_object(h, method, RUBY_METHOD, entry))
		ruby_class(h, word_at(entry, h->o->method_owner), out);
}

static bool put_c_method(const struct ruby_heap *h, const struct trace_frame *frame,
			 struct frame_text *out)
{
	uint64_t method = RUBY_FRAME_ADDRESS(frame->address), definition, id, type;
	uint8_t entry[RUBY_OBJECT_BYTES];

	if (!read_object(h, method, RUBY_METHOD, entry))
		return false;
	definition = word_at(entry, h->o->method_definition);
	if (RUBY_FIRST(method, definition) != frame->address ||
	    !ruby_read(h, definition, &type, sizeof(type)) ||
	    (type & METHOD_TYPE_MASK) != METHOD_C ||
	    !ruby_read(h, definition + (uint64_t)h->o->definition_id, &id, sizeof(id)))
		return false;
	ruby_class(h, word_at(entry, h->o->method_owner), &out->function);
	return ruby_id(h, id, &out->function);
}

/* A method's name, not "<main>" or "<class:Sale>"; "<" and "<=>" are. */
static bool names_method(struct str label)
{
	return label.len &&
	       (label.len == 1 || label.ptr[0] != '<' || label.ptr[1] < 'a' || label.ptr[1] > 'z');
}

/* "block in method" of a method of Class is "block in Class#method". */
static bool put_label(const struct ruby_heap *h, const uint8_t *body, uint64_t method,
		      struct buf *out)
{
	struct buf label, base;
	struct str tail;
	bool ok;

	buf_init(&label, LABEL_MOST);
	buf_init(&base, LABEL_MOST);
	ok = ruby_string(h, word_at(body, h->o->body_label), &label);
	if (ok) {
		ruby_string(h, word_at(body, h->o->body_base_label), &base);
		tail = buf_view(&base);
		if (names_method(tail) && str_has_suffix(buf_view(&label), tail)) {
			buf_str(out, str_head(buf_view(&label), label.len - base.len));
			put_owner(h, method, out);
			buf_str(out, tail);
		} else {
			buf_str(out, buf_view(&label));
		}
	}
	buf_release(&label);
	buf_release(&base);
	return ok;
}

/* A String, or an Array of that and the whole path, which eval() has not. */
static void put_path(const struct ruby_heap *h, uint64_t path, struct buf *out)
{
	uint64_t value;

	if (ruby_string(h, path, out))
		return;
	if (ruby_element(h, path, 1, &value) && ruby_string(h, value, out))
		return;
	if (ruby_element(h, path, 0, &value))
		ruby_string(h, value, out);
}

static uint32_t first_line(const struct ruby_heap *h, const uint8_t *body)
{
	if (h->o->first_line_tagged)
		return (uint32_t)(word_at(body, h->o->body_first_line) >> 1);
	return half_at(body, h->o->body_first_line);
}

static bool put_ruby(const struct ruby_heap *h, const struct trace_frame *frame,
		     struct frame_text *out)
{
	uint64_t at = RUBY_FRAME_ADDRESS(frame->address), pc, position;
	uint8_t iseq[RUBY_OBJECT_BYTES], body[RUBY_BODY_BYTES];
	struct ruby_lines lines;

	if (!read_object(h, at, RUBY_ISEQ, iseq) ||
	    !ruby_read(h, word_at(iseq, h->o->iseq_body), body, sizeof(body)))
		return false;
	/* The frame has the low bits of its pc, which is in this code, or it is another iseq's. */
	pc = RUBY_FRAME_LOW(frame->extra) << 23 | RUBY_FRAME_LOW(frame->address) << 3;
	position =
		((pc - word_at(body, h->o->body_code)) & ((UINT64_C(1) << RUBY_PC_BITS) - 1)) / 8;
	if (half_at(body, h->o->body_size) > CODE_MOST || position > half_at(body, h->o->body_size))
		return false;
	lines = (struct ruby_lines){ .entries = word_at(body, h->o->body_info),
				     .index = word_at(body, h->o->body_info_index),
				     .count = half_at(body, h->o->body_info_count) };
	if (!put_label(h, body, RUBY_FRAME_ADDRESS(frame->extra), &out->function))
		return false;
	put_path(h, word_at(body, h->o->body_path), &out->file);
	out->start_line = first_line(h, body);
	/* pc is behind the instruction that runs. */
	out->line = ruby_line(h, &lines, position ? (uint32_t)position - 1 : 0);
	return true;
}

static bool read_frame(const struct runtime_memory *m, const struct trace_frame *frame,
		       uint32_t pid, struct frame_text *out)
{
	const struct ruby_facts *facts = ruby_facts(frame->executable);
	struct ruby_heap h = { .memory = m, .pid = pid };
	uint64_t bias;

	if (!facts)
		return false;
	h.o = &facts->offsets;
	if (facts->symbols && m->load_bias && m->load_bias(m->ctx, pid, frame->executable, &bias))
		h.symbols = facts->symbols + bias;
	return frame->extra == RUBY_SECOND_C ? put_c_method(&h, frame, out)
					     : put_ruby(&h, frame, out);
}

const struct frame_names_ops ruby_names = { .fallback = "[ruby]", .read = read_frame };
