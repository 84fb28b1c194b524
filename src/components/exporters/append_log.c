#include "components/exporters/append_log.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
enum { SCAN_BYTES = 256 << 10 };

static void log_path(const struct append_log *l, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s/%s%s", l->dir, l->name, l->ending);
}

/* Disk full, a directory that is away: later it may work. */
static bool io_error(struct err *err, const char *what, const char *path)
{
	err_set_errno(err, "%s %s", what, path);
	err->kind = ERR_IO;
	return false;
}

static bool make_dir(const char *dir, struct err *err)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s", dir) >= sizeof(path) - NAME_MAX)
		return err_set(err, ERR_INVALID, "the directory's name is too long: %.100s...",
			       dir);
	for (char *p = path + 1;; p++) {
		char c = *p;

		if (c && c != '/')
			continue;
		*p = '\0';
		if (mkdir(path, 0755) != 0 && errno != EEXIST)
			return io_error(err, "making directory", path);
		*p = c;
		if (!c)
			return true;
	}
}

/* The end of the last line, looking back from the end of the file. */
static bool whole_lines(int fd, uint64_t size, uint64_t *out)
{
	AUTO(ptr_free) char *block = malloc(SCAN_BYTES);

	assert(block);
	while (size) {
		size_t n = size < SCAN_BYTES ? size : SCAN_BYTES;
		ssize_t got = pread(fd, block, n, (off_t)(size - n));
		const char *newline;

		if (got != (ssize_t)n)
			return false;
		newline = memrchr(block, '\n', n);
		if (newline) {
			*out = size - n + (uint64_t)(newline - block) + 1;
			return true;
		}
		size -= n;
	}
	*out = 0;
	return true;
}

