/* top.c - flametap top: the functions that cost most, of files or of a store. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "command.h"
#include "flags.h"
#include "listing.h"
#include "query/json.h"
#include "selection.h"
#include "table.h"

static struct selection_flags selection;
static struct listing_flags listing = LISTING_FLAGS_DEFAULT;
static const char *search;
static bool tree, inverted;

static const struct flag flags[] = {
	SELECTION_FLAGS(selection),
	LISTING_FLAGS(listing, "self, total"),
	FLAG("Output", "tree", FLAG_BOOL, &tree, NULL, NULL,
	     "who calls whom, with totals; -n limits the nodes"),
	FLAG("Output", "inverted", FLAG_BOOL, &inverted, NULL, NULL,
	     "with -tree: from the functions that cost to their callers"),
	FLAG("Output", "search", FLAG_STRING, &search, "REGEX", NULL,
	     "with -tree: mark what matches, and say what share of all it is"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap top body.pb",
	"flametap top --by line --focus 'binary:nginx' --sort total body.pb",
	NULL,
};

static const struct command command = {
	.name = "top",
	.words = "FILE...|-",
	.summary = "The functions that cost most, of OTLP profiles.",
	.examples = examples,
	.flags = flags,
	.words_max = 1u << 20,
};

/* ---- text ---- */

static void put_share(struct table *t, enum table_tone tone, int64_t part, int64_t whole)
{
	double share = whole ? 100.0 * (double)part / (double)whole : 0.0;
	char text[32];

	snprintf(text, sizeof(text), "%.2f%%", fabs(share) < 0.005 ? 0.0 : share); /* no -0.00 */
	table_cell(t, tone, str_cstr(text));
}

static void put_value(struct table *t, enum table_tone tone, const struct unit_scale *scale,
		      int64_t v)
{
	struct buf b;

	buf_init(&b, 0);
	unit_append(&b, scale, v);
	table_cell(t, tone, buf_view(&b));
	buf_release(&b);
}

/* The share that stands out: a tenth is hot. */
static enum table_tone tone_of(int64_t part, int64_t whole)
{
	double share = whole ? (double)part / (double)whole : 0;

	return share >= 0.10 ? TONE_RED : share >= 0.02 ? TONE_YELLOW : TONE_PLAIN;
}

static void put_frame(struct table *t, const struct query_frame *f, enum query_by by)
{
	struct buf name;

	table_cell(t, TONE_CYAN, f->type.len ? f->type : STR("-"));
	table_cell(t, TONE_DIM, f->binary.len ? f->binary : STR("-"));
	buf_init(&name, 0);
	listing_put_name(&name, f, by);
	table_cell(t, TONE_PLAIN, buf_view(&name));
	buf_release(&name);
}

