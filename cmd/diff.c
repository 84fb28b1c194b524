/*
 * diff.c - flametap diff: what became dearer and what cheaper between two selections, and a gate
 * for CI.
 *
 * Functions are compared by their share of their side's total; with --absolute by their cost per
 * second of covered time (gauges, which are averages, as they are). --fail-above means percentage
 * points: of the shares, or, with --absolute, of what the base cost per second in all. A gate has
 * its own exit status for what went wrong.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/units.h"
#include "command.h"
#include "flags.h"
#include "listing.h"
#include "query/json.h"
#include "selection.h"
#include "table.h"

static struct selection_flags selection;
static const char *base_db, *base_selector, *base_type, *base_from, *base_to;
static struct listing_flags listing = LISTING_FLAGS_DEFAULT;
static const char *fail_above;
static bool absolute;

static const struct flag flags[] = {
	SELECTION_FLAGS(selection),
	FLAG("Base (the first side), where it is not as the second", "base-db", FLAG_STRING,
	     &base_db, "STORE", NULL, "the store of the base"),
	FLAG("Base (the first side), where it is not as the second", "base-select", FLAG_STRING,
	     &base_selector, "SELECTOR", NULL, "as -select"),
	FLAG("Base (the first side), where it is not as the second", "base-type", FLAG_STRING,
	     &base_type, "TYPE", NULL, "as -type"),
	FLAG("Base (the first side), where it is not as the second", "base-from", FLAG_STRING,
	     &base_from, "TIME", NULL, "as -from"),
	FLAG("Base (the first side), where it is not as the second", "base-to", FLAG_STRING,
	     &base_to, "TIME", NULL, "as -to"),
	LISTING_FLAGS(listing, "what is compared: self, total"),
	FLAG("Output", "absolute", FLAG_BOOL, &absolute, NULL, NULL,
	     "compare cost per second of covered time, not shares"),
	FLAG("Output", "fail-above", FLAG_STRING, &fail_above, "PERCENT", NULL,
	     "exit 1 and name what became dearer by more points; at errors exit 2"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap diff before.pb.gz after.pb.gz",
	"flametap diff --fail-above 5% main.pb.gz branch.pb.gz",
	"flametap diff --db flametap.db --base-from now-2h --base-to now-1h --from now-1h",
	"flametap diff --db flametap.db profile.pb.gz      (the store is the base)",
	NULL,
};

static const struct command command = {
	.name = "diff",
	.words = "[[BASE] NOW]",
	.summary = "What costs more and what costs less between two files, stores or times.",
	.examples = examples,
	.flags = flags,
	.words_max = 2,
};

/* ---- the comparison ---- */

struct side {
	struct samples samples;
	struct selection_ids ids;
	struct query_request request;
	struct query *q;
	uint64_t covered_ns;
	double whole; /* what 100 % is, in the side's own values */
	double unit;  /* what 1 of the numbers that are shown is, in its values */
};

struct change {
	const struct query_top_row *row;
	double before, after; /* percent, or cost per second */
	double points;        /* of what the base costs in all */
};

struct comparison {
	struct side base, now;
	struct query_top top;
	struct change *changes;
	uint32_t count;
	enum query_by by;
	bool gauge;
	struct unit_scale scale; /* absolute */
};

static bool is_new(const struct change *c)
{
	return c->before == 0 && c->after != 0;
}

static bool is_gone(const struct change *c)
{
	return c->after == 0 && c->before != 0;
}

static int larger_change(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	double v = fabs(x->points), w = fabs(y->points);

	if (v != w)
		return v > w ? -1 : 1;
	return x->row->frame < y->row->frame ? -1 : x->row->frame > y->row->frame;
}

/* What 100 % is on each side. */
static bool measure(struct comparison *c, struct err *err)
{
	struct query_facts facts = query_facts(c->base.q);

	c->base.whole = (double)c->top.total[QUERY_LEFT];
	c->now.whole = (double)c->top.total[QUERY_RIGHT];
	if (!query_covered(c->base.q, &c->base.covered_ns, err) ||
	    !query_covered(c->now.q, &c->now.covered_ns, err))
		return false;
	c->base.unit = c->base.whole / 100;
	c->now.unit = c->now.whole / 100;
	if (!absolute)
		return true;
	if (!facts.type.id.len)
		facts = query_facts(c->now.q);
	c->gauge = facts.type.gauge;
	if (!c->gauge && (!c->base.covered_ns || !c->now.covered_ns))
		return err_set(err, ERR_INVALID,
			       "--absolute needs profiles with durations on both sides");
	c->base.unit = c->gauge ? 1 : (double)c->base.covered_ns / 1e9;
	c->now.unit = c->gauge ? 1 : (double)c->now.covered_ns / 1e9;
	c->now.whole = c->base.whole / c->base.unit * c->now.unit;
	return true;
}

