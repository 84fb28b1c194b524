#include "store/clickhouse/replicas.h"

#include "store/clickhouse/rowbinary.h"

/* inserts_in_queue: known and not fetched; log_pointer: the first entry of the log that is not even
 * known (no entry and the first one both give a log_max_index of 0). */
#define BEHIND                                                          \
	"is_readonly OR is_session_expired OR inserts_in_queue > 0 OR " \
	"(log_max_index > 0 AND log_pointer <= log_max_index)"

bool ch_replicas_have_all(struct ch_server *server, const struct ch_schema *s, const char *settings,
			  struct err *err)
{
	const char *local = ch_schema_is_cluster(s) ? "_local" : "";
	uint64_t tables = 0, behind = 0;
	struct buf sql, answer;
	struct codec c;
	bool ok;

	if (!ch_schema_is_replicated(s))
		return true;
	buf_init(&sql, 0);
	buf_init(&answer, 0);
	buf_lit(&sql, "SELECT count(), sum(" BEHIND ") FROM ");
	if (ch_schema_is_cluster(s)) {
		buf_lit(&sql, "cluster(");
		ch_quote(&sql, str_cstr(s->cluster));
		buf_lit(&sql, ", system, replicas)");
	} else {
		buf_lit(&sql, "system.replicas");
	}
	buf_lit(&sql, " WHERE database = ");
	ch_quote(&sql, str_cstr(s->database));
	buf_printf(&sql,
		   " AND table IN ('flametap_samples%s', 'flametap_requests%s') FORMAT RowBinary",
		   local, local);
	ok = ch_query(server, buf_view(&sql), settings, &answer, err);
	c = codec_of(buf_view(&answer));
	if (ok) {
		tables = row_get(&c, 8);
		behind = row_get(&c, 8);
	}
	if (ok && (c.failed || !tables))
		ok = err_set(err, ERR_UNAVAILABLE, "ClickHouse does not name its replicas");
	else if (ok && behind)
		ok = err_set(err, ERR_UNAVAILABLE,
			     "%llu of %llu replicated tables do not have yet what others took: "
			     "what is missing cannot be told",
			     (unsigned long long)behind, (unsigned long long)tables);
	buf_release(&sql);
	buf_release(&answer);
	return ok;
}
