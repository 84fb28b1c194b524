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

static bool parse_cpython(struct runtime_tables *t, struct str text, struct err *err)
{
	return cpython_table_parse(t->cpython, text, err);
}

static bool parse_php(struct runtime_tables *t, struct str text, struct err *err)
{
	return php_table_parse(t->php, text, err);
}

static bool parse_ruby(struct runtime_tables *t, struct str text, struct err *err)
{
	return ruby_table_parse(t->ruby, text, err);
}

/* A runtime's table. */
static const struct table {
	const char *file;
	struct str (*built_in)(void);
	bool (*parse)(struct runtime_tables *t, struct str text, struct err *err);
} tables[] = {
	{ "cpython.table", cpython_table_built_in, parse_cpython },
	{ "php.table", php_table_built_in, parse_php },
	{ "ruby.table", ruby_table_built_in, parse_ruby },
};

static bool load(struct runtime_tables *t, const struct table *table, const char *folder,
		 struct err *err)
{
	char *text = malloc(OFFSET_TABLE_BYTES_MOST);
	size_t length = 0;
	bool found = false, ok;

	ok = text || err_set(err, ERR_LIMIT, "no memory for a table");
	if (ok && folder && folder[0])
		ok = read_table(folder, table->file, text, OFFSET_TABLE_BYTES_MOST, &length, &found,
				err);
	if (ok)
		ok = table->parse(t, found ? str_from(text, length) : table->built_in(), err) ||
		     err_prefix(err, "%s", table->file);
	free(text);
	return ok;
}

struct runtime_tables *runtime_tables_load(const char *folder, struct err *err)
{
	struct runtime_tables *t = calloc(1, sizeof(*t));
	bool ok;

	if (t) {
		t->cpython = calloc(1, sizeof(*t->cpython));
		t->php = calloc(1, sizeof(*t->php));
		t->ruby = calloc(1, sizeof(*t->ruby));
	}
	ok = (t && t->cpython && t->php && t->ruby) ||
	     err_set(err, ERR_LIMIT, "no memory for the runtimes' tables");
	for (size_t i = 0; ok && i < sizeof(tables) / sizeof(tables[0]); i++)
		ok = load(t, &tables[i], folder, err);
	if (ok)
		return t;
	runtime_tables_free(t);
	return NULL;
}

void runtime_tables_free(struct runtime_tables *t)
{
	if (!t)
		return;
	free(t->cpython);
	free(t->php);
	free(t->ruby);
	free(t);
}
