/* Sources: V8's src/objects/string, instance-type. */
#include "agent/runtimes/v8/heap.h"

#include <string.h>

#include "base/text.h"

enum {
	/* an instance type of a String */
	KIND_MASK = 7,
	KIND_SEQUENTIAL = 0,
	KIND_CONS = 1,
	KIND_EXTERNAL = 2,
	KIND_SLICED = 3,
	KIND_THIN = 5,
	ONE_BYTE = 8,
	/* in a String */
	LENGTH_AT = 12,
	TEXT_AT = 16,
	FIRST_AT = 16,  /* cons: first; sliced: parent; thin: actual */
	SECOND_AT = 24, /* cons: second; sliced: offset */
	EXTERNAL_TEXT_AT = 24,
	STRINGS_DEEP = 8,
	CHUNK = 4096,
	SOURCE_MOST = 16 << 20, /* characters that are looked through for lines */
};

bool v8_read(const struct v8_heap *h, uint64_t address, void *to, size_t bytes)
{
	return address && h->memory->read(h->memory->ctx, h->pid, address, to, bytes);
}

bool v8_word(const struct v8_heap *h, uint64_t object, int32_t offset, uint64_t *word)
{
	return v8_is_pointer(object) &&
	       v8_read(h, object - 1 + (uint64_t)offset, word, sizeof(*word));
}

int32_t v8_type_of(const struct v8_heap *h, uint64_t object)
{
	uint16_t type;
	uint64_t map;

	if (!v8_word(h, object, 0, &map) || !v8_is_pointer(map) ||
	    !v8_read(h, map - 1 + (uint64_t)h->o->map_type, &type, sizeof(type)))
		return -1;
	return type;
}

bool v8_is_string(const struct v8_heap *h, uint64_t object)
{
	int32_t type = v8_type_of(h, object);

	return type >= 0 && type < h->o->first_nonstring;
}

/* Where the characters of a String are, or those of a part of it. */
struct text {
	uint64_t at;
	uint32_t length;
	bool one_byte;
};

/* Follows what stands for another String. `from`: the first character that is wanted; it becomes
 * the one in *text. Of a concatenation: the part that has it. */
static bool find_text(const struct v8_heap *h, uint64_t string, uint32_t *from, struct text *text)
{
	for (int deep = 0; deep < STRINGS_DEEP; deep++) {
		uint64_t words[4];
		int32_t type = v8_type_of(h, string);
		uint32_t first;

		if (type < 0 || type >= h->o->first_nonstring ||
		    !v8_read(h, string - 1, words, sizeof(words)))
			return false;
		text->length = (uint32_t)(words[LENGTH_AT / 8] >> 32);
		text->one_byte = type & ONE_BYTE;
		switch (type & KIND_MASK) {
		case KIND_SEQUENTIAL:
			text->at = string - 1 + TEXT_AT;
			return true;
		case KIND_EXTERNAL:
			text->at = words[EXTERNAL_TEXT_AT / 8];
			return true;
		case KIND_SLICED:
			*from += (uint32_t)v8_integer(words[SECOND_AT / 8]);
			string = words[FIRST_AT / 8];
			break;
		case KIND_THIN:
			string = words[FIRST_AT / 8];
			break;
		case KIND_CONS:
			if (!v8_word(h, words[FIRST_AT / 8], 8, &words[0]))
				return false;
			first = (uint32_t)(words[0] >> 32);
			string = *from < first ? words[FIRST_AT / 8] : words[SECOND_AT / 8];
			*from -= *from < first ? 0 : first;
			break;
		default:
			return false;
		}
	}
	return false;
}

static uint32_t length_of(const struct v8_heap *h, uint64_t string)
{
	uint64_t word;

	return v8_word(h, string, 8, &word) ? (uint32_t)(word >> 32) : 0;
}

static void put_character(struct buf *out, uint32_t *high, uint16_t unit)
{
	uint32_t c = unit;

	if (*high && unit >= 0xdc00 && unit < 0xe000)
		c = 0x10000 + ((*high - 0xd800) << 10) + (unit - 0xdc00u);
	*high = unit >= 0xd800 && unit < 0xdc00 ? unit : 0;
	if (!*high)
		utf8_append(out, c);
}

/* Up to a chunk of the characters from `from` on, as 16 bits each; 0: cannot be read. */
static uint32_t read_units(const struct v8_heap *h, uint64_t string, uint32_t from, uint32_t most,
			   uint16_t units[CHUNK])
{
	struct text text;
	uint8_t bytes[CHUNK];
	uint32_t n;

	if (!find_text(h, string, &from, &text) || from >= text.length)
		return 0;
	n = text.length - from;
	n = n < most ? n : most;
	n = n < CHUNK ? n : CHUNK;
	if (!text.one_byte)
		return v8_read(h, text.at + 2 * (uint64_t)from, units, 2 * (size_t)n) ? n : 0;
	if (!v8_read(h, text.at + from, bytes, n))
		return 0;
	for (uint32_t i = 0; i < n; i++)
		units[i] = bytes[i];
	return n;
}

bool v8_string(const struct v8_heap *h, uint64_t string, uint32_t most, struct buf *out)
{
	uint32_t length = v8_is_string(h, string) ? length_of(h, string) : 0, high = 0;
	uint16_t units[CHUNK];

	length = length < most ? length : most;
	for (uint32_t from = 0, n; from < length; from += n) {
		n = read_units(h, string, from, length - from, units);
		if (!n)
			return false;
		for (uint32_t i = 0; i < n; i++)
			put_character(out, &high, units[i]);
	}
	return length > 0;
}

bool v8_count_lines(const struct v8_heap *h, uint64_t string, uint32_t position, uint32_t *lines,
		    uint32_t *column)
{
	uint16_t units[CHUNK];

	*lines = *column = 0;
	if (position > SOURCE_MOST || !v8_is_string(h, string) || position > length_of(h, string))
		return false;
	for (uint32_t from = 0, n; from < position; from += n) {
		n = read_units(h, string, from, position - from, units);
		if (!n)
			return false;
		for (uint32_t i = 0; i < n; i++) {
			*lines += units[i] == '\n';
			*column = units[i] == '\n' ? 0 : *column + 1;
		}
	}
	return true;
}
