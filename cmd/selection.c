#include "selection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hex.h"
#include "base/text.h"
#include "base/vec.h"
#include "formats/formats.h"
#include "input.h"
#include "model/subset.h"
#include "query/profiles_source.h"
#include "query/time/time_range.h"
#include "store/store.h"

/* ---- files ---- */

struct parts {
	struct profiles **ptr;
	uint32_t count, cap;
};

static void parts_release(struct parts *p)
{
	for (uint32_t i = 0; i < p->count; i++)
		profiles_free(p->ptr[i]);
	free(p->ptr);
}

static void parts_add(struct parts *p, struct profiles *one)
{
	VEC_ROOM(p->ptr, p->count, p->cap);
	p->ptr[p->count++] = one;
}

struct file_types {
	const char *file;
	struct buf ids; /* each ends in a line feed */
};

/* Adds the types of a part to what its file has. */
static void note_types(struct file_types *t, const struct profiles *part)
{
	struct query_request all = { .source = profiles_source_new(part) };
	struct err ignored;
	struct query *q = query_begin(&all, &ignored);
	struct query_facts f;

	if (q) {
		f = query_facts(q);
		for (uint32_t i = 0; i < f.type_count; i++) {
			buf_str(&t->ids, f.types[i].id);
			buf_char(&t->ids, '\n');
		}
	}
	query_end(q);
	source_free(all.source);
}

static bool has_type(const struct file_types *t, struct str id)
{
	struct str rest = buf_view(&t->ids), line;

	while (str_split(&rest, '\n', &line))
		if (str_equal(line, id))
			return true;
	return false;
}

/* What is left out of what is shown is said: other types are other units. */
static void tell_left_out(const struct samples *s, const struct query *q)
{
	struct str id = query_facts(q).type.id, rest, one;

	for (unsigned i = 0; i < s->file_count; i++) {
		const struct file_types *t = &s->file_types[i];
		AUTO(buf_release) struct buf line = { 0 };

		rest = buf_view(&t->ids);
		if (!rest.len || !id.len || has_type(t, id))
			continue;
		text_append_printable(&line, str_cstr(t->file));
		buf_lit(&line, ": left out, it has nothing of ");
		text_append_printable(&line, id);
		for (bool first = true; str_split(&rest, '\n', &one) && one.len; first = false) {
			buf_str(&line, first ? STR(" but ") : STR(", "));
			text_append_printable(&line, one);
		}
		fprintf(stderr, "%.*s\n", STR_ARG(buf_view(&line)));
	}
}

static bool read_file(struct parts *parts, const char *file, struct err *err)
{
	struct input in;
	struct blob *body;
	size_t offset;
	bool ok = true;

	if (!input_open(&in, file, err))
		return false;
	while (ok && input_next(&in, &body, &offset, err)) {
		struct profiles *one;

		ok = format_read(body, &one, err);
		blob_unref(body);
		if (ok)
			parts_add(parts, one);
		else
			err_prefix(err, "%s", file);
	}
	ok = ok && err->kind == ERR_NONE;
	input_close(&in);
	return ok;
}

static bool read_files(struct samples *s, char *const *files, unsigned count, struct err *err)
{
	struct parts parts = { 0 };
	bool ok = true;

	if (count > 1) {
		s->file_types = calloc(count, sizeof(*s->file_types));
		if (!s->file_types)
			abort();
		s->file_count = count;
	}
	for (unsigned i = 0; i < count && ok; i++) {
		uint32_t first = parts.count;

		ok = read_file(&parts, files[i], err);
		for (uint32_t k = first; k < parts.count && s->file_types; k++)
			note_types(&s->file_types[i], parts.ptr[k]);
		if (s->file_types)
			s->file_types[i].file = files[i];
	}
	if (ok && parts.count == 1) {
		s->profiles = parts.ptr[0];
		parts.count = 0;
	} else if (ok) {
		s->profiles =
			profiles_merge((const struct profiles *const *)parts.ptr, parts.count, err);
		ok = s->profiles != NULL;
	}
	parts_release(&parts);
	return ok;
}

static bool open_store(struct samples *s, const char *db, struct err *err)
{
	struct store_open_options options = { .location = db };

	return store_open(&options, &s->store, err) && store_begin(s->store, &s->source, err);
}

