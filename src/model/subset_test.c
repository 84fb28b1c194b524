#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "model/builder.h"
#include "model/equal.h"
#include "model/subset.h"

static struct any_value text(const char *s)
{
	return (struct any_value){ .kind = ANY_STRING, .string = str_cstr(s) };
}

/* Two frames a sample, every table used, an extra on every kind of entry that has some in practice.
 */
static struct stack_index some_stack(struct builder *b, unsigned n)
{
	char name[32];
	struct strindex s = builder_string(
		b, str_from(name, (size_t)snprintf(name, sizeof(name), "fn%u", n % 7)));
	struct any_value yes = { .kind = ANY_BOOL, .boolean = true };
	struct any_value type = text(n % 2 ? "native" : "go");
	struct attribute_index a = builder_attribute(
		b, &(struct attribute){ .key = builder_string(b, STR("profile.frame.type")),
					.value = type });
	struct function_index f =
		builder_function(b, &(struct function){ .name = s, .start_line = n % 5 });
	struct mapping_index m = builder_mapping(
		b, &(struct mapping){ .filename = s, .memory_start = n % 3 }, &a, 1);
	struct line lines[2] = { { .line = n, .function = f }, { .line = n + 1, .function = f } };
	struct location_index l[2];
	struct stack_index stack;

	l[0] = builder_location(b, &(struct location){ .address = n, .mapping = m }, lines, 2, &a,
				1);
	l[1] = builder_location(b, &(struct location){ .address = n % 4 + 1 }, NULL, 0, NULL, 0);
	stack = builder_stack(b, l, 2);
	if (n % 10 == 3) {
		builder_extra(b, MESSAGE_LOCATION, l[0].v, EXTRA_IS_FOLDED, &yes);
		builder_extra(b, MESSAGE_LINE, builder_lines(b, l[0]).first + 1,
			      EXTRA_UNKNOWN_FIELDS,
			      &(struct any_value){ .kind = ANY_BYTES, .string = STR("\x50\x01") });
		builder_bad_index(b, &(struct bad_index){ .message = MESSAGE_STACK,
							  .index = stack.v,
							  .field = "location_indices",
							  .table = "location_table",
							  .value = 99,
							  .table_count = 9 });
	}
	return stack;
}

/* `salt` makes messages differ; samples per profile 0, 1, 2, ... so that some are empty. */
static struct profiles *some_message(unsigned salt)
{
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct any_value comment = text("note");
	unsigned n = salt;
	struct profiles *p;
	struct err err;

	for (int r = 0; r < 3; r++) {
		const struct key_value kv = {
			.key = STR("service.name"),
			.key_strindex = builder_string(b, STR("service.name")),
			.value = { .kind = ANY_INT, .integer = r + (int)salt }
		};

		builder_begin_resource(b)->attributes = builder_key_values(b, &kv, 1);
		if (r == 1)
			continue; /* one without scopes */
		for (int s = 0; s < 3; s++) {
			builder_begin_scope(b)->name = STR("scope");
			for (int f = 0; f < s * 2; f++) { /* one without profiles */
				builder_begin_profile(b)->sample_type.type =
					builder_string(b, STR("samples"));
				builder_extra(b, MESSAGE_PROFILE,
					      builder_newest(b, MESSAGE_PROFILE), EXTRA_COMMENTS,
					      &comment);
				for (int i = 0; i < f; i++, n++) {
					const uint64_t times[] = { n, n + 1 };
					struct link_index link = builder_link(
						b,
						&(struct link){ .span_id = { (uint8_t)(n % 3) } });

					builder_sample(b, some_stack(b, n), link, NULL, 0, NULL, 0,
						       times, 2);
				}
			}
		}
	}
	p = builder_finish(b, &err);
	assert_non_null(p);
	return p;
}

static void assert_equal(const struct profiles *a, const struct profiles *b)
{
	struct err why;

	if (!profiles_equal(a, b, 0, &why))
		fail_msg("%s", why.msg);
}

static void test_whole_subset_is_the_message(void **state)
{
	struct profiles *p = some_message(0), *q;
	struct err err;

	(void)state;
	q = profiles_subset(p, 0, p->sample_count, &err);
	assert_non_null(q);
	assert_equal(p, q);
	profiles_free(p); /* the part lives on its own */
	assert_true(str_is(q->scopes[0].name, "scope"));
	profiles_free(q);
}

/* All cuts: sample for sample the same, nothing empty twice or lost, and no entry that is not
 * needed. */
