/*
 * writer_coverage.c - what an agent of ours says of its own watching, as rows.
 *
 * A profile's attributes flametap.NAME (agent/report/message.h) become (host, from, to, NAME,
 * number); they stay attributes too.
 */
#include "store/lifted.h"
#include "store/writer_internal.h"

void writer_put_coverage(struct store_writer *w, const struct resource_profiles *r,
			 const struct profile *f, uint64_t seq)
{
	sqlite3_stmt *s = statement(w, ADD_COVERAGE);

	for (uint32_t i = 0; i < f->attributes.count && !w->failed; i++) {
		uint32_t attribute = w->p->attribute_refs[f->attributes.first + i].v;
		uint32_t host, reason;
		struct str name;
		int64_t n;

		if (!report_of(w->p, &w->p->dict.attributes[attribute], &name, &n))
			continue;
		host = writer_text(w, report_host(r));
		reason = writer_text(w, name);
		sqlite3_bind_int64(s, 1, host);
		db_bind_u64(s, 2, f->time_unix_nano);
		db_bind_u64(s, 3, f->time_unix_nano + f->duration_nano);
		sqlite3_bind_int64(s, 4, reason);
		sqlite3_bind_int64(s, 5, n);
		db_bind_u64(s, 6, seq);
		writer_run(w, ADD_COVERAGE, "adding coverage");
	}
}
