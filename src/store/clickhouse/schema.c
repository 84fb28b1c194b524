#include "store/clickhouse/schema.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

#define PREFIX "flametap_"
enum { DAY_S = 86400, DICTIONARY_DAYS_MORE = 2, ROWS_USUAL = 8192 };

/* ---- what the tables are ---- */

/* A column, its type, and how new servers pack it. */
struct column {
	const char *name, *type, *codec;
};

struct table {
	const char *name;
	const struct column *columns;
	const char *engine_columns; /* of ReplacingMergeTree, or NULL: MergeTree */
	const char *partition, *order, *expires, *shard;
	const char *indexes;  /* where there are skip indexes */
	uint32_t days_more;   /* longer than the ttl */
	uint32_t granularity; /* rows that are read at once, at least; 0: the usual */
};

#define DELTA  "Delta(8), ZSTD(1)"
#define DDELTA "DoubleDelta, ZSTD(1)"
#define PLAIN  "ZSTD(1)"
#define SMALL  "T64, ZSTD(1)"
#define STRONG "ZSTD(3)"

/* A server without codecs compresses repetition but not small numbers: the upper parts of numbers
 * hardly change from row to row, the lower ones need no more than their own bytes. */
#define ID_OF(high, low) "bitOr(bitShiftLeft(" high ", 16), toUInt64(" low "))"

static const struct column sample_columns[] = {
	{ "date", "Date", PLAIN },
	{ "request", "UInt64", PLAIN },
	{ "base", "UInt64", PLAIN },
	{ "place", "UInt32", "Delta(4), ZSTD(1)" },
	{ "bucket", "UInt32", PLAIN },
	{ "t0_high", "UInt8", PLAIN },
	{ "t0_low", "UInt32", PLAIN },
	{ "t0",
	  "UInt64 ALIAS bucket * " CH_BUCKET_NS " + bitShiftLeft(toUInt64(t0_high), 32) + t0_low",
	  NULL },
	{ "span_ms", "UInt16", PLAIN },
	{ "series", "UInt64", PLAIN },
	{ "stack_high", "UInt64", PLAIN },
	{ "stack_low", "UInt16", "T64, ZSTD(1)" },
	{ "stack", "UInt64 ALIAS " ID_OF("stack_high", "stack_low"), NULL },
	{ "attributes_high", "UInt64", PLAIN },
	{ "attributes_low", "UInt16", PLAIN },
	{ "attributes", "UInt64 ALIAS " ID_OF("attributes_high", "attributes_low"), NULL },
	{ "link", "UInt64", PLAIN },
	{ "value_high", "Int64", SMALL },
	{ "value_low", "UInt8", PLAIN },
	{ "value", "Int64 ALIAS value_high * 256 + value_low", NULL },
	{ "shape", "UInt8", PLAIN },
	{ "values", "Array(Int64)", PLAIN },
	{ "offsets", "Array(UInt32)", PLAIN },
	{ "times", "Array(UInt64)", DELTA },
	{ 0 },
};

static const struct column request_columns[] = {
	{ "date", "Date", PLAIN },
	{ "seq", "UInt64", DDELTA },
	{ "last_seq", "UInt64", DDELTA },
	{ "request", "UInt64", PLAIN },
	{ "hash", "FixedString(16)", PLAIN },
	{ "arrived", "UInt64", DELTA },
	{ "t_first", "UInt64", DELTA },
	{ "t_last", "UInt64", DELTA },
	{ "samples", "UInt64", SMALL },
	{ "version", "UInt8", PLAIN },
	{ "unknown_fields", "UInt32", PLAIN },
	{ "moved", "UInt8", PLAIN },
	{ "layout", "Array(UInt64)", PLAIN },
	{ "notes", "String", PLAIN },
	{ "note_seq", "Array(UInt64)", PLAIN },
	{ "note", "Array(String)", PLAIN },
	{ "profile.place", "Array(UInt32)", PLAIN },
	{ "profile.samples", "Array(UInt32)", PLAIN },
	{ "profile.time", "Array(UInt64)", PLAIN },
	{ "profile.duration", "Array(UInt64)", PLAIN },
	{ "profile.first_ms", "Array(Int32)", PLAIN },
	{ "profile.last_ms", "Array(Int32)", PLAIN },
	{ "profile.series", "Array(Array(UInt64))", PLAIN },
	{ "profile.attributes", "Array(UInt64)", PLAIN },
	{ "profile.dropped", "Array(UInt32)", PLAIN },
	{ "profile.uid", "Array(FixedString(16))", PLAIN },
	{ "profile.payload_format", "Array(String)", PLAIN },
	{ "profile.payload", "Array(String)", PLAIN },
	{ "coverage.host", "Array(String)", PLAIN },
	{ "coverage.t0", "Array(UInt64)", PLAIN },
	{ "coverage.t1", "Array(UInt64)", PLAIN },
	{ "coverage.reason", "Array(String)", PLAIN },
	{ "coverage.n", "Array(UInt64)", PLAIN },
	{ 0 },
};

