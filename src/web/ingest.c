#include "web/ingest.h"

#include "base/cleanup.h"
#include "formats/formats.h"
#include "model/subset.h"
#include "net/compress.h"
#include "query/time/time_range.h"
#include "web/multipart.h"
#include "wire/json_reader.h"
#include "wire/pb_reader.h"

enum { LABELS_MOST = 128, RENAMES_MOST = 64, PROFILES_MOST = 256 };

static const size_t UNPACKED_MOST = 256 << 20;
static const int64_t SECOND = 1000000000;

/* ---- labels ---- */

struct labels {
	struct key_value list[LABELS_MOST];
	uint32_t count;
};

static bool add_label(struct labels *l, struct str key, struct str value, struct err *err)
{
	key = str_is(key, "service_name") ? STR("service.name") : key;
	if (str_has_prefix(key, STR("__")) || !key.len || !value.len)
		return true;
	for (uint32_t i = 0; i < l->count; i++) {
		if (str_equal(l->list[i].key, key)) {
			l->list[i].value.string = value;
			return true;
		}
	}
	if (l->count == LABELS_MOST)
		return err_set(err, ERR_LIMIT, "more than %d labels", LABELS_MOST);
	l->list[l->count++] =
		(struct key_value){ .key = key, .value = { .kind = ANY_STRING, .string = value } };
	return true;
}

