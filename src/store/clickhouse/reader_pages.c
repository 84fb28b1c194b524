/* reader_pages.c - samples by pages: what is asked for, and how much of it at a time. */
#include "store/clickhouse/scan.h"
#include "store/id_list.h"

enum { SERIES_IN_SQL = 5000, PAGES_IN_SQL = 200 };

void ch_put_within(struct ch_scanning *x)
{
	const struct source_scan *w = x->what;

	if (w->range.to != UINT64_MAX)
		buf_printf(&x->where, " AND t0 < %llu", (unsigned long long)w->range.to);
	if (!w->range.from)
		return;
	/* span_ms is rounded up, and no sum may pass 2^64 */
	buf_printf(&x->where,
		   " AND (t0 >= %llu OR span_ms = 65535 OR %llu - t0 <= span_ms * 1000000)",
		   (unsigned long long)w->range.from, (unsigned long long)w->range.from);
}

const struct ch_listed *ch_listed_of(const struct ch_scanning *x)
{
	const struct source_scan *w = x->what;
	const struct ch_listed *found = NULL;

	for (size_t i = 0; i < ARRAY_LEN(x->snap->listed); i++) {
		const struct ch_listed *l = &x->snap->listed[i];

		if (!l->rows || w->range.from < l->range.from || w->range.to > l->range.to)
			continue;
		if (w->range.from == l->range.from && w->range.to == l->range.to)
			return l;
		found = l;
	}
	return found;
}

/* All that the window was found to have. */
static bool are_all_listed(const struct ch_scanning *x)
{
	const struct ch_listed *l = ch_listed_of(x);
	const struct source_scan *w = x->what;

	return l && l->whole && w->series_count == l->ids.count &&
	       memcmp(w->series, l->ids.ids, l->ids.count * sizeof(*l->ids.ids)) == 0;
}

/* Where their rows are. False: on too many pages to say. */
static bool list_pages(const struct ch_scanning *x, struct id_list *pages)
{
	const struct source_scan *w = x->what;

	for (size_t i = 0; i < w->series_count && pages->count <= PAGES_IN_SQL; i++)
		if (!i || ch_page_of(w->series[i]) != ch_page_of(w->series[i - 1]))
			id_list_add(pages, ch_page_of(w->series[i]));
	return pages->count <= PAGES_IN_SQL;
}

/* Whether these pages have no other series in the window: then their numbers say it. */
static bool are_whole_pages(const struct ch_scanning *x, const struct id_list *pages)
{
	const struct ch_listed *l = ch_listed_of(x);
	const struct source_scan *w = x->what;
	size_t at = 0;

	if (!l)
		return false;
	for (size_t i = 0; i < l->ids.count; i++) {
		if (!id_list_has(pages->ids, pages->count, ch_page_of(l->ids.ids[i])))
			continue;
		if (at == w->series_count || w->series[at++] != l->ids.ids[i])
			return false;
	}
	return at == w->series_count;
}

static void put_series(struct ch_scanning *x)
{
	const struct source_scan *w = x->what;
	struct id_list pages = { 0 };
	bool paged, whole;

	if (!w->series || are_all_listed(x))
		return;
	paged = list_pages(x, &pages);
	whole = paged && are_whole_pages(x, &pages);
	if (paged) {
		buf_lit(&x->where, " AND " CH_SERIES_PAGE " IN ");
		ch_put_ids(&x->where, pages.ids, pages.count);
	}
	free(pages.ids);
	x->series_here = !whole && w->series_count > SERIES_IN_SQL;
	if (whole || x->series_here)
		return;
	buf_lit(&x->where, " AND series IN ");
	ch_put_ids(&x->where, w->series, w->series_count);
}

void ch_put_asked(struct ch_scanning *x)
{
	const struct source_scan *w = x->what;
	bool all = w->asof >= x->snap->asof;

	/* A request's numbers lie between its own and the newest state, or all behind it. */
	buf_printf(&x->where, all ? " AND base <= %llu" : " AND base + place <= %llu",
		   (unsigned long long)(all ? x->snap->asof : w->asof));
	if (w->after)
		buf_printf(&x->where, " AND base + place > %llu", (unsigned long long)w->after);
	put_series(x);
	if (w->links) {
		buf_lit(&x->where, " AND link IN ");
		ch_put_ids(&x->where, w->links, w->link_count);
	}
}

struct bucket {
	uint64_t number, rows;
};

/* Listing the series showed that they fit into one page: the buckets need not be counted. */
bool ch_is_one_page(const struct ch_scanning *x)
{
	const struct ch_listed *l = ch_listed_of(x);
	const struct source_scan *w = x->what;
	uint64_t rows = 0;
	size_t at = 0;

	if (!w->series || !l)
		return false;
	for (size_t i = 0; i < w->series_count; i++) {
		while (at < l->ids.count && l->ids.ids[at] < w->series[i])
			at++;
		if (at == l->ids.count || l->ids.ids[at] != w->series[i])
			return false;
		rows += l->rows[at];
		if (rows > x->rows_most)
			return false;
	}
	return true;
}

static bool list_buckets(struct ch_scanning *x, struct bucket **out, size_t *count)
{
	struct codec c;

	buf_reset(&x->snap->sql);
	buf_lit(&x->snap->sql,
		"SELECT toUInt64(bucket) AS b, count() FROM flametap_samples WHERE ");
	buf_str(&x->snap->sql, buf_view(&x->where));
	buf_lit(&x->snap->sql, " GROUP BY b ORDER BY b FORMAT RowBinary");
	if (!ch_ask(x->snap, &c, x->err))
		return false;
	*count = (size_t)(c.end - c.at) / 16;
	*out = calloc(*count + 1, sizeof(**out));
	assert(*out);
	for (size_t i = 0; i < *count; i++) {
		(*out)[i].number = row_get(&c, 8);
		(*out)[i].rows = row_get(&c, 8);
	}
	return ch_answer_ended(&c, "buckets", x->err);
}

/* The samples of some buckets; of one large bucket those whose place is `part` of `parts`. */
static bool scan_buckets(struct ch_scanning *x, const struct bucket *first,
			 const struct bucket *last, uint64_t part, uint64_t parts)
{
	struct buf bounds;
	bool ok;

	buf_init(&bounds, 0);
	buf_printf(&bounds, "bucket >= %llu AND bucket <= %llu AND ",
		   (unsigned long long)first->number, (unsigned long long)last->number);
	if (parts > 1)
		buf_printf(&bounds, "place %% %llu = %llu AND ", (unsigned long long)parts,
			   (unsigned long long)part);
	ok = x->page(x, buf_view(&bounds));
	buf_release(&bounds);
	return ok;
}

bool ch_scan_pages(struct ch_scanning *x)
{
	struct bucket *buckets = NULL;
	size_t count = 0, from = 0;
	bool ok;

	if (ch_is_one_page(x))
		return x->page(x, (struct str){ 0 });
	ok = list_buckets(x, &buckets, &count);
	while (ok && from < count && !x->ended) {
		uint64_t rows = buckets[from].rows, parts = rows / x->rows_most + 1;
		size_t to = from + 1;

		while (to < count && rows + buckets[to].rows <= x->rows_most)
			rows += buckets[to++].rows;
		for (uint64_t part = 0; ok && part < parts && !x->ended; part++)
			ok = scan_buckets(x, &buckets[from], &buckets[to - 1], part, parts);
		from = to;
	}
	free(buckets);
	return ok;
}