static const struct column dictionary_columns[] = {
	{ "kind", "UInt8", PLAIN },
	{ "id_high", "UInt64", PLAIN },
	{ "id_low", "UInt16", "Delta(2), ZSTD(1)" },
	{ "id", "UInt64 ALIAS " ID_OF("id_high", "id_low"), NULL },
	{ "hash_hi", "UInt64", PLAIN },
	{ "seen", "Date", PLAIN },
	{ "refs_high", "Array(UInt64)", STRONG },
	{ "refs_low", "Array(UInt16)", STRONG },
	{ "refs",
	  "Array(UInt64) ALIAS arrayMap((h, l) -> " ID_OF("h", "l") ", refs_high, refs_low)",
	  NULL },
	{ "numbers", "Array(Int64)", STRONG },
	{ "texts", "Array(String)", STRONG },
	{ "notes", "String", STRONG },
	{ 0 },
};

static const struct column link_columns[] = {
	{ "date", "Date", PLAIN },
	{ "trace_id", "FixedString(16)", PLAIN },
	{ "span_id", "FixedString(8)", PLAIN },
	{ "link", "UInt64", PLAIN },
	{ "service", "String", PLAIN },
	{ "t0", "UInt64", DELTA },
	{ "t1", "UInt64", DELTA },
	{ 0 },
};

static const struct table tables[] = {
	{ .name = "samples",
	  .columns = sample_columns,
	  .partition = "date",
	  .order = "(" CH_SERIES_PAGE ", bucket, series, base, place)",
	  .expires = "date",
	  .shard = "request" },
	{ .name = "requests",
	  .columns = request_columns,
	  .partition = "date",
	  .order = "seq",
	  .expires = "date",
	  .shard = "request" },
	{ .name = "dictionary",
	  .columns = dictionary_columns,
	  .engine_columns = "seen",
	  .order = "(kind, id_high, id_low, hash_hi)",
	  .expires = "seen",
	  .shard = "id_low",
	  .days_more = DICTIONARY_DAYS_MORE,
	  .granularity = 1024 }, /* a question asks for a program's, which are some hundreds */
	{ .name = "links",
	  .columns = link_columns,
	  .partition = "date",
	  .order = "(trace_id, span_id, t0)",
	  .expires = "date",
	  .shard = "link",
	  .indexes = ",\n  INDEX by_span span_id TYPE bloom_filter(0.01) GRANULARITY 4" },
};
enum { TABLES = sizeof(tables) / sizeof(tables[0]), DICTIONARY = 2 };

/* ---- statements ---- */

static bool given(const char *text)
{
	return text && *text;
}

static void on_cluster(const struct ch_schema *s, struct buf *out)
{
	if (!given(s->cluster))
		return;
	buf_lit(out, " ON CLUSTER ");
	ch_quote_name(out, str_cstr(s->cluster));
}

static const char *engine_of(const struct ch_schema *s)
{
	return given(s->engine)    ? s->engine
	       : given(s->cluster) ? "ReplicatedMergeTree"
				   : "MergeTree";
}

bool ch_schema_is_cluster(const struct ch_schema *s)
{
	return given(s->cluster);
}

bool ch_schema_is_replicated(const struct ch_schema *s)
{
	return str_has_prefix(str_cstr(engine_of(s)), STR("Replicated"));
}

bool ch_schema_check(const struct ch_schema *s, struct err *err)
{
	static const char *const known[] = { "MergeTree", "ReplicatedMergeTree",
					     "SharedMergeTree" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(engine_of(s), known[i]) == 0)
			return true;
	return err_set(err, ERR_INVALID,
		       "table_engine \"%s\": MergeTree, ReplicatedMergeTree and SharedMergeTree "
		       "are possible (which kind "
		       "of it each table needs is added)",
		       s->engine);
}

