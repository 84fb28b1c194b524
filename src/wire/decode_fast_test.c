/* The fast paths must only ever know less than the general decoders: both decode everything, and
 * must agree. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "wire/decode.h"
#include "wire/pb_packed.h"

static struct str file_read(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *data = malloc(1 << 20);
	size_t n;

	assert_non_null(f);
	assert_non_null(data);
	n = fread(data, 1, 1 << 20, f);
	fclose(f);
	return str_from(data, n);
}

/* Index fields and values of the whole model; what lies in the body is compared by address. */
static void describe(struct buf *b, const struct profiles *p)
{
	const struct dictionary *d = &p->dict;

	buf_printf(b, "%u %u %u %u %u %u %u %u\n", d->string_count, d->mapping_count,
		   d->location_count, d->function_count, d->link_count, d->attribute_count,
		   d->stack_count, p->profile_count);
	for (uint32_t i = 0; i < d->string_count; i++)
		buf_printf(b, "string %p %zu\n", (const void *)d->strings[i].ptr,
			   d->strings[i].len);
	for (uint32_t i = 0; i < d->location_count; i++) {
		const struct location *l = &d->locations[i];

		buf_printf(b, "location %u %llx %u lines", l->mapping.v,
			   (unsigned long long)l->address, l->lines.count);
		for (uint32_t k = 0; k < l->lines.count; k++)
			buf_printf(b, " %u:%lld:%lld", d->lines[l->lines.first + k].function.v,
				   (long long)d->lines[l->lines.first + k].line,
				   (long long)d->lines[l->lines.first + k].column);
		for (uint32_t k = 0; k < l->attributes.count; k++)
			buf_printf(b, " a%u", p->attribute_refs[l->attributes.first + k].v);
		buf_char(b, '\n');
	}
	for (uint32_t i = 0; i < d->stack_count; i++) {
		struct range r = d->stacks[i].locations;

		buf_lit(b, "stack");
		for (uint32_t k = 0; k < r.count; k++)
			buf_printf(b, " %u", d->stack_locations[r.first + k].v);
		buf_char(b, '\n');
	}
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];

		buf_printf(b, "sample %u %u", s->stack.v, s->link.v);
		for (uint32_t k = 0; k < s->attributes.count; k++)
			buf_printf(b, " a%u", p->attribute_refs[s->attributes.first + k].v);
		for (uint32_t k = 0; k < s->values.count; k++)
			buf_printf(b, " v%lld", (long long)p->values[s->values.first + k]);
		for (uint32_t k = 0; k < s->timestamps.count; k++)
			buf_printf(b, " t%llu",
				   (unsigned long long)p->timestamps[s->timestamps.first + k]);
		buf_char(b, '\n');
	}
	buf_printf(b, "unknown %u bad %u\n", p->unknown_field_count, p->bad_index_count);
}

static bool decode_text(struct blob *blob, enum wire_version version, bool fast, struct buf *text)
{
	struct otlp_decode_options options = { .version = version, .no_fast_path = !fast };
	struct profiles *p = NULL, *partial = NULL;
	struct err err = { 0 };
	bool ok = otlp_decode(blob, &options, &p, NULL, &partial, &err);

	if (p || partial)
		describe(text, p ? p : partial);
	if (!ok)
		buf_printf(text, "%s", err.msg);
	profiles_free(p);
	profiles_free(partial);
	return ok;
}

static void compare(struct str body, enum wire_version version, const char *what)
{
	struct blob *blob = blob_copy(body);
	struct buf fast, general;

	buf_init(&fast, 0);
	buf_init(&general, 0);
	decode_text(blob, version, true, &fast);
	decode_text(blob, version, false, &general);
	if (!str_equal(buf_view(&fast), buf_view(&general))) {
		size_t line = 0;

		for (size_t i = 0; i < fast.len && i < general.len && fast.ptr[i] == general.ptr[i];
		     i++)
			line = fast.ptr[i] == '\n' ? i + 1 : line;
		fail_msg("%s as v%s differs:\n%.*s\n---\n%.*s", what, wire_version_name(version),
			 STR_ARG(str_head(str_skip(buf_view(&fast), line), 300)),
			 STR_ARG(str_head(str_skip(buf_view(&general), line), 300)));
	}
	buf_release(&fast);
	buf_release(&general);
	blob_unref(blob);
}

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % n;
}

