#include "agent/runtimes/cpython/text.h"

#include <string.h>

#include "base/text.h"

enum {
	HEAD_BYTES = 40,   /* up to and with `state`, in all versions */
	FIRST_BYTES = 256, /* most texts are shorter: one read */
};
#define KIND(state) ((state) >> 2 & 7) /* bytes of a character: 1, 2, 4 */
#define COMPACT     (1u << 5)
#define ASCII       (1u << 6)

static void put_characters(struct buf *out, const uint8_t *data, size_t count, uint32_t kind)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t c = 0;

		memcpy(&c, data + i * kind, kind);
		utf8_append(out, c);
	}
}

bool cpython_read_text(const struct runtime_memory *m, const struct cpython_offsets *o,
		       uint32_t pid, uint64_t at, struct buf *out)
{
	uint8_t data[CPYTHON_TEXT_MOST * 4 + FIRST_BYTES];
	uint64_t length = 0, begin, bytes, first = FIRST_BYTES;
	uint32_t state = 0, kind;
	bool cut;

	if (o->text_length < 0 || o->text_length > HEAD_BYTES - 8 || o->text_state < 0 ||
	    o->text_state > HEAD_BYTES - 4 || o->text_ascii < 0 || o->text_other < 0)
		return false;
	/* Memory may end behind a short text: then only the head is surely there. */
	if (!at || (!m->read(m->ctx, pid, at, data, first) &&
		    (first = HEAD_BYTES, !m->read(m->ctx, pid, at, data, first))))
		return false;
	memcpy(&length, data + o->text_length, sizeof(length));
	memcpy(&state, data + o->text_state, sizeof(state));
	kind = KIND(state);
	if (!(state & COMPACT) || (kind != 1 && kind != 2 && kind != 4) || length > INT32_MAX)
		return false;
	cut = length > CPYTHON_TEXT_MOST;
	length = cut ? CPYTHON_TEXT_MOST : length;
	begin = (uint64_t)(state & ASCII ? o->text_ascii : o->text_other);
	bytes = length * kind;
	if (begin > FIRST_BYTES)
		return false;
	if (begin + bytes > first && !m->read(m->ctx, pid, at + begin, data + begin, bytes))
		return false;
	put_characters(out, data + begin, length, kind);
	if (cut)
		buf_lit(out, "...");
	return true;
}