/* "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/db/table', '{replica}', seen)" */
static void put_engine(const struct ch_schema *s, const struct table *t, struct buf *out)
{
	struct str engine = str_cstr(engine_of(s));
	bool some = false;

	engine.len -= strlen("MergeTree");
	buf_str(out, engine);
	buf_str(out, str_cstr(t->engine_columns ? "ReplacingMergeTree(" : "MergeTree("));
	if (given(s->engine_params)) {
		buf_str(out, str_cstr(s->engine_params));
		some = true;
	} else if (ch_schema_is_replicated(s)) {
		buf_printf(out, "'/clickhouse/tables/{shard}/%s/" PREFIX "%s', '{replica}'",
			   s->database, t->name);
		some = true;
	}
	if (t->engine_columns)
		buf_printf(out, "%s%s", some ? ", " : "", t->engine_columns);
	buf_char(out, ')');
}

static void put_columns(const struct ch_schema *s, const struct table *t, struct buf *out)
{
	for (const struct column *c = t->columns; c->name; c++) {
		buf_str(out, str_cstr(c == t->columns ? "\n  " : ",\n  "));
		ch_quote_name(out, str_cstr(c->name));
		buf_printf(out, " %s", c->type);
		if (c->codec && s->features & CH_CODECS)
			buf_printf(out, " CODEC(%s)", c->codec);
	}
	if (t->indexes && s->features & CH_SKIP_INDEX)
		buf_str(out, str_cstr(t->indexes));
}

static void put_settings(const struct ch_schema *s, const struct table *t, struct buf *out)
{
	buf_printf(out, "\nSETTINGS index_granularity = %u",
		   t->granularity ? t->granularity : ROWS_USUAL);
	if (s->features & CH_TTL && s->ttl_ns)
		buf_lit(out, ", ttl_only_drop_parts = 1");
	/* Blocks that are known again: an insert that nobody saw the end of is among them until it
	 * is repeated, whatever others insert meanwhile. */
	if (ch_schema_is_replicated(s)) /* of new servers the default */
		buf_printf(out, ", replicated_deduplication_window = %d",
			   s->features & CH_DEDUP_WINDOW ? 10000 : 1000);
	else if (s->features & CH_DEDUP_WINDOW)
		buf_lit(out, ", non_replicated_deduplication_window = 1000");
}

static void put_table(const struct ch_schema *s, const struct table *t, struct buf *out)
{
	buf_printf(out, "CREATE TABLE IF NOT EXISTS " PREFIX "%s%s", t->name,
		   given(s->cluster) ? "_local" : "");
	on_cluster(s, out);
	buf_lit(out, " (");
	put_columns(s, t, out);
	buf_lit(out, "\n) ENGINE = ");
	put_engine(s, t, out);
	if (t->partition)
		buf_printf(out, "\nPARTITION BY %s", t->partition);
	buf_printf(out, "\nORDER BY %s", t->order);
	if (s->features & CH_TTL && s->ttl_ns)
		buf_printf(out, "\nTTL %s + INTERVAL %u DAY", t->expires,
			   ch_schema_days(s->ttl_ns) + t->days_more);
	put_settings(s, t, out);
	buf_lit(out, ";\n");
	if (!given(s->cluster))
		return;
	buf_printf(out, "CREATE TABLE IF NOT EXISTS " PREFIX "%s", t->name);
	on_cluster(s, out);
	buf_lit(out, " AS "); /* on the other servers the current database is another */
	ch_quote_name(out, str_cstr(s->database));
	buf_printf(out, "." PREFIX "%s_local ENGINE = Distributed(", t->name);
	ch_quote_name(out, str_cstr(s->cluster));
	buf_lit(out, ", ");
	ch_quote_name(out, str_cstr(s->database));
	buf_printf(out, ", " PREFIX "%s_local, %s);\n", t->name, t->shard);
}

/* A view's, with the database where it is made on several servers. */
static void put_select(const struct ch_schema *s, struct str select, struct buf *out)
{
	static const struct str table = { "FROM flametap_", 14 };
	ptrdiff_t at;

	buf_lit(out, " AS SELECT ");
	while (given(s->cluster) && (at = str_search(select, table)) >= 0) {
		buf_str(out, str_head(select, (size_t)at + 5));
		ch_quote_name(out, str_cstr(s->database));
		buf_char(out, '.');
		select = str_skip(select, (size_t)at + 5);
	}
	buf_str(out, select);
	buf_lit(out, ";\n");
}

void ch_schema_ddl(const struct ch_schema *s, struct buf *out)
{
	for (size_t i = 0; i < TABLES; i++)
		put_table(s, &tables[i], out);
	for (const struct ch_view *v = ch_views; v->name; v++) {
		buf_printf(out, "CREATE VIEW IF NOT EXISTS " PREFIX "%s", v->name);
		on_cluster(s, out);
		put_select(s, str_cstr(v->select), out);
	}
}

