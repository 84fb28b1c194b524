/*
 * id_list.h - ascending lists of row ids, as scans have them: the order, look-up, making one.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "store/source.h"

/* For qsort(). */
static inline int id_list_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static inline bool id_list_has(const uint64_t *ids, size_t count, uint64_t id)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ids[mid] < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < count && ids[low] == id;
}

/* Ascending, without doubles; gives how many are left. Digit by digit, as ids are small. */
size_t id_list_sort(uint64_t *ids, size_t count);
