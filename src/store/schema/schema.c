#include "store/schema/schema.h"

/* chunk.h says what is in the columns. */
#define CHUNK                                                                                    \
	"CREATE TABLE chunk(seq INTEGER PRIMARY KEY, bucket INTEGER NOT NULL, n INTEGER NOT "    \
	"NULL, "                                                                                 \
	"last INTEGER, runs INTEGER NOT NULL, run_seq BLOB, run_first BLOB, series0 INTEGER, "   \
	"series BLOB, dt0 INTEGER, dt BLOB, form0 INTEGER, form BLOB, value0 INTEGER, value "    \
	"BLOB, "                                                                                 \
	"stack0 INTEGER, stack BLOB, attrset0 INTEGER, attrset BLOB, link0 INTEGER, link BLOB, " \
	"more BLOB, checksum INTEGER);\n"                                                        \
	"CREATE INDEX chunk_bucket ON chunk(bucket);\n"                                          \
	"CREATE TABLE chunk_link(link_id INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY "       \
	"KEY(link_id, seq)) WITHOUT ROWID;\n"

/* Of each link twice: by its trace id and by its span id (writer_lookup.c). */
#define LINK_KEY                                                                               \
	"CREATE TABLE link_key(key BLOB NOT NULL, link_id INTEGER NOT NULL, PRIMARY KEY(key, " \
	"link_id)) WITHOUT ROWID;\n"

/*
 * The order of columns matters for size: NULL, 0 and 1 take no byte beyond their byte in the row's
 * header, so that what is usual is one of them.
 */
static const char tables[] =
	/* Texts. Bytes as they came, bad UTF-8 and all. */
	"CREATE TABLE string(id INTEGER PRIMARY KEY, v TEXT NOT NULL);\n"
	/* kind: 0 empty, 1 string, 2 bool, 3 int, 4 double, 5 array, 6 map, 7 bytes; +128: its key
	 * or its text was sent by reference. */
	"CREATE TABLE attribute(id INTEGER PRIMARY KEY, key_id INTEGER, kind "
	"INTEGER, v, unit_id INTEGER, notes BLOB);\n"
	"CREATE TABLE attrset(id INTEGER PRIMARY KEY, attributes BLOB NOT "
	"NULL);\n"
	"CREATE TABLE function(id INTEGER PRIMARY KEY, hash BLOB NOT NULL, name_id INTEGER, "
	"system_name_id INTEGER, filename_id INTEGER, start_line INTEGER, notes BLOB);\n"
	"CREATE TABLE mapping(id INTEGER PRIMARY KEY, hash BLOB NOT NULL, memory_start INTEGER, "
	"memory_limit INTEGER, file_offset INTEGER, filename_id INTEGER, attrset_id INTEGER, "
	"build_id TEXT, notes BLOB);\n"
	"CREATE TABLE location(id INTEGER PRIMARY KEY, hash BLOB NOT NULL, mapping_id INTEGER, "
	"address INTEGER, attrset_id INTEGER, frame_type_id INTEGER, lines BLOB, notes BLOB);\n"
	"CREATE TABLE stack(id INTEGER PRIMARY KEY, hash BLOB NOT NULL, depth INTEGER, locations "
	"BLOB, notes BLOB);\n"
	"CREATE TABLE link(id INTEGER PRIMARY KEY, trace_id BLOB, span_id "
	"BLOB, "
	"notes BLOB);\n" LINK_KEY
	"CREATE TABLE resource(id INTEGER PRIMARY KEY, attrset_id INTEGER, "
	"schema_url_id INTEGER, dropped INTEGER, notes BLOB);\n"
	"CREATE TABLE scope(id INTEGER PRIMARY KEY, name_id INTEGER, "
	"version_id "
	"INTEGER, attrset_id INTEGER, schema_url_id INTEGER, dropped INTEGER, notes BLOB);\n"
	"CREATE TABLE series(id INTEGER PRIMARY KEY, tenant_id INTEGER, "
	"resource_id INTEGER, scope_id INTEGER, sample_type_id INTEGER, sample_unit_id INTEGER, "
	"period_type_id INTEGER, period_unit_id INTEGER, period INTEGER, lifted_id INTEGER, "
	"service_id INTEGER, process INTEGER, labels BLOB);\n" /* labels.h */
	/* One line of numbers: a request, then each of its profiles followed by its samples. A
	 * profile's time and duration are NULL when they are the request's. */
	"CREATE TABLE request(seq INTEGER PRIMARY KEY, arrived INTEGER NOT NULL, hash BLOB NOT "
	"NULL, "
	"version INTEGER, unknown_fields INTEGER, moved INTEGER, profiles INTEGER, time INTEGER, "
	"duration INTEGER, layout BLOB);\n"
	"CREATE TABLE profile(seq INTEGER PRIMARY KEY, series INTEGER NOT NULL, samples INTEGER, "
	"time INTEGER, duration INTEGER, uid BLOB, attrset_id INTEGER, dropped INTEGER, "
	"t0 INTEGER, span INTEGER, payload_format TEXT, payload BLOB);\n"
	"CREATE TABLE note(seq INTEGER PRIMARY KEY, notes BLOB NOT NULL);\n" CHUNK
	"CREATE TABLE bucket(bucket INTEGER PRIMARY KEY, longest INTEGER, first_seq INTEGER, "
	"last_seq INTEGER, n INTEGER);\n"
	"CREATE TABLE sample_key(key TEXT NOT NULL, PRIMARY KEY(key)) WITHOUT ROWID;\n"
	"CREATE TABLE coverage(host_id INTEGER, t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, "
	"reason_id "
	"INTEGER, n INTEGER, seq INTEGER, PRIMARY KEY(t0, host_id, reason_id, seq)) WITHOUT "
	"ROWID;\n"
	"CREATE TABLE symbol(build_id TEXT NOT NULL, address INTEGER NOT NULL, lines TEXT NOT "
	"NULL, "
	"PRIMARY KEY(build_id, address)) WITHOUT ROWID;\n"
	/* From the upper half of a content hash to the row; rows of each kind up to lookup_state.id
	 * are in. */
	"CREATE TABLE lookup(hash INTEGER NOT NULL, kind INTEGER NOT NULL, id INTEGER NOT NULL, "
	"PRIMARY KEY(hash, kind, id)) WITHOUT ROWID;\n"
	"CREATE TABLE lookup_state(kind INTEGER PRIMARY KEY, id INTEGER NOT NULL);\n";

