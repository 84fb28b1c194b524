/*
 * memory.h - the memory of a query, within its limit: an arena for what lives as long as the query,
 * counted heap blocks for arrays that grow, and tables of numbers. Only src/query includes this.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"

struct query;

/* Room for `need` entries in a heap array; ERR_LIMIT past the query's limit, then nothing changed.
 */
bool query_grow_slow(struct query *q, void *array_ptr, uint32_t *cap, uint64_t need,
		     size_t entry_bytes, struct err *err) MUST_CHECK;
static inline bool query_grow(struct query *q, void *array_ptr, uint32_t *cap, uint64_t need,
			      size_t entry_bytes, struct err *err)
{
	return need <= *cap || query_grow_slow(q, array_ptr, cap, need, entry_bytes, err);
}
/* QUERY_ROOM(q, l->ptr, l->cap, l->count + 1u, err): the same by the array's name. */
#define QUERY_ROOM(q, array, cap, need, err) \
	query_grow(q, &(array), &(cap), need, sizeof(*(array)), err)
#define QUERY_DROP(q, array, cap)       query_drop(q, &(array), &(cap), sizeof(*(array)))
#define QUERY_FIT(q, array, cap, count) query_fit(q, &(array), &(cap), count, sizeof(*(array)))
void query_drop(struct query *q, void *array_ptr, uint32_t *cap, size_t entry_bytes);
/* Gives back the unused end of an array. */
void query_fit(struct query *q, void *array_ptr, uint32_t *cap, uint32_t count, size_t entry_bytes);
/* Hands an array over to an answer: it stays until the end of the query. */
bool query_give(struct query *q, void *array_ptr, uint32_t *cap, struct err *err) MUST_CHECK;
void query_free_given(struct query *q, void *array); /* at that end */
/* A heap block of zeros, and how it is given back (NULL is fine); NULL: ERR_LIMIT. */
void *query_take(struct query *q, size_t bytes, struct err *err);
void query_give_back(struct query *q, void *block, size_t bytes);
void *query_alloc(struct query *q, uint64_t count, size_t bytes,
		  struct err *err); /* arena, zeroed */
bool query_str_dup(struct query *q, struct str s, struct str *out, struct err *err) MUST_CHECK;
/* Checks the deadline and `cancelled`; query_alive() does so only every few thousand calls. */
bool query_alive_now(struct query *q, struct err *err) MUST_CHECK;
bool query_alive(struct query *q, struct err *err) MUST_CHECK;

/* ---- a table from a 64-bit number to a 32-bit one ---- */

struct number_slot {
	uint64_t number;
	uint32_t value; /* + 1; 0: free */
};
struct number_table {
	struct number_slot *slots;
	uint32_t cap, used; /* cap is a power of two */
	/* For small numbers close together, such as row ids of a store: value + 1 (0: free), in
	 * pages of NUMBER_PAGE. */
	uint32_t **pages;
	uint32_t page_cap, page_count, paged;
};
enum { NUMBER_PAGE = 256 };
static inline uint32_t *number_entry(const struct number_table *t, uint64_t number)
{
	uint64_t page = number / NUMBER_PAGE;

	return page < t->page_cap && t->pages[page] ? &t->pages[page][number % NUMBER_PAGE] : NULL;
}
uint32_t number_find_slow(const struct number_table *t, uint64_t number);
/* The value of a number, or UINT32_MAX. */
static inline uint32_t number_find(const struct number_table *t, uint64_t number)
{
	const uint32_t *entry = number_entry(t, number);

	return entry && *entry ? *entry - 1 : number_find_slow(t, number);
}
/* Enters *value for the number or, where it has one already, sets *value to that. */
bool number_enter(struct query *q, struct number_table *t, uint64_t number, uint32_t *value,
		  struct err *err) MUST_CHECK;
/* The same for those who need not know. */
static inline bool number_put(struct query *q, struct number_table *t, uint64_t number,
			      uint32_t value, struct err *err)
{
	return number_enter(q, t, number, &value, err);
}
/* For those who only ask whether it is new. */
static inline bool number_note(struct query *q, struct number_table *t, uint64_t number,
			       bool *added, struct err *err)
{
	uint32_t next = t->used + t->paged, at = next;
	bool ok = number_enter(q, t, number, &at, err);

	*added = at == next;
	return ok;
}
/* Writes all numbers in ascending order where that costs no sorting: if they are all in pages. */
bool number_list(const struct number_table *t, uint64_t *out);
void number_release(struct query *q, struct number_table *t);
/* Forgets all numbers but keeps room for `count` of them, at most as many as there were: entering
 * those cannot fail. */
void number_reset(struct query *q, struct number_table *t, uint32_t count);

/* ---- distinct numbers, in the order they came ---- */

struct number_set {
	struct number_table met;
	uint64_t *ptr;
	uint32_t count, cap;
};
/* A number that it has already changes nothing. */
bool number_set_add(struct query *q, struct number_set *s, uint64_t number,
		    struct err *err) MUST_CHECK;
/* Sorts it; no number can be added afterwards. */
void number_set_sort(struct query *q, struct number_set *s);
void number_set_release(struct query *q, struct number_set *s);
