#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "components/exporters/append_log.h"
#include "components/exporters/temp_dir_for_tests.h"

static struct append_log make_log(const char *dir, enum append_form form)
{
	return (struct append_log){
		.dir = dir, .name = "profiles", .ending = ".log", .form = form, .fd = -1
	};
}

static void add(struct append_log *l, struct str bytes)
{
	struct err err = { 0 };

	if (!append_log_begin(l, bytes.len, &err) || !append_log_write(l, bytes, &err) ||
	    !append_log_commit(l, &err))
		fail_msg("%s", err.msg);
}

#define TEXT(literal)                             \
	{                                         \
		("" literal), sizeof(literal) - 1 \
	}

static const struct {
	const char *what;
	enum append_form form;
	struct str found, whole;
} tails[] = {
	{ "nothing", APPEND_LINES, TEXT(""), TEXT("") },
	{ "whole lines", APPEND_LINES, TEXT("a\nb\n"), TEXT("a\nb\n") },
	{ "torn line", APPEND_LINES, TEXT("a\nb\nc"), TEXT("a\nb\n") },
	{ "only a torn line", APPEND_LINES, TEXT("abc"), TEXT("") },
	{ "zeros of a lost machine", APPEND_LINES, TEXT("a\n\0\0\0"), TEXT("a\n") },
	{ "whole records", APPEND_PREFIXED, TEXT("\0\0\0\2ab\0\0\0\1c"),
	  TEXT("\0\0\0\2ab\0\0\0\1c") },
	{ "torn record", APPEND_PREFIXED, TEXT("\0\0\0\2ab\0\0\0\3cd"), TEXT("\0\0\0\2ab") },
	{ "torn length", APPEND_PREFIXED, TEXT("\0\0\0\2ab\0\0\0"), TEXT("\0\0\0\2ab") },
	{ "zeros", APPEND_PREFIXED, TEXT("\0\0\0\2ab\0\0\0\0\0\0\0\0\0"), TEXT("\0\0\0\2ab") },
	{ "huge length", APPEND_PREFIXED,
	  TEXT("\xff\xff\xff\xff"
	       "ab"),
	  TEXT("") },
};

static void test_torn_tails(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		char *dir = temp_dir_make();
		struct append_log l = make_log(dir, tails[i].form);
		struct buf got;
		struct err err;

		print_message("%s\n", tails[i].what);
		buf_init(&got, 0);
		temp_file_write(dir, "profiles.log", tails[i].found);
		assert_true(append_log_open(&l, &err));
		assert_int_equal(l.torn_bytes, tails[i].found.len - tails[i].whole.len);
		temp_file_read(&got, dir, "profiles.log");
		assert_true(str_equal(buf_view(&got), tails[i].whole));
		add(&l, STR("new\n"));
		assert_int_equal(temp_file_read(&got, dir, "profiles.log"), tails[i].whole.len + 4);
		append_log_close(&l);
		buf_release(&got);
		temp_dir_remove(dir);
	}
}

/* Records larger than what is read at once, and lines too. */
static void test_long_records(void **state)
{
	const size_t len = 770000; /* no byte of it is a newline */
	char *dir = temp_dir_make();
	struct append_log l = make_log(dir, APPEND_PREFIXED);
	struct buf content;
	struct err err;

	(void)state;
	buf_init(&content, 0);
	for (int i = 0; i < 3; i++) {
		char *p;

		buf_append(&content,
			   (const char[]){ 0, (char)(len >> 16), (char)(len >> 8), (char)len }, 4);
		p = buf_reserve(&content, len);
		assert_non_null(p);
		memset(p, 'x', len);
		buf_advance(&content, len);
	}
	temp_file_write(dir, "profiles.log", str_head(buf_view(&content), content.len - 1));
	assert_true(append_log_open(&l, &err));
	assert_int_equal(l.size, 2 * (len + 4));
	append_log_close(&l);
	l = make_log(dir, APPEND_LINES);
	content.ptr[10] = '\n';
	temp_file_write(dir, "profiles.log", buf_view(&content));
	assert_true(append_log_open(&l, &err));
	assert_int_equal(l.size, 11);
	append_log_close(&l);
	buf_release(&content);
	temp_dir_remove(dir);
}

static void test_one_writer(void **state)
{
	char *dir = temp_dir_make();
	struct append_log a = make_log(dir, APPEND_LINES), b = make_log(dir, APPEND_LINES);
	struct err err = { 0 };

	(void)state;
	assert_true(append_log_open(&a, &err));
	assert_false(append_log_open(&b, &err));
	assert_int_equal(err.kind, ERR_BUSY);
	append_log_close(&a);
	assert_true(append_log_open(&b, &err));
	append_log_close(&b);
	temp_dir_remove(dir);
}

