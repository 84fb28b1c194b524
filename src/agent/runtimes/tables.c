/* Tables of offsets: from files of a folder, else built in. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/runtimes/cpython/table.h"
#include "agent/runtimes/php/table.h"
#include "agent/runtimes/ruby/table.h"
#include "agent/runtimes/runtime.h"
#include "agent/runtimes/v8/table.h"
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

/* A runtime's table. */
static const struct table {
	const char *file;
	size_t at; /* in struct runtime_tables */
	struct str (*built_in)(void);
	bool (*parse)(struct offset_table *t, struct str text, struct err *err);
} tables[] = {
#define TABLE(name)                                                                           \
	{                                                                                     \
#name ".table", offsetof(struct runtime_tables, name), name##_table_built_in, \
			name##_table_parse                                                    \
	}
	TABLE(cpython),
	TABLE(php),
	TABLE(ruby),
	TABLE(v8),
#undef TABLE
};

static struct offset_table **place_of(struct runtime_tables *t, const struct table *table)
{
	return (struct offset_table **)(void *)((char *)t + table->at);
}

static bool load(struct runtime_tables *t, const struct table *table, const char *folder,
		 struct err *err)
{
	struct offset_table **place = place_of(t, table);
	AUTO(ptr_free) char *text = malloc(OFFSET_TABLE_BYTES_MOST);
	size_t length = 0;
	bool found = false;

	*place = calloc(1, sizeof(**place));
	if (!text || !*place)
		return err_set(err, ERR_LIMIT, "no memory for a table");
	if (folder && folder[0] &&
	    !read_table(folder, table->file, text, OFFSET_TABLE_BYTES_MOST, &length, &found, err))
		return false;
	return table->parse(*place, found ? str_from(text, length) : table->built_in(), err) ||
	       err_prefix(err, "%s", table->file);
}

struct runtime_tables *runtime_tables_load(const char *folder, struct err *err)
{
	struct runtime_tables *t = calloc(1, sizeof(*t));

	if (!t) {
		err_set(err, ERR_LIMIT, "no memory for the runtimes' tables");
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		if (!load(t, &tables[i], folder, err)) {
			runtime_tables_free(t);
			return NULL;
		}
	}
	return t;
}

void runtime_tables_free(struct runtime_tables *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		free(*place_of(t, &tables[i]));
	free(t);
}