static void test_both_ways_agree(void **state)
{
	glob_t files;

	(void)state;
	assert_int_equal(glob("tests/fixtures/otlp/v1.[189]*.pb", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct str body = file_read(files.gl_pathv[i]);
		char *copy = malloc(body.len);

		assert_non_null(copy);
		for (enum wire_version v = WIRE_V1_8; v <= WIRE_V1_10; v++)
			compare(body, v, files.gl_pathv[i]);
		for (uint32_t k = 0; k < 40; k++) {
			memcpy(copy, body.ptr, body.len);
			for (uint32_t n = 1 + random_below(4); n > 0; n--)
				copy[random_below((uint32_t)body.len)] = (char)random_below(256);
			compare(str_from(copy, body.len), WIRE_V1_8 + k % 3, files.gl_pathv[i]);
		}
		free(copy);
		free((char *)body.ptr);
	}
	globfree(&files);
}

/* Entries at the edge of what the fast paths take: `12 ...` is a Location in a dictionary and a
 * Sample in a Profile. */
static void test_edges(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} entries[] = {
#define ROW(s) { s, sizeof(s) - 1 }
		ROW("\x12\x00"),
		ROW("\x12\x02\x10\x01"),
		ROW("\x12\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* a 10-byte address */
		ROW("\x12\x09\x10\xff\xff\xff\xff\xff\xff\xff\x7f"),         /* 8 bytes */
		ROW("\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* -1 */
		ROW("\x12\x04\x22\x02\x01\x02"),
		ROW("\x12\x04\x22\x02\x80\x01"),
		ROW("\x12\x03\x22\x01\x80"), /* a torn index */
		ROW("\x12\x02\x20\x05"),     /* unpacked */
		ROW("\x12\x02\x22\x00"),
		ROW("\x12\x04\x1a\x02\x08\x05"),
		ROW("\x12\x08\x1a\x06\x08\x05\x10\x80\x01\x18"), /* a line cut short */
		ROW("\x12\x09\x1a\x07\x08\x05\x10\x80\x01\x18\x03"),
		ROW("\x12\x04\x1a\x02\x10\x05"),
		ROW("\x12\x02\x1a\x00"),
		ROW("\x12\x04\x1a\x09\x08\x05"), /* a line longer than its location */
		ROW("\x12\x05\x7a\x03"
		    "abc"),                      /* an unknown field */
		ROW("\x12\x82\x00\x10\x01"),     /* a length in two bytes where one will do */
		ROW("\x12\x82\x80\x00\x10\x01"), /* ... in three */
		ROW("\x12\x01\x10"),
		ROW("\x12\x7f\x10"),
		ROW("\x12\x0a\x2a\x08"
		    "12345678"),
		ROW("\x12\x09\x2a\x07"
		    "1234567"),
		ROW("\x12\x09\x29"
		    "12345678"),
		ROW("\x12\x04\x08\x80\x01\x18"),
		ROW("\x12\x05\x08\x80\x01\x18\x03"),
		ROW("\x12\x06\x08\x80\x80\x01\x18\x03"),
		/* The usual shapes, and what is nearly them. */
		ROW("\x12\x09\x22\x01\x05\x10\x80\x80\x01\x08\x03"),
		ROW("\x12\x09\x22\x01\x05\x10\x80\x80\x01\x08\x83"),
		ROW("\x12\x09\x22\x01\x85\x10\x80\x80\x01\x08\x03"),
		ROW("\x12\x09\x22\x01\x05\x10\x80\x80\x80\x08\x03"),
		ROW("\x12\x0b\x22\x01\x05\x10\x80\x80\x01\x08\x03\x08\x04"),
		ROW("\x12\x0a\x22\x01\x05\x10\x80\x80\x01\x08\x83\x01"),
		ROW("\x12\x10\x22\x01\x05\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08\x03"),
		ROW("\x12\x0e\x22\x01\x05\x10\xff\xff\xff\xff\xff\xff\xff\x7f\x08\x03"),
		ROW("\x12\x0b\x22\x01\x05\x1a\x06\x10\x80\x01\x08\x81\x02"),
		ROW("\x12\x0d\x22\x01\x05\x1a\x02\x08\x07\x10\x80\x01\x08\x03"),
		ROW("\x12\x0d\x22\x01\x05\x1a\x08\x10\x80\x80\x80\x80\x01\x08\x02"),
		ROW("\x12\x0d\x22\x01\x05\x1a\x08\x10\x01\x08\x82\x80\x80\x80\x01"),
		ROW("\x12\x0b\x22\x01\x05\x1a\x06\x08\x82\x80\x80\x80\x01"),
		ROW("\x12\x09\x22\x01\x05\x1a\x04\x08\x01\x10\x02"),
		ROW("\x12\x07\x22\x01\x05\x1a\x02\x08\x85"),
		ROW("\x12\x05\x22\x01\x05\x1a\x00"),
		ROW("\x12\x03\x22\x01\x05"),
		ROW("\x12\x12\x2a\x08"
		    "12345678"
		    "\x12\x03\x01\x02\x03\x08\x85\x01"),
		ROW("\x12\x11\x2a\x08"
		    "12345678"
		    "\x12\x03\x01\x02\x03\x08\x05"),
		ROW("\x12\x11\x2a\x08"
		    "12345678"
		    "\x12\x03\x01\x02\x03\x08\x85"),
		ROW("\x12\x12\x2a\x08"
		    "12345678"
		    "\x12\x03\x01\x82\x03\x08\x05\x06"),
		ROW("\x12\x11\x2a\x08"
		    "12345678"
		    "\x1a\x03\x01\x02\x83\x08\x05"),
		ROW("\x12\x11\x2a\x08"
		    "12345678"
		    "\x1a\x03\x01\x02\x03\x08\x05"),
		ROW("\x12\x08\x2a\x00\x12\x02\x01\x02\x08\x05"),
		ROW("\x12\x06\x2a\x00\x12\x00\x08\x05"),
		ROW("\x12\x13\x2a\x10"
		    "123456789abcdefg"
		    "\x12"),
		ROW("\x1a\x00"), /* a Function, or an unknown field */
		ROW("\x1a\x02\x08\x01"),
		ROW("\x1a\x06\x08\x01\x18\x02\x20\x03"),
		ROW("\x1a\x01\x08"),
		ROW("\x1a\x03\x08\x01\x7a"),
		ROW("\x1a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		ROW("\x3a\x00"),
		ROW("\x3a\x02\x0a\x00"),
		ROW("\x3a\x03\x0a\x01\x05"),
		ROW("\x3a\x05\x0a\x01\x05\x0a\x00"),
		ROW("\x3a\x06\x0a\x01\x05\x0a\x01\x06"),
		ROW("\x3a\x02\x08\x05"),
		ROW("\x3a\x04\x0a\x02\x05\x80"),
		ROW("\x2a\x00"),
		ROW("\x2a\x03"
		    "abc"),
		ROW("\x2a\x83\x00"
		    "abc"),
#undef ROW
	};
	/* A body is a chain of one to four of these, once as a dictionary, once as a Profile; the
	 * last one ends the body. */
	for (uint32_t round = 0; round < 20000; round++) {
		char content[100], body[144];
		size_t len = 0, n = 0;

		for (uint32_t k = 1 + random_below(4); k > 0; k--) {
			uint32_t pick = random_below(ARRAY_LEN(entries));

			memcpy(content + len, entries[pick].bytes, entries[pick].len);
			len += entries[pick].len;
		}
		if (round & 1) {
			body[n++] = 0x12;
		} else {
			body[n++] = 0x0a; /* ResourceProfiles{ScopeProfiles{Profile}} */
			body[n++] = (char)(len + 4);
			body[n++] = 0x12;
			body[n++] = (char)(len + 2);
			body[n++] = 0x12;
		}
		body[n++] = (char)len;
		memcpy(body + n, content, len);
		/* Fast paths keep off a body's last bytes: with something behind, they reach the
		 * chain's end. */
		if (round & 8) {
			memcpy(body + n + len,
			       "\x7a\x10"
			       "0123456789abcdef",
			       18);
			n += 18;
		}
		compare(str_from(body, n + len), WIRE_V1_8 + round % 3, "a chain of entries");
	}
	(void)state;
}

/* The first samples say v1.10, a later one has what only v1.9 has: the rest is looked into after
 * all. */
static void test_late_evidence_is_found(void **state)
{
	char body[2048];
	size_t n = 0, samples = 0;
	struct otlp_decode_report report;
	struct profiles *p = NULL;
	struct err err = { 0 };
	struct blob *blob;
	char inner[1024];

	(void)state;
	/* 50 x {stack 1, field 2 of two entries, one timestamp}: attributes of v1.10, by all
	 * appearances */
	for (int i = 0; i < 50; i++) {
		memcpy(inner + samples,
		       "\x12\x10\x08\x01\x12\x02\x01\x01\x2a\x08"
		       "12345678",
		       18);
		samples += 18;
	}
	memcpy(inner + samples, "\x12\x06\x08\x01\x12\x00\x1a\x00",
	       8); /* fields 2 and 3 are lists: v1.9 */
	samples += 8;
	for (int times = 0; times < 2; times++) {
		/* The odd one is the 101st: more than SURVEY_SAMPLES_FEW in. */
		size_t profile = times == 0 ? samples - 8 : samples, scope = profile + 3,
		       resource = scope + 3;

		body[n++] = 0x0a;
		body[n++] = (char)((resource & 127) | 128);
		body[n++] = (char)(resource >> 7);
		body[n++] = 0x12;
		body[n++] = (char)((scope & 127) | 128);
		body[n++] = (char)(scope >> 7);
		body[n++] = 0x12;
		body[n++] = (char)((profile & 127) | 128);
		body[n++] = (char)(profile >> 7);
		memcpy(body + n, inner, profile);
		n += profile;
	}
	body[n++] = 0x12; /* dictionary { attribute_table { key_strindex 1 } } */
	body[n++] = 4;
	memcpy(body + n, "\x32\x02\x08\x01", 4);
	n += 4;
	blob = blob_copy(str_from(body, n));
	if (!otlp_decode(blob, NULL, &p, &report, NULL, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(report.version, WIRE_V1_9);
	assert_int_equal(p->unknown_field_count, 0);
	profiles_free(p);
	blob_unref(blob);
}

/* A varint of `len` bytes, nearly any value. */
static size_t varint_put(uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(random_below(128) | (i + 1 < len ? 0x80 : 0));
	return len;
}

/* Lists of one- and two-byte varints, some with a longer one or torn: eight at a time as one at a
 * time. */
static void test_packed_short_as_one_by_one(void **state)
{
	uint32_t wide[200 + PB_PACKED_SLACK], plain[200 + PB_PACKED_SLACK], taken = 0;
	uint8_t bytes[1 + 200 + PB_PACKED_SLACK];

	(void)state;
	for (uint32_t round = 0; round < 50000; round++) {
		uint32_t most = random_below(12) == 0 ? 3 : 2, of_one = 1 + random_below(100);
		size_t len = 0, want = random_below(180), n, m;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)random_below(256); /* behind the list, too */
		bytes[0] = (uint8_t)random_below(128);
		while (len < want)
			len += varint_put(bytes + 1 + len,
					  random_below(100) < of_one ? 1 : 1 + random_below(most));
		if (len && random_below(20) == 0)
			bytes[len] |= 0x80;
		n = pb_packed_u32(str_from(bytes + 1, len), plain);
		m = pb_packed_short(bytes + 1, len, wide);
		if (m == PB_PACKED_BAD)
			continue; /* may know less */
		taken++;
		assert_int_equal(m, n);
		assert_memory_equal(wide, plain, n * sizeof(*plain));
	}
	if (pb_packed_short_able())
		assert_true(taken > 30000);
	else
		assert_int_equal(taken, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways_agree),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_late_evidence_is_found),
		cmocka_unit_test(test_packed_short_as_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
