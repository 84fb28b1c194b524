/*
 * id_list.h - look-up in an ascending list of row ids, as scans have them.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "store/reader.h"

static inline bool id_list_has(const store_id *ids, size_t count, uint64_t id)
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
