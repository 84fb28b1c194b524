/* linked.c - of a trace or a span only the series and the time that have samples of it, not all of
 * a store. */
#include <stdlib.h>

#include "query/engine.h"
#include "store/id_list.h"

enum { COLLECT_MOST = 65536, LINKED_MOST = 16384 }; /* with doubles; without */

static void drop_doubles(struct query *q)
{
	uint32_t kept = 0;

	if (!q->linked_count)
		return;
	qsort(q->linked, q->linked_count, sizeof(*q->linked), id_list_order);
	for (uint32_t i = 0; i < q->linked_count; i++)
		if (i == 0 || q->linked[i] != q->linked[kept - 1])
			q->linked[kept++] = q->linked[i];
	q->linked_count = kept;
}

struct linking {
	struct query *q;
	bool too_many;
};

static void widen(struct source_range *r, uint64_t time)
{
	if (!r->to || time < r->from)
		r->from = time;
	if (time >= r->to)
		r->to = time < UINT64_MAX ? time + 1 : time;
}

static bool take_row(void *ctx, const struct source_row *row, struct err *err)
{
	struct linking *l = ctx;
	struct query *q = l->q;

	if (!query_alive(q, err))
		return false;
	if (!row->timestamp_count)
		widen(&q->linked_range, row->time);
	for (uint32_t i = 0; i < row->timestamp_count; i++)
		widen(&q->linked_range, row->timestamps[i]);
	if (l->too_many || (q->linked_count && q->linked[q->linked_count - 1] == row->series))
		return true;
	if (q->linked_count == COLLECT_MOST) {
		drop_doubles(q);
		l->too_many = q->linked_count > LINKED_MOST;
	}
	if (!query_grow(q, &q->linked, &q->linked_cap, q->linked_count + 1u, sizeof(*q->linked),
			err))
		return false;
	q->linked[q->linked_count++] = row->series;
	return true;
}

bool linked_series(struct query *q, struct err *err)
{
	struct source *s = q->request.source;
	struct linking l = { .q = q };
	const struct source_scan scan = {
		.range = q->request.range,
		.links = q->links,
		.link_count = q->link_count,
		.asof = q->request.asof,
		.after = q->request.after,
		.parts = ROW_TIMES,
	};

	if (!q->by_link || !q->link_count)
		return true;
	if (!source_scan(s, &scan, take_row, &l, err))
		return false;
	drop_doubles(q);
	if (l.too_many || q->linked_count > LINKED_MOST)
		q->linked_count = 0;
	return true;
}
