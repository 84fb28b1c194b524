/*
 * svg.c - a flame graph that works alone in a browser: zoom, search, keyboard, dark mode.
 *
 * The picture is complete without its script (every frame has a title, a box and a text where it
 * fits); the script of svg_script.h lays it out again at the window's width and makes it live.
 * Nothing is fetched.
 */
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "base/units.h"
#include "query/draw/drawn.h"
#include "query/draw/svg_script.h"
#include "query/query.h"

enum { WIDTH = 1200, HEAD = 74, ROW = 18, PAD = 10, NODES_DEFAULT = 20000 };

static const double TEXT_WIDTH = 6.7; /* of a character, on average, in the 12 px of the style */

struct drawing {
	const struct query_tree *tree;
	struct str unit;
	double *left; /* x of each depth's next box */
	struct buf *out;
};

static void put_xml(struct buf *b, struct str s)
{
	struct buf clean;

	buf_init(&clean, 0);
	text_append_printable(&clean, s);
	for (size_t i = 0; i < clean.len; i++) {
		switch (clean.ptr[i]) {
		case '<':
			buf_lit(b, "&lt;");
			break;
		case '>':
			buf_lit(b, "&gt;");
			break;
		case '&':
			buf_lit(b, "&amp;");
			break;
		case '"':
			buf_lit(b, "&quot;");
			break;
		default:
			buf_char(b, clean.ptr[i]);
		}
	}
	buf_release(&clean);
}

/* ---- colours: a hue a frame type, shades by name ---- */

static void put_fill(struct buf *b, const struct query_frame *f)
{
	static const struct {
		const char *type;
		unsigned hue, saturation;
	} hues[] = { { "kernel", 14, 78 }, { "native", 36, 84 },  { "go", 190, 58 },
		     { "rust", 25, 62 },   { "jvm", 142, 44 },    { "cpython", 212, 62 },
		     { "php", 250, 52 },   { "ruby", 348, 62 },   { "perl", 172, 42 },
		     { "v8js", 54, 78 },   { "dotnet", 276, 46 }, { "beam", 300, 42 },
		     { "luajit", 230, 48 } };
	unsigned hue = 90, saturation = 24, shade = (unsigned)(f->key >> 7) % 13;

	for (size_t i = 0; i < sizeof(hues) / sizeof(hues[0]); i++) {
		if (str_is(f->type, hues[i].type)) {
			hue = hues[i].hue;
			saturation = hues[i].saturation;
		}
	}
	if (f->inlined)
		saturation = saturation * 3 / 5;
	buf_printf(b, "hsl(%u,%u%%,%u%%)", hue + (unsigned)(f->key >> 13) % 9, saturation,
		   66 + shade);
}

/* ---- boxes ---- */

static void put_title(const struct drawing *d, const struct query_node *n,
		      const struct query_frame *f, struct str name)
{
	double share =
		d->tree->total[0] ? 100.0 * (double)n->total[0] / (double)d->tree->total[0] : 0;

	buf_lit(d->out, "<title>");
	put_xml(d->out, name);
	if (f && f->inlined)
		buf_lit(d->out, " (inlined)");
	buf_char(d->out, '\n');
	unit_append_alone(d->out, d->unit, n->total[0]);
	buf_printf(d->out, ", %.2f%%; self ", share);
	unit_append_alone(d->out, d->unit, n->self[0]);
	if (f && (f->binary.len || f->type.len)) {
		buf_char(d->out, '\n');
		put_xml(d->out, f->type);
		buf_str(d->out, f->type.len && f->binary.len ? STR(" in ") : STR(""));
		put_xml(d->out, f->binary);
	}
	if (f && f->file.len) {
		buf_char(d->out, '\n');
		put_xml(d->out, f->file);
		if (f->line > 0)
			buf_printf(d->out, ":%lld", (long long)f->line);
	}
	buf_lit(d->out, "</title>");
}

/* As much of the name as fits, at character borders. */
static void put_label(struct buf *out, struct str name, double width)
{
	size_t fit = width > 26 ? (size_t)((width - 6) / TEXT_WIDTH) : 0, end = 0;
	size_t chars = 0;

	while (end < name.len && chars < fit) {
		for (end++; end < name.len && ((unsigned char)name.ptr[end] & 0xc0) == 0x80;)
			end++;
		chars++;
	}
	put_xml(out, str_head(name, end));
	if (end && end < name.len)
		buf_lit(out, "..");
}