uint32_t ch_schema_days(uint64_t ttl_ns)
{
	uint64_t day = DAY_S * SECOND_NS, days = ttl_ns / day + (ttl_ns % day != 0);

	/* A day of arrival is over a day after it began. */
	return days > 65535 ? 65535 : (uint32_t)days + 1;
}

bool ch_schema_create(const struct ch_schema *s, struct ch_server *server, struct err *err)
{
	struct buf ddl;
	struct str rest, statement;
	bool ok = true;

	buf_init(&ddl, 0);
	ch_schema_ddl(s, &ddl);
	rest = buf_view(&ddl);
	while (ok && rest.len) {
		statement = str_head(rest, (size_t)str_search(rest, STR(";\n")));
		rest = str_skip(rest, statement.len + 2);
		ok = ch_query(server, statement, NULL, NULL, err);
	}
	buf_release(&ddl);
	if (!ok)
		return err_prefix(err, "making the tables");
	return ch_schema_mark(server, err);
}

bool ch_schema_mark(struct ch_server *server, struct err *err)
{
	struct buf mark;
	bool ok;

	buf_init(&mark, 0);
	buf_printf(&mark,
		   "INSERT INTO flametap_dictionary (kind, seen, numbers) VALUES (%d, "
		   "'2100-01-01', [%d])",
		   CH_KIND_SCHEMA, CH_SCHEMA_VERSION);
	ok = ch_query(server, buf_view(&mark), "&insert_distributed_sync=1", NULL, err);
	buf_release(&mark);
	return ok;
}

bool ch_schema_judge(const struct ch_server *server, uint64_t version, struct err *err)
{
	if (!version)
		return err_set(err, ERR_NOT_FOUND,
			       "the database %s has tables of flametap, but none that an exporter "
			       "has finished",
			       ch_server_database(server));
	return version == CH_SCHEMA_VERSION ||
	       err_set(err, ERR_UNSUPPORTED,
		       "the store has schema version %llu, this flametap reads and writes only "
		       "version %d",
		       (unsigned long long)version, CH_SCHEMA_VERSION);
}

bool ch_schema_test(struct ch_server *server, struct err *err)
{
	struct buf sql, answer;
	uint64_t version = 0;
	bool ok;

	buf_init(&sql, 0);
	buf_init(&answer, 0);
	buf_printf(&sql, "SELECT max(numbers[1]) FROM flametap_dictionary WHERE kind = %d",
		   CH_KIND_SCHEMA);
	ok = ch_query(server, buf_view(&sql), NULL, &answer, err);
	if (ok && !str_to_u64(str_trim(buf_view(&answer)), &version))
		version = 0;
	ok = ok && ch_schema_judge(server, version, err);
	buf_release(&sql);
	buf_release(&answer);
	return ok;
}

static bool put_writer(struct ch_server *server, uint32_t writer, uint64_t token, struct err *err)
{
	struct buf sql;
	bool ok;

	buf_init(&sql, 0);
	buf_printf(
		&sql,
		"INSERT INTO flametap_dictionary (kind, id_high, hash_hi, seen) VALUES (%d, %lu, "
		"%llu, toDate(%llu))",
		CH_KIND_WRITER, (unsigned long)writer, (unsigned long long)token,
		(unsigned long long)(clock_realtime_ns() / (DAY_S * SECOND_NS)));
	ok = ch_query(server, buf_view(&sql), "&insert_distributed_sync=1", NULL, err);
	buf_release(&sql);
	return ok;
}

static bool count_takers(struct ch_server *server, uint32_t writer, uint64_t *out, struct err *err)
{
	struct buf sql, answer;
	bool ok;

	buf_init(&sql, 0);
	buf_init(&answer, 0);
	buf_printf(&sql,
		   "SELECT uniqExact(hash_hi) FROM flametap_dictionary WHERE kind = %d AND "
		   "id_high = %lu",
		   CH_KIND_WRITER, (unsigned long)writer);
	ok = ch_query(server, buf_view(&sql), NULL, &answer, err);
	if (ok && !str_to_u64(str_trim(buf_view(&answer)), out))
		ok = err_set(err, ERR_INTERNAL,
			     "ClickHouse's answer about writers is not a number");
	buf_release(&sql);
	buf_release(&answer);
	return ok;
}