static double ratio(int64_t v, double whole)
{
	return whole != 0 ? (double)v / whole : 0;
}

static void compare(struct comparison *c)
{
	bool total = listing_sorts_by_total(&listing);
	double largest = 0;

	c->changes = calloc(c->top.row_count + 1u, sizeof(*c->changes));
	if (!c->changes)
		abort();
	for (uint32_t i = 0; i < c->top.row_count; i++) {
		const struct query_top_row *r = &c->top.rows[i];
		const int64_t *v = total ? r->total : r->self;
		struct change change = { .row = r,
					 .before = ratio(v[QUERY_LEFT], c->base.unit),
					 .after = ratio(v[QUERY_RIGHT], c->now.unit) };

		change.points = 100 * (ratio(v[QUERY_RIGHT], c->now.whole) -
				       ratio(v[QUERY_LEFT], c->base.whole));
		largest = fmax(largest, fmax(fabs(change.before), fabs(change.after)));
		if (v[QUERY_LEFT] || v[QUERY_RIGHT])
			c->changes[c->count++] = change;
	}
	if (c->count)
		qsort(c->changes, c->count, sizeof(*c->changes), larger_change);
	c->scale = unit_scale_for(
		query_facts(c->top.total[QUERY_LEFT] ? c->base.q : c->now.q).type.unit,
		(int64_t)fmin(largest, 9e18));
}

/* ---- output ---- */

/* "6.33%", "53.60 ms/s", "1.17 MiB"; `sign`: +, too. */
static void append_number(struct buf *b, const struct comparison *c, double v, bool sign)
{
	int digits = absolute && c->scale.digits ? c->scale.digits : 2;
	double shown = absolute ? v / c->scale.divisor : v;

	if (fabs(shown) < 0.5 * pow(10, -digits))
		shown = 0; /* no -0.00 */
	buf_printf(b, sign ? "%+.*f" : "%.*f", digits, shown);
	if (!absolute)
		buf_char(b, '%');
	else if (c->scale.name[0])
		buf_printf(b, " %s", c->scale.name);
	if (absolute && !c->gauge)
		buf_lit(b, "/s");
}

static void put_number(struct table *t, const struct comparison *c, double v)
{
	AUTO(buf_release) struct buf text = { 0 };

	append_number(&text, c, v, false);
	table_cell(t, TONE_PLAIN, buf_view(&text));
}

static void put_change(struct table *t, const struct comparison *c, double v)
{
	AUTO(buf_release) struct buf text = { 0 };

	append_number(&text, c, v, true);
	table_cell(t, v > 0 ? TONE_RED : TONE_GREEN, buf_view(&text));
}

static void put_ratio(struct table *t, const struct change *c)
{
	char text[48];

	if (is_new(c))
		snprintf(text, sizeof(text), "new");
	else if (is_gone(c))
		snprintf(text, sizeof(text), "gone");
	else if (c->before < 0 || c->after < 0)
		snprintf(text, sizeof(text), "-"); /* what was freed, corrections: no multiple */
	else if (c->after / c->before >= 10000)
		snprintf(text, sizeof(text), ">9999x");
	else
		snprintf(text, sizeof(text), "%.2fx", c->after / c->before);
	table_cell(t, TONE_DIM, str_cstr(text));
}

static void put_name(struct buf *b, const struct comparison *c, const struct change *change)
{
	listing_put_name(b, &c->top.frames.ptr[change->row->frame], c->by);
}

static void put_rows(struct table *t, const struct comparison *c, uint32_t rows)
{
	static const char *const head[] = { "base", "now",    "change",  "ratio",
					    "type", "binary", "function" };
	struct buf name;

	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		table_cell(t, TONE_DIM, str_cstr(head[i]));
	buf_init(&name, 0);
	for (uint32_t i = 0; i < c->count && (!rows || i < rows); i++) {
		const struct change *change = &c->changes[i];
		const struct query_frame *f = &c->top.frames.ptr[change->row->frame];

		put_number(t, c, change->before);
		put_number(t, c, change->after);
		put_change(t, c, change->after - change->before);
		put_ratio(t, change);
		table_cell(t, TONE_CYAN, f->type.len ? f->type : STR("-"));
		table_cell(t, TONE_DIM, f->binary.len ? f->binary : STR("-"));
		buf_reset(&name);
		put_name(&name, c, change);
		table_cell(t, TONE_PLAIN, buf_view(&name));
	}
	buf_release(&name);
}

