/* answer_top.c - functions by self and total, of one side or two. */
#include <stdlib.h>

#include "web/internal.h"
#include "web/json_write.h"

enum { ROWS_MOST = 100000 };

struct top_order {
	const struct query_top *top;
	double share[QUERY_SIDES]; /* 1 / total */
	char by;                   /* 's'elf, 't'otal, total '2', 'c'hange */
};

static double weight(const struct query_top_row *r, const struct top_order *o)
{
	double change = (double)r->total[1] * o->share[1] - (double)r->total[0] * o->share[0];

	switch (o->by) {
	case 't':
		return (double)r->total[0];
	case '2':
		return (double)r->total[1];
	case 'c':
		return change < 0 ? -change : change;
	default:
		return (double)r->self[0];
	}
}

static int compare_rows(const void *x, const void *y, void *ctx)
{
	const struct query_top_row *a = *(const struct query_top_row *const *)x;
	const struct query_top_row *b = *(const struct query_top_row *const *)y;
	double wa = weight(a, ctx), wb = weight(b, ctx);

	if (wa != wb)
		return wa > wb ? -1 : 1;
	return a->frame < b->frame ? -1 : a->frame > b->frame;
}

static void put_row(struct buf *b, const struct query_top *top, const struct query_top_row *r,
		    int sides, enum query_by by)
{
	const struct query_frame *f = &top->frames.ptr[r->frame];

	buf_char(b, '[');
	json_frame(b, f, by);
	buf_printf(b, ",%lld,%lld", (long long)r->self[0], (long long)r->total[0]);
	if (sides == 2)
		buf_printf(b, ",%lld,%lld", (long long)r->self[1], (long long)r->total[1]);
	else
		buf_lit(b, ",0,0");
	buf_printf(b, ",\"%016llx\"]", (unsigned long long)f->key);
}

/* A table of one side has no second side to sort by. */
static bool order_of(struct str sort, bool two, char *out, struct err *err)
{
	static const struct {
		const char *name;
		char by;
		bool of_two;
	} orders[] = { { "", 's', false },
		       { "self", 's', false },
		       { "total", 't', false },
		       { "total2", '2', true },
		       { "change", 'c', true } };

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (!str_is(sort, orders[i].name) || (orders[i].of_two && !two))
			continue;
		*out = orders[i].by;
		return true;
	}
	return err_set(err, ERR_INVALID, "sort is \"%.*s\"; expected self or total%s",
		       STR_ARG(str_head(sort, 40)),
		       two ? ", total2 or change" : " (total2 and change of a diff)");
}

static void put_top(struct web_ask *a, struct query *q, const struct query_top *top, int sides,
		    char by, uint32_t limit)
{
	struct top_order order = { .top = top, .by = by };
	const struct query_top_row **rows = arena_alloc_array(&a->arena, top->row_count + 1,
							      sizeof(const struct query_top_row *));
	struct buf *b = &a->body;

	for (int side = 0; side < QUERY_SIDES; side++)
		order.share[side] = top->total[side] ? 1 / (double)top->total[side] : 0;
	for (uint32_t i = 0; i < top->row_count; i++)
		rows[i] = &top->rows[i];
	qsort_r(rows, top->row_count, sizeof(*rows), compare_rows, &order);
	buf_lit(b, "{\"unit\":");
	buf_json_string(b, query_facts(q).type.unit);
	buf_printf(b, ",\"total\":%lld", (long long)top->total[0]);
	if (sides == 2)
		buf_printf(b, ",\"total2\":%lld", (long long)top->total[1]);
	buf_lit(b, ",\"partial\":");
	buf_json_string(b, str_cstr(query_facts(q).partial ? query_facts(q).reason : ""));
	buf_printf(b, ",\"count\":%u,\"rows\":[", top->row_count);
	for (uint32_t i = 0; i < top->row_count && i < limit; i++) {
		if (i)
			buf_char(b, ',');
		put_row(b, top, rows[i], sides, web_by(a));
	}
	buf_lit(b, "]}\n");
}

bool web_answer_top(struct web_ask *a, struct err *err)
{
	bool two = params_has(&a->params, "query2") || params_has(&a->params, "from2");
	struct query *left, *right = NULL;
	struct query_top top;
	uint32_t limit;
	char by = 's';
	bool ok;

	if (!params_u32(&a->params, "limit", 1, ROWS_MOST, 10000, &limit, err) ||
	    !order_of(params_get(&a->params, "sort"), two, &by, err) ||
	    !(left = web_begin(a, 0, err)))
		return false;
	if (two)
		ok = (right = web_begin(a, 1, err)) && query_top_diff(left, right, &top, err);
	else
		ok = query_top(left, &top, err);
	if (ok)
		put_top(a, left, &top, two ? 2 : 1, by, limit);
	query_end(right);
	query_end(left);
	return ok;
}