static void put_head(struct table *t)
{
	static const char *const names[] = { "self", "self %", "total",   "total %",
					     "type", "binary", "function" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		table_cell(t, TONE_DIM, str_cstr(names[i]));
}

static void put_rows(struct table *t, const struct query_top *top, struct str unit,
		     enum query_by by)
{
	struct unit_scale scale = unit_scale_for(unit, top->total[0]);

	put_head(t);
	for (uint32_t i = 0; i < top->row_count; i++) {
		const struct query_top_row *r = &top->rows[i];
		enum table_tone tone = tone_of(r->self[0], top->total[0]);

		put_value(t, tone, &scale, r->self[0]);
		put_share(t, tone, r->self[0], top->total[0]);
		put_value(t, TONE_PLAIN, &scale, r->total[0]);
		put_share(t, TONE_PLAIN, r->total[0], top->total[0]);
		put_frame(t, &top->frames.ptr[r->frame], by);
	}
}

static int by_total(const void *a, const void *b)
{
	const struct query_top_row *x = a, *y = b;

	if (x->total[0] != y->total[0])
		return x->total[0] > y->total[0] ? -1 : 1;
	return x->self[0] > y->self[0] ? -1 : x->self[0] < y->self[0];
}

/* The rows that are asked for, in the order that is asked for, in memory of their own. */
static struct query_top_row *choose_rows(struct query_top *top, uint32_t rows)
{
	struct query_top_row *own = calloc(top->row_count + 1u, sizeof(*own));

	if (!own)
		abort();
	if (top->row_count)
		memcpy(own, top->rows, top->row_count * sizeof(*own));
	if (listing_sorts_by_total(&listing) && top->row_count)
		qsort(own, top->row_count, sizeof(*own), by_total);
	top->rows = own;
	if (rows && rows < top->row_count)
		top->row_count = rows;
	return own;
}

static void put_heading(struct buf *b, struct query *q, const struct query_top *top,
			uint32_t functions, bool colour)
{
	struct query_facts f = query_facts(q);
	uint64_t covered = 0;
	struct err err;

	tone_begin(b, colour, TONE_BOLD);
	listing_put_cost(b, &f, top->total[0]);
	tone_end(b, colour, TONE_BOLD);
	listing_put_events(b, &f, f.filtered);
	if (f.processes)
		buf_printf(b, " of %u process%s", f.processes, f.processes == 1 ? "" : "es");
	if (query_covered(q, &covered, &err))
		listing_put_covered(b, covered);
	buf_printf(b, "; %llu stacks, %u functions\n", (unsigned long long)top->stacks, functions);
	if (f.partial) {
		tone_begin(b, colour, TONE_YELLOW);
		buf_printf(b, "partial: %s", f.reason);
		if (top->unresolved[0]) {
			buf_lit(b, "; without names: ");
			unit_append_alone(b, f.type.unit, top->unresolved[0]);
		}
		tone_end(b, colour, TONE_YELLOW);
		buf_char(b, '\n');
	}
}

static void show_text(struct buf *out, struct query *q, struct query_top *top, enum query_by by,
		      uint32_t rows)
{
	uint32_t functions = top->row_count;
	struct query_top_row *own = choose_rows(top, rows);
	struct table t;

	table_init(&t, "rrrrlll");
	put_heading(out, q, top, functions, t.colour);
	put_rows(&t, top, query_facts(q).type.unit, by);
	table_print(&t, out);
	table_release(&t);
	free(own);
}

static void show_json(struct buf *out, struct query *q, const struct query_top *top,
		      enum query_by by, uint32_t rows)
{
	buf_char(out, '{');
	query_json_facts(out, q);
	buf_lit(out, ",\"top\":");
	query_json_top(out, top, by, 1, rows);
	buf_lit(out, "}\n");
}

/* ---- the tree ---- */

/* Where the line of each depth goes on below a node: "│ " or nothing. */
static void put_branch(struct buf *b, const struct query_tree *t, uint32_t at, bool *more)
{
	uint32_t depth = t->nodes[at].depth;

	more[depth] = false;
	for (uint32_t i = at + 1; i < t->node_count && t->nodes[i].depth >= depth; i++) {
		if (t->nodes[i].depth == depth) {
			more[depth] = true;
			break;
		}
	}
	for (uint32_t d = 1; d < depth; d++)
		buf_str(b, more[d] ? STR("\xe2\x94\x82 ") : STR("  "));
	buf_str(b, more[depth] ? STR("\xe2\x94\x9c ") : STR("\xe2\x94\x94 "));
}

static enum table_tone put_node_name(struct buf *b, const struct query_tree *t,
				     const struct query_node *n, enum query_by by)
{
	const struct query_frame *f;

	if (n->frame == QUERY_FRAME_OTHER) {
		buf_lit(b, "(other)");
		return TONE_DIM;
	}
	f = &t->frames.ptr[n->frame];
	listing_put_name(b, f, by);
	return f->found ? TONE_GREEN : TONE_PLAIN;
}

static void put_nodes(struct table *table, const struct query_tree *t, struct str unit,
		      enum query_by by)
{
	struct unit_scale scale = unit_scale_for(unit, t->total[0]);
	uint32_t deepest = 0;
	struct buf name;
	bool *more;

	for (uint32_t i = 0; i < t->node_count; i++)
		deepest = t->nodes[i].depth > deepest ? t->nodes[i].depth : deepest;
	more = calloc(deepest + 2u, sizeof(*more));
	if (!more)
		abort();
	buf_init(&name, 0);
	for (uint32_t i = 1; i < t->node_count; i++) {
		const struct query_node *n = &t->nodes[i];
		enum table_tone tone;

		buf_reset(&name);
		put_branch(&name, t, i, more);
		tone = put_node_name(&name, t, n, by);
		put_value(table, TONE_PLAIN, &scale, n->total[0]);
		put_share(table, tone_of(n->total[0], t->total[0]), n->total[0], t->total[0]);
		put_value(table, TONE_DIM, &scale, n->self[0]);
		table_cell(table, tone, buf_view(&name));
	}
	buf_release(&name);
	free(more);
}

static void show_tree_text(struct buf *out, struct query *q, const struct query_tree *t,
			   enum query_by by)
{
	struct query_top counts = { .stacks = t->stacks, .total = { t->total[0] } };
	struct str unit = query_facts(q).type.unit;
	struct table table;

	table_init(&table, "rrrl");
	put_heading(out, q, &counts, t->frames.count, table.colour);
	if (search) {
		buf_printf(out, "%.2f%% matches: ",
			   t->total[0] ? 100.0 * (double)t->matched[0] / (double)t->total[0] : 0.0);
		unit_append_alone(out, unit, t->matched[0]);
		buf_char(out, '\n');
	}
	table_cell(&table, TONE_DIM, STR("total"));
	table_cell(&table, TONE_DIM, STR("total %"));
	table_cell(&table, TONE_DIM, STR("self"));
	table_cell(&table, TONE_DIM, STR("function"));
	put_nodes(&table, t, unit, by);
	table_print(&table, out);
	table_release(&table);
}

static bool make_tree(struct buf *out, struct query *q, enum query_by by, uint32_t nodes,
		      struct err *err)
{
	struct query_tree_options o = { .inverted = inverted,
					.nodes_most = nodes ? nodes : QUERY_NODES_MOST,
					.search = str_cstr(search) };
	struct query_tree t;

	if (!query_flamegraph(q, &o, &t, err))
		return false;
	if (!listing.json && t.stacks == 0)
		return err_set(err, ERR_NOT_FOUND, "no samples match");
	if (!listing.json) {
		show_tree_text(out, q, &t, by);
		return true;
	}
	buf_char(out, '{');
	query_json_facts(out, q);
	buf_lit(out, ",\"tree\":");
	query_json_tree(out, &t, by, 1);
	buf_lit(out, "}\n");
	return true;
}

/* ---- the command ---- */

static bool make_top(struct buf *out, struct query *q, enum query_by by, uint32_t rows,
		     struct err *err)
{
	struct query_top top;

	if (!query_top(q, &top, err))
		return false;
	if (!listing.json && top.stacks == 0)
		return err_set(err, ERR_NOT_FOUND, "no samples match");
	if (listing.json)
		show_json(out, q, &top, by, rows);
	else
		show_text(out, q, &top, by, rows);
	return true;
}

static bool show(struct query *q, enum query_by by, struct err *err)
{
	AUTO(buf_release) struct buf out = { 0 };
	uint32_t rows;

	if (!listing_rows(&listing, &rows, err))
		return false;
	return (tree ? make_tree(&out, q, by, rows, err) : make_top(&out, q, by, rows, err)) &&
	       listing_write(&out, err);
}

static bool run(const struct words *words, struct err *err)
{
	struct selection_ids ids;
	struct query_request request;
	struct samples samples;
	struct query *q = NULL;
	bool ok = false;

	if (!tree && (inverted || search))
		return err_set(err, ERR_INVALID, "%s is about a tree: add -tree",
			       inverted ? "-inverted" : "-search");
	if (samples_open(&samples, selection.db, words->items, words->count, err) &&
	    selection_request(&selection, samples.source, &ids, &request, err)) {
		request.limit_bytes = SELECTION_LIMIT_BYTES;
		q = selection_begin(&samples, &request, err);
	}
	if (q)
		ok = show(q, request.by, err);
	query_end(q);
	samples_close(&samples);
	return ok;
}

int top_run(int argc, char **argv)
{
	struct words words;
	struct err err = { 0 };
	int status;
	bool ok;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	ok = run(&words, &err);
	free(words.items);
	if (!ok)
		fprintf(stderr, "flametap top: %s\n", err.msg);
	return ok ? EXIT_OK : EXIT_FAILED;
}
