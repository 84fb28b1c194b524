/* linked.c - of a trace or a span only the series and the time that have samples of it, not all of
 * a store. */
#include <stdlib.h>

#include "query/engine.h"
#include "store/id_list.h"

enum { COLLECT_MOST = 65536, LINKED_MOST = 16384 }; /* with doubles; without */

static void drop_doubles(struct query *q)
{
	uint32_t kept = 0;

	if (!q->links.series_count)
		return;
	qsort(q->links.series, q->links.series_count, sizeof(*q->links.series), id_list_order);
	for (uint32_t i = 0; i < q->links.series_count; i++)
		if (i == 0 || q->links.series[i] != q->links.series[kept - 1])
			q->links.series[kept++] = q->links.series[i];
	q->links.series_count = kept;
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
		widen(&q->links.range, row->time);
	for (uint32_t i = 0; i < row->timestamp_count; i++)
		widen(&q->links.range, row->timestamps[i]);
	if (l->too_many ||
	    (q->links.series_count && q->links.series[q->links.series_count - 1] == row->series))
		return true;
	if (q->links.series_count == COLLECT_MOST) {
		drop_doubles(q);
		l->too_many = q->links.series_count > LINKED_MOST;
	}
	if (!query_grow(q, &q->links.series, &q->links.series_cap, q->links.series_count + 1u,
			sizeof(*q->links.series), err))
		return false;
	q->links.series[q->links.series_count++] = row->series;
	return true;
}

bool linked_series(struct query *q, struct err *err)
{
	struct source *s = q->request.source;
	struct linking l = { .q = q };
	const struct source_scan scan = {
		.range = q->request.range,
		.links = q->links.ids,
		.link_count = q->links.count,
		.asof = q->request.asof,
		.after = q->request.after,
		.parts = ROW_TIMES,
	};

	if (!q->links.asked || !q->links.count)
		return true;
	if (!source_scan(s, &scan, take_row, &l, err))
		return false;
	drop_doubles(q);
	if (l.too_many || q->links.series_count > LINKED_MOST)
		q->links.series_count = 0;
	return true;
}
