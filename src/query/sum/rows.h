/*
 * rows.h - samples of a selection, copied out of the source: what collect and the raw view begin
 * with. Only src/query includes this.
 */
#pragma once
#include "query/select/walk.h"

struct kept_row {
	uint64_t time; /* of the first event in the window */
	uint64_t series, sample, stack, attributes, link, profile_time;
	int64_t value;            /* in the type's unit, of all its events */
	uint64_t first_timestamp; /* of kept_rows.timestamps */
	uint64_t first_value;     /* of kept_rows.values */
	uint32_t timestamp_count, value_count;
};

struct kept_rows {
	struct query *q;
	struct kept_row *ptr;
	uint64_t *timestamps;
	int64_t *values;
	uint32_t count, cap, timestamp_count, timestamp_cap, value_count, value_cap;
};

/* Copies the event's row (call it for e->first only). */
bool kept_rows_add(struct kept_rows *k, const struct engine_event *e, struct err *err) MUST_CHECK;
/* The last row's values in the type's unit, as `value` is. */
void kept_rows_scale(struct kept_rows *k, int64_t scale);
/* Divides what the last row counts; *carry is what rounding leaves for the next one. */
void kept_rows_divide(struct kept_rows *k, uint32_t divisor, double *carry);
void kept_rows_release(struct kept_rows *k);

/* The distinct numbers of one member of the rows, ascending, without 0. `offset` is the member's in
 * struct kept_row. */
bool kept_rows_distinct(struct kept_rows *k, size_t offset, struct number_set *out,
			struct err *err) MUST_CHECK;
/* Place of an id in an ascending list, UINT32_MAX when it is not there. */
uint32_t id_place(const uint64_t *ids, uint32_t count, uint64_t id);
