/* answer_export.c - the selection as a file of another tool's format. */
#include "web/internal.h"

#include "model/profiles.h"
#include "net/compress.h"
#include "query/formats/formats.h"
#include "wire/otlp.h"

typedef bool write_fn(const struct profiles *p, const struct export_options *o, struct buf *out,
		      struct err *err);

static bool otlp_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		       struct err *err)
{
	(void)o;
	return otlp_encode(p, WIRE_NEWEST, out, err);
}

static const struct format {
	const char *name, *file_name, *content_type;
	write_fn *write;
	bool gzip, adds_up; /* adds_up: its readers do so with gauges, too */
} FORMATS[] = {
	{ "pprof", "profile.pb.gz", "application/octet-stream", pprof_write, true, true },
	{ "pgo", "default.pgo", "application/octet-stream", go_pgo_write, true, true },
	{ "folded", "profile.folded", "text/plain; charset=utf-8", folded_write, false, true },
	{ "speedscope", "profile.speedscope.json", "application/json", speedscope_write, false,
	  true },
	{ "firefox", "profile.firefox.json", "application/json", firefox_write, false, true },
	{ "dot", "profile.dot", "text/vnd.graphviz; charset=utf-8", dot_write, false, false },
	{ "svg", "profile.svg", "image/svg+xml", svg_write, false, false },
	{ "otlp", "profile.otlp.pb", "application/x-protobuf", otlp_write, false, false },
};

static const struct format *find(struct str name)
{
	for (size_t i = 0; i < sizeof(FORMATS) / sizeof(FORMATS[0]); i++)
		if (str_is(name, FORMATS[i].name))
			return &FORMATS[i];
	return NULL;
}

static bool pack(struct web_ask *a, struct err *err)
{
	struct buf plain = a->body;
	bool ok;

	a->body = (struct buf){ 0 };
	ok = compress_into(COMPRESSION_GZIP, 0, buf_view(&plain), &a->body, err);
	buf_release(&plain);
	return ok;
}

static bool unknown_format(struct str name, struct err *err)
{
	struct buf known;

	buf_init(&known, 0);
	for (size_t i = 0; i < sizeof(FORMATS) / sizeof(FORMATS[0]); i++)
		buf_printf(&known, "%s, ", FORMATS[i].name);
	err_set(err, ERR_INVALID, "format is \"%.*s\"; there are %.*shtml",
		(int)(name.len < 40 ? name.len : 40), name.ptr, STR_ARG(buf_view(&known)));
	buf_release(&known);
	return false;
}

bool web_answer_export(struct web_ask *a, struct err *err)
{
	struct str name = params_get(&a->params, "format");
	const struct format *f = find(name);
	struct export_options options = { 0 };
	enum query_by by = QUERY_BY_FUNCTION;
	struct profiles *p = NULL;
	struct query *q;
	struct err ignored;
	bool ok;

	if (str_is(name, "html"))
		return web_answer_report(a, err);
	if (!f)
		return unknown_format(name, err);
	a->clip = true; /* what the page shows of the window, no more */
	a->average = f->adds_up;
	a->one_scale = str_is(name, "folded");
	q = web_begin(a, 0, err);
	options.addresses = query_by_parse(params_get(&a->params, "by"), &by, &ignored) &&
			    by == QUERY_BY_ADDRESS;
	ok = q && query_collect(q, &p, err) && f->write(p, &options, &a->body, err) &&
	     (!f->gzip || pack(a, err));
	query_end(q);
	profiles_free(p);
	a->content_type = f->content_type;
	a->file_name = f->file_name;
	return ok;
}
