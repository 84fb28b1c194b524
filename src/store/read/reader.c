#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "store/schema/chunk.h"
#include "store/read/reader_internal.h"
#include "store/schema/schema.h"

enum { CACHE_KIB = 256, REQUESTS_CACHE_KIB = 1 << 10, BUSY_MS = 5000 };
static const size_t kept_most_bytes = (size_t)8 << 20; /* of texts and sets that were read */

#define LOCATION  "mapping_id, address, attrset_id, frame_type_id, lines, notes, id"
#define STACK     "locations, notes, hash, id"
#define ATTRIBUTE "key_id, kind, v, unit_id, notes, id"
#define FUNCTION  "name_id, system_name_id, filename_id, start_line, notes, id"
#define SERIES                                                               \
	"tenant_id, resource_id, scope_id, sample_type_id, sample_unit_id, " \
	"period_type_id, period_unit_id, period, lifted_id, service_id, id"
#define BRIEF_SERIES                                                                               \
	"SELECT brief(id, resource_id, scope_id, sample_type_id, sample_unit_id, period_type_id, " \
	"period_unit_id, period, process, service_id, labels) FROM series WHERE id BETWEEN ?1 "    \
	"AND ?2"

/* What row_each() gives. */
#define ROW_OF_LOCATION  "mapping_id, address, attrset_id, frame_type_id, lines"
#define ROW_OF_FUNCTION  "name_id, system_name_id, filename_id, start_line"
#define ROW_OF_ATTRIBUTE "key_id, kind, v, unit_id"
#define PICK(table, columns)                                                                  \
	"SELECT row(" table ".id, " columns ") FROM (SELECT value AS at FROM json_each(?1)) " \
	"CROSS JOIN " table " ON " table ".id=at"

#define OF_WINDOW                                                         \
	"(SELECT bucket FROM bucket WHERE bucket<=?2 AND (bucket>=?1 OR " \
	"bucket*600000000000+599999999999+longest>=?3 OR longest<0))"

#define CHUNK_WITH_STACK      CHUNK_COLUMNS_TIMES CHUNK_COLUMNS_STACK
#define CHUNK_WITH_ATTRIBUTES CHUNK_WITH_STACK CHUNK_COLUMNS_ATTRIBUTES
#define CHUNK_WITH_ALL        CHUNK_WITH_ATTRIBUTES CHUNK_COLUMNS_LINK
#define CHUNKS_OF_BUCKET      " FROM chunk WHERE bucket=?1 AND seq<=?2 ORDER BY seq"

