/* Sources: Ruby's include/ruby/internal/core/, symbol.c, class.c, st.c. */
#include "agent/runtimes/ruby/heap.h"

#include <string.h>

#include "bpf/records.h"

enum {
	TEXT_MOST = 2048,
	ARRAY_MOST = 1 << 24,
	VARIABLES_MOST = 256, /* of a class: looked through one by one */
	/* an object's flags: its type, and bits that mean something to that type */
	TYPE_MASK = 0x1f,
	TYPE_CLASS = 2,
	TYPE_MODULE = 3,
	TYPE_STRING = 5,
	TYPE_ARRAY = 7,
	FLAG_0 = 1 << 12, /* a class is a singleton; a string's text, an array's list... */
	FLAG_1 = 1 << 13, /* ...is elsewhere; ...is in the object */
	STRING_LENGTH_SHIFT = 14,
	STRING_LENGTH_MASK = 31,
	ARRAY_LENGTH_SHIFT = 15,
	ARRAY_LENGTH_MASK = 127,
	/* symbol.c */
	SCOPE_BITS = 4,   /* of an ID */
	NAMES_UNIT = 512, /* IDs of an inner array, of two elements each */
	NAMES_AT = 16,    /* rb_symbols_t.ids */
	/* st.h: struct st_table */
	TABLE_BOUND = 40,
	TABLE_ENTRIES = 48,
	ENTRY_WORDS = 3, /* hash, key, value */
};

bool ruby_read(const struct ruby_heap *h, uint64_t address, void *to, size_t bytes)
{
	return address && !(address & 3) &&
	       h->memory->read(h->memory->ctx, h->pid, address, to, bytes);
}

static uint64_t word_of(const struct ruby_heap *h, uint64_t address)
{
	uint64_t word = 0;

	return ruby_read(h, address, &word, sizeof(word)) ? word : 0;
}

bool ruby_string(const struct ruby_heap *h, uint64_t value, struct buf *out)
{
	uint64_t words[RUBY_OBJECT_BYTES / 8], length, at = value + (uint64_t)h->o->string_embedded;
	char text[TEXT_MOST];

	if (value & 7 || !ruby_read(h, value, words, sizeof(words)) ||
	    (words[0] & TYPE_MASK) != TYPE_STRING)
		return false;
	length = words[2];
	if (words[0] & FLAG_1)
		at = words[3];
	else if (h->o->string_length < 0)
		length = words[0] >> STRING_LENGTH_SHIFT & STRING_LENGTH_MASK;
	if (!length || length > TEXT_MOST ||
	    !h->memory->read(h->memory->ctx, h->pid, at, text, length))
		return false;
	buf_append(out, text, length);
	return true;
}

bool ruby_element(const struct ruby_heap *h, uint64_t array, uint64_t index, uint64_t *value)
{
	uint64_t words[RUBY_OBJECT_BYTES / 8], length, at;

	if (array & 7 || !ruby_read(h, array, words, sizeof(words)) ||
	    (words[0] & TYPE_MASK) != TYPE_ARRAY)
		return false;
	if (words[0] & FLAG_1) {
		length = words[0] >> ARRAY_LENGTH_SHIFT & ARRAY_LENGTH_MASK;
		at = array + 16;
	} else {
		length = words[2];
		at = words[4];
	}
	return length <= ARRAY_MOST && index < length &&
	       ruby_read(h, at + index * 8, value, sizeof(*value));
}

bool ruby_id(const struct ruby_heap *h, uint64_t id, struct buf *out)
{
	uint64_t serial = id > (uint64_t)h->o->last_operator ? id >> SCOPE_BITS : id, names, value;

	if (!h->symbols || !ruby_read(h, h->symbols + NAMES_AT, &names, sizeof(names)) ||
	    !ruby_element(h, names, serial / NAMES_UNIT, &value) ||
	    !ruby_element(h, value, serial % NAMES_UNIT * 2, &value))
		return false;
	return ruby_string(h, value, out);
}

/* Is this the name of the ID? */
static bool is_called(const struct ruby_heap *h, uint64_t id, struct str name)
{
	struct buf text;
	bool same;

	buf_init(&text, TEXT_MOST);
	same = ruby_id(h, id, &text) && str_equal(buf_view(&text), name);
	buf_release(&text);
	return same;
}

/* Up to 3.1 a class keeps what matters among its instance variables. 0: it has no such one. */
static uint64_t variable(const struct ruby_heap *h, uint64_t class_value, struct str name)
{
	uint64_t ext = word_of(h, class_value + (uint64_t)h->o->class_ext), entry[ENTRY_WORDS];
	uint64_t table = ext ? word_of(h, ext + (uint64_t)h->o->ext_variables) : 0, bound, entries;

	if (!table)
		return 0;
	bound = word_of(h, table + TABLE_BOUND);
	entries = word_of(h, table + TABLE_ENTRIES);
	for (uint64_t i = 0; i < bound && i < VARIABLES_MOST; i++) {
		if (!ruby_read(h, entries + i * sizeof(entry), entry, sizeof(entry)))
			return 0;
		if (~entry[0] && is_called(h, entry[1], name))
			return entry[2];
	}
	return 0;
}

static bool put_path(const struct ruby_heap *h, uint64_t class_value, struct buf *out)
{
	return ruby_string(h,
			   h->o->class_path >= 0
				   ? word_of(h, class_value + (uint64_t)h->o->class_path)
				   : variable(h, class_value, STR("__classpath__")),
			   out);
}

static uint64_t attached(const struct ruby_heap *h, uint64_t class_value)
{
	return h->o->class_attached >= 0 ? word_of(h, class_value + (uint64_t)h->o->class_attached)
					 : variable(h, class_value, STR("__attached__"));
}

static bool is_class(uint64_t flags)
{
	return (flags & TYPE_MASK) == TYPE_CLASS || (flags & TYPE_MASK) == TYPE_MODULE;
}

void ruby_class(const struct ruby_heap *h, uint64_t class_value, struct buf *out)
{
	uint64_t flags = word_of(h, class_value);

	if (!is_class(flags))
		return;
	if ((flags & TYPE_MASK) == TYPE_MODULE || !(flags & FLAG_0)) {
		if (put_path(h, class_value, out))
			buf_char(out, '#');
		return;
	}
	class_value = attached(h, class_value);
	if (class_value & 7 || !is_class(word_of(h, class_value)))
		return;
	if (put_path(h, class_value, out))
		buf_char(out, '.');
}