static void test_rotation(void **state)
{
	char *dir = temp_dir_make();
	struct append_log l = make_log(dir, APPEND_LINES);
	struct buf got;
	struct err err;

	(void)state;
	buf_init(&got, 0);
	l.max_bytes = 10;
	l.max_backups = 2;
	temp_file_write(dir, "profiles-notes.log", STR("not ours"));
	assert_true(append_log_open(&l, &err));
	add(&l, STR("12345\n"));
	add(&l, STR("123\n")); /* 10 bytes: full, not over */
	assert_int_equal(temp_dir_count(dir, ""), 2);
	add(&l, STR("6\n"));
	assert_int_equal(temp_dir_count(dir, ""), 3);
	assert_int_equal(temp_file_read(&got, dir, "profiles.log"), 2);
	add(&l, STR("longer than a file may be\n")); /* never cut in two */
	add(&l, STR("7\n"));
	add(&l, STR("123456789\n"));
	/* the file, two backups, and what only looks like one */
	assert_int_equal(temp_dir_count(dir, ""), 4);
	assert_int_equal(l.deleted_files, 2);
	assert_int_equal(temp_file_read(&got, dir, "profiles-notes.log"), 8);
	append_log_close(&l);
	buf_release(&got);
	temp_dir_remove(dir);
}

/* A file that may grow no further stands for a full disk: what was written in part is gone again.
 */
static void test_full_disk(void **state)
{
	char *dir = temp_dir_make();
	struct append_log l = make_log(dir, APPEND_LINES);
	struct rlimit old, small;
	struct buf got;
	struct err err = { 0 };

	(void)state;
	buf_init(&got, 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){ 10, old.rlim_max };
	assert_true(append_log_open(&l, &err));
	add(&l, STR("kept\n"));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_true(append_log_begin(&l, 12, &err));
	assert_false(append_log_write(&l, STR("half of it\n"), &err));
	append_log_abort(&l);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(err.kind, ERR_IO);
	assert_int_equal(temp_file_read(&got, dir, "profiles.log"), 5);
	add(&l, STR("after\n"));
	temp_file_read(&got, dir, "profiles.log");
	assert_true(str_is(buf_view(&got), "kept\nafter\n"));
	append_log_close(&l);
	buf_release(&got);
	temp_dir_remove(dir);
}

static void rename_away(const char *dir)
{
	char from[256], to[256];

	snprintf(from, sizeof(from), "%s/profiles.log", dir);
	snprintf(to, sizeof(to), "%s/profiles.1", dir);
	assert_int_equal(rename(from, to), 0);
}

static void unlink_file(const char *dir)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/profiles.log", dir);
	assert_int_equal(unlink(path), 0);
}

static void remove_all(const char *dir)
{
	unlink_file(dir);
	assert_int_equal(rmdir(dir), 0);
}

static void replace(const char *dir)
{
	rename_away(dir);
	temp_file_write(dir, "profiles.log", STR("other\n"));
}

static void empty(const char *dir)
{
	temp_file_write(dir, "profiles.log", STR(""));
}

/* What is acknowledged stands in the file that others can see. */
static void test_taken_away(void **state)
{
	static const struct {
		const char *what;
		void (*take)(const char *dir);
		struct str then;
		uint64_t taken_away;
	} cases[] = {
		{ "removed", unlink_file, TEXT("new\n"), 1 },
		{ "removed with its directory", remove_all, TEXT("new\n"), 1 },
		{ "renamed", rename_away, TEXT("new\n"), 1 },
		{ "replaced", replace, TEXT("other\nnew\n"), 1 },
		{ "emptied", empty, TEXT("new\n"), 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *dir = temp_dir_make();
		struct append_log l = make_log(dir, APPEND_LINES);
		struct buf got;
		struct err err;

		print_message("%s\n", cases[i].what);
		buf_init(&got, 0);
		assert_true(append_log_open(&l, &err));
		add(&l, STR("first\n"));
		cases[i].take(dir);
		add(&l, STR("new\n"));
		temp_file_read(&got, dir, "profiles.log");
		assert_true(str_equal(buf_view(&got), cases[i].then));
		assert_int_equal(l.taken_away, cases[i].taken_away);
		/* a failed request leaves what was there, nothing more */
		assert_true(append_log_begin(&l, 4, &err));
		assert_true(append_log_write(&l, STR("half"), &err));
		append_log_abort(&l);
		buf_reset(&got);
		temp_file_read(&got, dir, "profiles.log");
		assert_true(str_equal(buf_view(&got), cases[i].then));
		append_log_close(&l);
		buf_release(&got);
		temp_dir_remove(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torn_tails), cmocka_unit_test(test_long_records),
		cmocka_unit_test(test_one_writer), cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_full_disk),  cmocka_unit_test(test_taken_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
