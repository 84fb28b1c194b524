/* answer_export.c - the selection as a file of another tool's format. */
#include "web/internal.h"

#include "model/profiles.h"
#include "net/compress.h"
#include "query/draw/drawn.h"

static bool unknown_format(struct str name, struct err *err)
{
	struct buf known;

	buf_init(&known, 0);
	export_format_append_names(&known);
	err_set(err, ERR_INVALID, "format is \"%.*s\"; expected %.*s, html",
		STR_ARG(str_head(name, 40)), STR_ARG(buf_view(&known)));
	buf_release(&known);
	return false;
}

bool web_answer_export(struct web_ask *a, struct err *err)
{
	struct str name = params_get(&a->params, "format");
	const struct format *f = export_format_find(name);
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
	a->one_scale = f->one_scale;
	q = web_begin(a, 0, err);
	options.addresses = query_by_parse(params_get(&a->params, "by"), &by, &ignored) &&
			    by == QUERY_BY_ADDRESS;
	ok = q && query_collect(q, &p, err) && f->write(p, &options, &a->body, err) &&
	     (!f->gzip || compress_gzip_buf(&a->body, err));
	query_end(q);
	profiles_free(p);
	a->content_type = f->content_type;
	a->file_name = f->file_name;
	return ok;
}
