/* Names survive; broken files do not, and say so. */
#include "agent/symbolize/name_cache.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "base/cleanup.h"

static const char id[] = "0123456789abcdef0123456789abcdef01234567";
enum { LIMIT = 1 << 20 };

struct folder {
	char path[64], file[160];
	int fd;
};

static int setup(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	snprintf(f->path, sizeof(f->path), "/tmp/name_cache_test.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	snprintf(f->file, sizeof(f->file), "%s/%s.names", f->path, id);
	f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct folder *f = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", f->path);
	close(f->fd);
	free(f);
	return system(command);
}

static struct name_cache *open_cache(const struct folder *f, size_t limit, bool want_refused)
{
	bool refused;
	struct name_cache *c = name_cache_open(f->fd, str_cstr(id), limit, &refused);

	assert_non_null(c);
	assert_int_equal(refused, want_refused);
	return c;
}

static void add(struct name_cache *c, uint64_t at)
{
	char text[40];
	struct name_line lines[2] = { { .function = STR("inner"),
					.file = STR("/src/a.c"),
					.line = (uint32_t)at,
					.column = 3,
					.start_line = 1 },
				      { .system_name = STR("_Z5outer"), .line = 9 } };

	snprintf(text, sizeof(text), "outer_%u", (unsigned)at);
	lines[1].function = str_cstr(text);
	name_cache_add(c, at, lines, 2);
}

static void expect(const struct name_cache *c, uint64_t at)
{
	struct name_line lines[4];
	char text[40];

	snprintf(text, sizeof(text), "outer_%u", (unsigned)at);
	assert_int_equal(name_cache_find(c, at, lines, 4), 2);
	assert_true(str_is(lines[0].function, "inner"));
	assert_true(str_is(lines[0].file, "/src/a.c"));
	assert_int_equal(lines[0].line, at);
	assert_int_equal(lines[0].column, 3);
	assert_int_equal(lines[0].start_line, 1);
	assert_true(str_is(lines[1].function, text));
	assert_true(str_is(lines[1].system_name, "_Z5outer"));
}

static void test_survives(void **state)
{
	const struct folder *f = *state;
	struct name_cache *c = open_cache(f, LIMIT, false);
	struct name_line lines[4];

	for (uint64_t at = 1; at <= 1000; at++)
		add(c, at);
	expect(c, 500);
	assert_int_equal(name_cache_find(c, 5000, lines, 4), 0);
	name_cache_free(c);
	c = open_cache(f, LIMIT, false);
	assert_int_equal(name_cache_count(c), 1000);
	for (uint64_t at = 1; at <= 1000; at++)
		expect(c, at);
	add(c, 2000);
	name_cache_free(c);
	c = open_cache(f, LIMIT, false);
	expect(c, 2000);
	expect(c, 1);
	name_cache_free(c);
}

/* Each byte changed, and each length cut at, is noticed; then the file is new. */
static void test_broken(void **state)
{
	const struct folder *f = *state;
	struct stat st;

	for (off_t at = 0;; at += 3) {
		for (int way = 0; way < 2; way++) {
			struct name_cache *c;
			char byte;
			int fd;

			unlink(f->file);
			c = open_cache(f, LIMIT, false);
			add(c, 7);
			add(c, 8);
			name_cache_free(c);
			fd = open(f->file, O_RDWR);
			assert_int_equal(fstat(fd, &st), 0);
			if (at >= st.st_size) {
				close(fd);
				return;
			}
			if (way) {
				assert_int_equal(pread(fd, &byte, 1, at), 1);
				byte ^= 0x55;
				assert_int_equal(pwrite(fd, &byte, 1, at), 1);
			} else {
				assert_int_equal(ftruncate(fd, at), 0);
			}
			close(fd);
			/* Cut between two records it is a good file; empty it is a new one. */
			if (!way) {
				bool refused;

				c = name_cache_open(f->fd, str_cstr(id), LIMIT, &refused);
				assert_non_null(c);
				assert_true(refused || at == 0 || name_cache_count(c) < 2);
			} else {
				c = open_cache(f, LIMIT, true);
				assert_int_equal(name_cache_count(c), 0);
			}
			add(c, 9);
			expect(c, 9);
			name_cache_free(c);
		}
	}
}

static void test_limits(void **state)
{
	const struct folder *f = *state;
	struct name_cache *c = open_cache(f, 8192, false);
	struct name_line nothing = { .function = STR("symbol only") }, lines[4];
	bool refused;

	for (uint64_t at = 1; at <= 1000; at++)
		add(c, at);
	assert_true(name_cache_bytes(c) <= 8192 + 4096);
	assert_true(name_cache_count(c) > 10 && name_cache_count(c) < 200);
	expect(c, 1);
	name_cache_add(c, 5000, &nothing, 1);
	assert_int_equal(name_cache_find(c, 5000, lines, 4), 0);
	name_cache_free(c);
	assert_null(name_cache_open(f->fd, STR("../../etc/passwd"), LIMIT, &refused));
	assert_null(name_cache_open(f->fd, STR(""), LIMIT, &refused));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_survives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_broken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
