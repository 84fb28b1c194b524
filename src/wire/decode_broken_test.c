/* Bad bodies: every fixture cut at every 97th byte, seeded mutations, hostile lengths and depths. A
 * verdict each, no crash. */
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
#include "wire/otlp.h"

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

static uint64_t touched; /* so that no look is optimized away */

static void touch_range(struct range r, uint32_t count)
{
	assert_true(r.count <= count && r.first <= count - r.count);
}

/* Everything that a consumer may follow without a check: ASan and the asserts judge. */
static void follow_everything(const struct profiles *p)
{
	const struct dictionary *d = &p->dict;

	assert_true(p->sealed);
	assert_true(d->string_count && d->mapping_count && d->location_count && d->function_count &&
		    d->link_count && d->attribute_count && d->stack_count);
	assert_int_equal(d->strings[0].len, 0);
	for (uint32_t i = 0; i < p->resource_count; i++)
		touch_range(p->resources[i].scopes, p->scope_count);
	for (uint32_t i = 0; i < p->scope_count; i++)
		touch_range(p->scopes[i].profiles, p->profile_count);
	for (uint32_t i = 0; i < p->profile_count; i++) {
		const struct profile *profile = &p->profiles[i];

		touch_range(profile->samples, p->sample_count);
		touch_range(profile->attributes, p->attribute_ref_count);
		touched += profiles_string(p, profile->sample_type.unit).len;
		for (uint32_t k = 0; k < profile->samples.count; k++)
			touched += sample_total(p, profile, &p->samples[profile->samples.first + k])
					   .events;
	}
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];

		touch_range(s->attributes, p->attribute_ref_count);
		touch_range(s->values, p->value_count);
		touch_range(s->timestamps, p->timestamp_count);
		touched += d->links[s->link.v].span_id[0] + d->stacks[s->stack.v].locations.count;
	}
	for (uint32_t i = 0; i < d->stack_count; i++)
		touch_range(d->stacks[i].locations, d->stack_location_count);
	for (uint32_t i = 0; i < d->stack_location_count; i++)
		touched += d->locations[d->stack_locations[i].v].address;
	for (uint32_t i = 0; i < d->location_count; i++) {
		touch_range(d->locations[i].lines, d->line_count);
		touch_range(d->locations[i].attributes, p->attribute_ref_count);
		touched += d->mappings[d->locations[i].mapping.v].memory_start +
			   location_frame_type(p, &d->locations[i]).len;
	}
	for (uint32_t i = 0; i < d->line_count; i++)
		touched += profiles_string(p, d->functions[d->lines[i].function.v].name).len;
	for (uint32_t i = 0; i < p->attribute_ref_count; i++)
		touched += profiles_string(p, d->attributes[p->attribute_refs[i].v].key).len;
	for (uint32_t i = 0; i < p->bad_index_count; i++) {
		struct buf b;

		buf_init(&b, 0);
		bad_index_append_text(&b, p, &p->bad_indices[i]);
		assert_true(b.len > 10);
		buf_release(&b);
	}
}

/* Decodes in one version; true when the body was taken. Whatever happens, what comes out can be
 * followed. */
static bool decode(struct str body, enum wire_version version, bool strict, struct err *err)
{
	struct otlp_decode_options options = { .version = version, .strict = strict };
	struct blob *blob = blob_copy(body);
	struct profiles *p = NULL, *partial = NULL;
	bool ok = otlp_decode(blob, &options, &p, NULL, &partial, err);

	if (ok)
		follow_everything(p);
	else
		assert_true((err->kind == ERR_INVALID || err->kind == ERR_LIMIT) && err->msg[0]);
	if (partial)
		follow_everything(partial);
	assert_false(ok && partial);
	profiles_free(p);
	profiles_free(partial);
	blob_unref(blob);
	return ok;
}

static void test_fixtures_cut_short(void **state)
{
	uint32_t cuts = 0, taken = 0;
	struct err err = { 0 };
	glob_t files;

	(void)state;
	assert_int_equal(glob("tests/fixtures/otlp/*.pb", 0, NULL, &files), 0);
	assert_true(files.gl_pathc >= 20);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct str body = file_read(files.gl_pathv[i]);

		for (size_t len = 1; len < body.len; len += 97, cuts++)
			taken += decode(str_head(body, len), WIRE_AUTO, cuts & 1, &err);
		free((char *)body.ptr);
	}
	globfree(&files);
	/* A cut between two top-level fields leaves a whole message: at most the dictionary's end
	 * in each file. */
	assert_true(cuts > 4000);
	assert_true(taken < 20);
}

