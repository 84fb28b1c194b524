/* The window that is looked at where none was named. */
#include "base/clock.h"
#include "web/internal.h"

#define RECENT_NS (15 * 60 * SECOND_NS)

enum { NARROWINGS_MOST = 12 };

/* A sender's clock may be ahead of ours by this much: later is no time to look at by itself. */
#define AHEAD_NS RECENT_NS

/* The last bucket of the range that has anything, or nothing: false without err. */
static bool last_bucket(struct web_ask *a, struct source *source, struct str type,
			struct source_range *range, bool *found, struct err *err)
{
	struct query_request all = { .source = source,
				     .profile_type = type,
				     .range = *range,
				     .deadline_ns = a->deadline_ns,
				     .cancelled = a->cancelled,
				     .given_up = a->given_up,
				     .given_up_ctx = a->given_up_ctx };
	const struct query_timeline_options options = { .step_ns = 0 };
	struct query *q = query_begin(&all, err);
	struct query_timeline t;
	uint32_t last = 0;
	bool ok;

	*found = false;
	if (!q && type.len && err->kind == ERR_NOT_FOUND)
		return true;
	ok = q && query_timeline(q, &options, &t, err);
	for (uint32_t g = 0; ok && g < t.group_count; g++)
		for (uint32_t i = last; i < t.bucket_count; i++)
			if (t.groups[g].values[i]) {
				*found = true;
				last = i;
			}
	if (ok && *found) {
		uint64_t from = t.from + last * t.step_ns, to = from + t.step_ns;

		range->from = from > range->from ? from : range->from;
		range->to = to < range->to ? to : range->to;
	}
	query_end(q);
	return ok;
}

/* There are samples of times to come: the last moment up to now that has any. *to stays as it is
 * where there is none. */
static bool last_until_now(struct web_ask *a, struct source *source, uint64_t from, uint64_t *to,
			   struct err *err)
{
	struct source_range range = { from, a->now_ns + AHEAD_NS };
	bool found = true;

	for (int i = 0; i < NARROWINGS_MOST && found && range.to - range.from > SECOND_NS; i++)
		if (!last_bucket(a, source, (struct str){ 0 }, &range, &found, err))
			return false;
	if (range.to < a->now_ns + AHEAD_NS || found)
		*to = range.to;
	return true;
}

bool web_recent(struct web_ask *a, struct source *source, struct source_range *out, struct err *err)
{
	struct source_range extent;
	struct err why;

	if (!source->ops->extent(source, &extent, &why)) {
		if (why.kind != ERR_NOT_FOUND) {
			*err = why;
			return false;
		}
		*out = (struct source_range){ 0, 1 };
		return true;
	}
	out->to = extent.to == UINT64_MAX ? extent.to : extent.to + 1;
	if (out->to > a->now_ns + AHEAD_NS && extent.from < a->now_ns + AHEAD_NS &&
	    !last_until_now(a, source, extent.from, &out->to, err))
		return false;
	out->from = out->to - extent.from > RECENT_NS ? out->to - RECENT_NS : extent.from;
	return true;
}

bool web_recent_of(struct web_ask *a, struct source *source, struct str type,
		   struct source_range *out, struct err *err)
{
	struct source_range range, some;
	struct err why;
	bool found;

	if (!web_recent(a, source, out, err))
		return false;
	some = *out;
	if (!type.len || !last_bucket(a, source, type, &some, &found, &why) || found ||
	    !source->ops->extent(source, &range, &why))
		return true; /* what is wrong, the question itself says */
	range.to += range.to != UINT64_MAX;
	found = true;
	for (int i = 0; i < NARROWINGS_MOST && found && range.to - range.from > SECOND_NS; i++)
		if (!last_bucket(a, source, type, &range, &found, err))
			return false;
	out->to = range.to;
	out->from = out->to > RECENT_NS ? out->to - RECENT_NS : 0;
	return true;
}
