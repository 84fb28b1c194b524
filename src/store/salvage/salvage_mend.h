/* salvage_mend.h - inside of the salvage: makes a store of rows that were saved one by one whole.
 */
#pragma once
#include "store/db.h"
#include "store/salvage/salvage.h"

/* In the caller's transaction. all_keys: rows of sample_key may be lost. Fills in all of `out` but
 * lost_pages. */
bool salvage_mend(sqlite3 *db, bool all_keys, struct store_salvaged *out,
		  struct err *err) MUST_CHECK;
