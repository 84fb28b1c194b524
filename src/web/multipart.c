#include "web/multipart.h"

/* The value of `name=` among a header's parameters, quotes taken off. */
static struct str parameter(struct str header, struct str name)
{
	struct str rest = header, one;

	while (str_split(&rest, ';', &one)) {
		one = str_trim(one);
		if (one.len <= name.len || !str_equal_nocase(str_head(one, name.len), name) ||
		    one.ptr[name.len] != '=')
			continue;
		one = str_skip(one, name.len + 1);
		if (one.len >= 2 && one.ptr[0] == '"' && one.ptr[one.len - 1] == '"')
			one = str_from(one.ptr + 1, one.len - 2);
		return one;
	}
	return (struct str){ 0 };
}

bool multipart_begin(struct multipart *m, struct str content_type, struct str body, struct err *err)
{
	const struct str media = STR("multipart/form-data");

	*m = (struct multipart){ .boundary = parameter(content_type, STR("boundary")),
				 .rest = body };
	if (!str_equal_nocase(str_head(content_type, media.len), media))
		return err_set(err, ERR_INVALID, "no multipart/form-data");
	if (m->boundary.len == 0 || m->boundary.len > 70)
		return err_set(err, ERR_INVALID,
			       "multipart: a boundary of %zu bytes, wanted are 1 to 70",
			       m->boundary.len);
	return true;
}

/* Where "--boundary" begins at the start of a line, from `at` on; -1: nowhere. */
static ptrdiff_t find_boundary(const struct multipart *m, size_t at)
{
	struct str text = m->rest;

	while (at < text.len) {
		ptrdiff_t found = str_search(str_skip(text, at), m->boundary);
		size_t here;

		if (found < 0)
			return -1;
		here = at + (size_t)found;
		if (here >= 2 && text.ptr[here - 1] == '-' && text.ptr[here - 2] == '-' &&
		    (here == 2 || text.ptr[here - 3] == '\n'))
			return (ptrdiff_t)here - 2;
		at = here + 1;
	}
	return -1;
}

static void read_headers(struct str headers, struct multipart_part *out)
{
	const struct str disposition = STR("content-disposition:");
	struct str line;

	while (str_split(&headers, '\n', &line)) {
		line = str_trim(line);
		if (!str_equal_nocase(str_head(line, disposition.len), disposition))
			continue;
		out->name = parameter(line, STR("name"));
		out->file_name = parameter(line, STR("filename"));
	}
}

static bool fault(struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, "multipart: %s", what);
}

bool multipart_next(struct multipart *m, struct multipart_part *out, struct err *err)
{
	ptrdiff_t from = find_boundary(m, 0), to, blank;
	struct str part;

	if (from < 0)
		return fault(err, m->begun ? "the last boundary is missing" : "no boundary in it");
	m->begun = true;
	m->rest = str_skip(m->rest, (size_t)from + 2 + m->boundary.len);
	if (str_has_prefix(m->rest, STR("--"))) {
		err->kind = ERR_NONE;
		return false;
	}
	if (++m->count > MULTIPART_PARTS_MOST)
		return err_set(err, ERR_LIMIT, "multipart: more than %d parts",
			       MULTIPART_PARTS_MOST);
	to = find_boundary(m, 0);
	if (to < 0)
		return fault(err, "the last boundary is missing");
	part = str_head(m->rest, (size_t)to);
	m->rest = str_skip(m->rest, (size_t)to);
	blank = str_search(part, STR("\r\n\r\n"));
	if (blank < 0)
		return fault(err, "a part has no empty line behind its headers");
	*out = (struct multipart_part){ 0 };
	read_headers(str_head(part, (size_t)blank), out);
	part = str_skip(part, (size_t)blank + 4);
	if (!str_has_suffix(part, STR("\r\n")))
		return fault(err, "a part does not end with a line");
	out->content = str_head(part, part.len - 2);
	return true;
}
