#include "query/draw/drawn.h"

#include "base/cleanup.h"
#include "query/draw/dot.h"
#include "query/profiles_source.h"

#define DRAWN_LIMIT_BYTES (256u << 20)

typedef bool draw_fn(struct query *q, const struct export_options *o, struct buf *out,
		     struct err *err);

static bool write_drawn(const struct profiles *p, const struct export_options *o, draw_fn *draw,
			struct buf *out, struct err *err)
{
	struct query_request request = { .source = profiles_source_new(p),
					 .profile_type = o ? o->profile_type : (struct str){ 0 },
					 .limit_bytes = DRAWN_LIMIT_BYTES };
	struct query *q = query_begin(&request, err);
	bool ok = q && draw(q, o, out, err);

	query_end(q);
	source_free(request.source);
	if (ok && out->failed)
		return err_set(err, ERR_LIMIT, "the drawing is longer than %zu bytes",
			       out->limit_bytes);
	return ok;
}

static bool dot_draw(struct query *q, const struct export_options *o, struct buf *out,
		     struct err *err)
{
	struct query_tree_options tree = { .nodes_most = QUERY_NODES_MOST };
	struct dot_options dot = { .unit = query_facts(q).type.unit,
				   .title = o ? o->title : (struct str){ 0 },
				   .nodes_most = o ? o->nodes_most : 0 };
	struct query_tree t;

	if (!query_flamegraph(q, &tree, &t, err))
		return false;
	dot_append_tree(out, &t, &dot);
	return true;
}

static bool write_dot(const struct profiles *p, const struct export_options *o, struct buf *out,
		      struct err *err)
{
	return write_drawn(p, o, dot_draw, out, err);
}

static bool write_svg(const struct profiles *p, const struct export_options *o, struct buf *out,
		      struct err *err)
{
	return write_drawn(p, o, svg_draw, out, err);
}

static const struct format drawn_formats[] = {
	{ .name = "dot",
	  .title = "Graphviz's DOT",
	  .endings = { ".dot" },
	  .file_name = "profile.dot",
	  .content_type = "text/vnd.graphviz; charset=utf-8",
	  .write = write_dot },
	{ .name = "svg",
	  .title = "SVG",
	  .endings = { ".svg" },
	  .file_name = "profile.svg",
	  .content_type = "image/svg+xml",
	  .write = write_svg },
};

/* One after another, those that are only read left out; NULL behind the last. */
static const struct format *next_format(uint32_t *at)
{
	while (*at < FORMATS && !formats[*at].write)
		++*at;
	if (*at < FORMATS)
		return &formats[(*at)++];
	if (*at < FORMATS + ARRAY_LEN(drawn_formats))
		return &drawn_formats[(*at)++ - FORMATS];
	return NULL;
}

const struct format *export_format_find(struct str name)
{
	const struct format *f;
	uint32_t at = 0;

	while ((f = next_format(&at)) && !str_is(name, f->name))
		;
	return f;
}

const struct format *export_format_of_file(struct str path)
{
	const struct format *f, *found = NULL;
	size_t longest = 0;
	uint32_t at = 0;

	while ((f = next_format(&at)))
		for (size_t i = 0; i < ARRAY_LEN(f->endings) && f->endings[i]; i++) {
			struct str ending = str_cstr(f->endings[i]);

			if (ending.len > longest && str_has_suffix(path, ending)) {
				longest = ending.len;
				found = f;
			}
		}
	return found;
}

static void append_listed(struct buf *b, size_t start, const char *word)
{
	if (b->len > start)
		buf_lit(b, ", ");
	buf_str(b, str_cstr(word));
}

void export_format_append_names(struct buf *b)
{
	const struct format *f;
	size_t start = b->len;
	uint32_t at = 0;

	while ((f = next_format(&at)))
		append_listed(b, start, f->name);
}

void export_format_append_endings(struct buf *b)
{
	const struct format *f;
	size_t start = b->len;
	uint32_t at = 0;

	while ((f = next_format(&at)))
		for (size_t i = 0; i < ARRAY_LEN(f->endings) && f->endings[i]; i++)
			append_listed(b, start, f->endings[i]);
}