static void test_every_cut(void **state)
{
	struct profiles *p = some_message(0);
	struct err err;

	(void)state;
	for (uint32_t cut = 1; cut < p->sample_count; cut++) {
		struct profiles *part[2] = { profiles_subset(p, 0, cut, &err),
					     profiles_subset(p, cut, p->sample_count - cut, &err) };
		uint32_t profiles = 0, resources = 0, empty_scopes = 0;

		for (int i = 0; i < 2; i++) {
			assert_non_null(part[i]);
			profiles += part[i]->profile_count;
			resources += part[i]->resource_count;
			for (uint32_t s = 0; s < part[i]->scope_count; s++)
				empty_scopes += part[i]->scopes[s].profiles.count == 0;
			for (uint32_t s = 0; s < part[i]->sample_count; s++) {
				const struct sample *a = &p->samples[i ? cut + s : s],
						    *b = &part[i]->samples[s];

				assert_int_equal(p->timestamps[a->timestamps.first],
						 part[i]->timestamps[b->timestamps.first]);
			}
		}
		assert_int_equal(part[0]->sample_count, cut);
		assert_int_equal(part[0]->sample_count + part[1]->sample_count, p->sample_count);
		assert_in_range(profiles, p->profile_count,
				p->profile_count + 1); /* one may be cut in two */
		assert_in_range(resources, p->resource_count, p->resource_count + 1);
		assert_int_equal(empty_scopes, 2);
		assert_true(part[0]->dict.stack_count <= cut + 1);
		profiles_free(part[0]);
		profiles_free(part[1]);
	}
	profiles_free(p);
}

static void test_single_samples_have_minimal_dictionaries(void **state)
{
	struct profiles *p = some_message(0);
	struct err err;

	(void)state;
	for (uint32_t i = 0; i < p->sample_count; i++) {
		struct profiles *q = profiles_subset(p, i, 1, &err);

		assert_non_null(q);
		assert_int_equal(q->dict.stack_count, 2);
		assert_int_equal(q->dict.location_count, 3);
		assert_int_equal(q->dict.mapping_count, 2);
		assert_int_equal(q->dict.function_count, 2);
		assert_int_equal(q->dict.attribute_count, 2);
		assert_in_range(q->dict.link_count, 1, 2);
		/* "", samples, service.name, profile.frame.type, the function's name */
		assert_int_equal(q->dict.string_count, 5);
		assert_int_equal(q->dict.line_count, 2);
		profiles_free(q);
	}
	profiles_free(p);
}

static void test_merge_of_one_is_the_message(void **state)
{
	struct profiles *p = some_message(0), *merged;
	const struct profiles *parts[2];
	struct err err;

	(void)state;
	parts[0] = p;
	merged = profiles_merge(parts, 1, &err);
	assert_non_null(merged);
	assert_equal(p, merged);
	profiles_free(merged);
	profiles_free(p);
}

static void test_merge_shares_what_is_equal(void **state)
{
	struct profiles *a = some_message(0), *b = some_message(100), *merged, *halves[2];
	const struct profiles *parts[2] = { a, b };
	struct err err;

	(void)state;
	merged = profiles_merge(parts, 2, &err);
	assert_non_null(merged);
	assert_int_equal(merged->sample_count, a->sample_count + b->sample_count);
	assert_int_equal(merged->resource_count, a->resource_count + b->resource_count);
	assert_int_equal(merged->extra_count, a->extra_count + b->extra_count);
	assert_int_equal(merged->bad_index_count, a->bad_index_count + b->bad_index_count);
	assert_int_equal(merged->dict.string_count,
			 a->dict.string_count); /* the same names in both */
	halves[0] = profiles_subset(merged, 0, a->sample_count, &err);
	halves[1] = profiles_subset(merged, a->sample_count, b->sample_count, &err);
	assert_non_null(halves[0]);
	assert_non_null(halves[1]);
	profiles_free(a);
	profiles_free(b);
	a = some_message(0);
	b = some_message(100);
	assert_equal(a, halves[0]);
	assert_equal(b, halves[1]);
	profiles_free(halves[0]);
	profiles_free(halves[1]);
	profiles_free(merged);
	profiles_free(a);
	profiles_free(b);
}

/* Two links that are zero but for their odd ids stay two. */
static void test_merge_keeps_odd_links_apart(void **state)
{
	struct profiles *p[2], *merged;
	struct err err;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct builder *b = builder_new(&(struct builder_options){ 0 });
		struct any_value odd = { .kind = ANY_BYTES, .string = i ? STR("abc") : STR("xyz") };
		struct link_index link;

		builder_append_next(b);
		link = builder_link(b, &(struct link){ 0 });
		assert_int_equal(link.v, 1);
		builder_extra(b, MESSAGE_LINK, link.v, EXTRA_ODD_TRACE_ID, &odd);
		builder_begin_resource(b);
		builder_begin_scope(b);
		builder_begin_profile(b);
		builder_sample(b, (struct stack_index){ 0 }, link, NULL, 0, NULL, 0, NULL, 0);
		p[i] = builder_finish(b, &err);
		assert_non_null(p[i]);
	}
	merged = profiles_merge((const struct profiles *const *)p, 2, &err);
	assert_non_null(merged);
	assert_int_equal(merged->dict.link_count, 3);
	assert_true(str_is(
		profiles_extra(merged, MESSAGE_LINK, merged->samples[0].link.v, EXTRA_ODD_TRACE_ID)
			->value.string,
		"xyz"));
	assert_true(str_is(
		profiles_extra(merged, MESSAGE_LINK, merged->samples[1].link.v, EXTRA_ODD_TRACE_ID)
			->value.string,
		"abc"));
	profiles_free(merged);
	profiles_free(p[0]);
	profiles_free(p[1]);
}

