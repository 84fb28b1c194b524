/* pyro_select.c - what a request selects, as questions to the engine. */
#include "base/hex.h"
#include "formats/go_pgo.h"
#include "query/select/selector.h"
#include "web/pyro.h"
#include "wire/pb_reader.h"

enum { TYPE_ID_PARTS = 5, TYPES_MOST = 256, MS = 1000000, CALL_SITE_MOST = 4096 };

static bool range_of(const struct pyro_request *r, struct source_range *out, struct err *err)
{
	const int64_t most = INT64_MAX / MS;

	if (r->start < 0 || r->end < r->start)
		return err_set(
			err, ERR_INVALID,
			"start is %lld and end %lld: wanted are milliseconds since 1970, the "
			"end not before the start",
			(long long)r->start, (long long)r->end);
	*out = (struct source_range){ (uint64_t)(r->start > most ? most : r->start) * MS,
				      (uint64_t)(r->end > most ? most : r->end) * MS };
	return true;
}

/* Hex, with or without the dashes of a UUID. */
static bool id_read(struct str text, uint8_t *out, size_t bytes, const char *what, struct err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < text.len; i++) {
		int v = hex_value(text.ptr[i]);

		if (text.ptr[i] == '-' && bytes == 16)
			continue;
		if (v < 0 || n == 2 * bytes)
			break;
		out[n / 2] = (uint8_t)(n % 2 ? out[n / 2] | v : v << 4);
		n++;
		if (n == 2 * bytes && i + 1 == text.len)
			return true;
	}
	return err_set(err, ERR_INVALID, "%s \"%.*s\" has not %zu hex digits", what,
		       STR_ARG(str_head(text, 60)), 2 * bytes);
}

/* NULL where the list is empty. */
static bool ids_read(struct web_ask *a, const struct pyro_list *list, size_t bytes,
		     const char *what, const uint8_t **out, struct err *err)
{
	uint8_t *ids = list->count ? arena_zalloc(&a->arena, list->count * bytes) : NULL;

	for (uint32_t i = 0; i < list->count; i++)
		if (!id_read(list->items[i], ids + bytes * i, bytes, what, err))
			return false;
	*out = ids;
	return true;
}

/* Location.name of StackTraceSelector.call_site. */
static struct str location_name(struct pb_reader *r)
{
	struct pb_reader in = pb_reader_of(pb_bytes(r));
	struct str name = { 0 };

	while (pb_more(&in)) {
		uint32_t tag = pb_tag(&in);

		if (tag == (1u << 3 | PB_LEN))
			name = pb_bytes(&in);
		else
			pb_skip(&in, tag);
	}
	if (in.fault)
		pb_fail(r, in.fault, in.fault_at);
	return name;
}

/* A StackTraceSelector: call_site = 1, names of frames from the root on; go_pgo = 2, which is the
 * writer's: pyro_pgo_read(). */
static bool call_site_read(struct web_ask *a, struct str message, struct query_request *out,
			   struct err *err)
{
	struct pb_reader r = pb_reader_of(message);
	struct str *names = NULL;
	uint32_t count = 0;

	if (message.len)
		names = arena_alloc_array(&a->arena, CALL_SITE_MOST, sizeof(*names));
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == (1u << 3 | PB_LEN)) {
			if (count == CALL_SITE_MOST)
				return err_set(err, ERR_LIMIT, "call_site has more than %d entries",
					       CALL_SITE_MOST);
			names[count++] = location_name(&r);
		} else {
			pb_skip(&r, tag);
		}
	}
	out->call_site = names;
	out->call_site_count = count;
	return !r.fault || pb_report(&r, message.ptr, err);
}

/* GoPGO: keep_locations = 1, aggregate_callees = 2. */
static void go_pgo_read(struct pb_reader *r, struct go_pgo_options *out)
{
	struct pb_reader in = pb_reader_of(pb_bytes(r));

	while (pb_more(&in)) {
		uint32_t tag = pb_tag(&in);

		if (tag == (1u << 3 | PB_VARINT))
			out->keep = (uint32_t)pb_varint(&in);
		else if (tag == (2u << 3 | PB_VARINT))
			out->aggregate_callees = pb_varint(&in) != 0;
		else
			pb_skip(&in, tag);
	}
	if (in.fault)
		pb_fail(r, in.fault, in.fault_at);
}

