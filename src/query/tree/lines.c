/* lines.c - what the lines of one source file cost. */
#include <stdlib.h>

#include "query/diff/sides.h"
#include "query/sum/frames.h"

struct tally { /* of a frame or a line */
	uint64_t number;
	int64_t self, total;
	uint32_t turn; /* the last run that has counted it */
};

struct counting {
	struct frame_set *set;
	struct str file;
	struct number_table numbers; /* line -> row */
	struct tally *rows;
	uint32_t row_count, row_cap;
};

static void count_in_tally(struct tally *t, uint32_t turn, bool leaf, int64_t value)
{
	if (t->turn != turn)
		t->total = engine_add(t->total, value);
	t->turn = turn;
	if (leaf)
		t->self = engine_add(t->self, value);
}

/* ---- which file: the one that the function's frames cost most in ---- */

/* `name` is the function's, or what by=line calls the frame. */
static bool is_of(const struct query_frame *f, struct str name)
{
	struct buf shown;
	bool same;

	if (!f->file.len || !f->function.len || !str_has_prefix(name, f->function))
		return false;
	if (name.len == f->function.len)
		return true;
	buf_init(&shown, 0);
	query_frame_append_name(&shown, f, QUERY_BY_LINE);
	same = str_equal(buf_view(&shown), name);
	buf_release(&shown);
	return same;
}

static bool choose_file(struct counting *c, struct str function, struct err *err)
{
	const struct frame_set *s = c->set;
	uint64_t *weights = NULL, most = 0;
	uint32_t cap = 0;

	if (!QUERY_ROOM(s->q, weights, cap, s->frame_count + 1u, err))
		return false;
	memset(weights, 0, cap * sizeof(*weights));
	for (uint32_t i = 0; i < s->run_count; i++)
		for (uint32_t k = s->runs[i].first; k < s->runs[i].first + s->runs[i].count; k++)
			if (s->pool[k] != RUN_CUT)
				weights[s->pool[k]] += (uint64_t)llabs(s->runs[i].value[0]);
	for (uint32_t i = 0; i < s->frame_count; i++) {
		uint64_t weight = 0;

		if (!is_of(&s->frames[i], function) || str_equal(s->frames[i].file, c->file))
			continue;
		for (uint32_t k = i; k < s->frame_count; k++)
			if (is_of(&s->frames[k], function) &&
			    str_equal(s->frames[k].file, s->frames[i].file))
				weight += weights[k];
		if (!c->file.len || weight > most) {
			most = weight;
			c->file = s->frames[i].file;
		}
		if (!query_alive(s->q, err)) {
			QUERY_DROP(s->q, weights, cap);
			return false;
		}
	}
	QUERY_DROP(s->q, weights, cap);
	return true;
}

/* ---- its lines ---- */

static bool row_of(struct counting *c, uint64_t line, uint32_t *out, struct err *err)
{
	struct query *q = c->set->q;

	*out = c->row_count;
	if (!number_enter(q, &c->numbers, line, out, err))
		return false;
	if (*out < c->row_count)
		return true;
	if (!QUERY_ROOM(q, c->rows, c->row_cap, c->row_count + 1u, err))
		return false;
	c->rows[c->row_count++] = (struct tally){ .number = line };
	return true;
}

static bool count_run(struct counting *c, const struct frame_run *r, uint32_t turn, struct err *err)
{
	const struct frame_set *s = c->set;

	for (uint32_t i = 0; i < r->count; i++) {
		uint32_t frame = s->pool[r->first + i], row;
		const struct query_frame *f;

		if (frame == RUN_CUT)
			break;
		f = &s->frames[frame];
		if (f->line <= 0 || !str_equal(f->file, c->file))
			continue;
		if (!row_of(c, (uint64_t)f->line, &row, err))
			return false;
		count_in_tally(&c->rows[row], turn, i + 1 == r->count, r->value[0]);
	}
	return query_alive(s->q, err);
}

static int line_order(const void *a, const void *b)
{
	uint64_t x = ((const struct tally *)a)->number, y = ((const struct tally *)b)->number;

	return x < y ? -1 : x > y;
}

static bool give_lines(struct counting *c, struct query_lines *out, struct err *err)
{
	struct query *q = c->set->q;
	struct query_line_cost *lines = query_alloc(q, c->row_count + 1u, sizeof(*lines), err);

	if (!lines || !query_str_dup(q, c->file, &out->file, err))
		return false;
	if (c->row_count)
		qsort(c->rows, c->row_count, sizeof(*c->rows), line_order);
	for (uint32_t i = 0; i < c->row_count; i++)
		lines[i] = (struct query_line_cost){ (int64_t)c->rows[i].number, c->rows[i].self,
						     c->rows[i].total };
	out->lines = lines;
	out->line_count = c->row_count;
	out->total = c->set->total[QUERY_LEFT];
	return true;
}

static bool make_lines(struct counting *c, struct str function, struct query_lines *out,
		       struct err *err)
{
	if (!c->file.len && !choose_file(c, function, err))
		return false;
	for (uint32_t i = 0; i < c->set->run_count && c->file.len; i++)
		if (!count_run(c, &c->set->runs[i], i + 1, err))
			return false;
	return give_lines(c, out, err);
}

bool query_lines(struct query *q, struct str function, struct str file, struct query_lines *out,
		 struct err *err)
{
	enum query_by by = q->request.by;
	struct frame_set s;
	struct counting c = { .set = &s, .file = file };
	struct query_lines lines = { 0 };
	bool ok;

	q->request.by = QUERY_BY_LINE;
	ok = frame_set_of(&s, &(struct query_sides){ .left = q }, NULL, err);
	q->request.by = by;
	if (!ok)
		return false;
	ok = make_lines(&c, function, &lines, err);
	number_release(q, &c.numbers);
	QUERY_DROP(q, c.rows, c.row_cap);
	frame_set_release(&s);
	if (ok)
		*out = lines;
	return ok;
}