static const char *const sql[QUERY_COUNT] = {
	[GET_STRING] = "SELECT v, id FROM string WHERE id=?1",
	[GET_ATTRIBUTE] = "SELECT " ATTRIBUTE " FROM attribute WHERE id=?1",
	[GET_ATTRSET] = "SELECT attributes, id FROM attrset WHERE id=?1",
	[GET_FUNCTION] = "SELECT " FUNCTION " FROM function WHERE id=?1",
	[GET_MAPPING] = "SELECT memory_start, memory_limit, file_offset, filename_id, attrset_id, "
			"build_id, notes FROM mapping WHERE id=?1",
	[GET_LOCATION] = "SELECT " LOCATION " FROM location WHERE id=?1",
	[GET_STACK] = "SELECT " STACK " FROM stack WHERE id=?1",
	[GET_LINK] = "SELECT trace_id, span_id, notes FROM link WHERE id=?1",
	[GET_RESOURCE] =
		"SELECT attrset_id, schema_url_id, dropped, notes FROM resource WHERE id=?1",
	[GET_SCOPE] = "SELECT name_id, version_id, attrset_id, schema_url_id, dropped, notes FROM "
		      "scope WHERE id=?1",
	[GET_SERIES] = "SELECT " SERIES ", process, labels FROM series WHERE id=?1",
	[EACH_SERIES] = "SELECT " SERIES ", process, labels FROM series WHERE id BETWEEN ?1 AND ?2",
	[EACH_BRIEF] = BRIEF_SERIES,
	[MARK_CHUNKS] = "SELECT runs, series0, series FROM chunk WHERE bucket IN " OF_WINDOW,
	[PICK_STACKS] = PICK("stack", "locations"),
	[PICK_LOCATIONS] = PICK("location", ROW_OF_LOCATION),
	[PICK_FUNCTIONS] = PICK("function", ROW_OF_FUNCTION),
	[PICK_RESOURCES] = PICK("resource", "attrset_id, schema_url_id"),
	[PICK_ATTRSETS] = PICK("attrset", "attributes"),
	[PICK_ATTRIBUTES] = PICK("attribute", ROW_OF_ATTRIBUTE),
	[PICK_STRINGS] = PICK("string", "v"),
	[GET_REQUEST] = "SELECT seq, arrived, hash, version, unknown_fields, moved, layout "
			"FROM request WHERE seq>?1 ORDER BY seq LIMIT 1",
	[NEXT_REQUEST] = "SELECT seq FROM request WHERE seq>?1 ORDER BY seq LIMIT 1",
	[GET_PROFILE] =
		"SELECT p.seq, p.series, p.samples, coalesce(p.time, r.time), coalesce(p.duration, "
		"r.duration), p.uid, p.attrset_id, p.dropped, p.payload_format, p.payload "
		"FROM profile p, request r WHERE p.seq=?1 AND r.seq=(SELECT max(seq) FROM request "
		"WHERE "
		"seq<?1)",
	[GET_NOTE] = "SELECT seq, notes FROM note WHERE seq>=?1 ORDER BY seq LIMIT 1",
	[GET_SYMBOL] = "SELECT j.value->>0, j.value->>1, j.value->>2, j.value->>3, j.value->>4, "
		       "j.value->>5 FROM symbol s, json_each(s.lines) j WHERE s.build_id=?1 AND "
		       "s.address=?2 ORDER BY j.key",
	[LIST_BUCKETS] = "SELECT bucket, longest FROM bucket WHERE bucket<=?1 ORDER BY bucket",
	[SCAN_CHUNKS + DEPTH_TIMES] = "SELECT " CHUNK_COLUMNS_TIMES CHUNKS_OF_BUCKET,
	[SCAN_CHUNKS + DEPTH_STACK] = "SELECT " CHUNK_WITH_STACK CHUNKS_OF_BUCKET,
	[SCAN_CHUNKS + DEPTH_ATTRIBUTES] = "SELECT " CHUNK_WITH_ATTRIBUTES CHUNKS_OF_BUCKET,
	[SCAN_CHUNKS + DEPTH_ALL] = "SELECT " CHUNK_WITH_ALL CHUNKS_OF_BUCKET,
	[GET_CHUNK] = "SELECT " CHUNK_WITH_ALL " FROM chunk WHERE seq=?1",
	[EACH_CHUNK] = "SELECT " CHUNK_WITH_ALL " FROM chunk WHERE seq BETWEEN ?1 AND ?2 ORDER BY "
		       "seq",
	[CHUNKS_OF_LINK] = "SELECT seq FROM chunk_link WHERE link_id=?1",
	[CHUNK_ENDS] = "SELECT dt0, last FROM chunk WHERE bucket=?1",
};

/* ---- a store ---- */

static bool sqlite_begin(struct store *store, struct source **out, struct err *err);
static void sqlite_close(struct store *store);

static const struct store_ops store_ops = { .begin = sqlite_begin, .close = sqlite_close };

bool sqlite_open(const struct store_open_options *options, struct store **out, struct err *err)
{
	struct source *first;
	struct stat st;
	struct sqlite_store *s;

	if (stat(options->location, &st) < 0)
		return err_set_errno(err, "cannot open the store %s", options->location);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "the store %s is not a regular file",
			       options->location);
	s = calloc(1, sizeof(*s));
	assert(s);
	s->base.ops = &store_ops;
	s->path = strdup(options->location);
	assert(s->path);
	s->immutable = db_is_immutable(s->path);
	pthread_mutex_init(&s->lock, NULL);
	if (!sqlite_begin(&s->base, &first, err)) {
		struct err why;

		if (db_is_whole(s->path, &why))
			err_prefix(err, "%s", options->location);
		else
			*err = why;
		sqlite_close(&s->base);
		return false;
	}
	source_free(first);
	*out = &s->base;
	return true;
}