static void put_box(const struct drawing *d, const struct query_node *n, double x, double width)
{
	const struct query_frame *f = NULL;
	double y = HEAD + (double)n->depth * ROW;
	struct buf name;

	buf_init(&name, 0);
	if (n->frame == QUERY_FRAME_ROOT) {
		buf_lit(&name, "all");
	} else if (n->frame == QUERY_FRAME_OTHER) {
		buf_lit(&name, "(other: too small to draw)");
	} else {
		f = &d->tree->frames.ptr[n->frame];
		query_frame_append_name(&name, f, QUERY_BY_FUNCTION);
	}
	buf_lit(d->out, "<g class=\"f\">");
	put_title(d, n, f, buf_view(&name));
	buf_printf(d->out, "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" fill=\"", x, y,
		   width, ROW - 1);
	if (f)
		put_fill(d->out, f);
	else
		buf_str(d->out, n->frame == QUERY_FRAME_ROOT ? STR("hsl(36,20%,76%)")
							     : STR("hsl(0,0%,80%)"));
	buf_printf(d->out, "\"/><text x=\"%.2f\" y=\"%.0f\">", x + 3, y + ROW - 5);
	put_label(d->out, buf_view(&name), width);
	buf_lit(d->out, "</text></g>\n");
	buf_release(&name);
}

/* Nodes stand in pre-order: each begins where its parent does, or its elder sibling ends. */
static void put_boxes(struct drawing *d)
{
	const struct query_tree *t = d->tree;
	double scale = t->total[0] > 0 ? (WIDTH - 2.0 * PAD) / (double)t->total[0] : 0;

	d->left[0] = PAD;
	for (uint32_t i = 0; i < t->node_count && !d->out->failed; i++) {
		const struct query_node *n = &t->nodes[i];
		double width = (double)n->total[0] * scale, x = d->left[n->depth];

		d->left[n->depth] = x + (width > 0 ? width : 0);
		d->left[n->depth + 1] = x;
		if (width > 0)
			put_box(d, n, x, width);
	}
}

/* ---- the page around them ---- */

static void put_head(struct buf *out, struct str title, uint32_t height)
{
	buf_printf(out,
		   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		   "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%d\" "
		   "height=\"%u\" viewBox=\"0 0 %d %u\" data-head=\"%d\" data-row=\"%d\" "
		   "data-pad=\"%d\">\n<title>",
		   WIDTH, height, WIDTH, height, HEAD, ROW, PAD);
	put_xml(out, title);
	buf_lit(out, "</title>\n<style>");
	buf_str(out, str_cstr(svg_style));
	buf_lit(out,
		"</style>\n<rect id=\"bg\" width=\"100%\" height=\"100%\"/>\n<g id=\"frames\">\n");
}

static void put_foot(struct buf *out, struct str title, struct query *q, const struct query_tree *t)
{
	struct query_facts f = query_facts(q);

	buf_printf(out,
		   "</g>\n<g id=\"head\"><rect id=\"bar\" width=\"100%%\" height=\"%d\"/>"
		   "<text id=\"name\" x=\"%d\" y=\"24\">",
		   HEAD - 4, PAD);
	put_xml(out, title);
	buf_printf(out, "</text><text id=\"facts\" x=\"%d\" y=\"43\">", PAD);
	unit_append_alone(out, f.type.unit, t->total[0]);
	buf_char(out, ' ');
	put_xml(out, f.type.type);
	buf_lit(out, " in ");
	unit_append_alone(out, (struct str){ 0 }, (int64_t)f.events);
	buf_lit(out, " events");
	if (t->pruned_nodes) {
		buf_lit(out, "; ");
		unit_append_alone(out, (struct str){ 0 }, t->pruned_nodes);
		buf_lit(out, " boxes too small to draw");
	}
	buf_printf(out,
		   "</text><text id=\"info\" x=\"%d\" y=\"62\"></text>"
		   "<foreignObject id=\"tools\" x=\"%d\" y=\"8\" width=\"420\" height=\"30\">"
		   "</foreignObject></g>\n<script><![CDATA[",
		   PAD, WIDTH - 420 - PAD);
	buf_str(out, str_cstr(svg_script));
	buf_lit(out, "]]></script>\n</svg>\n");
}

bool svg_draw(struct query *q, const struct export_options *o, struct buf *out, struct err *err)
{
	struct query_tree_options tree = { .inverted = o && o->inverted,
					   .nodes_most = o && o->nodes_most ? o->nodes_most
									    : NODES_DEFAULT,
					   .share_least = 0.2 / WIDTH };
	struct str title = o && o->title.len ? o->title : STR("Flame graph");
	struct query_tree t;
	struct drawing d = { .tree = &t, .unit = query_facts(q).type.unit, .out = out };
	uint32_t deepest = 0;

	if (!query_flamegraph(q, &tree, &t, err))
		return false;
	for (uint32_t i = 0; i < t.node_count; i++)
		deepest = t.nodes[i].depth > deepest ? t.nodes[i].depth : deepest;
	d.left = calloc(deepest + 2u, sizeof(*d.left));
	if (!d.left)
		abort();
	put_head(out, title, HEAD + (deepest + 1) * ROW + PAD);
	put_boxes(&d);
	put_foot(out, title, q, &t);
	free(d.left);
	return true;
}
