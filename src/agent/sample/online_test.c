#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "agent/sample/online.h"
#include "base/clock.h"

static void write_list(int fd, const char *text)
{
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
}

static void test_changes(void **state)
{
	static const struct {
		const char *list; /* NULL: as it was */
		uint64_t after_ns;
		bool changed;
	} steps[] = {
		{ "0-3\n", 1, true },               /* the first look */
		{ "0-1\n", SECOND_NS - 1, false },  /* too early to look */
		{ NULL, SECOND_NS, true },          /* seen a little later */
		{ NULL, SECOND_NS, false },         /* and only once */
		{ "0-1,3\n", SECOND_NS, true },     /* another one came */
		{ "0-3\n", 3 * SECOND_NS, true },   /* as long ago */
		{ "0-3\n", 60 * SECOND_NS, false }, /* the same once more */
		{ "", SECOND_NS, true },            /* nothing to be read: ask */
		{ "", SECOND_NS, true },            /* each time */
		{ "0-3\n", SECOND_NS, false },      /* what was known holds */
	};
	char path[] = "/tmp/flametap-online.XXXXXX";
	int fd = mkstemp(path);
	struct online_cpus o;
	uint64_t now = SECOND_NS;

	(void)state;
	assert_true(fd >= 0);
	online_cpus_open(&o, path);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i].list)
			write_list(fd, steps[i].list);
		now += steps[i].after_ns;
		if (online_cpus_changed(&o, now) != steps[i].changed)
			fail_msg("step %zu", i);
	}
	online_cpus_forget(&o);
	assert_false(online_cpus_changed(&o, now + 1));
	assert_true(online_cpus_changed(&o, now + SECOND_NS));
	online_cpus_close(&o);
	unlink(path);
	close(fd);
}

static void test_no_list(void **state)
{
	struct online_cpus o;

	(void)state;
	online_cpus_open(&o, "/nowhere/online");
	assert_true(online_cpus_changed(&o, SECOND_NS));
	assert_false(online_cpus_changed(&o, SECOND_NS + 1));
	assert_true(online_cpus_changed(&o, 2 * SECOND_NS));
	online_cpus_close(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
