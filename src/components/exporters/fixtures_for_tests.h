/*
 * fixtures_for_tests.h - reads tests/fixtures in this folder's tests; a failure ends the test.
 */
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/blob.h"
#include "base/buf.h"
#include "wire/otlp.h"

static inline struct blob *fixture_body(const char *name)
{
	char path[256];
	struct stat st;
	struct blob *b;
	int fd;

	snprintf(path, sizeof(path), "tests/fixtures/otlp/%s.pb", name);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	b = blob_new((size_t)st.st_size);
	assert_int_equal(read(fd, b->ptr, (size_t)st.st_size), st.st_size);
	b->len = (size_t)st.st_size;
	close(fd);
	return b;
}

static inline struct profiles *fixture_profiles(const char *name)
{
	const struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;
	struct blob *body = fixture_body(name);
	struct profiles *p = NULL;
	struct err err = { 0 };

	if (!otlp_decode(body, &options, &p, &report, NULL, &err))
		fail_msg("%s: %s", name, err.msg);
	blob_unref(body);
	return p;
}

/* The content of a gzip file. */
static inline void fixture_gunzip(const char *path, struct buf *out)
{
	gzFile f = gzopen(path, "rb");
	int n;

	assert_non_null(f);
	do {
		char *p = buf_reserve(out, 1 << 16);

		assert_non_null(p);
		n = gzread(f, p, 1 << 16);
		assert_true(n >= 0);
		buf_advance(out, (size_t)n);
	} while (n > 0);
	gzclose(f);
}

/* Fails with the first line that differs. */
static inline void assert_text_equal(struct str got, struct str want)
{
	unsigned line = 1;
	struct str a, b;

	if (str_equal(got, want))
		return;
	for (;; line++) {
		bool more_a = str_split(&got, '\n', &a), more_b = str_split(&want, '\n', &b);

		if (!more_a && !more_b)
			fail_msg("the texts differ in their last newline");
		if (more_a != more_b || !str_equal(a, b))
			fail_msg("line %u:\n  got  %.*s\n  want %.*s", line,
				 more_a ? (int)a.len : 5, more_a ? a.ptr : "<end>",
				 more_b ? (int)b.len : 5, more_b ? b.ptr : "<end>");
	}
}
