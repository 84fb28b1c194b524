#include "export_view.h"

#include <string.h>

#include "base/cleanup.h"
#include "net/compress.h"
#include "query/formats/formats.h"
#include "wire/otlp_json.h"

const char *const export_view_formats[] = { "pprof", "folded", "speedscope", "firefox",
					    "pgo",   "dot",    "svg",        NULL };

bool export_view_is_format(const char *format)
{
	for (size_t i = 0; export_view_formats[i]; i++)
		if (strcmp(export_view_formats[i], format) == 0)
			return true;
	return false;
}

/* By convention pprof files are gzip files. */
static bool put_pprof(const struct export_view *v, const struct profiles *p,
		      const struct export_options *o, struct buf *out, struct err *err)
{
	struct buf plain;
	bool ok;

	buf_init(&plain, 0);
	ok = (strcmp(v->format, "pgo") == 0 ? go_pgo_write : pprof_write)(p, o, &plain, err) &&
	     compress_into(COMPRESSION_GZIP, 0, buf_view(&plain), out, err);
	buf_release(&plain);
	return ok;
}

static bool put_otlp(const struct export_view *v, const struct profiles *p, struct buf *out,
		     struct err *err)
{
	bool json = strcmp(v->format, "otlp-json") == 0;

	otlp_losses(p, v->version, json, v->losses);
	return json ? otlp_json_encode(p, out, err) : otlp_encode(p, v->version, out, err);
}

static bool put(const struct export_view *v, const struct profiles *p, struct buf *out,
		struct err *err)
{
	struct export_options o = { .title = str_cstr(v->title), .inverted = v->inverted };

	if (strcmp(v->format, "pprof") == 0 || strcmp(v->format, "pgo") == 0)
		return put_pprof(v, p, &o, out, err);
	if (strcmp(v->format, "folded") == 0)
		return folded_write(p, &o, out, err);
	if (strcmp(v->format, "speedscope") == 0)
		return speedscope_write(p, &o, out, err);
	if (strcmp(v->format, "firefox") == 0)
		return firefox_write(p, &o, out, err);
	if (strcmp(v->format, "dot") == 0)
		return dot_write(p, &o, out, err);
	if (strcmp(v->format, "svg") == 0)
		return svg_write(p, &o, out, err);
	return put_otlp(v, p, out, err);
}

/* Others are OTLP, or drawn by the engine, which knows gauges. */
static bool adds_up(const char *format)
{
	static const char *const formats[] = { "pprof", "folded", "speedscope", "firefox", "pgo" };

	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (strcmp(formats[i], format) == 0)
			return true;
	return false;
}

static bool collect(const struct export_view *v, struct query *q, struct buf *out, struct err *err)
{
	struct profiles *p;
	bool ok;

	if (!query_collect(q, &p, err))
		return false;
	ok = p->sample_count ? put(v, p, out, err)
			     : err_set(err, ERR_NOT_FOUND, "no samples match");
	profiles_free(p);
	return ok;
}

bool export_view_write(const struct export_view *v, struct buf *out, struct err *err)
{
	struct query_request request;
	struct selection_ids ids;
	struct samples samples;
	struct query *q = NULL;
	bool ok = false;

	if (samples_open(&samples, v->selection->db, v->files, v->file_count, err) &&
	    selection_request(v->selection, samples.source, &ids, &request, err)) {
		request.limit_bytes = (size_t)SELECTION_LIMIT_BYTES * 4;
		request.clip = true;
		request.average = adds_up(v->format);
		request.one_scale = strcmp(v->format, "folded") == 0;
		q = selection_begin(&samples, &request, err);
	}
	if (q)
		ok = collect(v, q, out, err);
	query_end(q);
	samples_close(&samples);
	return ok;
}
