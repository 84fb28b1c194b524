/* ask.c - a URL's parameters as one selection of the query engine (docs/api.md). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hex.h"
#include "query/time/time_range.h"
#include "web/internal.h"

static struct str side_param(const struct web_ask *a, const char *name, int side)
{
	char key[32];

	if (side == 0)
		return params_get(&a->params, name);
	snprintf(key, sizeof(key), "%s2", name);
	return params_get(&a->params, params_has(&a->params, key) ? key : name);
}

static struct source *source_of(const struct web_ask *a, int side)
{
	return side && a->source2 ? a->source2 : a->source;
}

/* The type whose window it is: as asked for, or of files the one that is shown of several, whose
 * times may be far from the others'. A store's types come together, and to choose among its series
 * would cost as much as the answer. */
static void type_of(struct web_ask *a, int side, struct str *out)
{
	struct query_request all = { .source = source_of(a, side),
				     .selector = side_param(a, "query", side),
				     .deadline_ns = a->deadline_ns,
				     .cancelled = a->cancelled,
				     .given_up = a->given_up,
				     .given_up_ctx = a->given_up_ctx };
	struct err ignored; /* what is wrong, the question itself says */
	struct query *q;

	*out = side_param(a, "type", side);
	if (out->len || !a->options->read_only || !(q = query_begin(&all, &ignored)))
		return;
	if (query_facts(q).type_count > 1)
		*out = str_dup(&a->arena, query_facts(q).type.id);
	query_end(q);
}

static bool range_of(struct web_ask *a, int side, struct source_range *out, struct err *err)
{
	struct str from = side_param(a, "from", side), to = side_param(a, "to", side);
	struct str type;

	if (from.len == 0 && to.len == 0) {
		type_of(a, side, &type);
		return web_recent_of(a, source_of(a, side), type, out, err);
	}
	return time_range_parse(from, to, a->now_ns, out, err);
}

static bool add_transform(struct query_request *q, struct str text, struct err *err)
{
	ptrdiff_t colon = str_find(text, ':');
	struct str name = colon < 0 ? text : str_head(text, (size_t)colon);
	struct str rest = colon < 0 ? str_from("", 0) : str_skip(text, (size_t)colon + 1);
	enum query_filter_kind kind;

	if (!query_filter_kind_parse(name, &kind))
		return err_set(err, ERR_INVALID,
			       "x=%.*s: no such transform; there are focus, ignore, hide, "
			       "show_from, collapse and recursion",
			       STR_ARG(str_head(text, 60)));
	if (q->filter_count == QUERY_FILTERS_MOST)
		return err_set(err, ERR_LIMIT, "more than %d transforms", QUERY_FILTERS_MOST);
	if (!rest.len && kind != FILTER_RECURSION)
		return err_set(err, ERR_INVALID, "x=%.*s has no pattern; expected x=%.*s:PATTERN",
			       STR_ARG(str_head(text, 60)), STR_ARG(name));
	query_filter_parse(rest, kind, &q->filters[q->filter_count++]);
	return true;
}

static bool add_transforms(const struct web_ask *a, struct query_request *q, struct err *err)
{
	for (uint32_t i = 0; i < a->params.count; i++)
		if (str_is(a->params.ptr[i].name, "x") &&
		    !add_transform(q, a->params.ptr[i].value, err))
			return false;
	return true;
}

/* NULL with no error where the parameter is absent. */
static bool id_param(struct web_ask *a, const char *name, size_t bytes, const uint8_t **out,
		     struct err *err)
{
	struct str text = params_get(&a->params, name);
	uint8_t *id;

	*out = NULL;
	if (text.len == 0)
		return true;
	if (text.len != 2 * bytes)
		return err_set(err, ERR_INVALID, "%s has %zu hex digits, wanted are %zu", name,
			       text.len, 2 * bytes);
	id = arena_alloc(&a->arena, bytes);
	if (!hex_decode(text, id, bytes))
		return err_set(err, ERR_INVALID, "%s is not a hexadecimal number: \"%.*s\"", name,
			       STR_ARG(text));
	*out = id;
	return true;
}

/* A state of the source, as an answer named it. */
static bool state_param(const struct web_ask *a, const char *name, uint64_t *out, struct err *err)
{
	struct str text = params_get(&a->params, name);

	*out = 0;
	if (text.len && !str_to_u64(text, out))
		return err_set(err, ERR_INVALID, "%s is not a number: \"%.*s\"", name,
			       (int)(text.len < 40 ? text.len : 40), text.ptr);
	return true;
}

enum query_by web_by(const struct web_ask *a)
{
	enum query_by by;
	struct err ignored;

	return query_by_parse(params_get(&a->params, "by"), &by, &ignored) ? by : QUERY_BY_FUNCTION;
}

bool web_request(struct web_ask *a, int side, struct query_request *out, struct err *err)
{
	struct str by = params_get(&a->params, "by");
	struct query_request q = {
		.source = source_of(a, side),
		.selector = side_param(a, "query", side),
		.profile_type = side_param(a, "type", side),
		.gauge_last = params_has(&a->params, "last"),
		.clip = a->clip,
		.filters_choose = a->filters_choose,
		.average = a->average,
		.one_scale = a->one_scale,
		.group_by = a->group_by,
		.deadline_ns = a->deadline_ns,
		.cancelled = a->cancelled,
		.given_up = a->given_up,
		.given_up_ctx = a->given_up_ctx,
	};

	if (!range_of(a, side, &q.range, err) || !add_transforms(a, &q, err) ||
	    !state_param(a, "asof", &q.asof, err) || !state_param(a, "since", &q.after, err) ||
	    (by.len && !query_by_parse(by, &q.by, err)) ||
	    !id_param(a, "trace", 16, &q.trace_id, err) || !id_param(a, "span", 8, &q.span_id, err))
		return false;
	*out = q;
	return true;
}

struct query *web_begin(struct web_ask *a, int side, struct err *err)
{
	struct query_request q;

	return web_request(a, side, &q, err) ? query_begin(&q, err) : NULL;
}