/* Cut inside the last resource: all before it is there. */
static void test_partial_has_what_came_before(void **state)
{
	struct str body = file_read("tests/fixtures/otlp/v1.11.0-oncpu-big.pb");
	struct blob *blob = blob_copy(str_head(body, body.len - 40));
	struct profiles *p = NULL, *partial = NULL;
	struct otlp_decode_report report;
	struct err err = { 0 };

	(void)state;
	assert_false(otlp_decode(blob, NULL, &p, &report, &partial, &err));
	assert_int_equal(err.kind, ERR_INVALID);
	assert_non_null(partial);
	assert_int_equal(report.version, WIRE_V1_10);
	assert_int_equal(partial->dict.stack_count, 1038);
	assert_true(partial->sample_count > 1100);
	assert_non_null(strstr(err.msg, "byte"));
	profiles_free(partial);
	blob_unref(blob);
	free((char *)body.ptr);
}

static uint64_t random_state;

/* xorshift64*: the same mutations in every run. */
static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (uint32_t)(random_state * UINT64_C(2685821657736338717) >> 32) % n;
}

static void mutate(char *data, size_t *len)
{
	static const uint8_t odd[] = { 0,    1,    0x7f, 0x80, 0xff, 0x0a,
				       0x12, 0x1a, 0x22, 0x2a, 0x32, 0x3a };

	for (uint32_t n = 1 + random_below(6); n > 0; n--) {
		uint32_t at = random_below((uint32_t)*len);

		switch (random_below(4)) {
		case 0:
			data[at] = (char)random_below(256);
			break;
		case 1:
			data[at] = (char)odd[random_below(ARRAY_LEN(odd))];
			break;
		case 2:
			data[at] ^= (char)(1 << random_below(8));
			break;
		case 3:
			if (*len > 16)
				memmove(data + at, data + at + 1, --*len - at);
			break;
		}
	}
}

