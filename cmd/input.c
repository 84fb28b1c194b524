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

/* What decompress() refuses: parts of both kinds, and with `damage` the head of a broken file. */
static struct blob *decompress_parts(enum compression kind, struct str raw, struct err *damage,
				     struct err *err)
{
	struct err fault;
	struct blob *plain = decompress_torn(kind, raw, FILE_LIMIT, &fault);

	if (plain && fault.kind == ERR_NONE)
		return plain;
	if (!damage) { /* err says what is wrong with the whole */
		blob_unref(plain);
		return NULL;
	}
	if (plain)
		*damage = fault;
	else
		*err = fault;
	return plain;
}

static struct blob *decompress_input(struct blob *raw, const char *path, struct err *damage,
				     struct err *err)
{
	enum compression kind = compression_sniff(blob_view(raw));
	struct blob *plain;

	if (kind == COMPRESSION_NONE)
		return raw;
	plain = decompress(kind, blob_view(raw), FILE_LIMIT, err);
	if (!plain)
		plain = decompress_parts(kind, blob_view(raw), damage, err);
	blob_unref(raw);
	if (!plain)
		err_prefix(err, "%s: %s", path, compression_name(kind));
	return plain;
}

static bool open_any(struct input *in, const char *path, struct err *damage, struct err *err)
{
	struct blob *raw = load(path, err);

	in->damage.kind = ERR_NONE;
	if (!raw)
		return false;
	raw = decompress_input(raw, path, damage, err);
	if (!raw)
		return false;
	bodies_begin(&in->bodies, raw);
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

bool input_next(struct input *in, struct blob **body, size_t *offset, struct err *err)
{
	err->kind = ERR_NONE;
	return bodies_next(&in->bodies, body, offset);
}

void input_close(struct input *in)
{
	blob_unref(in->bodies.bytes);
	in->bodies.bytes = NULL;
}
