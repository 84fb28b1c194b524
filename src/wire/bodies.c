#include "wire/bodies.h"

#include <stdint.h>
#include <string.h>

#include "wire/joined.h"
#include "wire/otlp_json.h"
#include "wire/pb_reader.h"

static uint32_t be32(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

/* Frames fill the bytes exactly, each `head` bytes of header ending in a big-endian length. Zeros
 * alone are no frames. */
static bool frames_fit(struct str s, size_t head)
{
	size_t filled = 0;

	while (s.len >= head) {
		size_t len = be32(s.ptr + head - 4);

		if (head == 5 && s.ptr[0] != 0)
			return false;
		if (len > s.len - head)
			return false;
		s = str_skip(s, head + len);
		filled += len > 0;
	}
	return s.len == 0 && filled > 0;
}

static enum bodies_form tell_form(struct str s)
{
	if (otlp_looks_like_json(s))
		return BODIES_JSON;
	/* A body begins with the tag of field 1 or 2 (0x0a, 0x12, ...); a frame with a zero byte or
	 * a length below 16 MiB. */
	if (s.len > 5 && s.ptr[0] == 0) {
		if (frames_fit(s, 4))
			return BODIES_LENGTH_PREFIXED;
		if (frames_fit(s, 5))
			return BODIES_GRPC_FRAMES;
	}
	return BODIES_PROTOBUF;
}

void bodies_begin(struct bodies *b, struct blob *bytes, size_t offset)
{
	*b = (struct bodies){ bytes, tell_form(str_skip(blob_view(bytes), offset)), offset };
}

struct str bodies_rest(const struct bodies *b)
{
	struct str all = blob_view(b->bytes);

	return str_skip(all, b->offset < all.len ? b->offset : all.len);
}

static size_t frame_head(enum bodies_form form)
{
	return form == BODIES_LENGTH_PREFIXED ? 4 : 5;
}

/* The end of the JSON value at s: brackets are counted outside strings. 0 when it never closes. */
static size_t json_value_end(struct str s)
{
	size_t depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < s.len; i++) {
		char c = s.ptr[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			depth++;
		} else if ((c == '}' || c == ']') && depth && --depth == 0) {
			return i + 1;
		}
	}
	return 0;
}

static size_t skip_space(struct str s)
{
	size_t i = 0;

	while (i < s.len && strchr(" \t\r\n", s.ptr[i]))
		i++;
	return i;
}

/* An empty file is one empty message. */
static bool next_protobuf(struct bodies *b, struct str *piece)
{
	if (b->offset > 0 && !piece->len)
		return false;
	*piece = str_head(*piece, otlp_first_body(*piece));
	if (piece->len == 0)
		b->offset = SIZE_MAX;
	return true;
}

/* A whole resource_profiles or dictionary, as far as its own fields show. */
static bool begins_message(struct str s)
{
	struct pb_reader r = pb_reader_of(s), content;
	uint32_t tag = pb_more(&r) ? pb_tag(&r) : 0;

	if (tag != PB_TAG(1, PB_LEN) && tag != PB_TAG(2, PB_LEN))
		return false;
	content = pb_message(&r);
	while (pb_more(&content))
		pb_skip(&content, pb_tag(&content));
	return !r.fault && !content.fault;
}

/* Behind JSON: 0x0a is a line feed and the tag of field 1. */
static size_t blanks_before_message(struct str s)
{
	size_t blank = skip_space(s);

	for (size_t i = 0; i <= blank; i++)
		if (begins_message(str_skip(s, i)))
			return i;
	return blank;
}

static bool next_json(struct bodies *b, struct str *piece)
{
	size_t blank = skip_space(*piece), len;
	bool more_json = otlp_looks_like_json(str_skip(*piece, blank)) && !begins_message(*piece);

	if (!more_json)
		blank = blanks_before_message(*piece);

	b->offset += blank;
	*piece = str_skip(*piece, blank);
	if (piece->len == 0)
		return false;
	if (!more_json) {
		b->form = BODIES_PROTOBUF;
		return next_protobuf(b, piece);
	}
	/* In UTF-16 the end is not where its bytes look like one. */
	len = otlp_json_encoding(*piece) ? 0 : json_value_end(*piece);
	*piece = str_head(*piece, len ? len : piece->len);
	return true;
}

static bool next_frame(struct bodies *b, struct str *piece)
{
	size_t head = frame_head(b->form);

	if (piece->len == 0)
		return false;
	*piece = str_from(piece->ptr + head, be32(piece->ptr + head - 4));
	b->offset += head;
	return true;
}

static bool next_piece(struct bodies *b, struct str *piece)
{
	switch (b->form) {
	case BODIES_PROTOBUF:
		if (b->offset == 0 || !otlp_looks_like_json(*piece))
			return next_protobuf(b, piece);
		b->form = BODIES_JSON;
		return next_json(b, piece);
	case BODIES_JSON:
		return next_json(b, piece);
	case BODIES_LENGTH_PREFIXED:
	case BODIES_GRPC_FRAMES:
		break;
	}
	return next_frame(b, piece);
}

bool bodies_next(struct bodies *b, struct blob **body, size_t *offset)
{
	struct str all = blob_view(b->bytes), piece = bodies_rest(b);

	if (!next_piece(b, &piece))
		return false;
	*offset = b->offset == SIZE_MAX ? 0 : b->offset;
	b->offset += piece.len;
	*body = piece.len == all.len ? blob_ref(b->bytes) : blob_copy(piece);
	return true;
}
