/* Files that are written over, cut, lose their name, or are left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/file_stamp.h"
#include "base/cleanup.h"

static void leave(int fd, const char *path)
{
	(void)fd;
	(void)path;
}

static void write_over(int fd, const char *path)
{
	const struct timespec later[2] = { { .tv_sec = 2000 }, { .tv_sec = 2000 } };

	(void)path;
	assert_int_equal(pwrite(fd, "other", 5, 0), 5);
	assert_int_equal(futimens(fd, later), 0); /* clocks of file systems are coarse */
}

static void cut(int fd, const char *path)
{
	(void)path;
	assert_int_equal(ftruncate(fd, 1), 0);
}

static void lose_name(int fd, const char *path)
{
	(void)fd;
	usleep(20 * 1000); /* more than a tick of the file system's clock */
	assert_int_equal(unlink(path), 0);
}

static void test_stamps(void **state)
{
	static const struct {
		const char *what;
		void (*change)(int fd, const char *path);
		bool unwritten, untouched;
	} cases[] = {
		{ "left alone", leave, true, true },
		{ "written over", write_over, false, false },
		{ "cut", cut, false, false },
		{ "without a name", lose_name, true, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct timespec before[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
		char path[] = "/tmp/file_stamp_XXXXXX";
		AUTO(fd_close) int fd = mkstemp(path);
		struct file_stamp stamp;

		assert_true(fd >= 0);
		assert_int_equal(write(fd, "bytes", 5), 5);
		assert_int_equal(futimens(fd, before), 0);
		stamp = file_stamp_of(fd);
		assert_int_equal(stamp.bytes, 5);
		cases[i].change(fd, path);
		if (file_stamp_unwritten(&stamp, fd) != cases[i].unwritten ||
		    file_stamp_untouched(&stamp, fd) != cases[i].untouched)
			fail_msg("%s", cases[i].what);
		unlink(path);
	}
}

static void test_no_file(void **state)
{
	struct file_stamp stamp = file_stamp_of(-1);

	(void)state;
	assert_int_equal(stamp.inode, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_stamps),
					    cmocka_unit_test(test_no_file) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
