/*
 * sweep.h - takes dictionary rows away that nothing refers to any more, a slice at a time, while
 * the writer goes on.
 *
 * Marking reads one snapshot through a connection of its own, top down: samples, profiles and
 * requests mark stacks, attribute sets, series...; these mark locations, and so on down to texts.
 * What the writer hands out meanwhile is noted (`touched`) and followed at the end of marking. Rows
 * added since the start are never swept. From the end of marking on, a row that is not marked is
 * unknown to the writer: its cached ids are dropped in the same step, and a look-up that finds one
 * is refused, so that no new sample names a swept row.
 *
 * Memory: two bits a row. Threads: the writer's.
 */
#pragma once
#include "store/db.h"
#include "store/schema/ident.h"

struct known;
struct sweep;

/* last_id: the newest row of each kind, committed. */
struct sweep *sweep_new(const char *path, const uint32_t last_id[KIND_COUNT], struct err *err);
void sweep_free(struct sweep *s); /* NULL is fine */

/* The writer uses a row that was there: may it? False: take it as unknown. */
bool sweep_may_use(struct sweep *s, enum store_kind kind, uint32_t id);

/* Does it read its snapshot still, so that the log cannot begin anew? */
bool sweep_reads(const struct sweep *s);

/*
 * A slice of work until the deadline (monotonic ns). `db` is the writer's connection, inside of a
 * transaction of its own. *done when all is swept; *rows counts what went.
 */
bool sweep_step(struct sweep *s, sqlite3 *db, struct known *known, uint64_t deadline_ns, bool *done,
		uint64_t *rows, struct err *err) MUST_CHECK;
