#include "store/clickhouse/schema.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define PREFIX "flametap_"
enum { DAY_S = 86400, DICTIONARY_DAYS_MORE = 2 };

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
	const char *indexes; /* where there are skip indexes */
	uint32_t days_more;  /* longer than the ttl */
};

#define DELTA  "Delta(8), ZSTD(1)"
#define DDELTA "DoubleDelta, ZSTD(1)"
#define PLAIN  "ZSTD(1)"
#define SMALL  "T64, ZSTD(1)"
#define STRONG "ZSTD(3)"

static const struct column sample_columns[] = {
	{ "date", "Date", PLAIN },
	{ "request", "UInt64", PLAIN },
	{ "base", "UInt64", PLAIN },
	{ "place", "UInt32", "T64, ZSTD(1)" },
	{ "t0", "UInt64", DELTA },
	{ "span", "UInt64", SMALL },
	{ "series", "UInt64", PLAIN },
	{ "stack", "UInt64", PLAIN },
	{ "attributes", "UInt64", PLAIN },
	{ "link", "UInt64", PLAIN },
	{ "value", "Int64", SMALL },
	{ "shape", "UInt8", PLAIN },
	{ "values", "Array(Int64)", PLAIN },
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
	{ "profile.seq", "Array(UInt64)", PLAIN },
	{ "profile.samples", "Array(UInt32)", PLAIN },
	{ "profile.time", "Array(UInt64)", PLAIN },
	{ "profile.duration", "Array(UInt64)", PLAIN },
	{ "profile.first", "Array(UInt64)", PLAIN },
	{ "profile.last", "Array(UInt64)", PLAIN },
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
	{ "id", "UInt64", PLAIN },
	{ "hash_hi", "UInt64", PLAIN },
	{ "seen", "Date", PLAIN },
	{ "refs", "Array(UInt64)", STRONG },
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
	  .order = "(intDiv(t0, " CH_BUCKET_NS "), series, t0)",
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
	  .order = "(kind, id, hash_hi)",
	  .expires = "seen",
	  .shard = "id",
	  .days_more = DICTIONARY_DAYS_MORE },
	{ .name = "links",
	  .columns = link_columns,
	  .partition = "date",
	  .order = "(trace_id, span_id, t0)",
	  .expires = "date",
	  .shard = "link",
	  .indexes = ",\n  INDEX by_span span_id TYPE bloom_filter(0.01) GRANULARITY 4" },
};
enum { TABLES = sizeof(tables) / sizeof(tables[0]), DICTIONARY = 2 };

/* For people: what the dictionary's kinds hold, in plain names. The numbers are enum store_kind's.
 */
static const struct {
	const char *name, *select;
} views[] = {
	{ "functions",
	  "id, texts[1] AS name, texts[2] AS system_name, texts[3] AS filename, numbers[1] AS "
	  "start_line FROM flametap_dictionary WHERE kind = 4" },
	{ "mappings",
	  "id, texts[1] AS filename, texts[2] AS build_id, reinterpretAsUInt64(reinterpretAsString("
	  "numbers[1])) AS memory_start, reinterpretAsUInt64(reinterpretAsString(numbers[2])) AS "
	  "memory_limit, reinterpretAsUInt64(reinterpretAsString(numbers[3])) AS file_offset FROM "
	  "flametap_dictionary WHERE kind = 5" },
	{ "locations",
	  "id, refs[1] AS mapping, reinterpretAsUInt64(reinterpretAsString(numbers[1])) AS "
	  "address, "
	  "texts[1] AS frame_type, arraySlice(refs, 3) AS functions FROM flametap_dictionary WHERE "
	  "kind = 6" },
	{ "stacks", "id, numbers[1] AS depth, arraySlice(refs, 1, length(refs) - numbers[2]) AS "
		    "leaf_locations, "
		    "arraySlice(refs, length(refs) - numbers[2] + 1) AS stems FROM "
		    "flametap_dictionary WHERE kind "
		    "= 7" },
	{ "attributes",
	  "id, arrayFilter((x, i) -> i % 4 = 1, texts, arrayEnumerate(texts)) AS keys, arrayFilter("
	  "(x, i) -> i % 4 = 2, texts, arrayEnumerate(texts)) AS values_of, numbers AS kinds FROM "
	  "flametap_dictionary WHERE kind = 3" },
	{ "series", "id, texts[1] AS tenant, texts[2] AS type, texts[3] AS unit, texts[4] AS "
		    "period_type, texts[5] "
		    "AS period_unit, texts[6] AS service, numbers[1] AS period, refs[1] AS "
		    "resource, refs[2] AS "
		    "scope, refs[3] AS lifted FROM flametap_dictionary WHERE kind = 11" },
};
enum { VIEWS = sizeof(views) / sizeof(views[0]) };
_Static_assert(KIND_ATTRSET == 3 && KIND_FUNCTION == 4 && KIND_MAPPING == 5 && KIND_LOCATION == 6 &&
		       KIND_STACK == 7 && KIND_SERIES == 11,
	       "named in the views");

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
		if (s->features & CH_CODECS)
			buf_printf(out, " CODEC(%s)", c->codec);
	}
	if (t->indexes && s->features & CH_SKIP_INDEX)
		buf_str(out, str_cstr(t->indexes));
}

static void put_settings(const struct ch_schema *s, struct buf *out)
{
	buf_lit(out, "\nSETTINGS index_granularity = 8192");
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
	put_settings(s, out);
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
	size_t from = (size_t)str_search(select, STR("FROM ")) + 5;

	buf_lit(out, " AS SELECT ");
	buf_str(out, str_head(select, from));
	if (given(s->cluster)) {
		ch_quote_name(out, str_cstr(s->database));
		buf_char(out, '.');
	}
	buf_str(out, str_skip(select, from));
	buf_lit(out, ";\n");
}

void ch_schema_ddl(const struct ch_schema *s, struct buf *out)
{
	for (size_t i = 0; i < TABLES; i++)
		put_table(s, &tables[i], out);
	for (size_t i = 0; i < VIEWS; i++) {
		buf_printf(out, "CREATE VIEW IF NOT EXISTS " PREFIX "%s", views[i].name);
		on_cluster(s, out);
		put_select(s, str_cstr(views[i].select), out);
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
		   "INSERT INTO flametap_dictionary (kind, id, hash_hi, seen, refs, numbers, "
		   "texts, notes) VALUES "
		   "(%d, 1, 0, '2100-01-01', [], [%d], [], '')",
		   CH_KIND_SCHEMA, CH_SCHEMA_VERSION);
	ok = ch_query(server, buf_view(&mark), "&insert_distributed_sync=1", NULL, err);
	buf_release(&mark);
	return ok;
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
	if (ok && (!str_to_u64(str_trim(buf_view(&answer)), &version) || !version))
		ok = err_set(
			err, ERR_NOT_FOUND,
			"the database %s has tables of flametap's that no exporter has finished",
			ch_server_database(server));
	else if (ok && version > CH_SCHEMA_VERSION)
		ok = err_set(err, ERR_UNSUPPORTED,
			     "the store has schema version %llu, this program knows up to %d: it "
			     "was written by a newer "
			     "flametap",
			     (unsigned long long)version, CH_SCHEMA_VERSION);
	buf_release(&sql);
	buf_release(&answer);
	return ok;
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