static void snapshot_free(struct sqlite_snapshot *snap)
{
	if (!snap)
		return;
	for (int i = 0; i < QUERY_COUNT; i++)
		sqlite3_finalize(snap->queries[i]);
	sqlite3_close(snap->db);
	arena_release(&snap->kept);
	idmap_release(&snap->strings);
	idmap_release(&snap->attrsets);
	idmap_release(&snap->attributes);
	idmap_release(&snap->functions);
	idmap_release(&snap->mappings);
	free(snap->values);
	free(snap->times);
	free(snap);
}

static void sqlite_close(struct store *store)
{
	struct sqlite_store *s = CONTAINER_OF(store, struct sqlite_store, base);

	for (size_t i = 0; i < sizeof(s->idle) / sizeof(s->idle[0]); i++)
		snapshot_free(s->idle[i]);
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

static const struct source_ops source_ops;

/* ---- snapshots: a connection each, two of them kept for the next question ---- */

static bool open_connection(struct sqlite_snapshot *snap, struct err *err)
{
	if (!db_open_to_read(snap->store->path, snap->store->immutable, &snap->db, err))
		return false;
	sqlite3_extended_result_codes(snap->db, 1);
	sqlite3_busy_timeout(snap->db, BUSY_MS);
	if (!reader_make_row(snap, err) || !reader_make_brief(snap, err))
		return false;
	if (db_exec_f(snap->db, err,
		      "PRAGMA query_only=1; PRAGMA cache_size=-%d; PRAGMA mmap_size=0; PRAGMA "
		      "trusted_schema=0",
		      CACHE_KIB))
		return true;
	if ((sqlite3_errcode(snap->db) & 0xff) == SQLITE_NOTADB)
		err_set(err, ERR_INVALID,
			"it is not a store, or its beginning is damaged (name files of profiles "
			"without --db)");
	return false;
}

static struct sqlite_snapshot *take_idle(struct sqlite_store *s)
{
	struct sqlite_snapshot *snap = NULL;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; !snap && i < sizeof(s->idle) / sizeof(s->idle[0]); i++) {
		snap = s->idle[i];
		s->idle[i] = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	return snap;
}

static bool sqlite_begin(struct store *store, struct source **out, struct err *err)
{
	struct sqlite_store *s = CONTAINER_OF(store, struct sqlite_store, base);
	struct sqlite_snapshot *snap = take_idle(s);
	int64_t symbols = 0;
	bool ok = true;

	if (!snap) {
		snap = calloc(1, sizeof(*snap));
		assert(snap);
		snap->store = s;
		arena_init(&snap->kept, 32 << 10, 0);
		ok = open_connection(snap, err);
	}
	/* The first read of the transaction fixes what it sees. */
	ok = ok && db_exec(snap->db, "BEGIN", err) && schema_check(snap->db, err) &&
	     db_number(snap->db, "SELECT 1 FROM symbol LIMIT 1", 0, &symbols, err);
	if (!ok) {
		snapshot_free(snap);
		return false;
	}
	snap->overlay = symbols;
	snap->base.ops = &source_ops;
	*out = &snap->base;
	return true;
}

static void forget_met(struct sqlite_snapshot *snap)
{
	arena_reset(&snap->kept);
	idmap_clear(&snap->strings);
	idmap_clear(&snap->attrsets);
	idmap_clear(&snap->attributes);
	idmap_clear(&snap->functions);
	idmap_clear(&snap->mappings);
}

/* The first one stays warm; those that only a crowd needs give their pages back. */
static void park_snapshot(struct sqlite_store *s, struct sqlite_snapshot *snap)
{
	size_t at = 0;

	pthread_mutex_lock(&s->lock);
	while (at < ARRAY_LEN(s->idle) && s->idle[at])
		at++;
	if (at > 0)
		sqlite3_db_release_memory(snap->db);
	if (at < ARRAY_LEN(s->idle)) {
		s->idle[at] = snap;
		snap = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	snapshot_free(snap);
}

static bool set_cache(struct sqlite_snapshot *snap, int kib, struct err *err)
{
	return db_exec_f(snap->db, err, "PRAGMA cache_size=-%d", kib);
}

bool reader_cache_more(struct sqlite_snapshot *snap, struct err *err)
{
	if (!snap->caches_more)
		snap->caches_more = set_cache(snap, REQUESTS_CACHE_KIB, err);
	return snap->caches_more;
}

static bool cache_less(struct sqlite_snapshot *snap)
{
	struct err ignored;
	bool less = !snap->caches_more || set_cache(snap, CACHE_KIB, &ignored);

	snap->caches_more = false;
	return less;
}

static void sqlite_end(struct source *source)
{
	struct sqlite_snapshot *snap = sqlite_snapshot_of(source);

	for (int i = 0; i < QUERY_COUNT; i++)
		if (snap->queries[i])
			sqlite3_reset(snap->queries[i]);
	forget_met(snap);
	if (sqlite3_exec(snap->db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK && cache_less(snap))
		park_snapshot(snap->store, snap);
	else
		snapshot_free(snap);
}

bool reader_is_full(const struct sqlite_snapshot *snap)
{
	return snap->kept.reserved_bytes > kept_most_bytes;
}

void reader_trim(struct sqlite_snapshot *snap)
{
	if (reader_is_full(snap))
		forget_met(snap);
}

sqlite3_stmt *reader_query(struct sqlite_snapshot *snap, enum query q, struct err *err)
{
	if (!snap->queries[q] && !db_prepare(snap->db, sql[q], &snap->queries[q], err))
		return NULL;
	return snap->queries[q];
}

bool reader_row(struct sqlite_snapshot *snap, enum query q, uint64_t id, sqlite3_stmt **out,
		struct err *err)
{
	sqlite3_stmt *s = reader_query(snap, q, err);
	bool row;

	if (!s)
		return false;
	sqlite3_reset(s);
	db_bind_u64(s, 1, id);
	if (!db_step(snap->db, s, &row, err, "reading the store"))
		return false;
	if (!row)
		return err_set(err, ERR_NOT_FOUND, "the store has no row %llu for: %s",
			       (unsigned long long)id, sql[q]);
	*out = s;
	return true;
}

/* ---- the whole ---- */

static bool sqlite_asof(struct source *source, uint64_t *out, struct err *err)
{
	const struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	int64_t request, profile, saved, most;

	if (!db_number(snap->db, "SELECT max(seq) FROM request", 0, &request, err) ||
	    !db_number(snap->db, "SELECT seq + samples FROM profile ORDER BY seq DESC LIMIT 1", 0,
		       &profile, err) ||
	    !db_number(snap->db, "SELECT id - 1 FROM lookup_state WHERE kind=0", 0, &saved, err))
		return false;
	most = request > profile ? request : profile;
	*out = (uint64_t)(most > saved ? most : saved);
	return true;
}

static bool sqlite_names_state(struct source *source, uint64_t *out, struct err *err)
{
	const struct sqlite_snapshot *snap = sqlite_snapshot_of(source);
	char text[64];
	int64_t state;

	snprintf(text, sizeof(text), "SELECT id FROM lookup_state WHERE kind=%d",
		 STORE_STATE_NAMES);
	if (!db_number(snap->db, text, 0, &state, err))
		return false;
	*out = (uint64_t)state;
	return true;
}

static const struct source_ops source_ops = {
	.series = sqlite_series,
	.sample_keys = sqlite_sample_keys,
	.scan = sqlite_scan,
	.events = sqlite_events,
	.profiles = sqlite_profiles,
	.stacks = sqlite_stacks,
	.locations = sqlite_locations,
	.attributes = sqlite_attributes,
	.links = sqlite_links,
	.find_links = sqlite_find_links,
	.coverage = sqlite_coverage,
	.asof = sqlite_asof,
	.names_state = sqlite_names_state,
	.extent = sqlite_extent,
	.next_request = sqlite_next_request,
	.free = sqlite_end,
};
