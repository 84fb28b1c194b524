#include "components/exporters/file_tree.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/vec.h"
#include "components/exporters/safe_name.h"

enum { DIRS_KEPT = 4096 };

struct tree_dir {
	struct str path;      /* NUL-terminated */
	uint64_t last;        /* the highest number taken */
	uint64_t last_before; /* at the begin of the request at hand */
	bool ready;           /* is there, and was looked through */
	bool touched;         /* by the request at hand */
};

struct tree_file {
	uint32_t dir;
	uint64_t number,
		hidden_number; /* they differ when another process took the number meanwhile */
};

void file_tree_init(struct file_tree *t, const char *root, const char *ending, bool sync)
{
	*t = (struct file_tree){
		.root = root, .ending = ending, .sync = sync, .token = clock_realtime_ns()
	};
	arena_init(&t->arena, 4096, 0);
	intern_init(&t->table);
	buf_init(&t->path, 0);
	buf_init(&t->hidden, 0);
}

static void forget_dirs(struct file_tree *t)
{
	arena_reset(&t->arena);
	intern_release(&t->table);
	intern_init(&t->table);
	t->dir_count = 0;
}

void file_tree_release(struct file_tree *t)
{
	arena_release(&t->arena);
	intern_release(&t->table);
	free(t->dirs);
	free(t->files);
	buf_release(&t->path);
	buf_release(&t->hidden);
}

void file_tree_begin(struct file_tree *t)
{
	if (t->dir_count > DIRS_KEPT)
		forget_dirs(t);
	for (uint32_t i = 0; i < t->dir_count; i++)
		t->dirs[i].touched = false;
	t->file_count = t->renamed_count = 0;
}

static const char *text(struct buf *b)
{
	buf_char(b, '\0');
	b->len--;
	return b->ptr;
}

static const char *final_path(struct file_tree *t, const struct tree_file *f)
{
	buf_reset(&t->path);
	buf_str(&t->path, t->dirs[f->dir].path);
	buf_printf(&t->path, "/%" PRIu64 "%s", f->number, t->ending);
	return text(&t->path);
}

static const char *hidden_path(struct file_tree *t, const struct tree_file *f)
{
	buf_reset(&t->hidden);
	buf_str(&t->hidden, t->dirs[f->dir].path);
	buf_printf(&t->hidden, "/.%" PRIu64 ".%d-%" PRIx64 ".part", f->hidden_number, getpid(),
		   t->token);
	return text(&t->hidden);
}

/* "<n>.json" */
static bool parse_number(const struct file_tree *t, struct str name, uint64_t *n)
{
	return str_has_suffix(name, str_cstr(t->ending)) &&
	       str_to_u64(str_head(name, name.len - strlen(t->ending)), n);
}

/* ".<n>.<pid>-<token>.part" of a process that is gone */
static bool is_stale(const struct file_tree *t, struct str name)
{
	unsigned long long number, token;
	char copy[256];
	int pid, end = 0;

	if (name.len >= sizeof(copy) || !str_has_prefix(name, STR(".")))
		return false;
	snprintf(copy, sizeof(copy), "%.*s", STR_ARG(name));
	if (sscanf(copy, ".%llu.%d-%llx.part%n", &number, &pid, &token, &end) != 3 ||
	    (size_t)end != name.len)
		return false;
	if (pid == getpid())
		return token != t->token;
	return kill(pid, 0) != 0 && errno == ESRCH;
}

static bool scan(const struct file_tree *t, const char *path, uint64_t *highest, struct err *err)
{
	DIR *d = opendir(path);
	struct dirent *e;

	*highest = 0;
	if (!d)
		return err_set_errno(err, "opening directory %s", path);
	while ((e = readdir(d))) {
		struct str name = str_cstr(e->d_name);
		uint64_t n;

		if (parse_number(t, name, &n))
			*highest = n > *highest ? n : *highest;
		else if (is_stale(t, name))
			unlinkat(dirfd(d), e->d_name, 0);
	}
	closedir(d);
	return true;
}

static bool make_dirs(struct file_tree *t, struct str path, struct err *err)
{
	for (size_t i = 1; i <= path.len; i++) {
		if (i < path.len && path.ptr[i] != '/')
			continue;
		buf_reset(&t->path);
		buf_str(&t->path, str_head(path, i));
		if (mkdir(text(&t->path), 0755) != 0 && errno != EEXIST)
			return err_set_errno(err, "making directory %s", t->path.ptr);
	}
	return true;
}

bool file_tree_make_root(struct file_tree *t, struct err *err)
{
	return make_dirs(t, str_cstr(t->root), err);
}

static bool dir_same(const void *ctx, uint32_t index, const void *key)
{
	const struct file_tree *t = ctx;

	return str_equal(t->dirs[index].path, *(const struct str *)key);
}

static void push_dir(struct file_tree *t, struct str path)
{
	VEC_ROOM(t->dirs, t->dir_count, t->dir_cap);
	t->dirs[t->dir_count++] = (struct tree_dir){ .path = str_dup(&t->arena, path) };
}

