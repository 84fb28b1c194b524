/*
 * vec.h - room in an array that grows one entry at a time.
 *
 *     VEC_ROOM(list->items, list->count, list->cap);
 *     list->items[list->count++] = item;
 *
 * The capacity doubles, so n entries cost O(n) copies. The caller bounds the count where input
 * decides it. Memory: the array is the caller's to free(). Aborts when the system is out of memory.
 */
#pragma once
#include <assert.h>
#include <stdlib.h>

enum { VEC_FIRST_CAP = 16 };

/* Makes room in `array` for `need` entries in all; `array` and `cap` are changed. The arguments are
 * evaluated more than once. */
#define VEC_RESERVE(array, need, cap)                                             \
	do {                                                                      \
		if ((cap) < (need)) {                                             \
			while ((cap) < (need)) {                                  \
				(cap) = (cap) ? (cap)*2 : VEC_FIRST_CAP;          \
				assert(cap); /* 0: it wrapped */                  \
			}                                                         \
			(array) = reallocarray((array), (cap), sizeof(*(array))); \
			assert(array);                                            \
		}                                                                 \
	} while (0)

/* The same for one entry behind `count`. */
#define VEC_ROOM(array, count, cap) VEC_RESERVE(array, (count) + 1, cap)
