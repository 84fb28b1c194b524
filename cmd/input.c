#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "net/compress_torn.h"
#include "wire/joined.h"
#include "wire/otlp_json.h"

static const size_t FILE_LIMIT = (size_t)INPUT_FILE_LIMIT_MIB << 20;

static bool read_all(int fd, const char *path, struct buf *out, struct err *err)
{
	for (;;) {
		char *room = buf_reserve(out, 1 << 16);
		ssize_t n;

		if (!room)
			return err_set(err, ERR_LIMIT, "%s: larger than %d MiB", path,
				       INPUT_FILE_LIMIT_MIB);
		n = read(fd, room, 1 << 16);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(err, "%s: read", path);
		if (n == 0)
			return true;
		buf_advance(out, (size_t)n);
	}
}

static struct blob *load(const char *path, struct err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	AUTO(fd_close) int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	struct buf bytes;
	size_t len;
	char *heap;

	if (fd < 0) {
		err_set_errno(err, "%s", path);
		return NULL;
	}
	buf_init(&bytes, FILE_LIMIT);
	if (!read_all(fd, path, &bytes, err)) {
		buf_release(&bytes);
		return NULL;
	}
	heap = buf_take(&bytes, &len);
	return blob_adopt(heap, len);
}

static struct blob *decompress_input(struct blob *raw, const char *path, struct err *damage,
				     struct err *err)
{
	enum compression kind = compression_sniff(blob_view(raw));
	struct blob *plain;

	if (kind == COMPRESSION_NONE)
		return raw;
	plain = decompress(kind, blob_view(raw), FILE_LIMIT, err);
	if (!plain && damage) {
		plain = decompress_torn(kind, blob_view(raw), FILE_LIMIT, damage);
		if (!plain)
			*err = *damage;
	}
	blob_unref(raw);
	if (!plain)
		err_prefix(err, "%s: %s", path, compression_name(kind));
	return plain;
}

static uint32_t be32(const char *p)
{
	const unsigned char *u = (const unsigned char *)p;

	return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

/* Frames fill the bytes exactly, each `head` bytes of header ending in a big-endian length. */
static bool frames_fit(struct str s, size_t head)
{
	size_t count = 0;

	while (s.len >= head) {
		size_t len = be32(s.ptr + head - 4);

		if (head == 5 && s.ptr[0] != 0)
			return false;
		if (len > s.len - head)
			return false;
		s = str_skip(s, head + len);
		count++;
	}
	return s.len == 0 && count > 0;
}

static enum input_form tell_form(struct str s)
{
	if (otlp_looks_like_json(s))
		return INPUT_JSON;
	/* A body begins with the tag of field 1 or 2 (0x0a, 0x12, ...); a frame with a zero byte or
	 * a length below 16 MiB. */
	if (s.len > 5 && s.ptr[0] == 0) {
		if (frames_fit(s, 4))
			return INPUT_LENGTH_PREFIXED;
		if (frames_fit(s, 5))
			return INPUT_GRPC_FRAMES;
	}
	return INPUT_PROTOBUF;
}

static bool open_any(struct input *in, const char *path, struct err *damage, struct err *err)
{
	struct blob *raw = load(path, err);

	in->damage.kind = ERR_NONE;
	if (!raw)
		return false;
	in->bytes = decompress_input(raw, path, damage, err);
	if (!in->bytes)
		return false;
	in->offset = 0;
	in->form = tell_form(blob_view(in->bytes));
	return true;
}

bool input_open(struct input *in, const char *path, struct err *err)
{
	return open_any(in, path, NULL, err);
}

bool input_open_broken(struct input *in, const char *path, struct err *err)
{
	return open_any(in, path, &in->damage, err);
}

static size_t frame_head(enum input_form form)
{
	return form == INPUT_LENGTH_PREFIXED ? 4 : 5;
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
static bool next_protobuf(struct input *in, struct str *piece)
{
	if (in->offset > 0 && !piece->len)
		return false;
	*piece = str_head(*piece, otlp_first_body(*piece));
	if (piece->len == 0)
		in->offset = SIZE_MAX;
	return true;
}

static bool next_json(struct input *in, struct str *piece)
{
	size_t blank = skip_space(*piece), len;

	in->offset += blank;
	*piece = str_skip(*piece, blank);
	if (piece->len == 0)
		return false;
	len = json_value_end(*piece);
	*piece = str_head(*piece, len ? len : piece->len);
	return true;
}

static bool next_frame(struct input *in, struct str *piece)
{
	size_t head = frame_head(in->form);

	if (piece->len == 0)
		return false;
	*piece = str_from(piece->ptr + head, be32(piece->ptr + head - 4));
	in->offset += head;
	return true;
}

static bool next_piece(struct input *in, struct str *piece)
{
	switch (in->form) {
	case INPUT_PROTOBUF:
		return next_protobuf(in, piece);
	case INPUT_JSON:
		return next_json(in, piece);
	case INPUT_LENGTH_PREFIXED:
	case INPUT_GRPC_FRAMES:
		break;
	}
	return next_frame(in, piece);
}

bool input_next(struct input *in, struct blob **body, size_t *offset, struct err *err)
{
	struct str all = blob_view(in->bytes), piece = str_skip(all, in->offset);

	err->kind = ERR_NONE;
	if (!next_piece(in, &piece))
		return false;
	*offset = in->offset == SIZE_MAX ? 0 : in->offset;
	in->offset += piece.len;
	*body = piece.len == all.len ? blob_ref(in->bytes) : blob_copy(piece);
	return true;
}

void input_close(struct input *in)
{
	blob_unref(in->bytes);
	in->bytes = NULL;
}
