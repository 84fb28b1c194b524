/*
 * store_lock.h - one writer a store, by whatever name it is opened.
 *
 * FILE-lock is locked, beside the file that a symbolic link leads to, as SQLite has its log there;
 * and the file itself (flock, which SQLite does not use), as a hard link is another FILE with
 * another log. Threads: the store's.
 */
#pragma once
#include "base/err.h"

struct store_lock {
	int beside_fd, file_fd; /* -1: not held */
};
#define STORE_LOCK_NONE ((struct store_lock){ -1, -1 })

/* The file that is behind `path`, which may not be there yet. The caller frees. */
char *store_path_resolve(const char *path);

/* `path` is resolved. ERR_PERMISSION: another one writes it. */
bool store_lock_take(struct store_lock *l, const char *path, struct err *err) MUST_CHECK;
/* The file itself, where there is another one under its name since, or one at all. Only before
 * SQLite opens it, or where it was just made: to close one drops all locks that SQLite has. */
bool store_lock_file(struct store_lock *l, const char *path, struct err *err) MUST_CHECK;
/* Nothing was kept at `path`: an empty FILE-lock is removed, if it is held. Before the release. */
void store_lock_forget(struct store_lock *l, const char *path);
void store_lock_release(struct store_lock *l);

/* Does another writer hold the store at this path just now? False also where nobody can tell. */
bool store_written_elsewhere(const char *path);
