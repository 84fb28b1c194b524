/* etag.c - what an answer is of, as an entity tag (RFC 9110, 8.8.3): equal tags, equal answers. */
#include <stdio.h>

#include "base/hash.h"
#include "query/time/time_range.h"
#include "web/internal.h"

/* "now-15m", or an end that stays open, is another time whenever it is asked. */
static bool stands_still(struct str from, struct str to)
{
	if (from.len == 0 && to.len == 0) /* what is there decides: web_recent() */
		return true;
	return to.len && !str_has_prefix(from, STR("now")) && !str_has_prefix(to, STR("now"));
}

/* The newest sample, the oldest (upkeep takes those away), names that were found later, and the
 * window where none was named. */
static bool put_source(struct web_ask *a, struct source *s, struct buf *b)
{
	struct source_range extent = { 0, 0 }, recent;
	struct err err;
	uint64_t asof, names = 0;

	if (!s->ops->asof(s, &asof, &err) ||
	    (s->ops->names_state && !s->ops->names_state(s, &names, &err)) ||
	    (!s->ops->extent(s, &extent, &err) && err.kind != ERR_NOT_FOUND) ||
	    !web_recent(a, s, &recent, &err))
		return false;
	buf_printf(b, "|%llu %llu %llu %llu %llu %llu", (unsigned long long)asof,
		   (unsigned long long)names, (unsigned long long)extent.from,
		   (unsigned long long)extent.to, (unsigned long long)recent.from,
		   (unsigned long long)recent.to);
	return true;
}

static struct str side_time(const struct web_ask *a, const char *own, const char *other)
{
	return params_get(&a->params, params_has(&a->params, own) ? own : other);
}

bool web_etag(struct web_ask *a, struct str path, struct str query, char out[WEB_ETAG_MOST])
{
	struct buf text = { 0 };
	struct hash128 hash;
	bool ok = stands_still(params_get(&a->params, "from"), params_get(&a->params, "to")) &&
		  stands_still(side_time(a, "from2", "from"), side_time(a, "to2", "to"));

	if (!ok)
		return false;
	buf_printf(&text, "%llu %.*s?%.*s", (unsigned long long)a->options->born_ns, STR_ARG(path),
		   STR_ARG(query));
	ok = put_source(a, a->source, &text) && (!a->source2 || put_source(a, a->source2, &text));
	hash = hash128(buf_view(&text));
	buf_release(&text);
	if (ok)
		snprintf(out, WEB_ETAG_MOST, "W/\"%016llx%016llx\"", (unsigned long long)hash.hi,
			 (unsigned long long)hash.lo);
	return ok;
}

/* The opaque part: W/ is no difference here (RFC 9110, 8.8.3.2). */
static struct str opaque(struct str tag)
{
	return str_has_prefix(tag, STR("W/")) ? str_skip(tag, 2) : tag;
}

bool web_etag_in(struct str list, struct str etag)
{
	list = str_trim(list);
	if (str_is(list, "*"))
		return true;
	while (list.len) { /* no tag of ours has a comma in it */
		ptrdiff_t comma = str_find(list, ',');
		struct str one = str_trim(comma < 0 ? list : str_head(list, (size_t)comma));

		if (str_equal(opaque(one), opaque(etag)))
			return true;
		list = comma < 0 ? str_from("", 0) : str_skip(list, (size_t)comma + 1);
	}
	return false;
}
