/* temp_dir_for_tests.h - a directory that a test writes to, and what stands in it. */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

static inline char *temp_dir_make(void)
{
	char *path = strdup("/tmp/flametap-test-XXXXXX");

	assert_non_null(mkdtemp(path));
	return path;
}

static inline int temp_dir_remove_one(const char *path, const struct stat *st, int flag,
				      struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline void temp_dir_remove(char *path)
{
	nftw(path, temp_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(path);
}

/* The file's content; its length, or -1 when there is no such file. */
static inline ssize_t temp_file_read(struct buf *out, const char *dir, const char *name)
{
	char path[4096], *p;
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY);
	buf_reset(out);
	if (fd < 0)
		return -1;
	assert_int_equal(fstat(fd, &st), 0);
	p = buf_reserve(out, (size_t)st.st_size + 1);
	assert_non_null(p);
	assert_int_equal(read(fd, p, (size_t)st.st_size), st.st_size);
	buf_advance(out, (size_t)st.st_size);
	close(fd);
	return st.st_size;
}

static inline void temp_file_write(const char *dir, const char *name, struct str content)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content.ptr, content.len), content.len);
	close(fd);
}

/* How many entries a directory has, hidden ones too; -1 without the directory. */
static inline int temp_dir_count(const char *dir, const char *name)
{
	char path[4096];
	struct dirent *e;
	int count = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	d = opendir(path);
	if (!d)
		return -1;
	while ((e = readdir(d)))
		count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return count;
}
