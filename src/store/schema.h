/*
 * schema.h - the tables of an SQLite store: made, recognized, brought up to date.
 *
 * docs/store.md describes each table and column for people. Additive only: a newer program adds
 * tables, columns and views to an older file; a file of a newer program is refused.
 */
#pragma once
#include "store/db.h"

enum {
	STORE_APPLICATION_ID = 0x464c4d54, /* "FLMT" in bytes 68..71 of the file */
	STORE_VERSION = 6,                 /* user_version */
	STORE_PAGE_BYTES = 8192,
	STORE_STATE_NAMES =
		67, /* lookup_state.kind: how often names were found later (symbols.h) */
	STORE_STATE_UNSWEPT = 68, /* the same: samples deleted whose names may still be there */
	STORE_STATE_LINKS = 69,   /* the same: links up to this one are in link_key */
};
#define STORE_BUCKET_NS (UINT64_C(600) * 1000000000) /* of the clustering */

/* A new file gets its tables; an older one what it lacks; all the views of this program. Needs a
 * connection that may write. ERR_UNSUPPORTED: newer than we are; ERR_INVALID: somebody else's file,
 * or damaged. */
bool schema_prepare(sqlite3 *db, struct err *err) MUST_CHECK;
/* For readers: is it a store of ours that we can read, and of which version? Readers do without
 * what an older one lacks:
 *   2   series.process; sample_key (an older store that was brought up to date has the key "")
 *   3   chunk, chunk_link; the samples that came before stay in the table sample
 *   4   code_block
 *   5   series.labels; NULL in the rows from before
 *   6   link_key; a store from before has indices on link instead, and keeps them
 */
bool schema_check(sqlite3 *db, int64_t *version, struct err *err) MUST_CHECK;
/* Are links found by the indices of older stores, not by link_key? */
bool schema_has_link_indices(sqlite3 *db, bool *out, struct err *err) MUST_CHECK;
/* The tables and the views, for `flametap store ddl`. Static. */
const char *schema_tables(void);
const char *schema_views(void);
/* Of those the ones that show frames, which is what a store of an older version has. */
const char *schema_frame_views(void);
/* Within a transaction: the views of another program become ours; `version` is the store's. */
bool schema_renew_views(sqlite3 *db, int64_t version, struct err *err) MUST_CHECK;
