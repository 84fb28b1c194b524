#include "query/sum/rows.h"

#include <math.h>
#include <stdlib.h>

static bool within(const struct query *q, uint64_t time)
{
	return time >= q->request.range.from && time < q->request.range.to;
}

/* Of request.clip: has the row timestamps outside of the window? */
static bool clips(const struct query *q, const struct source_row *row)
{
	if (!q->request.clip)
		return false;
	for (uint32_t i = 0; i < row->timestamp_count; i++)
		if (!within(q, row->timestamps[i]))
			return true;
	return false;
}

/* Keeps the events in the window, each with what it counts. */
static void clip(struct kept_rows *k, const struct source_row *row, struct kept_row *out)
{
	int64_t sum = source_row_sum(row);

	out->timestamp_count = out->value_count = 0;
	for (uint32_t i = 0; i < row->timestamp_count; i++) {
		int64_t value = source_row_value(row, sum, i);

		if (!within(k->q, row->timestamps[i]))
			continue;
		k->timestamps[k->timestamp_count++] = row->timestamps[i];
		out->timestamp_count++;
		if (row->value_count) {
			k->values[k->value_count++] = value;
			out->value_count++;
		}
		out->value = engine_add(out->value, value);
	}
}

static void keep_all(struct kept_rows *k, const struct source_row *row, struct kept_row *out)
{
	for (uint32_t i = 0; i < row->timestamp_count; i++)
		k->timestamps[k->timestamp_count++] = row->timestamps[i];
	for (uint32_t i = 0; i < row->value_count; i++) {
		k->values[k->value_count++] = row->values[i];
		out->value = engine_add(out->value, row->values[i]);
	}
	if (!row->value_count)
		out->value = row->timestamp_count;
}

bool kept_rows_add(struct kept_rows *k, const struct engine_event *e, struct err *err)
{
	const struct source_row *row = e->row;
	struct query *q = k->q;
	struct kept_row out = {
		.time = e->time,
		.series = row->series,
		.sample = row->sample,
		.stack = row->stack,
		.attributes = row->attributes,
		.link = row->link,
		.profile_time = row->time,
		.first_timestamp = k->timestamp_count,
		.first_value = k->value_count,
		.timestamp_count = row->timestamp_count,
		.value_count = row->value_count,
	};

	if (!QUERY_ROOM(q, k->ptr, k->cap, k->count + 1u, err) ||
	    !QUERY_ROOM(q, k->timestamps, k->timestamp_cap,
			(uint64_t)k->timestamp_count + row->timestamp_count, err) ||
	    !QUERY_ROOM(q, k->values, k->value_cap,
			(uint64_t)k->value_count + row->value_count + row->timestamp_count, err))
		return false;
	if (clips(q, row))
		clip(k, row, &out);
	else
		keep_all(k, row, &out);
	out.value = engine_scaled(out.value, e->series->says->scale);
	k->ptr[k->count++] = out;
	return true;
}

/* The last row with a value of its own for each timestamp: there is room. */
static struct kept_row *with_values(struct kept_rows *k)
{
	struct kept_row *r = &k->ptr[k->count - 1];

	for (; !r->value_count && r->timestamp_count > k->value_count - r->first_value;)
		k->values[k->value_count++] = 1;
	r->value_count = k->value_count - (uint32_t)r->first_value;
	return r;
}

void kept_rows_scale(struct kept_rows *k, int64_t scale)
{
	struct kept_row *r = with_values(k);

	for (uint32_t i = 0; i < r->value_count; i++)
		k->values[r->first_value + i] = engine_scaled(k->values[r->first_value + i], scale);
}

void kept_rows_divide(struct kept_rows *k, uint32_t divisor, double *carry)
{
	struct kept_row *r = with_values(k);

	r->value = 0;
	for (uint32_t i = 0; i < r->value_count; i++) {
		int64_t *v = &k->values[r->first_value + i];
		double exact = (double)*v / divisor + *carry;

		*v = llround(exact);
		*carry = exact - (double)*v;
		r->value = engine_add(r->value, *v);
	}
}

void kept_rows_release(struct kept_rows *k)
{
	QUERY_DROP(k->q, k->ptr, k->cap);
	QUERY_DROP(k->q, k->timestamps, k->timestamp_cap);
	QUERY_DROP(k->q, k->values, k->value_cap);
}

bool kept_rows_distinct(struct kept_rows *k, size_t offset, struct number_set *out, struct err *err)
{
	*out = (struct number_set){ 0 };
	for (uint32_t i = 0; i < k->count; i++) {
		uint64_t id;

		memcpy(&id, (const char *)&k->ptr[i] + offset, sizeof(id));
		if (id && !number_set_add(k->q, out, id, err))
			return false;
	}
	number_set_sort(k->q, out);
	return true;
}

uint32_t id_place(const uint64_t *ids, uint32_t count, uint64_t id)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (ids[mid] < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < count && ids[low] == id ? low : UINT32_MAX;
}