bool pyro_pgo_read(const struct pyro_request *q, struct go_pgo_options *out, bool *asked,
		   struct err *err)
{
	struct pb_reader r = pb_reader_of(q->stack_traces);

	*asked = false;
	*out = (struct go_pgo_options){ 0 };
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag != (2u << 3 | PB_LEN)) {
			pb_skip(&r, tag);
			continue;
		}
		*asked = true;
		go_pgo_read(&r, out);
	}
	return !r.fault || pb_report(&r, q->stack_traces.ptr, err);
}

/* More parts than five are fine: a sender's own names may hold colons. */
bool pyro_type_id_check(struct str id, struct err *err)
{
	uint32_t parts = 1;

	for (size_t i = 0; i < id.len; i++)
		parts += id.ptr[i] == ':';
	return parts >= TYPE_ID_PARTS ||
	       err_set(err, ERR_INVALID,
		       "profile type id \"%.*s\" has %u of %d parts; expected "
		       "NAME:SAMPLE_TYPE:SAMPLE_UNIT:PERIOD_TYPE:PERIOD_UNIT",
		       STR_ARG(str_head(id, 60)), parts, TYPE_ID_PARTS);
}

struct query *pyro_begin(struct web_ask *a, const struct pyro_request *r, struct str selector,
			 struct str profile_type, struct err *err)
{
	struct query_request q = {
		.source = a->source,
		.selector = selector,
		.profile_type = profile_type,
		.trace_count = r->traces.count,
		.span_count = r->spans.count,
		.profile_id_count = r->profile_ids.count,
		.deadline_ns = a->deadline_ns,
		.cancelled = a->cancelled,
		.given_up = a->given_up,
		.given_up_ctx = a->given_up_ctx,
	};

	if ((profile_type.len && !pyro_type_id_check(profile_type, err)) ||
	    !range_of(r, &q.range, err) || !call_site_read(a, r->stack_traces, &q, err) ||
	    !ids_read(a, &r->traces, 16, "trace id", &q.trace_id, err) ||
	    !ids_read(a, &r->spans, 8, "span id", &q.span_id, err) ||
	    !ids_read(a, &r->profile_ids, 16, "profile id", &q.profile_ids, err))
		return NULL;
	return query_begin(&q, err);
}

/* Does the selector name a profile type itself? */
static bool names_type(struct str selector, bool *out, struct err *err)
{
	struct selector *s = selector_parse(selector, err);

	if (!s)
		return false;
	*out = s->profile_type.len > 0;
	selector_free(s);
	return true;
}

static bool each_of(struct web_ask *a, const struct pyro_request *r, struct str selector,
		    pyro_each_fn *fn, void *ctx, struct err *err)
{
	struct str types[TYPES_MOST];
	struct query_facts facts;
	struct query *q;
	uint32_t count = 0;
	bool named, ok = true;

	if (!names_type(selector, &named, err))
		return false;
	q = pyro_begin(a, r, selector, (struct str){ 0 }, err);
	if (!q)
		return err->kind == ERR_NOT_FOUND;
	facts = query_facts(q);
	if (named || facts.type_count <= 1) {
		ok = fn(ctx, q, err);
		query_end(q);
		return ok;
	}
	for (; count < facts.type_count && count < TYPES_MOST; count++)
		types[count] = str_dup(&a->arena, facts.types[count].id);
	query_end(q);
	for (uint32_t i = 0; i < count && ok; i++) {
		q = pyro_begin(a, r, selector, types[i], err);
		ok = q && fn(ctx, q, err);
		query_end(q);
	}
	return ok;
}

bool pyro_each(struct web_ask *a, const struct pyro_request *r, pyro_each_fn *fn, void *ctx,
	       struct err *err)
{
	if (r->matchers.count == 0)
		return each_of(a, r, (struct str){ 0 }, fn, ctx, err);
	for (uint32_t i = 0; i < r->matchers.count; i++)
		if (!each_of(a, r, r->matchers.items[i], fn, ctx, err))
			return false;
	return true;
}

struct str pyro_label_name(struct arena *arena, struct str key)
{
	char *name = arena_alloc(arena, key.len + 1);

	for (size_t i = 0; i < key.len; i++)
		name[i] = key.ptr[i] == '.' || key.ptr[i] == '-' || key.ptr[i] == '/' ||
					  key.ptr[i] == ' '
				  ? '_'
				  : key.ptr[i];
	return str_from(name, key.len);
}