/* Only of a regular file: what is taken off a pipe to look at it is gone. */
static bool is_store(const char *path)
{
	static const char magic[] = "SQLite format 3";
	char head[sizeof(magic)];
	struct stat st;
	FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
	bool is = f && fread(head, 1, sizeof(head), f) == sizeof(head) &&
		  memcmp(head, magic, sizeof(head)) == 0;

	if (f)
		fclose(f);
	return is;
}

bool samples_open(struct samples *s, const char *db, char *const *files, unsigned file_count,
		  struct err *err)
{
	*s = (struct samples){ 0 };
	if (db && file_count)
		return err_set(err, ERR_INVALID, "files or --db, not both");
	if (db)
		return open_store(s, db, err);
	if (!file_count)
		return err_set(err, ERR_INVALID, "no file given, and no --db");
	if (file_count == 1 && (strstr(files[0], "://") || is_store(files[0])))
		return open_store(s, files[0], err);
	if (!read_files(s, files, file_count, err))
		return false;
	s->source = profiles_source_new(s->profiles);
	return true;
}

void samples_close(struct samples *s)
{
	source_free(s->source);
	profiles_free(s->profiles);
	store_close(s->store);
	for (unsigned i = 0; i < s->file_count; i++)
		buf_release(&s->file_types[i].ids);
	free(s->file_types);
	*s = (struct samples){ 0 };
}

/* ---- the request ---- */

static bool hex_id(const char *text, uint8_t *out, size_t len, const char *what, struct err *err)
{
	return hex_decode(str_cstr(text), out, len) ||
	       err_set(err, ERR_INVALID, "-%s \"%.40s\": %zu hex digits are due", what, text,
		       len * 2);
}

static bool add_filters(struct query_request *r, const struct flag_steps *steps, struct err *err)
{
	struct query_filter *to = r->filters;

	if (steps->count > QUERY_FILTERS_MOST)
		return err_set(err, ERR_LIMIT, "%u stack filters; %d may be", steps->count,
			       QUERY_FILTERS_MOST);
	for (unsigned i = 0; i < steps->count; i++, to++) {
		if (!query_filter_kind_parse(str_cstr(steps->items[i].flag), &to->kind))
			return err_set(err, ERR_INTERNAL, "-%s is not a stack filter",
				       steps->items[i].flag);
		query_filter_parse(str_cstr(steps->items[i].value), to->kind, to);
	}
	r->filter_count = steps->count;
	return true;
}

bool selection_request(const struct selection_flags *f, struct source *source,
		       struct selection_ids *ids, struct query_request *out, struct err *err)
{
	struct query_request r = { .source = source,
				   .selector = str_cstr(f->selector),
				   .profile_type = str_cstr(f->type),
				   .gauge_last = f->last };

	if (!time_range_parse(str_cstr(f->from), str_cstr(f->to), clock_realtime_ns(), &r.range,
			      err) ||
	    (f->by && !query_by_parse(str_cstr(f->by), &r.by, err)) ||
	    (f->trace && !hex_id(f->trace, ids->trace, 16, "trace", err)) ||
	    (f->span && !hex_id(f->span, ids->span, 8, "span", err)))
		return false;
	if (f->trace)
		r.trace_id = ids->trace;
	if (f->span)
		r.span_id = ids->span;
	*out = r;
	return add_filters(out, &f->filters, err);
}

static void tell_types(struct query_request all)
{
	struct query_facts f;
	struct query *q;
	struct err ignored;

	all.profile_type = (struct str){ 0 };
	q = query_begin(&all, &ignored);
	if (!q)
		return;
	f = query_facts(q);
	/* Of few the message has room. */
	if (f.type_count > 3)
		fprintf(stderr, "profile types here:\n");
	for (uint32_t i = 0; i < f.type_count && f.type_count > 3; i++) {
		AUTO(buf_release) struct buf line = { 0 };

		text_append_printable(&line, f.types[i].id);
		fprintf(stderr, "  %.*s\n", STR_ARG(buf_view(&line)));
	}
	query_end(q);
}

struct query *selection_begin(const struct samples *s, const struct query_request *request,
			      struct err *err)
{
	struct query *q = query_begin(request, err);

	if (!q && err->kind == ERR_NOT_FOUND && request->profile_type.len)
		tell_types(*request);
	if (q)
		tell_left_out(s, q);
	return q;
}
