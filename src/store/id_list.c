#include "store/id_list.h"

#include <stdlib.h>
#include <string.h>

size_t id_list_sort(uint64_t *ids, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(ids, count, sizeof(*ids), id_list_order);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || ids[i] != ids[kept - 1])
			ids[kept++] = ids[i];
	return kept;
}