static void put_side(struct buf *b, const char *name, const struct side *s, int64_t total)
{
	struct query_facts f = query_facts(s->q);

	buf_str(b, str_cstr(name));
	buf_char(b, ' ');
	listing_put_cost(b, &f, total);
	listing_put_events(b, &f, f.filtered);
	listing_put_covered(b, s->covered_ns);
	if (f.partial)
		buf_printf(b, "; partial: %s", f.reason);
	buf_char(b, '\n');
}

static void show_text(struct buf *out, const struct comparison *c, uint32_t rows)
{
	struct table t;

	put_side(out, "base", &c->base, c->top.total[QUERY_LEFT]);
	put_side(out, "now ", &c->now, c->top.total[QUERY_RIGHT]);
	table_init(&t, "rrrrlll");
	put_rows(&t, c, rows);
	table_print(&t, out);
	table_release(&t);
}

static void show_json(struct buf *out, const struct comparison *c, uint32_t rows)
{
	buf_lit(out, "{\"base\":{");
	query_json_facts(out, c->base.q);
	buf_printf(out, ",\"covered\":%llu},\"now\":{", (unsigned long long)c->base.covered_ns);
	query_json_facts(out, c->now.q);
	buf_printf(out, ",\"covered\":%llu},\"top\":", (unsigned long long)c->now.covered_ns);
	query_json_top(out, &c->top, c->by, QUERY_SIDES, rows);
	buf_lit(out, "}\n");
}

/* Names what is past the limit on stderr, the dearest first. */
static bool gate(const struct comparison *c, double limit)
{
	uint32_t over = 0;
	AUTO(buf_release) struct buf name = { 0 }, line = { 0 }, costs = { 0 };

	for (uint32_t i = 0; i < c->count; i++) {
		const struct change *change = &c->changes[i];

		if (change->points <= limit)
			continue;
		over++;
		buf_reset(&name);
		buf_reset(&line);
		buf_reset(&costs);
		put_name(&name, c, change);
		text_append_printable(&line, buf_view(&name));
		append_number(&costs, c, change->before, false);
		buf_lit(&costs, " -> ");
		append_number(&costs, c, change->after, false);
		fprintf(stderr, "dearer by %.2f points (%.*s): %.*s\n", change->points,
			(int)costs.len, costs.ptr, (int)line.len, line.ptr);
	}
	if (over)
		fprintf(stderr,
			"flametap diff: %u function%s dearer by more than %g points of %s\n", over,
			over == 1 ? " is" : "s are", limit, listing.sort);
	return over == 0;
}

/* ---- the command ---- */

/* Of a word, where there is one, else of the store. */
static bool open_side(struct side *s, const struct selection_flags *f, char *const *word,
		      struct err *err)
{
	if (!samples_open(&s->samples, word ? NULL : f->db, word, word ? 1 : 0, err) ||
	    !selection_request(f, s->samples.source, &s->ids, &s->request, err))
		return false;
	s->request.limit_bytes = SELECTION_LIMIT_BYTES;
	s->request.by_share = !absolute;
	s->q = selection_begin(&s->samples, &s->request, err);
	return s->q != NULL;
}

static bool is_same_type(const struct query_type *a, const struct query_type *b)
{
	return str_equal(a->type, b->type) && str_equal(a->unit, b->unit);
}

/* Where nobody asked for its type, a side is of this one, if it has it. */
static bool take_type(struct side *s, struct query_type type)
{
	struct query_facts f = query_facts(s->q);
	struct query *q;
	struct err ignored;

	for (uint32_t i = 0; !f.type_asked && i < f.type_count; i++) {
		if (!is_same_type(&f.types[i], &type))
			continue;
		s->request.profile_type = type.id; /* of the other side's query, which stays */
		q = query_begin(&s->request, &ignored);
		if (q) {
			query_end(s->q);
			s->q = q;
		}
		return q != NULL;
	}
	return false;
}

/* Each side's most usual type may be another one though both have both. */
static void agree_on_type(struct comparison *c)
{
	struct query_type base = query_facts(c->base.q).type, now = query_facts(c->now.q).type;

	if (!base.id.len || !now.id.len || is_same_type(&base, &now))
		return;
	if (!take_type(&c->now, base))
		(void)take_type(&c->base, now);
}

