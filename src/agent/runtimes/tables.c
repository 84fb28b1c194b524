/* Tables of offsets: from files of a folder, else built in. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/runtimes/cpython/table.h"
#include "agent/runtimes/runtime.h"
#include "base/cleanup.h"

/* The file's text, at most `cap` bytes. *found: there is such a file. */
static bool read_table(const char *folder, const char *name, char *text, size_t cap, size_t *length,
		       bool *found, struct err *err)
{
	AUTO(fd_close) int fd = -1;
	char path[4096];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	*found = fd >= 0;
	if (fd < 0)
		return errno == ENOENT || err_set_errno(err, "%s", path);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)cap)
		return err_set(err, ERR_INVALID, "%s is no file of at most %zu bytes", path, cap);
	n = read(fd, text, cap);
	if (n < 0)
		return err_set_errno(err, "%s", path);
	*length = (size_t)n;
	return true;
}

static bool load_cpython(struct cpython_table *t, const char *folder, struct err *err)
{
	char *text = malloc(CPYTHON_TABLE_BYTES_MOST);
	size_t length = 0;
	bool found = false, ok;

	ok = text || err_set(err, ERR_LIMIT, "no memory for a table");
	if (ok && folder && folder[0])
		ok = read_table(folder, "cpython.table", text, CPYTHON_TABLE_BYTES_MOST, &length,
				&found, err);
	if (ok)
		ok = cpython_table_parse(
			     t, found ? str_from(text, length) : cpython_table_built_in(), err) ||
		     err_prefix(err, "cpython.table");
	free(text);
	return ok;
}

struct runtime_tables *runtime_tables_load(const char *folder, struct err *err)
{
	struct runtime_tables *t = calloc(1, sizeof(*t));

	if (t)
		t->cpython = calloc(1, sizeof(*t->cpython));
	if (!t || !t->cpython) {
		err_set(err, ERR_LIMIT, "no memory for the runtimes' tables");
	} else if (load_cpython(t->cpython, folder, err)) {
		return t;
	}
	runtime_tables_free(t);
	return NULL;
}

void runtime_tables_free(struct runtime_tables *t)
{
	if (!t)
		return;
	free(t->cpython);
	free(t);
}
