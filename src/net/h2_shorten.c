#include "net/h2_shorten.h"

#include <string.h>

/* RFC 9113, 4.1 and 6.2; nghttp2 refuses larger frames, for we offer no other size. */
enum { HEAD_BYTES = 9, FRAME_MOST = 16384, TYPE_HEADERS = 1, TYPE_CONTINUATION = 9 };
enum { FLAG_END_HEADERS = 0x4, FLAG_PADDED = 0x8, FLAG_PRIORITY = 0x20, PRIORITY_BYTES = 5 };

/* RFC 7541, 5.1: a length that does not fit the first byte's seven bits is the rest after 127, in
 * up to so many bytes of seven bits. */
enum { LENGTH_BYTES_MOST = 5, LENGTH_BYTES_LONG = 4, PREFIX_FULL = 127 };

enum frame { IN_HEAD, IN_PAD_LENGTH, IN_BLOCK };
/* Of a header block: a representation's first byte; the rest of its index; a string's length. A
 * string itself is `pass` and `cut`. */
enum step { AT_FIELD, AT_INDEX, AT_LENGTH };

#define MAGIC "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" /* what a client says first */

void h2_shorten_init(struct h2_shorten *s)
{
	memset(s, 0, sizeof(*s));
	s->skip = sizeof(MAGIC) - 1;
}