static void test_out_of_range_is_an_error(void **state)
{
	struct profiles *p = some_message(0);
	struct err err;

	(void)state;
	assert_null(profiles_subset(p, 0, p->sample_count + 1, &err));
	assert_null(profiles_subset(p, p->sample_count + 1, 0, &err));
	assert_null(profiles_subset(p, 1, UINT32_MAX, &err));
	assert_int_equal(err.kind, ERR_INVALID);
	profiles_free(p);
}

static void test_equal_sees_differences(void **state)
{
	struct profiles *a = some_message(0), *b = some_message(1);
	struct err why;

	(void)state;
	assert_false(profiles_equal(a, b, 0, &why));
	profiles_free(b);
	b = some_message(0);
	b->timestamps[5]++;
	assert_false(profiles_equal(a, b, 0, &why));
	assert_non_null(strstr(why.msg, "timestamp"));
	b->timestamps[5]--;
	b->extra_count--;
	assert_false(profiles_equal(a, b, 0, &why));
	assert_true(profiles_equal(a, b, EQUAL_IGNORE_EXTRAS, &why));
	profiles_free(a);
	profiles_free(b);
}

/* A selection of a run of samples, with what holds them, is the subset of that run. */
static void test_selection_of_a_run(void **state)
{
	struct profiles *p = some_message(3);
	AUTO(ptr_free) bool *samples = calloc(p->sample_count, 1);
	struct err err;

	(void)state;
	for (uint32_t first = 0; first < p->sample_count; first += 7) {
		uint32_t count = p->sample_count - first < 11 ? p->sample_count - first : 11;
		struct profiles *subset = profiles_subset(p, first, count, &err), *selected;
		struct usage u;

		memset(samples, false, p->sample_count);
		memset(samples + first, true, count);
		usage_mark(&u, p, (struct range){ first, count });
		for (uint32_t i = 0; i < p->profile_count; i++) /* those without samples go */
			u.profiles[i] &= p->profiles[i].samples.count > 0;
		selected = profiles_select(p, &(struct selection){ samples, u.profiles }, &err);
		assert_non_null(subset);
		assert_non_null(selected);
		assert_int_equal(selected->sample_count, count);
		assert_int_equal(selected->dict.stack_count, subset->dict.stack_count);
		assert_int_equal(selected->dict.location_count, subset->dict.location_count);
		for (uint32_t i = 0; i < count; i++)
			assert_memory_equal(&selected->samples[i].stack, &subset->samples[i].stack,
					    sizeof(subset->samples[i].stack));
		usage_release(&u);
		profiles_free(subset);
		profiles_free(selected);
	}
	profiles_free(p);
}

/* Every third sample goes: what is left is equal, one by one, and refers to nothing that is not
 * used. */
static void test_selection_with_gaps(void **state)
{
	struct profiles *p = some_message(5), *out;
	AUTO(ptr_free) bool *samples = malloc(p->sample_count);
	AUTO(ptr_free) bool *profiles = malloc(p->profile_count);
	uint32_t n = 0;
	struct usage u;
	struct err err;

	(void)state;
	memset(profiles, true, p->profile_count);
	for (uint32_t i = 0; i < p->sample_count; i++)
		samples[i] = i % 3 != 0;
	out = profiles_select(p, &(struct selection){ samples, profiles }, &err);
	assert_non_null(out);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *was = &p->samples[i], *is = &out->samples[n];

		if (!samples[i])
			continue;
		n++;
		assert_int_equal(is->values.count, was->values.count);
		assert_memory_equal(out->values + is->values.first, p->values + was->values.first,
				    was->values.count * sizeof(int64_t));
		assert_int_equal(profiles_extras(out, MESSAGE_SAMPLE, n - 1).count,
				 profiles_extras(p, MESSAGE_SAMPLE, i).count);
	}
	assert_int_equal(out->sample_count, n);
	usage_mark(&u, out, (struct range){ 0, out->sample_count });
	assert_int_equal(u.string_count, out->dict.string_count);
	assert_int_equal(u.location_count, out->dict.location_count);
	assert_int_equal(u.attribute_count, out->dict.attribute_count);
	assert_int_equal(u.stack_count, out->dict.stack_count);
	usage_release(&u);
	profiles_free(out);
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_selection_of_a_run),
		cmocka_unit_test(test_selection_with_gaps),
		cmocka_unit_test(test_whole_subset_is_the_message),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_single_samples_have_minimal_dictionaries),
		cmocka_unit_test(test_merge_of_one_is_the_message),
		cmocka_unit_test(test_merge_shares_what_is_equal),
		cmocka_unit_test(test_merge_keeps_odd_links_apart),
		cmocka_unit_test(test_out_of_range_is_an_error),
		cmocka_unit_test(test_equal_sees_differences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
