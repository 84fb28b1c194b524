/*
 * writer_links.c - the table link_key: which links have a trace or span id.
 *
 * These ids are random: indices on the columns would write two pages for each new link, half of all
 * that a request writes. So they are put in sorted, thousands at a time; lookup_state says up to
 * which link, and a reader looks at the rows that came since.
 */
#include <stdio.h>

#include "store/writer_internal.h"

enum { LINKS_AT_ONCE = 4096 };

bool writer_load_links(struct store_writer *w, struct err *err)
{
	int64_t keyed;
	char sql[64];

	snprintf(sql, sizeof(sql), "SELECT id FROM lookup_state WHERE kind=%d", STORE_STATE_LINKS);
	if (!db_number(w->db, sql, 0, &keyed, err))
		return false;
	w->now.keyed_links = (uint32_t)keyed;
	return true;
}

void writer_key_links(struct store_writer *w)
{
	uint32_t from = w->now.keyed_links, to = w->now.last_id[KIND_LINK];

	if (w->failed || to < from + LINKS_AT_ONCE)
		return;
	if (!db_exec_f(w->db, w->err,
		       "INSERT OR IGNORE INTO link_key SELECT * FROM (SELECT trace_id, id FROM "
		       "link WHERE id>%u UNION ALL SELECT span_id, id FROM link WHERE id>%u) "
		       "ORDER BY 1, 2; INSERT OR REPLACE INTO lookup_state VALUES(%d, %u)",
		       from, from, STORE_STATE_LINKS, to))
		writer_fail(w, NULL);
	w->now.keyed_links = to;
}
