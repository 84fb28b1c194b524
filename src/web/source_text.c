#include "web/source_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* No part is empty, hidden, "." or ".."; room for a NUL. */
static bool is_plain_path(struct str path)
{
	struct str part;

	if (!path.len || path.len >= SOURCE_PATH_MOST || memchr(path.ptr, 0, path.len))
		return false;
	while (str_split(&path, '/', &part))
		if (!part.len || part.ptr[0] == '.')
			return false;
	return true;
}

/* One part of a path; errno ELOOP: it is a symbolic link, whatever it leads to. */
static int open_part(int at, const char *part, int flags)
{
	int fd = openat(at, part, flags | O_CLOEXEC | O_NOFOLLOW), why = errno;
	struct stat st;

	if (fd < 0 && fstatat(at, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		why = ELOOP;
	errno = why;
	return fd;
}

/* The path is plain, and no part of it a link: nothing leads out of the folder. */
static int open_below(int folder, const char *path)
{
	const int file = O_RDONLY | O_NONBLOCK | O_NOCTTY, way = O_PATH | O_DIRECTORY;
	char part[SOURCE_PATH_MOST];
	int at = folder, next;

	for (;;) {
		const char *slash = strchr(path, '/');
		size_t len = slash ? (size_t)(slash - path) : strlen(path);

		snprintf(part, sizeof(part), "%.*s", (int)len, path);
		next = open_part(at, part, slash ? way : file);
		if (at != folder) {
			int why = errno;

			close(at);
			errno = why;
		}
		if (!slash || next < 0)
			return next;
		at = next;
		path = slash + 1;
	}
}

static struct blob *read_text(int fd, const char *path, struct err *err)
{
	struct blob *b = NULL;
	struct stat st;
	ssize_t n = 0;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		err_set(err, ERR_INVALID, "%s is not a regular file", path);
		return NULL;
	}
	if (st.st_size > SOURCE_BYTES_MOST) {
		err_set(err, ERR_LIMIT, "%s has %lld bytes; shown are up to %d", path,
			(long long)st.st_size, SOURCE_BYTES_MOST);
		return NULL;
	}
	b = blob_new(SOURCE_BYTES_MOST);
	while (b->len < b->cap && (n = read(fd, b->ptr + b->len, b->cap - b->len)) > 0)
		b->len += (size_t)n;
	if (n < 0 || memchr(b->ptr, 0, b->len)) {
		blob_unref(b);
		err_set(err, ERR_INVALID, "%s is not text", path);
		return NULL;
	}
	return b;
}

struct blob *source_text_read(const char *folder, struct str file, char found[SOURCE_PATH_MOST],
			      struct err *err)
{
	AUTO(fd_close) int root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct str rest = file;

	if (root < 0) {
		err_set_errno(err, "the folder of sources, %s", folder);
		return NULL;
	}
	for (;;) {
		ptrdiff_t slash;

		while (rest.len && rest.ptr[0] == '/')
			rest = str_skip(rest, 1);
		if (!rest.len)
			break;
		if (is_plain_path(rest)) {
			AUTO(fd_close) int fd = -1;

			snprintf(found, SOURCE_PATH_MOST, "%.*s", STR_ARG(rest));
			fd = open_below(root, found);
			if (fd >= 0)
				return read_text(fd, found, err);
			if (errno == ELOOP || errno == EXDEV) {
				err_set(err, ERR_PERMISSION,
					"%s is reached by a symbolic link: not followed", found);
				return NULL;
			}
		}
		slash = str_find(rest, '/');
		if (slash < 0)
			break;
		rest = str_skip(rest, (size_t)slash + 1);
	}
	err_set(err, ERR_NOT_FOUND, "no file below %s has this name", folder);
	return NULL;
}
