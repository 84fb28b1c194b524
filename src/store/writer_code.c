/*
 * writer_code.c - when locations are put into blocks (code_block.h): between commits, beside the
 * other upkeep.
 *
 * Some hundred locations without a block get one. It swallows its neighbour as long as that is not
 * twice as large, so that there are few blocks (a power of two each, and the full ones), and no
 * location is written more often than log2(CODE_BLOCK_MOST / LEAST) times. Where a sweep has
 * dropped a block, what is left of its locations is a gap and gets one again.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"
#include "store/code_block.h"
#include "store/writer_internal.h"

enum { LEAST = 256 };

/* Blocks, and the gaps between them that have locations. */
struct span {
	uint64_t first, last, n;
	bool is_new; /* a gap, or has swallowed one */
};

struct plan {
	struct span *spans;
	size_t count, cap;
};

static bool may_join(const struct span *left, const struct span *right)
{
	return (left->is_new || right->is_new) && (left->is_new || left->n < 2 * right->n) &&
	       (right->is_new || right->n < 2 * left->n) && left->n + right->n <= CODE_BLOCK_MOST;
}

static void add_span(struct plan *p, struct span s)
{
	while (p->count && may_join(&p->spans[p->count - 1], &s)) {
		p->count--;
		s.first = p->spans[p->count].first;
		s.n += p->spans[p->count].n;
		s.is_new = true;
	}
	VEC_ROOM(p->spans, p->count, p->cap);
	p->spans[p->count++] = s;
}

/* The locations between two blocks. */
static bool add_gap(struct store_writer *w, struct plan *p, uint64_t first, uint64_t last,
		    struct err *err)
{
	int64_t n = 0;
	char sql[128];

	if (first > last)
		return true;
	snprintf(sql, sizeof(sql), "SELECT count(*) FROM location WHERE id BETWEEN %llu AND %llu",
		 (unsigned long long)first, (unsigned long long)last);
	if (!db_number(w->db, sql, 0, &n, err))
		return false;
	if (n > 0)
		add_span(p, (struct span){ first, last, (uint64_t)n, true });
	return true;
}

static bool make_plan(struct store_writer *w, struct plan *p, struct err *err)
{
	sqlite3_stmt *s = NULL;
	uint64_t next = 1;
	bool row = true, ok;

	ok = db_prepare(w->db, "SELECT first, last, n FROM code_block ORDER BY first", &s, err);
	while (ok && row) {
		struct span b;

		ok = db_step(w->db, s, &row, err, "reading the blocks of code");
		if (!ok || !row)
			break;
		b = (struct span){ db_u64(s, 0), db_u64(s, 1), db_u64(s, 2), false };
		ok = add_gap(w, p, next, b.first - 1, err);
		add_span(p, b);
		next = b.last + 1;
	}
	sqlite3_finalize(s);
	return ok && add_gap(w, p, next, w->committed.last_id[KIND_LOCATION], err);
}

static bool put_block(struct store_writer *w, const struct code_block_row *b, struct err *err)
{
	sqlite3_stmt *gone = NULL, *s = NULL;
	bool ok = db_prepare(w->db, "DELETE FROM code_block WHERE first BETWEEN ?1 AND ?2", &gone,
			     err) &&
		  db_prepare(w->db, "INSERT INTO code_block VALUES(?1, ?2, ?3, ?4, ?5)", &s, err);

	if (ok) {
		db_bind_u64(gone, 1, b->first);
		db_bind_u64(gone, 2, b->last);
		db_bind_u64(s, 1, b->first);
		db_bind_u64(s, 2, b->last);
		sqlite3_bind_int64(s, 3, b->n);
		db_bind_u64(s, 4,
			    code_block_checksum(b->first, b->last, b->n, buf_view(&b->bytes)));
		db_bind_blob(s, 5, buf_view(&b->bytes));
		ok = db_run(w->db, gone, err, "replacing a block of code") &&
		     db_run(w->db, s, err, "adding a block of code");
	}
	sqlite3_finalize(gone);
	sqlite3_finalize(s);
	return ok;
}

static bool put_span(struct store_writer *w, const struct span *x, struct err *err)
{
	struct code_block_row b;
	bool ok;

	buf_init(&b.bytes, 0);
	ok = code_block_build(w->db, x->first, x->last, &b, err) && put_block(w, &b, err);
	buf_release(&b.bytes);
	return ok;
}

bool writer_code_is_due(const struct store_writer *w)
{
	return w->code_due || w->committed.last_id[KIND_LOCATION] >= w->code_looked_at + LEAST;
}

static bool put_one(struct store_writer *w, struct err *err)
{
	struct plan p = { 0 };
	bool ok = make_plan(w, &p, err);
	size_t at = 0;

	while (ok && at < p.count && !(p.spans[at].is_new && p.spans[at].n >= LEAST))
		at++;
	w->code_due = ok && at < p.count;
	if (w->code_due)
		ok = put_span(w, &p.spans[at], err);
	free(p.spans);
	return ok;
}

bool writer_put_code(struct store_writer *w, struct err *err)
{
	bool ok = db_exec(w->db, "BEGIN IMMEDIATE", err) && put_one(w, err) &&
		  db_exec(w->db, "COMMIT", err);

	if (!ok) {
		w->damaged |= db_is_damage(sqlite3_errcode(w->db));
		sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
		w->code_due = false;
	}
	if (!w->code_due)
		w->code_looked_at = w->committed.last_id[KIND_LOCATION];
	return ok || !w->damaged;
}
