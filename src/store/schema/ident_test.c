/* ident_test.c - hashes of locations are those that files have, however many lines there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/builder.h"
#include "store/schema/ident.h"

enum { LINES_MOST = 6 };

static struct profiles *with_locations(struct location_index at[LINES_MOST + 1])
{
	const struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	struct line lines[LINES_MOST];
	struct mapping mapping = { .memory_start = 4096, .memory_limit = 8192 };
	struct location l = { .address = 77 };
	struct profiles *p;
	struct err err;

	l.mapping = builder_mapping(b, &mapping, NULL, 0);
	for (uint32_t i = 0; i < LINES_MOST; i++) {
		char name[] = { (char)('a' + i), '\0' };
		struct function f = { .name = builder_string(b, str_cstr(name)) };

		lines[i] = (struct line){ .function = builder_function(b, &f),
					  .line = 100 + i,
					  .column = -(int64_t)i };
	}
	for (uint32_t i = 0; i <= LINES_MOST; i++)
		at[i] = builder_location(b, &l, lines, i, NULL, 0);
	p = builder_finish(b, &err);
	assert_non_null(p);
	return p;
}

/* As ident.h has it. */
static struct hash128 by_the_book(struct ident *n, const struct profiles *p, uint32_t index)
{
	const struct location *l = &p->dict.locations[index];
	struct hash128 mapping = ident_mapping(n, l->mapping.v), list = HASH_NONE, h;
	uint64_t count = l->lines.count;
	struct buf b;

	buf_init(&b, 0);
	buf_char(&b, KIND_LOCATION);
	buf_append(&b, &mapping, sizeof(mapping));
	buf_append(&b, &l->address, sizeof(l->address));
	buf_append(&b, &list, sizeof(list));
	buf_append(&b, &count, sizeof(count));
	for (uint32_t i = 0; i < count; i++) {
		const struct line *line = &p->dict.lines[l->lines.first + i];
		struct hash128 function = ident_function(n, line->function.v);

		buf_append(&b, &function, sizeof(function));
		buf_append(&b, &line->line, sizeof(line->line));
		buf_append(&b, &line->column, sizeof(line->column));
	}
	h = hash128(buf_view(&b));
	buf_release(&b);
	return h;
}

static void locations_of_any_lines(void **state)
{
	struct location_index at[LINES_MOST + 1];
	struct profiles *p = with_locations(at);
	struct ident n = { 0 };
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096, 0);
	ident_begin(&n, p, &arena);
	assert_true(hash_is_none(ident_location(&n, 0)));
	for (uint32_t i = 0; i <= LINES_MOST; i++) {
		struct hash128 got = ident_location(&n, at[i].v),
			       want = by_the_book(&n, p, at[i].v);

		if (got.lo != want.lo || got.hi != want.hi)
			fail_msg("a location of %u lines has another hash", i);
	}
	ident_release(&n);
	arena_release(&arena);
	profiles_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(locations_of_any_lines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
