#include "store/id_list.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT = 256, FEW = 64 };

/* By the digit at `shift`, the order of equal ones kept. */
static void sort_by_digit(const uint64_t *from, size_t count, uint64_t least, unsigned shift,
			  uint64_t *to)
{
	size_t at[DIGIT] = { 0 }, sum = 0;

	for (size_t i = 0; i < count; i++)
		at[(from[i] - least) >> shift & (DIGIT - 1)]++;
	for (unsigned digit = 0; digit < DIGIT; digit++) {
		size_t n = at[digit];

		at[digit] = sum;
		sum += n;
	}
	for (size_t i = 0; i < count; i++)
		to[at[(from[i] - least) >> shift & (DIGIT - 1)]++] = from[i];
}

/* False: there is no memory for it. */
static bool sort_by_digits(uint64_t *ids, size_t count, uint64_t least, uint64_t most)
{
	uint64_t *room = malloc(count * sizeof(*room)), *from = ids, *to = room;

	if (!room)
		return false;
	for (unsigned shift = 0; shift < 64 && (most - least) >> shift; shift += 8) {
		uint64_t *sorted = to;

		sort_by_digit(from, count, least, shift, to);
		to = from;
		from = sorted;
	}
	if (from != ids)
		memcpy(ids, from, count * sizeof(*ids));
	free(room);
	return true;
}

size_t id_list_sort(uint64_t *ids, size_t count)
{
	uint64_t least = UINT64_MAX, most = 0;
	size_t kept = 0;
	bool sorted = true;

	for (size_t i = 0; i < count; i++) {
		sorted = sorted && (i == 0 || ids[i - 1] <= ids[i]);
		least = ids[i] < least ? ids[i] : least;
		most = ids[i] > most ? ids[i] : most;
	}
	if (!sorted && (count < FEW || !sort_by_digits(ids, count, least, most)))
		qsort(ids, count, sizeof(*ids), id_list_order);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || ids[i] != ids[kept - 1])
			ids[kept++] = ids[i];
	return kept;
}
