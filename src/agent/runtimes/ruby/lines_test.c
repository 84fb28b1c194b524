/* Lines of every position of an iseq, by an index made here the slow way, and of senseless ones. */
#include "agent/runtimes/ruby/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

enum { POSITIONS = 2000, INDEX = 0x10000, ENTRIES = 0x20000, ENTRY_BYTES = 12, EACH = 3 };

static uint64_t index_words[1024];
static uint32_t entries[POSITIONS * ENTRY_BYTES / 4];

static bool read_at(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	(void)ctx;
	(void)pid;
	if (address >= ENTRIES && address - ENTRIES + bytes <= sizeof(entries))
		memcpy(to, (const char *)entries + (address - ENTRIES), bytes);
	else if (address >= INDEX && address - INDEX + bytes <= sizeof(index_words))
		memcpy(to, (const char *)index_words + (address - INDEX), bytes);
	else
		return false;
	return true;
}

/* An entry begins at every EACH-th position. */
static uint32_t rank_of(uint32_t position)
{
	return position / EACH + 1;
}

static void make_index(void)
{
	memset(index_words, 0, sizeof(index_words));
	for (uint32_t i = 0; i < 54; i++)
		index_words[i / 9] |= (uint64_t)rank_of(i) << (i % 9 * 7);
	for (uint32_t i = 54; i < POSITIONS; i++) {
		uint32_t n = i - 54;
		uint64_t *block = &index_words[6 + n / 512 * 10];

		if (n % 512 == 0)
			block[0] = rank_of(i - 1);
		if (n % 512 && n % 64 == 0)
			block[1] |= (rank_of(i - 1) - block[0]) << ((n % 512 / 64 - 1) * 9);
		if (i % EACH == 0)
			block[2 + n % 512 / 64] |= UINT64_C(1) << n % 64;
	}
	for (uint32_t i = 0; i < POSITIONS; i++)
		entries[i * ENTRY_BYTES / 4] = 100 + i;
}

static const struct ruby_offsets offsets = { .info_bytes = ENTRY_BYTES };
static const struct runtime_memory memory = { .read = read_at };
static const struct ruby_heap heap = { .memory = &memory, .o = &offsets };

static void test_every_position(void **state)
{
	const struct ruby_lines l = { ENTRIES, INDEX, POSITIONS / EACH + 1 };

	(void)state;
	make_index();
	for (uint32_t i = 0; i < POSITIONS; i++)
		if (ruby_line(&heap, &l, i) != 99 + rank_of(i))
			fail_msg("position %u: line %u, not %u", i, ruby_line(&heap, &l, i),
				 99 + rank_of(i));
}

static void test_senseless(void **state)
{
	(void)state;
	make_index();
	assert_int_equal(ruby_line(&heap, &(struct ruby_lines){ ENTRIES, INDEX, 0 }, 3), 0);
	assert_int_equal(ruby_line(&heap, &(struct ruby_lines){ ENTRIES, 0, 1 }, 3), 100);
	assert_int_equal(ruby_line(&heap, &(struct ruby_lines){ ENTRIES, 0, 2 }, 3), 0);
	assert_int_equal(ruby_line(&heap, &(struct ruby_lines){ ENTRIES, INDEX, 2 }, 30), 0);
	assert_int_equal(ruby_line(&heap, &(struct ruby_lines){ 0, INDEX, 100 }, 30), 0);
	assert_int_equal(
		ruby_line(&heap, &(struct ruby_lines){ ENTRIES, INDEX, UINT32_MAX }, UINT32_MAX),
		0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_position),
		cmocka_unit_test(test_senseless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
