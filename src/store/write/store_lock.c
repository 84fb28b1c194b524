#include "store/write/store_lock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { LINKS_MOST = 40, NAME_ROOM = 4096, TAKES_MOST = 100 }; /* links: as the kernel follows */

char *store_path_resolve(const char *path)
{
	char *at = strdup(path), target[NAME_ROOM], *next;
	ssize_t len;

	assert(at);
	for (int i = 0; i < LINKS_MOST; i++) {
		const char *slash = strrchr(at, '/');

		len = readlink(at, target, sizeof(target) - 1);
		if (len <= 0)
			break;
		target[len] = '\0';
		if (target[0] == '/' || !slash)
			next = strdup(target);
		else if (asprintf(&next, "%.*s%s", (int)(slash - at + 1), at, target) < 0)
			next = NULL;
		assert(next);
		free(at);
		at = next;
	}
	return at;
}

static bool lock_name(const char *path, char name[NAME_ROOM])
{
	return snprintf(name, NAME_ROOM, "%s-lock", path) < NAME_ROOM;
}

static bool lock(int fd, const char *path, struct err *err)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	if (errno == EWOULDBLOCK)
		return err_set(err, ERR_PERMISSION,
			       "%s is being written by another flametap; a store has one writer",
			       path);
	return err_set_errno(err, "cannot lock %s", path);
}

bool store_lock_file(struct store_lock *l, const char *path, struct err *err)
{
	struct stat held, now;

	if (stat(path, &now) != 0)
		return true; /* to be made */
	if (l->file_fd >= 0 && fstat(l->file_fd, &held) == 0 && held.st_dev == now.st_dev &&
	    held.st_ino == now.st_ino)
		return true;
	if (l->file_fd >= 0)
		close(l->file_fd);
	l->file_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (l->file_fd < 0)
		return err_set_errno(err, "cannot open %s", path);
	return lock(l->file_fd, path, err);
}

/* Who was refused takes its FILE-lock away: one that was opened before is nobody's lock. */
static bool is_still_there(int fd, const char *name)
{
	struct stat held, now;

	return fstat(fd, &held) == 0 && stat(name, &now) == 0 && held.st_dev == now.st_dev &&
	       held.st_ino == now.st_ino;
}

bool store_lock_take(struct store_lock *l, const char *path, struct err *err)
{
	char name[NAME_ROOM];

	if (!lock_name(path, name))
		return err_set(err, ERR_INVALID, "the path of the store is longer than 4 kB");
	for (int i = 0; i < TAKES_MOST; i++) {
		l->beside_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		if (l->beside_fd < 0)
			return err_set_errno(err, "%s: cannot open its lock, %s", path, name);
		if (!lock(l->beside_fd, path, err))
			return false;
		if (is_still_there(l->beside_fd, name))
			return store_lock_file(l, path, err);
		fd_close(&l->beside_fd);
		l->beside_fd = -1;
	}
	return err_set(err, ERR_BUSY, "%s: its lock, %s, is taken away again and again", path,
		       name);
}

void store_lock_forget(struct store_lock *l, const char *path)
{
	char name[NAME_ROOM];
	struct stat st;

	if (l->beside_fd >= 0 && fstat(l->beside_fd, &st) == 0 && st.st_size == 0 &&
	    flock(l->beside_fd, LOCK_EX | LOCK_NB) == 0 && lock_name(path, name) &&
	    is_still_there(l->beside_fd, name))
		unlink(name);
}

void store_lock_release(struct store_lock *l)
{
	if (l->beside_fd >= 0)
		close(l->beside_fd);
	if (l->file_fd >= 0)
		close(l->file_fd);
	*l = STORE_LOCK_NONE;
}

bool store_written_elsewhere(const char *path)
{
	char name[NAME_ROOM], *real = store_path_resolve(path);
	AUTO(fd_close)
	int fd = lock_name(real, name) ? open(name, O_RDONLY | O_CLOEXEC) : -1;

	free(real);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}
