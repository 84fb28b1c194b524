#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool is_file(const char *path, const struct stat *wanted)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_dev == wanted->st_dev && st.st_ino == wanted->st_ino;
}

/* Is it a file that is read, or what SQLite and the store's writer have beside it? */
static bool belongs_to(const char *input, const struct stat *out)
{
	static const char *const ends[] = { "", "-wal", "-shm", "-journal", "-lock" };
	AUTO(buf_release) struct buf name = { 0 };
	char *real = realpath(input, NULL);
	bool is = false;

	for (size_t i = 0; real && !is && i < ARRAY_LEN(ends); i++) {
		buf_reset(&name);
		buf_printf(&name, "%s%s%c", real, ends[i], '\0');
		is = is_file(name.ptr, out);
	}
	free(real);
	return is;
}

static bool check_inputs(const char *path, const struct stat *out, const char *const *inputs,
			 unsigned count, struct err *err)
{
	for (unsigned i = 0; i < count; i++)
		if (inputs[i] && strcmp(inputs[i], "-") != 0 && belongs_to(inputs[i], out))
			return err_set(err, ERR_INVALID,
				       "cannot write %s: it is what is read (%s); give -o another "
				       "name",
				       path, inputs[i]);
	return true;
}

/* A name in the same directory, so that it can be renamed. */
static bool open_beside(struct output *o, mode_t mode)
{
	if (asprintf(&o->beside, "%s.%ld.part", o->real, (long)getpid()) < 0)
		abort();
	o->fd = open(o->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (o->fd >= 0)
		return true;
	free(o->beside);
	o->beside = NULL;
	return false;
}

/* Where it cannot lie beside (a directory that is not ours), it is written in place. */
static bool open_in_place(struct output *o, struct err *err)
{
	o->fd = open(o->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return o->fd >= 0 || err_set_errno(err, "cannot write %s", o->path);
}

bool output_begin(struct output *o, const char *path, const char *const *inputs, unsigned count,
		  struct err *err)
{
	struct stat st;
	bool exists;

	*o = (struct output){ .path = path, .fd = STDOUT_FILENO };
	if (strcmp(path, "-") == 0)
		return true;
	exists = stat(path, &st) == 0;
	if (exists && !check_inputs(path, &st, inputs, count, err))
		return false;
	/* Of several names only one would be the new file; what cannot be written stays. */
	if (exists && (!S_ISREG(st.st_mode) || st.st_nlink > 1 || access(path, W_OK) < 0))
		return open_in_place(o, err);
	o->real = exists ? realpath(path, NULL) : strdup(path);
	if (!o->real || !open_beside(o, exists ? st.st_mode & 0777 : 0666))
		return open_in_place(o, err);
	if (exists && fchmod(o->fd, st.st_mode & 07777) < 0)
		errno = 0; /* of another owner: as made */
	return true;
}

bool output_write(const struct output *o, struct str bytes, struct err *err)
{
	while (bytes.len) {
		ssize_t n = write(o->fd, bytes.ptr, bytes.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(err, "cannot write %s", o->path);
		bytes = str_skip(bytes, (size_t)n);
	}
	return true;
}

bool output_end(struct output *o, bool ok, struct err *err)
{
	if (o->fd != STDOUT_FILENO && close(o->fd) < 0 && ok)
		ok = err_set_errno(err, "cannot write %s", o->path);
	if (o->beside && ok && rename(o->beside, o->real) < 0)
		ok = err_set_errno(err, "cannot write %s", o->path);
	if (o->beside && !ok)
		unlink(o->beside);
	free(o->beside);
	free(o->real);
	*o = (struct output){ .fd = -1 };
	return ok;
}
