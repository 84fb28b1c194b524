/* input_test.c - telling containers of bodies apart, and cutting them into bodies. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "input.h"
#include "net/compress.h"

static const struct {
	const char *what;
	struct str bytes;
	enum compression packed;
	enum bodies_form form;
	const char *bodies[4];
} cases[] = {
	{ "one body", STR("\x0a\x02hi"), COMPRESSION_NONE, BODIES_PROTOBUF, { "\x0a\x02hi" } },
	{ "an empty file is an empty message",
	  { "", 0 },
	  COMPRESSION_NONE,
	  BODIES_PROTOBUF,
	  { "" } },
	{ "gzip", STR("\x0a\x02hi"), COMPRESSION_GZIP, BODIES_PROTOBUF, { "\x0a\x02hi" } },
	{ "zstd", STR("\x0a\x02hi"), COMPRESSION_ZSTD, BODIES_PROTOBUF, { "\x0a\x02hi" } },
	{ "length-prefixed",
	  STR("\0\0\0\x03"
	      "abc"
	      "\0\0\0\x01"
	      "d"),
	  COMPRESSION_NONE,
	  BODIES_LENGTH_PREFIXED,
	  { "abc", "d" } },
	{ "gRPC frames",
	  STR("\0\0\0\0\x03"
	      "abc"
	      "\0\0\0\0\x02"
	      "de"),
	  COMPRESSION_NONE,
	  BODIES_GRPC_FRAMES,
	  { "abc", "de" } },
	{ "JSON", STR(" {\"a\":1}"), COMPRESSION_NONE, BODIES_JSON, { "{\"a\":1}" } },
	{ "JSON lines",
	  STR("{\"a\":\"}\\\"\"}\n{\"b\":[{}]}\n"),
	  COMPRESSION_GZIP,
	  BODIES_JSON,
	  { "{\"a\":\"}\\\"\"}", "{\"b\":[{}]}" } },
	{ "cut JSON is given as it is",
	  STR("{\"a\":[1"),
	  COMPRESSION_NONE,
	  BODIES_JSON,
	  { "{\"a\":[1" } },
};

static void write_file(const char *path, struct str bytes, enum compression packed)
{
	struct buf out = { 0 };
	struct err err;
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

	if (packed == COMPRESSION_NONE)
		buf_str(&out, bytes);
	else
		assert_true(compress_into(packed, 0, bytes, &out, &err));
	assert_int_equal(write(fd, out.ptr, out.len), (ssize_t)out.len);
	close(fd);
	buf_release(&out);
}

static void expect_bodies(size_t i, struct input *in)
{
	struct blob *body;
	struct err err;
	size_t offset, n = 0;

	for (; input_next(in, &body, &offset, &err); n++) {
		if (n >= 4 || !cases[i].bodies[n] || !str_is(blob_view(body), cases[i].bodies[n]))
			fail_msg("%s: body %zu is \"%.*s\"", cases[i].what, n,
				 STR_ARG(blob_view(body)));
		blob_unref(body);
	}
	if (err.kind != ERR_NONE || (n < 4 && cases[i].bodies[n]))
		fail_msg("%s: ended after %zu bodies: %s", cases[i].what, n,
			 err.kind ? err.msg : "");
}

static void cuts_files_into_bodies(void **state)
{
	char path[] = "/tmp/flametap-input-XXXXXX";

	(void)state;
	close(mkstemp(path));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct input in;
		struct err err;

		write_file(path, cases[i].bytes, cases[i].packed);
		if (!input_open(&in, path, &err))
			fail_msg("%s: %s", cases[i].what, err.msg);
		if (in.bodies.form != cases[i].form)
			fail_msg("%s: form %d instead of %d", cases[i].what, in.bodies.form,
				 cases[i].form);
		expect_bodies(i, &in);
		input_close(&in);
	}
	unlink(path);
}

/* `cat a.gz b.zst`, and the same cut short. */
static void joins_parts_of_both_kinds(void **state)
{
	static const enum compression kinds[] = { COMPRESSION_GZIP, COMPRESSION_ZSTD };
	char path[] = "/tmp/flametap-input-XXXXXX";

	(void)state;
	close(mkstemp(path));
	for (size_t i = 0; i < 2; i++) {
		AUTO(buf_release) struct buf file = { 0 };
		struct blob *body;
		struct input in;
		struct err err;
		size_t offset;

		assert_true(compress_into(kinds[i], 0, STR("\x0a\x02hi"), &file, &err));
		assert_true(compress_into(kinds[1 - i], 0, STR("\x0a\x02ho"), &file, &err));
		write_file(path, buf_view(&file), COMPRESSION_NONE);
		assert_true(input_open(&in, path, &err));
		assert_true(input_next(&in, &body, &offset, &err));
		assert_true(str_is(blob_view(body), "\x0a\x02hi\x0a\x02ho"));
		blob_unref(body);
		assert_false(input_next(&in, &body, &offset, &err));
		input_close(&in);

		write_file(path, str_head(buf_view(&file), file.len - 1), COMPRESSION_NONE);
		assert_false(input_open(&in, path, &err));
		assert_true(input_open_broken(&in, path, &err));
		assert_int_equal(in.damage.kind, ERR_INVALID);
		input_close(&in);
	}
	unlink(path);
}

static void names_what_it_cannot_open(void **state)
{
	struct input in;
	struct err err;

	(void)state;
	assert_false(input_open(&in, "/no/such/file", &err));
	assert_non_null(strstr(err.msg, "/no/such/file"));
	assert_int_equal(err.kind, ERR_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_files_into_bodies),
		cmocka_unit_test(joins_parts_of_both_kinds),
		cmocka_unit_test(names_what_it_cannot_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
