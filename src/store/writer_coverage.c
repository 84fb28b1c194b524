/*
 * writer_coverage.c - what an agent of ours says of its own watching, as rows.
 *
 * A profile's attributes flametap.NAME (agent/report/message.h) become (host, from, to, NAME,
 * number); they stay attributes too.
 */
#include "store/writer_internal.h"

static uint32_t host_id(struct store_writer *w, const struct resource_profiles *r)
{
	static const char *const keys[] = { "host.name", "host.id", "host.ip" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct any_value *v = key_values_find(r->attributes, str_cstr(keys[i]));

		if (v && v->kind == ANY_STRING && v->string.len)
			return writer_text(w, v->string);
	}
	return 0;
}

void writer_put_coverage(struct store_writer *w, const struct resource_profiles *r,
			 const struct profile *f, uint64_t seq)
{
	static const struct str prefix = { "flametap.", 9 };
	const struct dictionary *d = &w->p->dict;
	sqlite3_stmt *s = statement(w, ADD_COVERAGE);

	for (uint32_t i = 0; i < f->attributes.count && !w->failed; i++) {
		const struct attribute *a =
			&d->attributes[w->p->attribute_refs[f->attributes.first + i].v];
		struct str key = d->strings[a->key.v];
		uint32_t host, reason;

		if (!str_has_prefix(key, prefix) || a->value.kind != ANY_INT)
			continue;
		host = host_id(w, r);
		reason = writer_text(w, str_skip(key, prefix.len));
		sqlite3_bind_int64(s, 1, host);
		db_bind_u64(s, 2, f->time_unix_nano);
		db_bind_u64(s, 3, f->time_unix_nano + f->duration_nano);
		sqlite3_bind_int64(s, 4, reason);
		sqlite3_bind_int64(s, 5, a->value.integer);
		db_bind_u64(s, 6, seq);
		writer_run(w, ADD_COVERAGE, "adding coverage");
	}
}
