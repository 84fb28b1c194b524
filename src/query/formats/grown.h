/*
 * grown.h - arrays that readers and writers of formats fill one by one. What bounds them is the
 * size of what is read. Memory: the caller's, free().
 */
#pragma once
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

/* The array with room for one more behind `count`; *cap follows. */
static inline void *grown(void *array, uint32_t count, uint32_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? *cap * 2 : 64;
	array = realloc(array, *cap * size);
	assert(array);
	return array;
}