static uint32_t least(size_t a, size_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* The pieces: what lies between `from` and `at`, or what was held. */

struct cursor {
	const char *from, *at, *end;
};

static struct str run(struct cursor *c)
{
	struct str piece = str_from(c->from, (size_t)(c->at - c->from));

	c->from = c->at;
	return piece;
}

static struct str held(struct h2_shorten *s)
{
	struct str piece = str_from(s->held, s->held_len);

	s->held_len = 0;
	return piece;
}

static void hold(struct h2_shorten *s, struct cursor *c)
{
	s->held[s->held_len++] = (uint8_t)*c->at++;
	c->from = c->at;
}

/* Frames. */

static void give_up(struct h2_shorten *s)
{
	s->gave_up = true;
}

static void headers_begin(struct h2_shorten *s, uint32_t len)
{
	uint32_t before =
		(s->flags & FLAG_PADDED ? 1 : 0) + (s->flags & FLAG_PRIORITY ? PRIORITY_BYTES : 0);

	if (len < before) {
		give_up(s);
		return;
	}
	s->step = AT_FIELD;
	s->pass = s->cut = s->pad = s->length_bytes = 0;
	s->block = len - before;
	s->frame = s->flags & FLAG_PADDED ? IN_PAD_LENGTH : IN_BLOCK;
	if (s->frame == IN_BLOCK)
		s->skip = before;
}

/* What of the frame will be left out is known now: a string that begins in it is cut in a later
 * one. A frame of which nothing stays is left out, too. */
static void continuation_begin(struct h2_shorten *s, uint32_t len)
{
	uint32_t stays = len - (least(len, s->pass + s->cut) - least(len, s->pass));

	s->held[0] = (uint8_t)(stays >> 16);
	s->held[1] = (uint8_t)(stays >> 8);
	s->held[2] = (uint8_t)stays;
	if (!stays && len && !(s->flags & FLAG_END_HEADERS))
		s->held_len = 0;
	s->block = len;
	s->frame = IN_BLOCK;
}

static void frame_begin(struct h2_shorten *s)
{
	uint32_t len = (uint32_t)s->held[0] << 16 | (uint32_t)s->held[1] << 8 | s->held[2];
	uint8_t type = s->held[3];

	s->flags = s->held[4];
	s->frame = IN_HEAD;
	if (type != TYPE_HEADERS && type != TYPE_CONTINUATION) {
		s->skip = len;
		if (s->cut) /* in the middle of a header block */
			give_up(s);
	} else if (len > FRAME_MOST || (type == TYPE_HEADERS && s->cut)) {
		give_up(s);
	} else if (type == TYPE_HEADERS) {
		headers_begin(s, len);
	} else {
		continuation_begin(s, len);
	}
}

/* True: there is something to give out. */
static bool head_byte(struct h2_shorten *s, struct cursor *c)
{
	bool keep_back = s->cut > 0;

	if (keep_back && c->at > c->from)
		return true;
	s->held[s->held_len++] = (uint8_t)*c->at++;
	if (keep_back)
		c->from = c->at;
	if (s->held_len < HEAD_BYTES)
		return false;
	frame_begin(s);
	if (!keep_back)
		s->held_len = 0;
	return s->held_len > 0 || s->gave_up;
}

static void pad_length_byte(struct h2_shorten *s, struct cursor *c)
{
	s->pad = (uint8_t)*c->at++;
	if (s->pad > s->block) {
		give_up(s);
		return;
	}
	s->block -= s->pad;
	s->skip = s->flags & FLAG_PRIORITY ? PRIORITY_BYTES : 0;
	s->frame = IN_BLOCK;
}

/* Header blocks: RFC 7541, 6. */

static void after_index(struct h2_shorten *s)
{
	s->step = s->strings_due ? AT_LENGTH : AT_FIELD;
	s->length_bytes = 0;
	s->length_sent = false;
}

static void string_end(struct h2_shorten *s)
{
	s->strings_due--;
	after_index(s);
}

static void field_byte(struct h2_shorten *s, uint8_t b)
{
	uint8_t index_most = b & 0x80 ? 0x7f : b & 0x40 ? 0x3f : b & 0x20 ? 0x1f : 0x0f;
	uint8_t index = b & index_most;
	bool literal = !(b & 0x80) && (b & 0x40 || !(b & 0x20));

	s->strings_due = !literal ? 0 : index ? 1 : 2;
	if (index == index_most)
		s->step = AT_INDEX;
	else
		after_index(s);
}

static void string_begin(struct h2_shorten *s)
{
	static const uint8_t most[LENGTH_BYTES_LONG] = {
		PREFIX_FULL, /* and no Huffman code */
		0x80 | ((H2_STRING_MOST - PREFIX_FULL) & 0x7f),
		0x80 | ((H2_STRING_MOST - PREFIX_FULL) >> 7 & 0x7f),
		(H2_STRING_MOST - PREFIX_FULL) >> 14,
	};

	s->pass = s->length;
	if (s->length > H2_STRING_MOST && s->held_len == LENGTH_BYTES_LONG) {
		memcpy(s->held, most, sizeof(most));
		s->pass = H2_STRING_MOST;
		s->cut = s->length - H2_STRING_MOST;
		s->shortened++;
	}
	if (!s->pass)
		string_end(s);
}

/* True: there is something to give out. */
static bool length_byte(struct h2_shorten *s, struct cursor *c)
{
	uint8_t b = (uint8_t)*c->at;

	if (!s->length_bytes && (b & PREFIX_FULL) != PREFIX_FULL) {
		c->at++;
		s->block--;
		s->length = b & PREFIX_FULL;
		string_begin(s);
		return false;
	}
	if (!s->length_sent && c->at > c->from)
		return true;
	if (s->length_sent)
		c->at++;
	else
		hold(s, c);
	s->block--;
	s->length = s->length_bytes
			    ? s->length + ((uint32_t)(b & 0x7f) << 7 * (s->length_bytes - 1))
			    : PREFIX_FULL;
	if (!s->length_bytes++)
		return false;
	if (!(b & 0x80))
		string_begin(s);
	else if (s->length_bytes == LENGTH_BYTES_MOST)
		give_up(s);
	else
		return false;
	return s->held_len > 0 || s->gave_up;
}

/* The same for the bytes of a block that are there. */
static bool block_bytes(struct h2_shorten *s, struct cursor *c)
{
	uint32_t there = least(s->block, (size_t)(c->end - c->at));
	uint32_t n = least(there, s->pass ? s->pass : s->cut);

	if (s->pass) {
		c->at += n;
		s->pass -= n;
	} else if (s->cut) {
		if (c->at > c->from)
			return true;
		c->from = c->at += n;
		s->cut -= n;
	}
	if (n) {
		s->block -= n;
		if (!s->pass && !s->cut)
			string_end(s);
	} else if (s->step == AT_LENGTH) {
		return length_byte(s, c);
	} else {
		uint8_t b = (uint8_t)*c->at++;

		s->block--;
		if (s->step == AT_FIELD)
			field_byte(s, b);
		else if (!(b & 0x80))
			after_index(s);
	}
	return false;
}

/* A length whose rest comes in the next frame goes out with its own. */
static bool block_end(struct h2_shorten *s)
{
	bool begun = s->held_len > 0;

	s->length_sent = s->length_sent || begun;
	s->frame = IN_HEAD;
	s->skip = s->pad;
	s->pad = 0;
	return begun;
}

struct str h2_shorten_next(struct h2_shorten *s, struct str *in)
{
	struct cursor c = { in->ptr, in->ptr, in->ptr + in->len };
	bool give = s->gave_up;

	while (!give) {
		if (!s->skip && s->frame == IN_BLOCK && !s->block) {
			give = block_end(s);
			continue;
		}
		if (c.at == c.end)
			break;
		if (s->skip) {
			uint32_t n = least(s->skip, (size_t)(c.end - c.at));

			c.at += n;
			s->skip -= n;
		} else if (s->frame == IN_HEAD) {
			give = head_byte(s, &c);
		} else if (s->frame == IN_PAD_LENGTH) {
			pad_length_byte(s, &c);
			give = s->gave_up;
		} else {
			give = block_bytes(s, &c);
		}
	}
	if (s->gave_up && !s->held_len)
		c.at = c.end;
	*in = str_from(c.at, (size_t)(c.end - c.at));
	if (c.at > c.from)
		return run(&c);
	return give ? held(s) : (struct str){ 0 };
}
