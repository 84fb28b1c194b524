/*
 * schema.h - the tables of an SQLite store: made in a new file, recognized in one that is there.
 *
 * docs/store.md describes each table and column for people.
 */
#pragma once
#include "store/db.h"

enum {
	STORE_APPLICATION_ID = 0x464c4d54, /* "FLMT" in bytes 68..71 of the file */
	STORE_VERSION = 1,                 /* user_version */
	STORE_PAGE_BYTES = 8192,
	STORE_STATE_NAMES =
		67, /* lookup_state.kind: how often names were found later (symbols.h) */
	STORE_STATE_UNSWEPT = 68, /* the same: samples deleted whose names may still be there */
	STORE_STATE_LINKS = 69,   /* the same: links up to this one are in link_key */
};
#define STORE_BUCKET_NS (UINT64_C(600) * 1000000000) /* of the clustering */

/* A new file gets its tables. Needs a connection that may write. ERR_UNSUPPORTED: of another
 * version; ERR_INVALID: somebody else's file, or damaged. */
bool schema_prepare(sqlite3 *db, struct err *err) MUST_CHECK;
/* Is it a store of ours, of this version? ERR_NOT_FOUND: it is empty; else as above. */
bool schema_check(sqlite3 *db, struct err *err) MUST_CHECK;
/* The tables and the views, for `flametap store ddl`. Static. */
const char *schema_tables(void);
const char *schema_views(void);
