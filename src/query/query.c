/* query.c - a query from its beginning to its end, and what its request is made of. */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "query/select/select.h"
#include "query/sum/frames.h"

static int hash_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t count_processes(const struct query *q)
{
	uint64_t *hashes = calloc(q->selected.series_count + 1u, sizeof(*hashes));
	uint32_t count = 0, distinct = 0;

	assert(hashes);
	for (uint32_t i = 0; i < q->selected.series_count; i++)
		if (q->selected.series[i].seen && q->selected.series[i].process)
			hashes[count++] = q->selected.series[i].process;
	if (count)
		qsort(hashes, count, sizeof(*hashes), hash_order);
	for (uint32_t i = 0; i < count; i++)
		distinct += i == 0 || hashes[i] != hashes[i - 1];
	free(hashes);
	return distinct;
}

static bool select_what_is_asked(struct query *q, struct err *err)
{
	struct source *s = q->request.source;

	q->selector = selector_parse(q->request.selector, err);
	if (!q->selector)
		return false;
	if (q->request.range.from == 0 && q->request.range.to == 0)
		q->request.range = SOURCE_ALWAYS;
	if (q->request.asof == 0 && !s->ops->asof(s, &q->request.asof, err))
		return false;
	return selector_take_ids(q, err) && select_links(q, err) &&
	       select_series(q, q->request.group_by, err) && wanted_stacks_select(q, err);
}

struct query *query_begin(const struct query_request *request, struct err *err)
{
	struct query *q = calloc(1, sizeof(*q));

	assert(q);
	q->request = *request;
	q->filter_by = request->by;
	q->memory.limit_bytes = request->limit_bytes ? request->limit_bytes : QUERY_LIMIT_BYTES;
	arena_init(&q->memory.arena, 16384, q->memory.limit_bytes);
	if (!select_what_is_asked(q, err)) {
		query_end(q);
		return NULL;
	}
	return q;
}

void query_end(struct query *q)
{
	if (!q)
		return;
	selector_free(q->selector);
	QUERY_DROP(q, q->selected.types, q->selected.type_cap);
	QUERY_DROP(q, q->selected.series, q->selected.series_cap);
	QUERY_DROP(q, q->selected.series_ids, q->selected.series_ids_cap);
	QUERY_DROP(q, q->known.measured, q->known.measured_cap);
	QUERY_DROP(q, q->selected.says, q->selected.says_cap);
	number_release(q, &q->selected.says_numbers);
	QUERY_DROP(q, q->links.ids, q->links.cap);
	QUERY_DROP(q, q->links.series, q->links.series_cap);
	QUERY_DROP(q, q->known.sets, q->known.set_cap);
	QUERY_DROP(q, q->known.profiles, q->known.profile_cap);
	number_release(q, &q->known.set_numbers);
	number_release(q, &q->selected.wanted_stacks);
	for (uint32_t i = 0; i < q->memory.given_count; i++)
		query_free_given(q, q->memory.given[i]);
	QUERY_DROP(q, q->memory.given, q->memory.given_cap);
	arena_release(&q->memory.arena);
	large_pages_release(&q->memory.pages);
	free(q);
}

struct query_facts query_facts(const struct query *q)
{
	struct query_facts f = {
		.range = q->request.range,
		.asof = q->request.asof,
		.types = q->selected.types,
		.type_count = q->selected.type_count,
		.type_asked = q->request.profile_type.len || q->selector->profile_type.len,
		.series_count = q->selected.series_count,
		.period = q->selected.series_count ? q->selected.series[0].says->period : 0,
		.events = q->events,
		.processes = count_processes(q),
		.partial = q->partial,
		.reason = q->reason,
		.filtered = engine_filters_choose(&q->request),
	};

	if (query_type_of(q))
		f.type = *query_type_of(q);
	return f;
}

bool query_by_parse(struct str text, enum query_by *out, struct err *err)
{
	static const char *const names[] = { "function", "line", "address", "file", "binary" };

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		if (str_is(text, names[i])) {
			*out = (enum query_by)i;
			return true;
		}
	}
	return err_set(err, ERR_INVALID,
		       "by=\"%.*s\": one of function, line, address, file, binary",
		       (int)(text.len < 40 ? text.len : 40), text.ptr ? text.ptr : "");
}

bool query_filter_kind_parse(struct str name, enum query_filter_kind *out)
{
	static const char *const NAMES[] = {
		[FILTER_FOCUS] = "focus",       [FILTER_IGNORE] = "ignore",
		[FILTER_HIDE] = "hide",         [FILTER_SHOW_FROM] = "show_from",
		[FILTER_COLLAPSE] = "collapse", [FILTER_RECURSION] = "recursion",
	};
	struct str kind = str_is(name, "show-from") ? STR("show_from") : name;

	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
		if (str_is(kind, NAMES[i])) {
			*out = (enum query_filter_kind)i;
			return true;
		}
	return false;
}

void query_filter_parse(struct str text, enum query_filter_kind kind, struct query_filter *out)
{
	static const struct str fields[] = {
		[FIELD_FUNCTION] = { "function:", 9 },
		[FIELD_FILE] = { "file:", 5 },
		[FIELD_BINARY] = { "binary:", 7 },
		[FIELD_TYPE] = { "type:", 5 },
	};

	*out = (struct query_filter){ kind, FIELD_FUNCTION, text };
	for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
		if (str_has_prefix(text, fields[i])) {
			out->field = (enum query_filter_field)i;
			out->pattern = str_skip(text, fields[i].len);
		}
	}
}