bool ch_schema_new_writer(struct ch_server *server, uint32_t *out, struct err *err)
{
	struct {
		uint64_t token;
		uint32_t writer, unused;
	} random;
	uint64_t takers = 0;

	do {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return err_set_errno(err, "getrandom");
		if (!random.writer)
			continue;
		if (!put_writer(server, random.writer, random.token, err) ||
		    !count_takers(server, random.writer, &takers, err))
			return false;
	} while (!random.writer || takers > 1);
	*out = random.writer;
	return true;
}

bool ch_schema_knows_again(const struct ch_schema *s, struct ch_server *server, bool *out,
			   struct err *err)
{
	const char *local = given(s->cluster) ? "_local" : "";
	struct buf sql, answer;
	bool ok;

	buf_init(&sql, 0);
	buf_init(&answer, 0);
	buf_lit(&sql, "SELECT countIf(match(engine, '^(Replicated|Shared)') AND NOT "
		      "match(engine_full, '[^_]replicated_deduplication_window = 0') OR "
		      "match(engine_full, 'non_replicated_deduplication_window = [1-9]')) FROM "
		      "system.tables WHERE database = ");
	ch_quote(&sql, str_cstr(s->database));
	buf_printf(&sql,
		   " AND name IN ('" PREFIX "samples%s', '" PREFIX "requests%s') AND (SELECT "
		   "count() FROM system.settings WHERE name = 'insert_deduplicate' AND value = "
		   "'1' OR name = 'deduplicate_insert' AND value = 'disable') = 1",
		   local, local);
	ok = ch_query(server, buf_view(&sql), NULL, &answer, err);
	if (ok)
		*out = str_is(str_trim(buf_view(&answer)), "2");
	buf_release(&sql);
	buf_release(&answer);
	return ok;
}

/* ---- retention where the server has none ---- */

static bool drop_partitions(const struct ch_schema *s, const struct table *t,
			    struct ch_server *server, uint32_t before, struct err *err)
{
	const char *local = given(s->cluster) ? "_local" : "";
	struct buf sql, answer;
	struct str rest, day;
	bool ok;

	buf_init(&sql, 0);
	buf_init(&answer, 0);
	buf_printf(&sql,
		   "SELECT DISTINCT partition FROM system.parts WHERE active AND database = "
		   "currentDatabase() AND table = '" PREFIX
		   "%s%s' AND toDate(replaceAll(partition, '\\'', '')) < toDate(%u)",
		   t->name, local, before);
	ok = ch_query(server, buf_view(&sql), NULL, &answer, err);
	rest = buf_view(&answer);
	while (ok && str_split(&rest, '\n', &day)) {
		if (!day.len)
			continue;
		buf_reset(&sql);
		buf_printf(&sql, "ALTER TABLE " PREFIX "%s%s", t->name, local);
		on_cluster(s, &sql);
		buf_lit(&sql, " DROP PARTITION '");
		for (size_t i = 0; i < day.len; i++) /* a date, quoted and escaped or not */
			if ((day.ptr[i] >= '0' && day.ptr[i] <= '9') || day.ptr[i] == '-')
				buf_char(&sql, day.ptr[i]);
		buf_char(&sql, '\'');
		ok = ch_query(server, buf_view(&sql), NULL, NULL, err);
	}
	buf_release(&sql);
	buf_release(&answer);
	return ok;
}

static bool drop_entries(const struct ch_schema *s, struct ch_server *server, uint32_t before,
			 struct err *err)
{
	struct buf sql;
	bool ok;

	buf_init(&sql, 0);
	buf_printf(&sql, "ALTER TABLE " PREFIX "%s%s", tables[DICTIONARY].name,
		   given(s->cluster) ? "_local" : "");
	on_cluster(s, &sql);
	buf_printf(&sql, " DELETE WHERE seen < toDate(%u)", before);
	ok = ch_query(server, buf_view(&sql), NULL, NULL, err);
	buf_release(&sql);
	return ok;
}

bool ch_schema_expire(const struct ch_schema *s, struct ch_server *server, uint64_t now_unix_ns,
		      struct err *err)
{
	uint64_t today = now_unix_ns / (DAY_S * SECOND_NS), days = ch_schema_days(s->ttl_ns);
	bool ok = true;

	if (!s->ttl_ns || s->features & CH_TTL || today <= days + DICTIONARY_DAYS_MORE)
		return true;
	for (size_t i = 0; ok && i < TABLES; i++)
		if (tables[i].partition)
			ok = drop_partitions(s, &tables[i], server, (uint32_t)(today - days), err);
	return (ok &&
		drop_entries(s, server, (uint32_t)(today - days - DICTIONARY_DAYS_MORE), err)) ||
	       err_prefix(err, "dropping what is older than the ttl");
}