/* A store that is compared with itself, whole, answers nothing. */
static bool check_sides(const struct words *words, struct err *err)
{
	bool store = selection.db || base_db;

	if (words->count == 2 && store)
		return err_set(err, ERR_INVALID, "two files and a store: a diff has two sides");
	if (words->count == 2 && strcmp(words->items[0], "-") == 0 &&
	    strcmp(words->items[1], "-") == 0)
		return err_set(err, ERR_INVALID, "stdin can be one side only");
	if (words->count == 1 && selection.db && base_db)
		return err_set(err, ERR_INVALID, "a file and two stores: a diff has two sides");
	if (words->count == 1 && !store)
		return err_set(err, ERR_INVALID,
			       "one file given and no --db to compare it with; "
			       "a diff has two sides");
	if (words->count == 0 && !selection.db)
		return err_set(err, ERR_INVALID, "no files given, and no --db");
	if (words->count == 0 && !base_db && !base_selector && !base_type && !base_from && !base_to)
		return err_set(err, ERR_INVALID,
			       "both sides are the same: say with --base-from, "
			       "--base-select or --base-db what the base is");
	return true;
}

static bool open_sides(struct comparison *c, const struct words *words, struct err *err)
{
	struct selection_flags base = selection;

	base.db = base_db ? base_db : base.db;
	base.selector = base_selector ? base_selector : base.selector;
	base.type = base_type ? base_type : base.type;
	base.from = base_from ? base_from : base.from;
	base.to = base_to ? base_to : base.to;
	if (!check_sides(words, err) ||
	    !open_side(&c->base, &base, words->count == 2 ? &words->items[0] : NULL, err) ||
	    !open_side(&c->now, &selection, words->count ? &words->items[words->count - 1] : NULL,
		       err))
		return false;
	agree_on_type(c);
	return true;
}

static void close_side(struct side *s)
{
	query_end(s->q);
	samples_close(&s->samples);
}

static bool parse_limit(double *out, struct err *err)
{
	char *end;

	*out = INFINITY;
	if (!fail_above)
		return true;
	errno = 0;
	*out = strtod(fail_above, &end);
	if (*end == '%')
		end++;
	if (errno || end == fail_above || *end || !(*out >= 0) || !isfinite(*out))
		return err_set(err, ERR_INVALID, "-fail-above \"%s\": like 5%% or 0.5", fail_above);
	if (*out >= 100 && !absolute)
		return err_set(err, ERR_INVALID,
			       "-fail-above %s: no share grows by more than 100 points",
			       fail_above);
	return true;
}

static bool show(const struct comparison *c, struct err *err)
{
	AUTO(buf_release) struct buf out = { 0 };
	uint32_t rows;

	if (!listing_rows(&listing, &rows, err))
		return false;
	if (listing.json)
		show_json(&out, c, rows);
	else
		show_text(&out, c, rows);
	return listing_write(&out, err);
}

static bool run(const struct words *words, bool *passed, struct err *err)
{
	struct comparison c = { 0 };
	double limit;
	bool ok = parse_limit(&limit, err) && open_sides(&c, words, err) &&
		  (!selection.by || query_by_parse(str_cstr(selection.by), &c.by, err)) &&
		  query_top_diff(c.base.q, c.now.q, &c.top, err) && measure(&c, err);

	if (ok && c.top.stacks == 0)
		ok = err_set(err, ERR_NOT_FOUND, "no samples match on either side");
	if (ok && fail_above && (!c.top.total[QUERY_LEFT] || !c.top.total[QUERY_RIGHT]))
		ok = err_set(err, ERR_NOT_FOUND, "no samples match on one side: nothing to judge");
	if (ok) {
		compare(&c);
		ok = show(&c, err);
		*passed = gate(&c, limit);
	}
	free(c.changes);
	close_side(&c.base);
	close_side(&c.now);
	return ok;
}

int diff_run(int argc, char **argv)
{
	struct words words;
	struct err err = { 0 };
	int status;
	bool ok, passed = true;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	ok = run(&words, &passed, &err);
	free(words.items);
	if (!ok)
		fprintf(stderr, "flametap diff: %s\n", err.msg);
	if (!ok && fail_above) /* a gate must tell them from what became dearer */
		return EXIT_USAGE;
	return ok && passed ? EXIT_OK : EXIT_FAILED;
}
