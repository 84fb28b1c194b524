#include "pipeline/spool_dir.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"

enum {
	CURSOR_MAGIC = 0x31435446 /* "FTC1" */,
	UNFINISHED_MOST = 1 << 16,
	CORRUPT_FILES_MOST = 100,
	/* A cursor that fits is written over the one before: a sector is written as a whole, and a
	 * new file with each answer costs a hundred times as much. */
	CURSOR_BLOCK = 512,
};

static bool make_parents(char *path)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return false;
		*p = '/';
	}
	return mkdir(path, 0700) == 0 || errno == EEXIST;
}

int spool_dir_open(const char *path, struct err *err)
{
	AUTO(ptr_free) char *copy = strdup(path);
	int fd;

	assert(copy);
	if (!*path || !make_parents(copy)) {
		err_set_errno(err, "cannot make the spool directory %s", path);
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		err_set_errno(err, "cannot open the spool directory %s", path);
	return fd;
}

int spool_dir_lock(int dir_fd, const char *path, struct err *err)
{
	char pid[32] = "";
	int fd = openat(dir_fd, "LOCK", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ssize_t n;

	if (fd < 0) {
		err_set_errno(err, "cannot open %s/LOCK", path);
		return -1;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		n = pread(fd, pid, sizeof(pid) - 1, 0);
		pid[n > 0 ? n : 0] = 0;
		pid[strcspn(pid, "\n")] = 0;
		err_set(err, ERR_UNAVAILABLE, "the spool directory %s is in use by process %s",
			path, *pid ? pid : "(unknown)");
		close(fd);
		return -1;
	}
	snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, strlen(pid), 0) < 0) {
		err_set_errno(err, "cannot write %s/LOCK", path);
		close(fd);
		return -1;
	}
	return fd;
}

static bool read_whole(int dir_fd, const char *name, struct buf *out)
{
	AUTO(fd_close) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	do {
		char *room = buf_reserve(out, 4096);

		n = room ? read(fd, room, 4096) : -1;
		if (n > 0)
			buf_advance(out, (size_t)n);
	} while (n > 0);
	return n == 0;
}

/* magic, count, next, unfinished..., XXH3 of all before it; zeros may follow */
bool spool_cursor_read(int dir_fd, struct spool_cursor *out, bool *damaged)
{
	struct spool_cursor c = { 0 };
	uint32_t head[2];
	uint64_t hash;
	struct buf b;
	bool ok;

	buf_init(&b, CURSOR_BLOCK + 8192 + UNFINISHED_MOST * sizeof(uint64_t));
	*damaged = false;
	if (!read_whole(dir_fd, "cursor", &b)) {
		buf_release(&b);
		return false;
	}
	ok = b.len >= 24;
	if (ok) {
		memcpy(head, b.ptr, sizeof(head));
		memcpy(&c.next, b.ptr + 8, 8);
		c.count = head[1];
		ok = head[0] == CURSOR_MAGIC && c.count <= UNFINISHED_MOST &&
		     b.len >= 24 + (size_t)c.count * 8;
	}
	if (ok) {
		memcpy(&hash, b.ptr + 16 + (size_t)c.count * 8, 8);
		ok = hash64(str_from(b.ptr, 16 + (size_t)c.count * 8)) == hash;
	}
	if (ok) {
		c.unfinished = malloc(c.count * 8 + 1);
		assert(c.unfinished);
		memcpy(c.unfinished, b.ptr + 16, (size_t)c.count * 8);
		*out = c;
	}
	*damaged = !ok;
	buf_release(&b);
	return ok;
}

static bool write_whole(int dir_fd, const char *name, struct str bytes)
{
	AUTO(fd_close)
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return false;
	while (bytes.len) {
		ssize_t n = write(fd, bytes.ptr, bytes.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		bytes = str_skip(bytes, (size_t)n);
	}
	return true;
}

bool spool_dir_retarget(int dir_fd, uint64_t destination)
{
	AUTO(buf_release) struct buf before = { 0 };
	char now[20];
	bool known;

	snprintf(now, sizeof(now), "%016llx\n", (unsigned long long)destination);
	buf_init(&before, 16 << 10);
	known = read_whole(dir_fd, "destination", &before) && before.len;
	if (known && str_is(buf_view(&before), now))
		return false;
	if (!write_whole(dir_fd, "destination", str_cstr(now)))
		unlinkat(dir_fd, "destination", 0);
	return known;
}

/* As a new file that takes the old one's name; *fd is then that one's. */
static bool cursor_replace(int dir_fd, int *fd, struct str bytes)
{
	fd_close(fd);
	*fd = -1;
	if (!write_whole(dir_fd, "cursor.new", bytes) ||
	    renameat(dir_fd, "cursor.new", dir_fd, "cursor") < 0)
		return false;
	if (bytes.len == CURSOR_BLOCK)
		*fd = openat(dir_fd, "cursor", O_WRONLY | O_CLOEXEC);
	return true;
}

bool spool_cursor_write(int dir_fd, int *fd, const struct spool_cursor *c, struct err *err)
{
	static const char zeros[CURSOR_BLOCK];
	uint32_t head[2] = { CURSOR_MAGIC, c->count };
	uint64_t hash;
	struct buf b;
	bool ok;

	buf_init(&b, 0);
	buf_append(&b, head, sizeof(head));
	buf_append(&b, &c->next, 8);
	buf_append(&b, c->unfinished, (size_t)c->count * 8);
	hash = hash64(buf_view(&b));
	buf_append(&b, &hash, 8);
	if (b.len < CURSOR_BLOCK)
		buf_append(&b, zeros, CURSOR_BLOCK - b.len);
	ok = *fd >= 0 && b.len == CURSOR_BLOCK && pwrite(*fd, b.ptr, b.len, 0) == CURSOR_BLOCK;
	ok = ok || cursor_replace(dir_fd, fd, buf_view(&b));
	buf_release(&b);
	return ok || err_set_errno(err, "cannot write the spool's cursor");
}

static bool corrupt_has_room(int corrupt_fd)
{
	int fd = dup(corrupt_fd);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int count = 0;

	if (!dir) {
		fd_close(&fd);
		return false;
	}
	rewinddir(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count < CORRUPT_FILES_MOST + 2;
}

void spool_corrupt_save(int dir_fd, const char *name, int fd, uint64_t offset, uint64_t len,
			struct str bytes)
{
	AUTO(fd_close) int corrupt_fd = -1;
	AUTO(fd_close) int out = -1;
	char block[16384];

	mkdirat(dir_fd, "corrupt", 0700);
	corrupt_fd = openat(dir_fd, "corrupt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (corrupt_fd < 0 || !corrupt_has_room(corrupt_fd))
		return;
	if (fd < 0) {
		(void)write_whole(corrupt_fd, name, bytes);
		return;
	}
	out = openat(corrupt_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	while (out >= 0 && len) {
		size_t want = len < sizeof(block) ? (size_t)len : sizeof(block);
		ssize_t n = pread(fd, block, want, (off_t)offset);

		if (n <= 0 || write(out, block, (size_t)n) != n)
			return;
		offset += (uint64_t)n;
		len -= (uint64_t)n;
	}
}
