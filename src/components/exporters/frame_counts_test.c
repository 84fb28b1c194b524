/* frame_counts_test.c - frames by type, and how little work a hostile message makes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "components/exporters/frame_counts.h"
#include "model/builder.h"

enum { DEEP_FRAMES = 10000, DEEP_SAMPLES = 10000 };

static struct attribute_index type_attribute(struct builder *b, struct str name)
{
	const struct attribute a = {
		.key = builder_string(b, STR("profile.frame.type")),
		.value = { .kind = ANY_STRING, .string = name },
	};

	return builder_attribute(b, &a);
}

static struct location_index typed_location(struct builder *b, uint64_t address, struct str type,
					    uint32_t line_count)
{
	const struct location l = { .address = address };
	struct attribute_index a = type_attribute(b, type);
	struct line lines[8] = { 0 };

	assert_true(line_count <= 8);
	return builder_location(b, &l, lines, line_count, &a, type.len ? 1 : 0);
}

static struct profiles *finish(struct builder *b)
{
	struct err err = { 0 };
	struct profiles *p = builder_finish(b, &err);

	if (!p)
		fail_msg("%s", err.msg);
	return p;
}

static int64_t total_of(const struct frame_counts *c, const int64_t *totals, const char *type)
{
	for (uint32_t i = 0; i < c->type_count; i++)
		if (str_is(frame_counts_type(c, i), type))
			return totals[i];
	fail_msg("no type %s", type);
	return -1;
}

/* Lines count each, a location without any once; an empty type is none. */
static void test_counts(void **state)
{
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	int64_t totals[FRAME_TYPES_MOST] = { 0 };
	struct location_index l[4];
	struct stack_index first, second;
	struct frame_counts c;
	struct profiles *p;

	(void)state;
	l[0] = typed_location(b, 1, STR("native"), 0);
	l[1] = typed_location(b, 2, STR("go"), 3);
	l[2] = typed_location(b, 3, STR(""), 2);
	l[3] = typed_location(b, 4, STR("go"), 1);
	first = builder_stack(b, l, 4);
	second = builder_stack(b, l + 1, 1);
	p = finish(b);
	frame_counts_init(&c, p);
	frame_counts_add(&c, first.v, totals);
	frame_counts_add(&c, second.v, totals);
	frame_counts_add(&c, second.v, totals);
	frame_counts_add(&c, 0, totals);
	assert_int_equal(c.type_count, 3);
	assert_int_equal(total_of(&c, totals, "native"), 1);
	assert_int_equal(total_of(&c, totals, "go"), 4 + 3 + 3);
	assert_int_equal(total_of(&c, totals, "unknown"), 2);
	frame_counts_release(&c);
	profiles_free(p);
}

/* A hundred million frames in some 60 kB, of 1, 20 and 120 types: each table entry is looked at
 * once, and a sample adds no more than FRAME_TYPES_MOST sums. */
static void test_work_is_bounded(void **state)
{
	static const uint32_t type_counts[] = { 1, 20, 120 };
	struct location_index *l = calloc(DEEP_FRAMES, sizeof(*l));

	(void)state;
	for (size_t k = 0; k < sizeof(type_counts) / sizeof(type_counts[0]); k++) {
		struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
		int64_t totals[FRAME_TYPES_MOST] = { 0 }, sum = 0;
		struct stack_index deep;
		struct frame_counts c;
		struct profiles *p;

		for (uint32_t i = 0; i < DEEP_FRAMES; i++) {
			char type[16];

			snprintf(type, sizeof(type), "t%u", i % type_counts[k]);
			l[i] = typed_location(b, 1, str_cstr(type), 0);
		}
		deep = builder_stack(b, l, DEEP_FRAMES);
		p = finish(b);
		frame_counts_init(&c, p);
		for (uint32_t i = 0; i < DEEP_SAMPLES; i++)
			frame_counts_add(&c, deep.v, totals);
		for (uint32_t i = 0; i < c.type_count; i++)
			sum += totals[i];
		assert_int_equal(sum, (int64_t)DEEP_FRAMES * DEEP_SAMPLES);
		assert_int_equal(c.type_count, type_counts[k] < 31 ? type_counts[k] + 1 : 32);
		assert_int_equal(total_of(&c, totals, "t0"), (DEEP_FRAMES + type_counts[k] - 1) /
								     type_counts[k] * DEEP_SAMPLES);
		if (type_counts[k] > 31)
			assert_true(total_of(&c, totals, "other") > 0);
		print_message("%u types: %llu entries looked at\n", type_counts[k],
			      (unsigned long long)c.looked_at);
		assert_true(c.looked_at <= (uint64_t)p->dict.attribute_count +
						   p->attribute_ref_count +
						   p->dict.stack_location_count +
						   (uint64_t)DEEP_SAMPLES * FRAME_TYPES_MOST);
		frame_counts_release(&c);
		profiles_free(p);
	}
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_work_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
