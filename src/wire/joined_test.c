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
 * an unknown field, ! a torn field, % a torn dictionary. resource_profiles with a Profile that says
 * its version: 3 of v1.3, T with tables of its own (v1.4 or v1.5), 4, 5, O of v1.6 or v1.7, W of
 * v1.8 or later, 8 of v1.8 or v1.9, X of v1.10; E with one that says nothing. z is a gzip member's
 * head, j a JSON object.
 */
static const struct {
	char letter;
	struct str profile;
} shaped[] = {
	{ '3', STR("\x0a\x01i\x11\1\0\0\0\0\0\0\0\x42\0") },
	{ 'T', STR("\x0a\0\x12\0\x22\0\x52\0\x58\x01") },
	{ '4', STR("\x0a\0\x12\0\x52\0\x58\x01\x92\x01\0") },
	{ '5', STR("\x0a\0\x12\0\x22\0\xb2\x01\x01\x01") },
	{ 'O', STR("\x12\0\x1a\x01\x01\x20\x05\x28\x07") },
	{ 'W', STR("\x12\0\x19\1\0\0\0\0\0\0\0\x20\x05") },
	{ '8', STR("\x12\x03\x1a\x01\x01\x19\1\0\0\0\0\0\0\0") },
	{ 'X', STR("\x19\1\0\0\0\0\0\0\0\x12\x03\x22\x01\x01") }, /* the last field first */
	/* Without a time, a duration looks like v1.6's time. */
	{ 'E', STR("\x12\0\x20\x05\x2a\0\x42\x01x") },
};

static void spell_shaped(struct buf *out, struct str profile)
{
	buf_char(out, '\x0a');
	buf_char(out, (char)(profile.len + 4));
	buf_char(out, '\x12');
	buf_char(out, (char)(profile.len + 2));
	buf_char(out, '\x12');
	buf_char(out, (char)profile.len);
	buf_str(out, profile);
}

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
		{ 'z', STR("\x1f\x8b\x08") },
		{ 'j', STR("{\"") },
	};

	for (; *letters; letters++) {
		for (size_t i = 0; i < ARRAY_LEN(fields); i++)
			if (fields[i].letter == *letters)
				buf_str(out, fields[i].bytes);
		for (size_t i = 0; i < ARRAY_LEN(shaped); i++)
			if (shaped[i].letter == *letters)
				spell_shaped(out, shaped[i].profile);
	}
}

static const struct {
	const char *what, *letters;
	const char *bodies[5];
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
	{ "v1.3, v1.4", "3344", { "33", "44" } },
	{ "v1.4, v1.3, v1.5", "T435", { "T4", "3", "5" } },
	{ "v1.4 and v1.5 that can be either", "TT", { "TT" } },
	{ "v1.4, v1.5", "4T5T", { "4T", "5T" } },
	{ "v1.3, newest", "3WWD", { "3", "WWD" } },
	{ "newest, v1.3", "WWD3", { "WWD", "3" } },
	{ "newest with its dictionary first, v1.5", "DWW5", { "DWW", "5" } },
	{ "v1.4, newest with its dictionary first", "44DWW", { "44", "DWW" } },
	{ "v1.3, newest whose first profiles say nothing", "3EED", { "3", "EED" } },
	{ "newest, one that says nothing, v1.3", "WDE3", { "WD", "E3" } },
	{ "profiles without a time go with the others", "WEWED", { "WEWED" } },
	{ "v1.10 with its dictionary first, v1.9 with it last", "DXW8WD", { "DXW", "8WD" } },
	{ "v1.8, v1.10 with its dictionary first", "8DDX", { "8D", "DX" } },
	{ "v1.6, newest", "OSsWD", { "OSs", "WD" } },
	{ "v1.6, v1.7", "OSsOD", { "OSs", "OD" } },
	{ "v1.7, v1.6, v1.3", "ODOSs3", { "OD", "OSs", "3" } },
	{ "v1.3, v1.6, v1.4", "3OSs4", { "3", "OSs", "4" } },
	{ "compressed data begins", "WDz", { "WD", "z" } },
	{ "JSON begins", "33j", { "33", "j" } },
};

static void finds_where_bodies_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_release) struct buf all = { 0 };
		struct str rest;

		spell(&all, cases[i].letters);
		rest = buf_view(&all);
		for (size_t n = 0; n < 5 && cases[i].bodies[n]; n++) {
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
