/* Which files below a folder a sender's path reaches, and which it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "web/source_text.h"

static char folder[] = "/tmp/flametap-source-XXXXXX";

static void put(const char *path, const char *text, size_t len)
{
	char full[200];
	AUTO(fd_close) int fd = -1;

	snprintf(full, sizeof(full), "%s/%s", folder, path);
	fd = open(full, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
}

static int make_folder(void **state)
{
	char path[200];

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path),
		 "cd %s && mkdir -p in/src in/.git && ln -s ../secret in/link.c && ln -s /etc "
		 "in/etc && mkfifo in/fifo.c",
		 folder);
	assert_int_equal(system(path), 0);
	put("secret", "secret", 6);
	put("in/src/a.c", "one\ntwo\n", 8);
	put("in/.git/config", "x", 1);
	put("in/.env", "x", 1);
	put("in/binary", "a\0b", 3);
	snprintf(path, sizeof(path), "%s/in/large.c", folder);
	put("in/large.c", "", 0);
	return truncate(path, SOURCE_BYTES_MOST + 1);
}

static int remove_folder(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static void only_plain_text_below_it(void **state)
{
	static const struct {
		const char *file, *found; /* NULL: none */
	} cases[] = {
		{ "src/a.c", "src/a.c" },
		{ "/home/me/build/src/a.c", "src/a.c" },
		{ "a/../src/a.c", "src/a.c" }, /* its ending, nothing above */
		{ "src//a.c", NULL },
		{ "../secret", NULL },
		{ "../../../../etc/passwd", NULL },
		{ "/etc/passwd", NULL },
		{ "etc/passwd", NULL },
		{ "link.c", NULL },
		{ ".git/config", NULL },
		{ "x/.env", NULL },
		{ "binary", NULL },
		{ "large.c", NULL },
		{ "fifo.c", NULL },
		{ "src", NULL },
		{ "", NULL },
		{ "/", NULL },
	};
	char in[100], found[SOURCE_PATH_MOST];

	(void)state;
	snprintf(in, sizeof(in), "%s/in", folder);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = { 0 };
		struct blob *b = source_text_read(in, str_cstr(cases[i].file), found, &err);

		if (!b != !cases[i].found)
			fail_msg("\"%s\": %s", cases[i].file, b ? found : err.msg);
		if (b) {
			assert_string_equal(found, cases[i].found);
			assert_true(str_is(blob_view(b), "one\ntwo\n"));
			blob_unref(b);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(only_plain_text_below_it) };

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
