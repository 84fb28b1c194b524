#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "components/exporters/file_tree.h"
#include "components/exporters/temp_dir_for_tests.h"

static void add(struct file_tree *t, const char *first, const char *second, const char *content)
{
	struct err err = { 0 };

	if (!file_tree_add(t, str_cstr(first), str_cstr(second), str_cstr(content), &err))
		fail_msg("%s", err.msg);
}

static void commit(struct file_tree *t)
{
	struct err err = { 0 };

	if (!file_tree_commit(t, &err))
		fail_msg("%s", err.msg);
}

static void assert_file(const char *dir, const char *name, const char *want)
{
	struct buf got;

	buf_init(&got, 0);
	if (temp_file_read(&got, dir, name) < 0)
		fail_msg("there is no %s", name);
	assert_true(str_is(buf_view(&got), want));
	buf_release(&got);
}

/* Numbers go on after the highest, whoever made it, and after a restart. */
static void test_numbers(void **state)
{
	char *dir = temp_dir_make();
	struct file_tree t;

	(void)state;
	file_tree_init(&t, dir, ".json", false);
	file_tree_begin(&t);
	add(&t, "a", "samples", "1");
	add(&t, "a", "samples", "2");
	add(&t, "a", "events", "3");
	assert_int_equal(temp_dir_count(dir, "a/samples"), 2); /* hidden still */
	commit(&t);
	assert_file(dir, "a/samples/1.json", "1");
	assert_file(dir, "a/samples/2.json", "2");
	assert_file(dir, "a/events/1.json", "3");
	file_tree_release(&t);

	temp_file_write(dir, "a/samples/41.json", STR("other"));
	temp_file_write(dir, "a/samples/99.txt", STR("no number of ours"));
	temp_file_write(dir, "a/samples/x7.json", STR("nor this"));
	file_tree_init(&t, dir, ".json", true);
	for (int i = 0; i < 2; i++) {
		file_tree_begin(&t);
		add(&t, "a", "samples", "new");
		commit(&t);
	}
	assert_file(dir, "a/samples/41.json", "other");
	assert_file(dir, "a/samples/42.json", "new");
	assert_file(dir, "a/samples/43.json", "new");
	file_tree_release(&t);
	temp_dir_remove(dir);
}

/* Somebody takes the number between our look and our rename: nothing is written over. */
static void test_taken_number(void **state)
{
	char *dir = temp_dir_make();
	struct file_tree t;

	(void)state;
	file_tree_init(&t, dir, ".json", false);
	file_tree_begin(&t);
	add(&t, "a", "s", "one");
	temp_file_write(dir, "a/s/1.json", STR("theirs"));
	temp_file_write(dir, "a/s/2.json", STR("theirs"));
	commit(&t);
	assert_file(dir, "a/s/1.json", "theirs");
	assert_file(dir, "a/s/2.json", "theirs");
	assert_file(dir, "a/s/3.json", "one");
	file_tree_release(&t);
	temp_dir_remove(dir);
}

/* A request that fails leaves nothing, and its numbers are free again. */
static void test_failed_request(void **state)
{
	char *dir = temp_dir_make();
	struct file_tree t;
	struct rlimit old, small;
	struct err err = { 0 };

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){ 4, old.rlim_max };
	file_tree_init(&t, dir, ".json", false);
	file_tree_begin(&t);
	add(&t, "a", "s", "one");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_false(file_tree_add(&t, STR("a"), STR("s"), STR("too long"), &err));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(err.kind, ERR_IO);
	file_tree_abort(&t);
	assert_int_equal(temp_dir_count(dir, "a/s"), 0);

	file_tree_begin(&t);
	add(&t, "a", "s", "again");
	commit(&t);
	assert_file(dir, "a/s/1.json", "again");
	file_tree_release(&t);
	temp_dir_remove(dir);
}

/* The directory goes away while we run: it is made again. */
static void test_removed_directory(void **state)
{
	char *dir = temp_dir_make(), *copy = strdup(dir);
	struct file_tree t;
	struct err err;

	(void)state;
	file_tree_init(&t, dir, ".json", false);
	file_tree_begin(&t);
	add(&t, "a", "s", "one");
	commit(&t);
	temp_dir_remove(copy);
	file_tree_begin(&t);
	assert_false(file_tree_add(&t, STR("a"), STR("s"), STR("two"), &err)); /* to be repeated */
	file_tree_abort(&t);
	file_tree_begin(&t);
	add(&t, "a", "s", "two");
	commit(&t);
	assert_file(dir, "a/s/2.json", "two");
	file_tree_release(&t);
	temp_dir_remove(dir);
}

/* What a killed process left goes; what a living one is writing stays. */
static void test_left_behind(void **state)
{
	char *dir = temp_dir_make(), name[64], path[4096];
	struct file_tree t;
	pid_t gone = fork();

	(void)state;
	if (gone == 0)
		_exit(0);
	assert_int_equal(waitpid(gone, NULL, 0), gone);
	snprintf(path, sizeof(path), "%s/a", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/a/s", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(name, sizeof(name), "a/s/.7.%d-1f.part", gone);
	temp_file_write(dir, name, STR("half"));
	snprintf(name, sizeof(name), "a/s/.7.%d-1f.part", getppid());
	temp_file_write(dir, name, STR("living"));
	snprintf(name, sizeof(name), "a/s/.7.%d-1f.part", getpid());
	temp_file_write(dir, name, STR("our pid, before a restart"));
	file_tree_init(&t, dir, ".json", false);
	file_tree_begin(&t);
	add(&t, "a", "s", "one");
	commit(&t);
	assert_int_equal(temp_dir_count(dir, "a/s"), 2); /* 1.json and the living one */
	assert_file(dir, "a/s/1.json", "one");
	file_tree_release(&t);
	temp_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),        cmocka_unit_test(test_taken_number),
		cmocka_unit_test(test_failed_request), cmocka_unit_test(test_removed_directory),
		cmocka_unit_test(test_left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
