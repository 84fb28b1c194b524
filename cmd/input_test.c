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

static void zeros_are_one_bad_body(void **state)
{
	char path[] = "/tmp/flametap-input-XXXXXX";
	static const char zeros[4000];
	struct input in;
	struct blob *body;
	struct err err;
	size_t offset;

	(void)state;
	close(mkstemp(path));
	write_file(path, str_from(zeros, sizeof(zeros)), COMPRESSION_NONE);
	assert_true(input_open(&in, path, &err));
	assert_int_equal(in.bodies.form, BODIES_PROTOBUF);
	assert_true(input_next(&in, &body, &offset, &err));
	assert_int_equal(body->len, sizeof(zeros));
	blob_unref(body);
	assert_false(input_next(&in, &body, &offset, &err));
	input_close(&in);
	unlink(path);
}

/* Each letter a part: g and h gzip members, z and y zstd frames, p and q plain, j JSON. */
static void append_part(struct buf *out, char letter)
{
	static const struct {
		char letter;
		struct str bytes;
		enum compression packed;
	} parts[] = {
		{ 'g', STR("\x0a\x02gg"), COMPRESSION_GZIP },
		{ 'h', STR("\x0a\x02hh"), COMPRESSION_GZIP },
		{ 'z', STR("\x0a\x02zz"), COMPRESSION_ZSTD },
		{ 'y', STR("\x0a\x02yy"), COMPRESSION_ZSTD },
		{ 'p', STR("\x0a\x02pp"), COMPRESSION_NONE },
		{ 'q', STR("\x0a\x02qq"), COMPRESSION_NONE },
		{ 'j', STR("{\"j\":1}"), COMPRESSION_NONE },
		{ 'l', STR("{\"l\":1}\n"), COMPRESSION_NONE },
	};
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (parts[i].letter != letter)
			continue;
		if (parts[i].packed == COMPRESSION_NONE)
			buf_str(out, parts[i].bytes);
		else
			assert_true(compress_into(parts[i].packed, 0, parts[i].bytes, out, &err));
	}
}

static void kinds_take_turns(void **state)
{
	/* What is joined without a dictionary between stays one body: it is no matter of kinds. */
	static const struct {
		const char *parts, *bodies;
	} turns[] = {
		{ "g", "gg" },       { "gh", "gg+hh" },
		{ "zy", "zz+yy" },   { "gp", "gg pp" },
		{ "zp", "zz pp" },   { "pg", "pp gg" },
		{ "pz", "pp zz" },   { "gz", "gg zz" },
		{ "zg", "zz gg" },   { "pgqzj", "pp gg qq zz j" },
		{ "pj", "pp j" },    { "jp", "j pp" },
		{ "lp", "l pp" },    { "jg", "j gg" },
		{ "lz", "l zz" },    { "lg", "l gg" },
		{ "gjl", "gg j l" }, { "zljpghqyz", "zz l j pp gg+hh qq yy+zz" },
	};
	char path[] = "/tmp/flametap-input-XXXXXX";

	(void)state;
	close(mkstemp(path));
	for (size_t i = 0; i < ARRAY_LEN(turns); i++) {
		AUTO(buf_release) struct buf file = { 0 }, got = { 0 };
		struct blob *body;
		struct input in;
		struct err err;
		size_t offset;

		for (const char *p = turns[i].parts; *p; p++)
			append_part(&file, *p);
		write_file(path, buf_view(&file), COMPRESSION_NONE);
		assert_true(input_open(&in, path, &err));
		while (input_next(&in, &body, &offset, &err)) {
			struct str view = blob_view(body);

			if (got.len)
				buf_char(&got, ' ');
			for (size_t k = 0; k < view.len; k++) {
				if (view.ptr[k] == '\x0a' && k)
					buf_char(&got, '+');
				if (view.ptr[k] >= 'a' && view.ptr[k] <= 'z')
					buf_char(&got, view.ptr[k]);
			}
			blob_unref(body);
		}
		input_close(&in);
		if (err.kind != ERR_NONE || !str_is(buf_view(&got), turns[i].bodies))
			fail_msg("%s: \"%.*s\", not \"%s\" %s", turns[i].parts,
				 STR_ARG(buf_view(&got)), turns[i].bodies, err.kind ? err.msg : "");
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
		cmocka_unit_test(kinds_take_turns),
		cmocka_unit_test(zeros_are_one_bad_body),
		cmocka_unit_test(names_what_it_cannot_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
