/* select_links.c - the links of the trace and span that are asked for. */
#include <stdlib.h>

#include "base/hex.h"
#include "query/select.h"
#include "store/id_list.h"

static bool take_link(void *ctx, const struct source_link *link, struct err *err)
{
	struct query *q = ctx;

	if (!query_grow(q, &q->links.ids, &q->links.cap, q->links.count + 1u, sizeof(*q->links.ids),
			err))
		return false;
	q->links.ids[q->links.count++] = link->id;
	return true;
}

static bool hex_id(struct str text, uint8_t *out, size_t len, struct err *err)
{
	return hex_decode(text, out, len) ||
	       err_set(err, ERR_INVALID, "an id has %zu hex digits, not \"%.*s\"", len * 2,
		       STR_ARG(str_head(text, 64)));
}

bool selector_take_ids(struct query *q, struct err *err)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->selector->count; i++) {
		struct matcher *m = &q->selector->matchers[i];
		bool trace = str_is(m->key, "trace_id"), span = str_is(m->key, "span_id");
		uint8_t *id;

		if ((!trace && !span) || m->op != MATCH_EQUAL) {
			q->selector->matchers[kept++] = *m;
			continue;
		}
		id = query_alloc(q, 1, 16, err);
		if (!id || !hex_id(m->value, id, trace ? 16 : 8, err))
			return false;
		if (trace) {
			q->request.trace_id = id;
			q->request.trace_count = 1;
		} else {
			q->request.span_id = id;
			q->request.span_count = 1;
		}
	}
	q->selector->count = kept;
	return true;
}

static const uint8_t *id_at(const uint8_t *ids, size_t bytes, uint32_t i)
{
	return ids ? ids + bytes * i : NULL;
}

static void drop_doubles(struct query *q)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->links.count; i++)
		if (i == 0 || q->links.ids[i] != q->links.ids[kept - 1])
			q->links.ids[kept++] = q->links.ids[i];
	q->links.count = kept;
}

bool select_links(struct query *q, struct err *err)
{
	struct source *s = q->request.source;

	q->links.asked = q->request.trace_id || q->request.span_id;
	if (!q->links.asked)
		return true;
	if (!query_grow(q, &q->links.ids, &q->links.cap, 1, sizeof(*q->links.ids), err))
		return false;
	for (uint32_t t = 0; t == 0 || t < q->request.trace_count; t++)
		for (uint32_t n = 0; n == 0 || n < q->request.span_count; n++)
			if (!s->ops->find_links(s, id_at(q->request.trace_id, 16, t),
						id_at(q->request.span_id, 8, n), take_link, q, err))
				return false;
	if (q->links.count)
		qsort(q->links.ids, q->links.count, sizeof(*q->links.ids), id_list_order);
	drop_doubles(q);
	return true;
}
