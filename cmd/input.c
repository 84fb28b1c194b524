#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "net/compress_torn.h"

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

/* The members of one kind that `packed` begins with. */
static struct blob *decompress_part(struct input *in, enum compression kind, struct str packed,
				    struct err *err)
{
	size_t used = packed.len;
	struct blob *plain = decompress(kind, packed, FILE_LIMIT, err);

	if (!plain && (in->broken || err->kind != ERR_LIMIT)) {
		struct err fault; /* broken, or with something else behind it */

		plain = decompress_torn(kind, packed, FILE_LIMIT, &used, &fault);
		if (plain && fault.kind != ERR_NONE && !in->broken) {
			blob_unref(plain);
			plain = NULL;
		}
		if (!plain)
			*err = fault;
		else if (fault.kind != ERR_NONE)
			in->damage = fault;
	}
	if (plain)
		err->kind = ERR_NONE;
	else if (strstr(err->msg, compression_name(kind)))
		err_prefix(err, "%s", in->path);
	else
		err_prefix(err, "%s: %s", in->path, compression_name(kind));
	in->raw_next += used;
	return plain;
}

/* The part at raw_next. */
static bool open_part(struct input *in, struct err *err)
{
	struct str rest = str_skip(blob_view(in->raw), in->raw_next);
	enum compression kind = compression_sniff(rest);
	struct blob *part;

	in->plain = kind == COMPRESSION_NONE;
	if (in->plain) {
		bodies_begin(&in->bodies, blob_ref(in->raw), in->raw_next);
		in->raw_next = in->raw->len;
		return true;
	}
	part = decompress_part(in, kind, rest, err);
	if (part)
		bodies_begin(&in->bodies, part, 0);
	return part != NULL;
}

static void close_part(struct input *in)
{
	blob_unref(in->bodies.bytes);
	in->bodies.bytes = NULL;
}

static bool open_any(struct input *in, const char *path, bool broken, struct err *err)
{
	*in = (struct input){ .raw = load(path, err), .path = path, .broken = broken };
	if (!in->raw)
		return false;
	if (open_part(in, err))
		return true;
	input_close(in);
	return false;
}

bool input_open(struct input *in, const char *path, struct err *err)
{
	return open_any(in, path, false, err);
}

bool input_open_broken(struct input *in, const char *path, struct err *err)
{
	return open_any(in, path, true, err);
}

/* Compressed data where the next body would begin; lines of JSON end in a line feed. */
static bool compressed_follows(struct input *in)
{
	struct str rest = bodies_rest(&in->bodies);
	size_t blank = 0;

	if (!in->plain)
		return false;
	while (in->bodies.form == BODIES_JSON && blank < rest.len &&
	       strchr(" \t\r\n", rest.ptr[blank]))
		blank++;
	if (compression_sniff(str_skip(rest, blank)) == COMPRESSION_NONE)
		return false;
	in->raw_next = in->bodies.offset + blank;
	return true;
}

bool input_next(struct input *in, struct blob **body, size_t *offset, struct err *err)
{
	err->kind = ERR_NONE;
	while (in->bodies.bytes) {
		if (!compressed_follows(in) && bodies_next(&in->bodies, body, offset))
			return true;
		close_part(in);
		if (in->raw_next < in->raw->len && !open_part(in, err))
			return false;
	}
	return false;
}

void input_close(struct input *in)
{
	close_part(in);
	blob_unref(in->raw);
	in->raw = NULL;
}
