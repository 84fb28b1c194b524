/* Mapping sets against a model of one entry per page, and sharing between processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/process/mappings.h"
#include "agent/process/modules.h"

enum { PAGE = 4096, PAGES = 200, MODULES = 3, ROUNDS = 300, ADDS = 60 };

struct model_page {
	bool mapped;
	struct module *module;
	uint64_t file_offset;
};

static struct modules owner;
static struct module files[MODULES];

static void reset_files(void)
{
	owner = (struct modules){ 0 };
	for (int i = 0; i < MODULES; i++)
		files[i] = (struct module){ .refs = 1, .owner = &owner };
}

static void model_add(struct model_page *model, const struct mapping *m)
{
	for (uint64_t at = m->start; at < m->end; at += PAGE)
		model[at / PAGE] = (struct model_page){
			.mapped = true,
			.module = m->module,
			.file_offset = m->module ? m->file_offset + (at - m->start) : 0,
		};
}

static void check_model(const struct mapping_set *s, const struct model_page *model)
{
	for (uint64_t page = 0; page < PAGES; page++) {
		for (int edge = 0; edge < 2; edge++) {
			uint64_t pc = page * PAGE + (edge ? PAGE - 1 : 0);
			const struct mapping *m = mapping_set_find(s, pc);

			assert_int_equal(m != NULL, model[page].mapped);
			if (!m)
				continue;
			assert_ptr_equal(m->module, model[page].module);
			if (m->module)
				assert_int_equal(m->file_offset + (page * PAGE - m->start),
						 model[page].file_offset);
		}
	}
	for (uint32_t i = 0; i < s->count; i++) {
		assert_true(s->list[i].start < s->list[i].end);
		if (i)
			assert_true(s->list[i - 1].end <= s->list[i].start);
	}
}

static struct mapping random_mapping(void)
{
	uint64_t start = (uint64_t)(rand() % (PAGES - 1)), pages = 1 + (uint64_t)(rand() % 12);
	int file = rand() % (MODULES + 1);

	if (start + pages > PAGES)
		pages = PAGES - start;
	return (struct mapping){
		.start = start * PAGE,
		.end = (start + pages) * PAGE,
		.file_offset = file < MODULES ? (uint64_t)(rand() % 8) * PAGE : 0,
		.module = file < MODULES ? &files[file] : NULL,
	};
}

static void test_against_model(void **state)
{
	struct mapping_sets all = { 0 };

	(void)state;
	srand(4);
	reset_files();
	for (int round = 0; round < ROUNDS; round++) {
		struct mapping_set *s = mapping_set_new(&all);
		struct model_page model[PAGES] = { 0 };

		for (int i = 0; i < ADDS; i++) {
			struct mapping m = random_mapping();

			s = mapping_set_add(&all, s, &m);
			model_add(model, &m);
			check_model(s, model);
		}
		mapping_set_unref(&all, s);
	}
	assert_null(all.first);
	for (int i = 0; i < MODULES; i++)
		assert_int_equal(files[i].refs, 1);
}

/* A child goes its own way; the parent's set stays as it was. */
static void test_copy_on_write(void **state)
{
	struct mapping_sets all = { 0 };
	struct mapping_set *parent = mapping_set_new(&all), *child, *same;
	struct mapping libc = {
		.start = 0x1000, .end = 0x5000, .file_offset = 0x1000, .module = &files[0]
	};
	struct mapping plugin = { .start = 0x8000, .end = 0x9000, .module = &files[1] };

	(void)state;
	reset_files();
	parent = mapping_set_add(&all, parent, &libc);
	child = mapping_set_ref(parent);
	same = mapping_set_add(&all, child, &libc);
	assert_ptr_equal(same, parent); /* nothing new was said: still shared */
	child = mapping_set_add(&all, child, &plugin);
	assert_ptr_not_equal(child, parent);
	assert_int_equal(parent->count, 1);
	assert_int_equal(child->count, 2);
	assert_int_equal(parent->refs, 1);
	assert_int_equal(files[0].refs, 3);
	mapping_set_unref(&all, parent);
	assert_non_null(mapping_set_find(child, 0x4fff));
	assert_null(mapping_set_find(child, 0x5000));
	mapping_set_unref(&all, child);
	assert_int_equal(files[0].refs, 1);
	assert_int_equal(files[1].refs, 1);
}

static uint32_t runs_freed;
static void count_run(void *ctx, uint32_t first, uint32_t count)
{
	(void)ctx;
	assert_int_equal(first, 7);
	runs_freed += count;
}

static void test_run_goes_with_last_reference(void **state)
{
	struct mapping_sets all = { .run_free = count_run };
	struct mapping_set *s = mapping_set_new(&all);

	(void)state;
	s->run_first = 7;
	s->run_count = 2;
	mapping_set_ref(s);
	mapping_set_unref(&all, s);
	assert_int_equal(runs_freed, 0);
	mapping_set_unref(&all, s);
	assert_int_equal(runs_freed, 2);
}

static void test_limit(void **state)
{
	struct mapping_sets all = { 0 };
	struct mapping_set *s = mapping_set_new(&all);
	const uint64_t far = UINT64_C(1) << 46;

	(void)state;
	for (uint64_t i = 0; i < MAPPINGS_MOST + 10; i++)
		s = mapping_set_add(
			&all, s,
			&(struct mapping){ .start = i * 2 * PAGE, .end = (i * 2 + 1) * PAGE });
	assert_int_equal(s->count, MAPPINGS_MOST - 1);
	assert_int_equal(all.refused, 11);
	/* libc and the vDSO come last in /proc/PID/maps, and have names: another one goes. */
	s = mapping_set_add(&all, s,
			    &(struct mapping){ .start = far, .end = far + PAGE, .step = 1 });
	assert_int_equal(s->count, MAPPINGS_MOST - 1);
	assert_int_equal(all.refused, 12);
	assert_non_null(mapping_set_find(s, far));
	assert_non_null(mapping_set_find(s, 0));
	assert_null(mapping_set_find(s, (MAPPINGS_MOST - 2) * 2 * PAGE));
	mapping_set_unref(&all, s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_copy_on_write),
		cmocka_unit_test(test_run_goes_with_last_reference),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