static void test_mutated_fixtures(void **state)
{
	struct err err = { 0 };
	glob_t files;

	(void)state;
	random_state = 20261121;
	assert_int_equal(glob("tests/fixtures/otlp/*.pb", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct str body = file_read(files.gl_pathv[i]);
		char *copy = malloc(body.len);

		assert_non_null(copy);
		for (uint32_t k = 0; k < 60; k++) {
			size_t len = body.len;

			memcpy(copy, body.ptr, len);
			mutate(copy, &len);
			decode(str_from(copy, len), k % 9 == 0 ? WIRE_AUTO : WIRE_AUTO + k % 9,
			       k & 1, &err);
		}
		free(copy);
		free((char *)body.ptr);
	}
	globfree(&files);
}

/* Each version's decoder over each version's bodies: wrong, but orderly. */
static void test_wrong_versions(void **state)
{
	struct err err = { 0 };
	glob_t files;

	(void)state;
	assert_int_equal(glob("tests/fixtures/otlp/*.pb", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct str body = file_read(files.gl_pathv[i]);

		for (enum wire_version v = WIRE_V1_3; v <= WIRE_V1_10; v++)
			decode(body, v, false, &err);
		free((char *)body.ptr);
	}
	globfree(&files);
}

static struct str repeat(const char *unit, size_t unit_len, size_t count)
{
	char *data = malloc(unit_len * count);

	assert_non_null(data);
	for (size_t i = 0; i < count; i++)
		memcpy(data + i * unit_len, unit, unit_len);
	return str_from(data, unit_len * count);
}

/* A message with `content` in field `number`. */
static struct str wrap(uint32_t number, struct str content)
{
	char *data = malloc(content.len + 12);
	size_t n = 0;

	assert_non_null(data);
	data[n++] = (char)(number << 3 | 2);
	for (size_t len = content.len;; len >>= 7) {
		data[n++] = (char)(len > 127 ? (len & 127) | 128 : len);
		if (len < 128)
			break;
	}
	memcpy(data + n, content.ptr, content.len);
	free((char *)content.ptr);
	return str_from(data, n + content.len);
}

/* Bodies of tiny messages that would take many times their size: refused by the limit, not by the
 * machine's memory. */
static void test_tiny_messages_hit_the_limit(void **state)
{
	enum { MANY = 1 << 20 };
	struct err err = { 0 };
	struct str body;

	(void)state;
	/* Empty samples: what fits within 16 times the body is taken, the rest is not. */
	body = wrap(1, wrap(2, wrap(2, repeat("\x12\0", 2, MANY))));
	for (enum wire_version v = WIRE_AUTO; v <= WIRE_V1_10; v++) {
		err.kind = ERR_LIMIT;
		if (!decode(body, v, false, &err) && v != WIRE_V1_6)
			assert_int_equal(err.kind, ERR_LIMIT);
	}
	free((char *)body.ptr);
	body = repeat("\x0a\0", 2, MANY); /* empty ResourceProfiles */
	assert_false(decode(body, WIRE_V1_10, false, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	free((char *)body.ptr);
	body = wrap(1, wrap(1, repeat("\x0a\0", 2, MANY))); /* empty attributes */
	assert_false(decode(body, WIRE_V1_10, false, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	free((char *)body.ptr);
}

static void test_memory_limit_of_the_caller(void **state)
{
	struct otlp_decode_options options = { .memory_limit_bytes = 20000 };
	struct str body = file_read("tests/fixtures/otlp/v1.11.0-oncpu-mixed.pb");
	struct blob *blob = blob_copy(body);
	struct profiles *p = NULL, *partial = NULL;
	struct err err = { 0 };

	(void)state;
	assert_false(otlp_decode(blob, &options, &p, NULL, &partial, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	assert_non_null(partial);
	assert_true(partial->arena.reserved_bytes <= 20000);
	follow_everything(partial);
	profiles_free(partial);
	blob_unref(blob);
	free((char *)body.ptr);
}

static void test_deep_nesting(void **state)
{
	struct str value = repeat("", 0, 1);
	struct err err = { 0 };

	(void)state;
	/* Resource attribute whose value is an array in an array in ... */
	for (int i = 0; i < 10000; i++)
		value = wrap(5, wrap(1, value));
	value = wrap(1, wrap(1, wrap(1, wrap(2, value))));
	for (enum wire_version v = WIRE_AUTO; v <= WIRE_V1_10; v++) {
		assert_false(decode(value, v, false, &err));
		assert_int_equal(err.kind, ERR_LIMIT);
		assert_non_null(strstr(err.msg, "nested"));
	}
	free((char *)value.ptr);
}

/* v1.7: short samples that name one long run of locations again and again must not cost a day. */
static void test_repeated_long_runs_are_bounded(void **state)
{
	enum { INDICES = 200000, SAMPLES = 100000 };
	static const char sample[] = {
		0x12, 4, 0x10, (char)0xc0, (char)0x9a, 0x0c
	}; /* length 200000 */
	struct str indices = wrap(3, repeat("\0", 1, INDICES)),
		   samples = repeat(sample, sizeof(sample), SAMPLES);
	struct str profile = { malloc(indices.len + samples.len), indices.len + samples.len };
	struct str location = wrap(2, wrap(2, repeat("\x10\x07", 2, 1))), resource, body;
	struct err err = { 0 };

	(void)state;
	assert_non_null(profile.ptr);
	memcpy((char *)profile.ptr, indices.ptr, indices.len);
	memcpy((char *)profile.ptr + indices.len, samples.ptr, samples.len);
	free((char *)indices.ptr);
	free((char *)samples.ptr);
	resource = wrap(1, wrap(2, wrap(2, profile)));
	body = (struct str){ malloc(location.len + resource.len), location.len + resource.len };
	assert_non_null(body.ptr);
	memcpy((char *)body.ptr, location.ptr, location.len);
	memcpy((char *)body.ptr + location.len, resource.ptr, resource.len);
	assert_false(decode(body, WIRE_V1_7, false, &err));
	assert_int_equal(err.kind, ERR_LIMIT);
	free((char *)location.ptr);
	free((char *)resource.ptr);
	free((char *)body.ptr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures_cut_short),
		cmocka_unit_test(test_partial_has_what_came_before),
		cmocka_unit_test(test_mutated_fixtures),
		cmocka_unit_test(test_wrong_versions),
		cmocka_unit_test(test_tiny_messages_hit_the_limit),
		cmocka_unit_test(test_memory_limit_of_the_caller),
		cmocka_unit_test(test_deep_nesting),
		cmocka_unit_test(test_repeated_long_runs_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