/* "app.name{key=value,other=value}". */
static bool read_name(struct str name, struct str *app, struct labels *l, struct err *err)
{
	ptrdiff_t open = str_find(name, '{');
	struct str rest = { 0 }, one;

	*app = str_trim(open < 0 ? name : str_head(name, (size_t)open));
	if (!app->len)
		return err_set(err, ERR_INVALID, "name is missing: of which application?");
	if (open >= 0) {
		rest = str_trim(str_skip(name, (size_t)open + 1));
		if (!str_has_suffix(rest, STR("}")))
			return err_set(err, ERR_INVALID, "name has no '}' at its end");
		rest = str_head(rest, rest.len - 1);
	}
	if (!add_label(l, STR("service.name"), *app, err))
		return false;
	while (str_split(&rest, ',', &one)) {
		ptrdiff_t equals = str_find(one, '=');
		struct str value;

		if (!str_trim(one).len)
			continue;
		if (equals < 0)
			return err_set(err, ERR_INVALID, "name: label \"%.*s\" has no value",
				       STR_ARG(str_head(one, 60)));
		value = str_trim(str_skip(one, (size_t)equals + 1));
		if (value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"')
			value = str_from(value.ptr + 1, value.len - 2);
		if (!add_label(l, str_trim(str_head(one, (size_t)equals)), value, err))
			return false;
	}
	return true;
}

/* ---- what folded stacks count ---- */

static const struct folded_type {
	const char *name; /* last part of the application's name, or `units` */
	struct str type, unit, period_type, period_unit;
} FOLDED_TYPES[] = {
	{ "cpu", { "samples", 7 }, { "count", 5 }, { "cpu", 3 }, { "nanoseconds", 11 } },
	{ "itimer", { "samples", 7 }, { "count", 5 }, { "cpu", 3 }, { "nanoseconds", 11 } },
	{ "wall", { "samples", 7 }, { "count", 5 }, { "wall", 4 }, { "nanoseconds", 11 } },
	{ "inuse_objects",
	  { "inuse_objects", 13 },
	  { "count", 5 },
	  { "space", 5 },
	  { "bytes", 5 } },
	{ "inuse_space", { "inuse_space", 11 }, { "bytes", 5 }, { "space", 5 }, { "bytes", 5 } },
	{ "alloc_objects",
	  { "alloc_objects", 13 },
	  { "count", 5 },
	  { "space", 5 },
	  { "bytes", 5 } },
	{ "alloc_space", { "alloc_space", 11 }, { "bytes", 5 }, { "space", 5 }, { "bytes", 5 } },
	{ "goroutines", { "goroutine", 9 }, { "count", 5 }, { "goroutine", 9 }, { "count", 5 } },
	{ "samples", { "samples", 7 }, { "count", 5 }, { "cpu", 3 }, { "nanoseconds", 11 } },
	{ "objects", { "alloc_objects", 13 }, { "count", 5 }, { "space", 5 }, { "bytes", 5 } },
	{ "bytes", { "alloc_space", 11 }, { "bytes", 5 }, { "space", 5 }, { "bytes", 5 } },
	{ "lock_samples",
	  { "contentions", 11 },
	  { "count", 5 },
	  { "contentions", 11 },
	  { "count", 5 } },
	{ "lock_nanoseconds",
	  { "delay", 5 },
	  { "nanoseconds", 11 },
	  { "contentions", 11 },
	  { "count", 5 } },
};
enum { SUFFIXES = 8 }; /* the first of them can end a name */

static const struct folded_type *type_called(struct str name, size_t most)
{
	for (size_t i = 0; i < most; i++)
		if (str_is(name, FOLDED_TYPES[i].name))
			return &FOLDED_TYPES[i];
	return NULL;
}

/* "app.cpu": Pyroscope's old clients name the type so. */
static const struct folded_type *type_of_name(struct str *app)
{
	const struct folded_type *t;
	size_t dot = app->len;

	while (dot > 0 && app->ptr[dot - 1] != '.')
		dot--;
	t = dot > 1 ? type_called(str_skip(*app, dot), SUFFIXES) : NULL;
	if (t)
		*app = str_head(*app, dot - 1);
	return t;
}

static bool folded_hints(const struct params *query, struct str *app, struct import_hints *h,
			 struct err *err)
{
	struct str units = params_get(query, "units");
	const struct folded_type *named = type_of_name(app), *t = named;
	uint32_t rate;

	if (!t)
		t = type_called(units.len ? units : STR("samples"),
				sizeof(FOLDED_TYPES) / sizeof(FOLDED_TYPES[0]));
	if (!t)
		return err_set(err, ERR_INVALID, "units \"%.*s\" are unknown",
			       STR_ARG(str_head(units, 40)));
	if (!params_u32(query, "sampleRate", 1, 1000000000, 100, &rate, err))
		return false;
	h->type = t->type;
	h->unit = t->unit;
	h->period_type = t->period_type;
	h->period_unit = t->period_unit;
	h->period = str_is(t->period_unit, "nanoseconds") ? SECOND / rate : 0;
	return true;
}

/* ---- time ---- */

static bool read_times(const struct ingest_context *c, const struct params *query,
		       struct import_hints *h, struct err *err)
{
	struct str from = params_get(query, "from"), until = params_get(query, "until");
	uint64_t end = c->now_ns;

	h->time = c->now_ns;
	if (until.len && !time_parse(until, c->now_ns, &end, err))
		return err_prefix(err, "until");
	if (from.len && !time_parse(from, c->now_ns, &h->time, err))
		return err_prefix(err, "from");
	if (!from.len)
		h->time = end;
	if (end < h->time)
		return err_set(err, ERR_INVALID, "until is before from");
	h->duration = end - h->time;
	return true;
}

/* ---- pprof ---- */

struct renames {
	struct import_rename list[RENAMES_MOST];
	uint32_t count;
};

/* {"contentions": {"display-name": "mutex_count", ...}, ...} */
static bool read_renames(const struct ingest_context *c, struct str json, struct renames *out,
			 struct err *err)
{
	struct json_reader j;
	struct str type, key;
	bool ok;

	json_reader_init(&j, json, 16);
	if (json_begin_object(&j)) {
		while (json_next_key(&j, &type)) {
			struct import_rename r = { .from = str_dup(c->arena, type) };

			if (!json_begin_object(&j))
				continue;
			while (json_next_key(&j, &key)) {
				if (str_is(key, "display-name"))
					r.to = str_dup(c->arena, json_string(&j));
				else
					json_skip(&j);
			}
			if (r.to.len && out->count == RENAMES_MOST)
				json_fail(&j, ERR_LIMIT, "more than %d sample types", RENAMES_MOST);
			else if (r.to.len)
				out->list[out->count++] = r;
		}
	}
	ok = json_finish(&j, err) || err_prefix(err, "sample_type_config");
	json_reader_release(&j);
	return ok;
}

/* Packed or not. */
static bool read_pprof(const struct ingest_context *c, struct str bytes,
		       const struct import_hints *h, struct profiles **out, struct err *err)
{
	enum compression packing = compression_sniff(bytes);
	struct blob *plain =
		packing == COMPRESSION_NONE
			? blob_copy(bytes)
			: decompress_charged(packing, bytes, UNPACKED_MOST, c->budget, err);
	bool ok;

	if (!plain)
		return false;
	ok = pprof_read_with(plain, h, out, err);
	blob_unref(plain);
	return ok;
}

/* The parts `profile` and `sample_type_config`; `prev_profile` is what older clients subtract from:
 * what they send so is a difference already where the type is one. */
static bool read_parts(const struct ingest_context *c, struct str content_type, struct str body,
		       struct str *profile, struct renames *renames, struct err *err)
{
	struct multipart_part part;
	struct multipart m;

	if (!multipart_begin(&m, content_type, body, err))
		return false;
	err->kind = ERR_NONE;
	while (multipart_next(&m, &part, err)) {
		if (str_is(part.name, "profile"))
			*profile = part.content;
		else if (str_is(part.name, "sample_type_config") &&
			 !read_renames(c, part.content, renames, err))
			return false;
		err->kind = ERR_NONE;
	}
	if (err->kind != ERR_NONE)
		return false;
	return profile->ptr ||
	       err_set(err, ERR_INVALID, "multipart: the part `profile` is missing");
}

static bool is_multipart(struct str content_type)
{
	return str_equal_nocase(str_head(content_type, 10), STR("multipart/"));
}

static bool ingest_pprof(const struct ingest_context *c, struct str content_type, struct blob *body,
			 struct import_hints *h, struct profiles **out, struct err *err)
{
	struct renames renames = { .count = 0 };
	struct import_hints with = *h;
	struct str profile = blob_view(body);

	if (is_multipart(content_type)) {
		profile = (struct str){ 0 };
		if (!read_parts(c, content_type, blob_view(body), &profile, &renames, err))
			return false;
	}
	with.renames = renames.list;
	with.rename_count = renames.count;
	return read_pprof(c, profile, &with, out, err);
}

/* ---- /ingest ---- */

bool ingest_read(const struct ingest_context *c, const struct params *query,
		 struct str content_type, struct blob *body, struct profiles **out, struct err *err)
{
	struct str format = params_get(query, "format"), app, whole;
	struct import_hints h = { 0 };
	struct labels labels = { .count = 0 };
	bool pprof = str_is(format, "pprof") || (!format.len && is_multipart(content_type));

	if (!read_name(params_get(query, "name"), &app, &labels, err) ||
	    !read_times(c, query, &h, err))
		return false;
	whole = app;
	h.resource = labels.list;
	if (pprof) {
		h.resource_count = labels.count;
		return ingest_pprof(c, content_type, body, &h, out, err);
	}
	h.lines = str_is(format, "lines");
	if (format.len && !h.lines && !str_is(format, "folded") && !str_is(format, "groups"))
		return err_set(err, ERR_UNSUPPORTED,
			       "format \"%.*s\" is not taken; folded, lines and pprof are",
			       STR_ARG(str_head(format, 40)));
	if (!folded_hints(query, &app, &h, err))
		return false;
	if (str_equal(labels.list[0].value.string, whole)) /* no service_name among the labels */
		labels.list[0].value.string = app;
	h.resource_count = labels.count;
	return folded_read_with(body, &h, out, err);
}

/* ---- push.v1 ---- */

static const struct proto_field label_fields[] = {
	{ .name = "name", .number = 1, .type = PROTO_STRING },
	{ .name = "value", .number = 2, .type = PROTO_STRING },
};
static const struct proto_message label_message = { label_fields, 2 };
static const struct proto_field sample_fields[] = {
	{ .name = "raw_profile", .number = 1, .type = PROTO_BYTES },
	{ .name = "ID", .json_name = "ID", .number = 2, .type = PROTO_STRING },
};
static const struct proto_message sample_message = { sample_fields, 2 };
static const struct proto_field series_fields[] = {
	{ .name = "labels",
	  .number = 1,
	  .type = PROTO_MESSAGE,
	  .repeated = true,
	  .message = &label_message },
	{ .name = "samples",
	  .number = 2,
	  .type = PROTO_MESSAGE,
	  .repeated = true,
	  .message = &sample_message },
};
static const struct proto_message series_message = { series_fields, 2 };
static const struct proto_field push_fields[] = {
	{ .name = "series",
	  .number = 1,
	  .type = PROTO_MESSAGE,
	  .repeated = true,
	  .message = &series_message },
};
static const struct proto_message push_message = { push_fields, 1 };
static const struct proto_message push_answer = { NULL, 0 };
const struct connect_method push_method = { "/push.v1.PusherService/Push", &push_message,
					    &push_answer, NULL };

struct pushing {
	const struct ingest_context *context;
	struct profiles *list[PROFILES_MOST];
	uint32_t count;
	struct err *err;
};

static bool take_label(struct labels *l, struct str message, struct err *err)
{
	struct pb_reader r = pb_reader_of(message);
	struct str key = { 0 }, value = { 0 };

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(1, PB_LEN))
			key = pb_bytes(&r);
		else if (tag == PB_TAG(2, PB_LEN))
			value = pb_bytes(&r);
		else
			pb_skip(&r, tag);
	}
	if (r.fault)
		return pb_report(&r, message.ptr, err);
	return add_label(l, key, value, err);
}

