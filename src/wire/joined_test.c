/* joined_test.c - where bodies end that were written one behind the other. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "wire/joined.h"

/*
 * A body is spelled with a letter a field: R resource_profiles, D a dictionary that begins a string
 * table, d one that goes on with it, N one without strings, S v1.6's string "", s another string, U
 * an unknown field, ! a torn field,
 * % a torn dictionary.
 */
static void spell(struct buf *out, const char *letters)
{
	static const struct {
		char letter;
		struct str bytes;
	} fields[] = {
		{ 'R', STR("\x0a\x02\x12\0") },
		{ 'D', STR("\x12\x07\x12\0\x2a\0\x2a\x01x") },
		{ 'd', STR("\x12\x03\x2a\x01y") },
		{ 'N', STR("\x12\x02\x12\0") },
		{ 'S', STR("\x32\0") },
		{ 's', STR("\x32\x01z") },
		{ 'U', STR("\x98\x06\x01") },
		{ '%', STR("\x12\x7f\x12\x03") },
		{ '!', STR("\x0a\x7f\x12\x03") },
	};

	for (; *letters; letters++)
		for (size_t i = 0; i < ARRAY_LEN(fields); i++)
			if (fields[i].letter == *letters)
				buf_str(out, fields[i].bytes);
}

static const struct {
	const char *what, *letters;
	const char *bodies[4];
} cases[] = {
	{ "nothing", "", { "" } },
	{ "one", "RRD", { "RRD" } },
	{ "its dictionary first", "DRR", { "DRR" } },
	{ "two", "RRDRD", { "RRD", "RD" } },
	{ "three", "RDRRDRD", { "RD", "RRD", "RD" } },
	{ "two with the dictionary first", "DRRDR", { "DRR", "DR" } },
	{ "a dictionary in parts is one", "RNDdRR", { "RNDdRR" } },
	{ "parts go with the body before", "RNDdRD", { "RNDd", "RD" } },
	{ "an empty body at the end", "RDD", { "RD", "D" } },
	{ "unknown fields go with the body before", "RDURD", { "RDU", "RD" } },
	{ "the last is cut before its dictionary", "RDR!", { "RD", "R!" } },
	{ "the last is cut in its dictionary", "RDR%", { "RD", "R%" } },
	{ "the last is cut in its dictionary, which is first", "DRR%", { "DRR", "%" } },
	{ "cut in its first field", "RD!", { "RD", "!" } },
	{ "one alone is cut", "RR!", { "RR!" } },
	{ "v1.6", "RRSssRSs", { "RRSss", "RSs" } },
	{ "v1.6 with \"\" twice in its table", "RSsSs", { "RSsSs" } },
	{ "v1.5 and older: one", "RRR", { "RRR" } },
};

static void finds_where_bodies_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_release) struct buf all = { 0 };
		struct str rest;

		spell(&all, cases[i].letters);
		rest = buf_view(&all);
		for (size_t n = 0; n < 4 && cases[i].bodies[n]; n++) {
			AUTO(buf_release) struct buf want = { 0 };
			struct str got = str_head(rest, otlp_first_body(rest));

			spell(&want, cases[i].bodies[n]);
			if (!str_equal(got, buf_view(&want)))
				fail_msg("%s: body %zu has %zu bytes, not the %zu of %s",
					 cases[i].what, n, got.len, want.len, cases[i].bodies[n]);
			rest = str_skip(rest, got.len);
		}
		if (rest.len)
			fail_msg("%s: %zu bytes are left over", cases[i].what, rest.len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_where_bodies_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
