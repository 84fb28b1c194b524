#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

static void test_set(void **state)
{
	struct err err;

	(void)state;
	assert_false(err_set(&err, ERR_LIMIT, "body is %d, limit %d", 7, 5));
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_string_equal(err.msg, "body is 7, limit 5");
}

static void test_errno(void **state)
{
	static const struct {
		int number;
		enum err_kind kind;
		const char *msg;
	} cases[] = {
		{ ENOENT, ERR_NOT_FOUND, "open x: No such file or directory" },
		{ EACCES, ERR_PERMISSION, "open x: Permission denied" },
		{ EPERM, ERR_PERMISSION, "open x: Operation not permitted" },
		{ ENOSPC, ERR_IO, "open x: No space left on device" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err;

		errno = cases[i].number;
		assert_false(err_set_errno(&err, "open %s", "x"));
		assert_int_equal(errno, cases[i].number);
		assert_string_equal(err.msg, cases[i].msg);
		assert_int_equal(err.kind, cases[i].kind);
		assert_int_equal(err.number, cases[i].number);
		err_prefix(&err, "in y");
		assert_int_equal(err.number, cases[i].number);
		err_set(&err, err.kind, "of our own");
		assert_int_equal(err.number, 0);
	}
}

static void test_prefix_and_self_reference(void **state)
{
	struct err err;

	(void)state;
	err_set(&err, ERR_INVALID, "bad tag");
	assert_false(err_prefix(&err, "field %d", 3));
	assert_string_equal(err.msg, "field 3: bad tag");
	assert_int_equal(err.kind, ERR_INVALID);
	err_set(&err, ERR_IO, "again: %s", err.msg);
	assert_string_equal(err.msg, "again: field 3: bad tag");
}

static void test_long_messages_are_cut(void **state)
{
	char text[1000];
	struct err err;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	err_set(&err, ERR_INVALID, "%s", text);
	assert_int_equal(strlen(err.msg), sizeof(err.msg) - 1);
	assert_string_equal(err.msg + sizeof(err.msg) - 4, "...");
	err_prefix(&err, "context");
	assert_int_equal(strncmp(err.msg, "context: xxx", 12), 0);
	assert_string_equal(err.msg + sizeof(err.msg) - 4, "...");

	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xbc", 2);
	text[998] = '\0';
	err_set(&err, ERR_INVALID, "a%s", text);
	assert_non_null(strstr(err.msg, "\xc3\xbc..."));
	err_set(&err, ERR_INVALID, "%s", text);
	assert_non_null(strstr(err.msg, "\xc3\xbc..."));
}

static void test_kinds(void **state)
{
	static const struct {
		enum err_kind kind;
		bool retryable;
		const char *name;
	} cases[] = {
		{ ERR_INVALID, false, "invalid" },
		{ ERR_LIMIT, false, "limit" },
		{ ERR_UNSUPPORTED, false, "unsupported" },
		{ ERR_NOT_FOUND, false, "not_found" },
		{ ERR_PERMISSION, false, "permission" },
		{ ERR_UNAUTHENTICATED, false, "unauthenticated" },
		{ ERR_BUSY, true, "busy" },
		{ ERR_UNAVAILABLE, true, "unavailable" },
		{ ERR_TIMEOUT, true, "timeout" },
		{ ERR_CANCELLED, true, "cancelled" },
		{ ERR_IO, true, "io" },
		{ ERR_INTERNAL, false, "internal" },
		{ ERR_NONE, false, "none" },
		{ (enum err_kind)99, false, "unknown" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_string_equal(err_kind_name(cases[i].kind), cases[i].name);
		if (err_retryable(cases[i].kind) != cases[i].retryable)
			fail_msg("%s: retryable is not %d", cases[i].name, cases[i].retryable);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_errno),
		cmocka_unit_test(test_prefix_and_self_reference),
		cmocka_unit_test(test_long_messages_are_cut),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