const char *schema_tables(void)
{
	return tables;
}

static bool read_marks(sqlite3 *db, int64_t *application, int64_t *version, int64_t *count,
		       struct err *err)
{
	return db_number(db, "PRAGMA application_id", 0, application, err) &&
	       db_number(db, "PRAGMA user_version", 0, version, err) &&
	       db_number(db, "SELECT count(*) FROM sqlite_schema", 0, count, err);
}

static bool judge(int64_t application, int64_t version, struct err *err)
{
	if (application != STORE_APPLICATION_ID)
		return err_set(err, ERR_INVALID,
			       "this SQLite file is not a store of flametap (application_id is "
			       "0x%llx, not 0x%x)",
			       (long long)application, STORE_APPLICATION_ID);
	if (version != STORE_VERSION)
		return err_set(err, ERR_UNSUPPORTED,
			       "the store has schema version %lld, this program reads version %d",
			       (long long)version, STORE_VERSION);
	return true;
}

static bool make(sqlite3 *db, struct err *err)
{
	return db_exec_f(db, err,
			 "BEGIN IMMEDIATE; PRAGMA application_id=%d; PRAGMA user_version=%d; %s %s "
			 "COMMIT",
			 STORE_APPLICATION_ID, STORE_VERSION, tables, schema_views());
}

bool schema_prepare(sqlite3 *db, struct err *err)
{
	int64_t application, version, count;
	char sql[80];

	/* Each holds for the file's whole life and must be said before its first page is written.
	 */
	snprintf(sql, sizeof(sql), "PRAGMA page_size=%d; PRAGMA auto_vacuum=INCREMENTAL",
		 STORE_PAGE_BYTES);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return db_error(db, err, "cannot open the store");
	if (!read_marks(db, &application, &version, &count, err))
		return false;
	if (count == 0 && (application == 0 || application == STORE_APPLICATION_ID))
		return db_exec(db, "PRAGMA journal_mode=WAL", err) && make(db, err);
	return judge(application, version, err) && db_exec(db, "PRAGMA journal_mode=WAL", err);
}

bool schema_check(sqlite3 *db, struct err *err)
{
	int64_t application, version, count;

	if (!read_marks(db, &application, &version, &count, err))
		return false;
	if (count == 0 && application == 0)
		return err_set(err, ERR_NOT_FOUND, "the store is empty: nothing was written yet");
	return judge(application, version, err);
}
