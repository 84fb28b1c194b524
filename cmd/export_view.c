#include "export_view.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "model/subset.h"
#include "net/compress.h"

static bool put_profiles(const struct export_view *v, enum query_by by, const struct profiles *p,
			 struct buf *out, struct err *err)
{
	const struct format *f = v->format;
	struct export_options o = { .title = str_cstr(v->title),
				    .inverted = v->inverted,
				    .version = v->version,
				    .addresses = by == QUERY_BY_ADDRESS };

	if (export_view_is_otlp(f))
		otlp_losses(p, v->version, f == &formats[FORMAT_OTLP_JSON], v->losses);
	return f->write(p, &o, out, err) && (!f->gzip || compress_gzip_buf(out, err));
}

/* ---- of which types ---- */

/* Counts of a type that is there as time. */
static bool is_count_of_a_time(const struct query_facts *f, const struct query_type *t)
{
	if (!str_is(t->type, "samples"))
		return false;
	for (uint32_t i = 0; i < f->type_count; i++)
		if (f->types[i].type.len && str_equal(f->types[i].type, t->period_type) &&
		    str_equal(f->types[i].unit, t->period_unit))
			return true;
	return false;
}

/* What a format of one type leaves out is said. */
static void tell_left_out(const struct export_view *v, const struct query_facts *f)
{
	AUTO(buf_release) struct buf line = { 0 };

	for (uint32_t i = 0; i < f->type_count; i++) {
		if (str_equal(f->types[i].id, f->type.id))
			continue;
		buf_str(&line, line.len ? STR(", ") : STR(""));
		text_append_printable(&line, f->types[i].id);
	}
	if (line.len)
		fprintf(stderr,
			"flametap export: %s holds one type, %.*s; left out, -type chooses: %.*s\n",
			v->format->name, STR_ARG(f->type.id), STR_ARG(buf_view(&line)));
}

/* The samples of one type; *out NULL: there are none. */
static bool collect_type(struct query_request request, struct str type, struct profiles **out,
			 struct err *err)
{
	struct query *q;
	bool ok;

	*out = NULL;
	request.profile_type = type;
	q = query_begin(&request, err);
	ok = q && query_collect(q, out, err);
	query_end(q);
	if (ok && !(*out)->sample_count) {
		profiles_free(*out);
		*out = NULL;
	}
	return ok;
}

/* Counts stand before their time: what pprof's own tool shows is the last column. */
static void order_types(const struct query_facts *f, const struct query_type **out)
{
	uint32_t count = 0;

	for (int counts = 1; counts >= 0; counts--)
		for (uint32_t i = 0; i < f->type_count; i++)
			if (is_count_of_a_time(f, &f->types[i]) == counts)
				out[count++] = &f->types[i];
}

static bool collect_all(const struct query_request *request, const struct query_facts *f,
			struct profiles **out, struct err *err)
{
	struct profiles **parts = calloc(f->type_count + 1u, sizeof(struct profiles *));
	const struct query_type **types =
		calloc(f->type_count + 1u, sizeof(const struct query_type *));
	uint32_t count = 0;
	bool ok = true;

	assert(parts && types);
	*out = NULL;
	order_types(f, types);
	for (uint32_t i = 0; ok && i < f->type_count; i++) {
		ok = collect_type(*request, types[i]->id, &parts[count], err);
		count += ok && parts[count];
	}
	if (ok && count == 1) {
		*out = parts[--count];
	} else if (ok && count) {
		*out = profiles_merge((const struct profiles *const *)parts, count, err);
		ok = *out != NULL;
	}
	while (count)
		profiles_free(parts[--count]);
	free(types);
	free(parts);
	return ok;
}

static bool collect(const struct export_view *v, const struct query_request *request,
		    struct query *q, struct buf *out, struct err *err)
{
	struct query_facts f = query_facts(q);
	bool all = f.type_count > 1 && !f.type_asked && v->format->all_types;
	struct profiles *p = NULL;
	bool ok;

	if (!f.type_asked && !v->format->all_types)
		tell_left_out(v, &f);
	ok = all ? collect_all(request, &f, &p, err) : query_collect(q, &p, err);
	if (ok)
		ok = p && p->sample_count ? put_profiles(v, request->by, p, out, err)
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
		request.average = v->format->adds_up;
		request.one_scale = v->format->one_scale;
		/* Where all types are written, no file is left out for its type. */
		q = v->format->all_types && !request.profile_type.len
			    ? query_begin(&request, err)
			    : selection_begin(&samples, &request, err);
	}
	if (q)
		ok = collect(v, &request, q, out, err);
	query_end(q);
	samples_close(&samples);
	return ok;
}