static uint32_t record_len(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The end of the last whole record, hopping from one to the next; an empty one is what a lost
 * machine leaves (zeros). */
static bool whole_records(int fd, uint64_t size, uint64_t *out)
{
	AUTO(ptr_free) unsigned char *block = malloc(SCAN_BYTES);
	uint64_t at = 0;

	assert(block);
	for (;;) {
		ssize_t got = pread(fd, block, SCAN_BYTES, (off_t)at);
		size_t in = 0;

		if (got < 0)
			return false;
		while ((size_t)got - in >= 4) {
			uint32_t len = record_len(block + in);

			if (len == 0 || size - at < 4 || len > size - at - 4) {
				*out = at;
				return true;
			}
			at += 4 + (uint64_t)len;
			if (len > (size_t)got - in - 4)
				break;
			in += 4 + (size_t)len;
		}
		if (got < 4) {
			*out = at;
			return true;
		}
	}
}

static bool cut_torn_tail(struct append_log *l, const char *path, struct err *err)
{
	struct stat st;
	uint64_t whole;

	if (fstat(l->fd, &st) != 0)
		return io_error(err, "reading", path);
	if (!(l->form == APPEND_LINES ? whole_lines : whole_records)(l->fd, (uint64_t)st.st_size,
								     &whole))
		return io_error(err, "reading", path);
	if (whole < (uint64_t)st.st_size) {
		l->torn_bytes += (uint64_t)st.st_size - whole;
		if (ftruncate(l->fd, (off_t)whole) != 0)
			return io_error(err, "cutting a torn record off", path);
	}
	l->size = l->request_size = whole;
	return true;
}

static void close_fd(struct append_log *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

bool append_log_open(struct append_log *l, struct err *err)
{
	char path[PATH_MAX];

	l->fd = -1;
	l->broken = true;
	if (!make_dir(l->dir, err))
		return false;
	log_path(l, path);
	l->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (l->fd < 0)
		return io_error(err, "opening", path);
	if (flock(l->fd, LOCK_EX | LOCK_NB) != 0) {
		close_fd(l);
		err_set(err, ERR_BUSY, "%s is being written by another process", path);
		err->number = EBUSY;
		return false;
	}
	if (!cut_torn_tail(l, path, err)) {
		close_fd(l);
		return false;
	}
	l->broken = false;
	return true;
}

void append_log_close(struct append_log *l)
{
	close_fd(l);
}

/* "profiles-2026-11-21T07-45-00.123.jsonl", the next millisecond when that is taken */
static void backup_path(const struct append_log *l, char out[PATH_MAX])
{
	uint64_t now = clock_realtime_ns();
	struct tm tm;

	do {
		time_t second = (time_t)(now / SECOND_NS);

		gmtime_r(&second, &tm);
		snprintf(out, PATH_MAX, "%s/%s-%04d-%02d-%02dT%02d-%02d-%02d.%03u%s", l->dir,
			 l->name, tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
			 tm.tm_min, tm.tm_sec, (unsigned)(now % SECOND_NS / MILLI_NS), l->ending);
		now += MILLI_NS;
	} while (access(out, F_OK) == 0);
}

static bool is_backup(const struct append_log *l, struct str file)
{
	struct str name = str_cstr(l->name), ending = str_cstr(l->ending);

	return file.len == name.len + strlen("-2026-11-21T07-45-00.123") + ending.len &&
	       str_has_prefix(file, name) && file.ptr[name.len] == '-' &&
	       file.ptr[name.len + 1] >= '0' && file.ptr[name.len + 1] <= '9' &&
	       str_has_suffix(file, ending);
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names sort by time. */
static void delete_old_backups(struct append_log *l)
{
	size_t count = 0, cap = 0;
	char **names = NULL;
	struct dirent *e;
	DIR *d = l->max_backups ? opendir(l->dir) : NULL;

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (!is_backup(l, str_cstr(e->d_name)))
			continue;
		VEC_ROOM(names, count, cap);
		names[count] = strdup(e->d_name);
		assert(names[count]);
		count++;
	}
	if (count)
		qsort(names, count, sizeof(*names), name_compare);
	for (size_t i = 0; i < count; i++) {
		if (count - i > l->max_backups && unlinkat(dirfd(d), names[i], 0) == 0)
			l->deleted_files++;
		free(names[i]);
	}
	free(names);
	closedir(d);
}

static bool rotate(struct append_log *l, struct err *err)
{
	char path[PATH_MAX], backup[PATH_MAX];

	log_path(l, path);
	backup_path(l, backup);
	if (rename(path, backup) != 0)
		return io_error(err, "rotating", path);
	close_fd(l);
	delete_old_backups(l);
	return append_log_open(l, err);
}

/* Others may have removed, renamed or emptied the file since: what is written into a removed one is
 * lost. */
static void look_at_file(struct append_log *l)
{
	char path[PATH_MAX];
	struct stat ours, there;

	log_path(l, path);
	if (l->fd < 0 || fstat(l->fd, &ours) != 0)
		return;
	if (stat(path, &there) != 0 || there.st_ino != ours.st_ino || there.st_dev != ours.st_dev) {
		l->taken_away++;
		l->broken = true;
		return;
	}
	l->size = (uint64_t)ours.st_size;
}

bool append_log_begin(struct append_log *l, uint64_t bytes, struct err *err)
{
	if (!l->broken)
		look_at_file(l);
	if (l->broken) {
		close_fd(l);
		if (!append_log_open(l, err))
			return false;
	}
	l->request_size = l->size;
	if (l->max_bytes && l->size && (bytes > l->max_bytes || l->size > l->max_bytes - bytes))
		return rotate(l, err);
	return true;
}

bool append_log_write(struct append_log *l, struct str bytes, struct err *err)
{
	while (bytes.len) {
		ssize_t n = write(l->fd, bytes.ptr, bytes.len);

		if (n >= 0) {
			l->size += (uint64_t)n;
			bytes = str_skip(bytes, (size_t)n);
		} else if (errno != EINTR) {
			err_set_errno(err, "writing %zu bytes to %s/%s%s", bytes.len, l->dir,
				      l->name, l->ending);
			err->kind = ERR_IO;
			return false;
		}
	}
	return true;
}

bool append_log_commit(struct append_log *l, struct err *err)
{
	if (l->sync && fdatasync(l->fd) != 0)
		return io_error(err, "syncing", l->dir);
	l->request_size = l->size;
	return true;
}

void append_log_abort(struct append_log *l)
{
	if (l->size != l->request_size && ftruncate(l->fd, (off_t)l->request_size) != 0)
		l->broken = true;
	l->size = l->request_size;
}