static uint32_t intern_dir(struct file_tree *t, struct str first, struct str second)
{
	struct str key;
	uint32_t i;

	buf_reset(&t->path);
	buf_str(&t->path, str_cstr(t->root));
	buf_char(&t->path, '/');
	safe_name_append(&t->path, first);
	buf_char(&t->path, '/');
	safe_name_append(&t->path, second);
	key = buf_view(&t->path);
	i = intern_find_or_add(&t->table, hash64(key), dir_same, t, &key, t->dir_count);
	if (i != UINT32_MAX)
		return i;
	push_dir(t, key);
	return t->dir_count - 1;
}

/* Makes the directory and looks what it holds; once, unless it went away. */
static bool prepare_dir(struct file_tree *t, uint32_t index, struct err *err)
{
	struct tree_dir *dir = &t->dirs[index];
	uint64_t highest;

	if (!dir->ready) {
		if (!make_dirs(t, dir->path, err) || !scan(t, dir->path.ptr, &highest, err))
			return false;
		if (highest > dir->last)
			dir->last = highest;
		dir->ready = true;
	}
	if (!dir->touched) {
		dir->last_before = dir->last;
		dir->touched = true;
	}
	return true;
}

static bool write_all(int fd, struct str content)
{
	while (content.len) {
		ssize_t n = write(fd, content.ptr, content.len);

		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0)
			content = str_skip(content, (size_t)n);
	}
	return true;
}

/* A close that fails is a write that failed: on network file systems the space is asked for only
 * then. */
static bool write_file(const char *path, struct str content, bool sync, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	bool ok;

	if (fd < 0)
		return err_set_errno(err, "making %s", path);
	ok = write_all(fd, content) && (!sync || fsync(fd) == 0);
	if (!ok)
		err_set_errno(err, "writing %zu bytes to %s", content.len, path);
	if (close(fd) != 0 && ok) {
		err_set_errno(err, "closing %s", path);
		ok = false;
	}
	return ok;
}

static struct tree_file *push_file(struct file_tree *t, uint32_t dir)
{
	uint64_t number = ++t->dirs[dir].last;

	VEC_ROOM(t->files, t->file_count, t->file_cap);
	t->files[t->file_count] = (struct tree_file){ dir, number, number };
	return &t->files[t->file_count++];
}

/* What the disk refuses may be there later: every failure here is one to repeat. */
static bool retryable(struct err *err)
{
	err->kind = ERR_IO;
	return false;
}

bool file_tree_add(struct file_tree *t, struct str first, struct str second, struct str content,
		   struct err *err)
{
	uint32_t dir = intern_dir(t, first, second);

	if (prepare_dir(t, dir, err) &&
	    write_file(hidden_path(t, push_file(t, dir)), content, t->sync, err))
		return true;
	t->dirs[dir].ready = false; /* somebody may have removed it */
	return retryable(err);
}

static int rename_no_replace(const char *from, const char *to)
{
	int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);

	if (rc != 0 &&
	    errno == EINVAL) { /* a file system without the flag: link() refuses what is there */
		rc = link(from, to);
		if (rc == 0)
			unlink(from);
	}
	return rc;
}

/* Another process may have taken the number since we looked. */
static bool rename_file(struct file_tree *t, struct tree_file *f, struct err *err)
{
	struct tree_dir *dir = &t->dirs[f->dir];
	const char *from = hidden_path(t, f);

	while (rename_no_replace(from, final_path(t, f)) != 0) {
		uint64_t highest;

		if (errno != EEXIST)
			return err_set_errno(err, "renaming %s to %s", from, t->path.ptr);
		if (!scan(t, dir->path.ptr, &highest, err))
			return false;
		f->number = (highest > dir->last ? highest : dir->last) + 1;
		dir->last = f->number;
	}
	return true;
}

static bool sync_dirs(struct file_tree *t, struct err *err)
{
	for (uint32_t i = 0; i < t->dir_count; i++) {
		AUTO(fd_close) int fd = -1;

		if (!t->dirs[i].touched)
			continue;
		fd = open(t->dirs[i].path.ptr, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || fsync(fd) != 0)
			return err_set_errno(err, "syncing %s", t->dirs[i].path.ptr);
	}
	return true;
}

bool file_tree_commit(struct file_tree *t, struct err *err)
{
	for (; t->renamed_count < t->file_count; t->renamed_count++) {
		if (!rename_file(t, &t->files[t->renamed_count], err)) {
			file_tree_abort(t);
			return retryable(err);
		}
	}
	if (t->sync && !sync_dirs(t, err)) {
		file_tree_abort(t);
		return retryable(err);
	}
	t->file_count = t->renamed_count = 0;
	return true;
}

void file_tree_abort(struct file_tree *t)
{
	for (uint32_t i = 0; i < t->file_count; i++) {
		const struct tree_file *f = &t->files[i];

		unlink(i < t->renamed_count ? final_path(t, f) : hidden_path(t, f));
	}
	for (uint32_t i = 0; i < t->dir_count; i++) {
		if (t->dirs[i].touched)
			t->dirs[i].last = t->dirs[i].last_before;
	}
	t->file_count = t->renamed_count = 0;
}