static bool take_raw_profile(struct pushing *p, const struct import_hints *h, struct str message)
{
	struct pb_reader r = pb_reader_of(message);
	struct str raw = { 0 };

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(1, PB_LEN))
			raw = pb_bytes(&r);
		else
			pb_skip(&r, tag);
	}
	if (r.fault)
		return pb_report(&r, message.ptr, p->err);
	if (p->count == PROFILES_MOST)
		return err_set(p->err, ERR_LIMIT, "more than %d profiles in one push",
			       PROFILES_MOST);
	if (!read_pprof(p->context, raw, h, &p->list[p->count], p->err))
		return false;
	p->count++;
	return true;
}

/* Labels first: they may stand behind the samples. */
static bool take_series(struct pushing *p, struct str message)
{
	struct import_hints h = { .time = p->context->now_ns };
	struct pb_reader r = pb_reader_of(message), again = r;
	struct labels labels = { .count = 0 };
	bool ok = true;

	while (ok && pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(1, PB_LEN))
			ok = take_label(&labels, pb_bytes(&r), p->err);
		else
			pb_skip(&r, tag);
	}
	if (ok && r.fault)
		ok = pb_report(&r, message.ptr, p->err);
	h.resource = labels.list;
	h.resource_count = labels.count;
	while (ok && pb_more(&again)) {
		uint32_t tag = pb_tag(&again);

		if (tag == PB_TAG(2, PB_LEN))
			ok = take_raw_profile(p, &h, pb_bytes(&again));
		else
			pb_skip(&again, tag);
	}
	return ok;
}

bool push_read(const struct ingest_context *c, struct str message, struct profiles **out,
	       struct err *err)
{
	struct pushing p = { .context = c, .err = err };
	struct pb_reader r = pb_reader_of(message);
	struct profiles *merged = NULL;
	bool ok = true;

	while (ok && pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(1, PB_LEN))
			ok = take_series(&p, pb_bytes(&r));
		else
			pb_skip(&r, tag);
	}
	if (ok && r.fault)
		ok = pb_report(&r, message.ptr, err);
	if (ok && p.count) {
		merged = profiles_merge((const struct profiles *const *)p.list, p.count, err);
		ok = merged != NULL;
	}
	for (uint32_t i = 0; i < p.count; i++)
		profiles_free(p.list[i]);
	if (ok)
		*out = merged;
	return ok;
}
