#include "store/salvage/salvage_mend.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"
#include "store/schema/chunk.h"
#include "store/schema/references.h"
#include "store/schema/schema.h"

/* An id that far beyond the newest row of its table is noise. */
enum { IDS_BEYOND = 1 << 20 };

struct id_bits {
	uint8_t *bits;
	uint64_t most; /* the largest id that may be named */
};

struct mending {
	sqlite3 *db;
	struct id_bits there[KIND_COUNT];
	bool noise; /* the row at hand names an id that cannot be */
	uint64_t *list;
	size_t count, cap; /* numbers of rows to be changed after a walk */
	struct store_salvaged *out;
	struct err *err;
};

static void list_add(struct mending *m, uint64_t number)
{
	VEC_ROOM(m->list, m->count, m->cap);
	m->list[m->count++] = number;
}

/* The statement for each number; *changed: of how many rows. */
static bool run_for_each(struct mending *m, const char *sql, const uint64_t *numbers, size_t count,
			 uint64_t *changed)
{
	sqlite3_stmt *s = NULL;
	bool ok = !count || db_prepare(m->db, sql, &s, m->err);

	for (size_t i = 0; ok && i < count; i++) {
		db_bind_u64(s, 1, numbers[i]);
		ok = db_run(m->db, s, m->err, "mending a row");
		*changed += (uint64_t)sqlite3_changes64(m->db);
	}
	sqlite3_finalize(s);
	return ok;
}

/* ---- chunks, and what is made from them ---- */

struct chunk_notes {
	sqlite3_stmt *bucket, *link;
};

static void see_id(void *ctx, enum store_kind kind, uint64_t id)
{
	struct mending *m = ctx;

	if (id > m->there[kind].most && id <= UINT32_MAX)
		m->there[kind].most = id;
}

static bool note_chunk(struct mending *m, const struct chunk_notes *n, const struct chunk *c)
{
	uint64_t last = c->seq + cells_get(&c->run_seq, c->runs - 1) + c->n - 1 -
			cells_get(&c->run_first, c->runs - 1);
	uint64_t first_dt = c->dt.base, longest = c->last > first_dt ? c->last - first_dt : 0;

	db_bind_u64(n->bucket, 1, c->bucket);
	db_bind_u64(n->bucket, 2, longest);
	db_bind_u64(n->bucket, 3, c->seq);
	db_bind_u64(n->bucket, 4, last);
	db_bind_u64(n->bucket, 5, c->n);
	if (!db_run(m->db, n->bucket, m->err, "noting a bucket"))
		return false;
	for (uint32_t i = 0; c->link.width && i < c->n; i++) {
		uint64_t link = cells_id(&c->link, i);

		if (!link)
			continue;
		db_bind_u64(n->link, 1, link);
		db_bind_u64(n->link, 2, c->seq);
		if (!db_run(m->db, n->link, m->err, "noting a link"))
			return false;
	}
	m->out->samples += c->n;
	return true;
}

static bool note_chunks(struct mending *m, const struct chunk_notes *n, sqlite3_stmt *chunks)
{
	bool row = true, ok = true;

	while (ok) {
		struct err broken;
		struct chunk c;

		ok = db_step(m->db, chunks, &row, m->err, "reading chunks");
		if (!ok || !row)
			break;
		if (chunk_read(chunks, &c, &broken) &&
		    references_of(&reference_sources[0], chunks, see_id, m, &broken))
			ok = note_chunk(m, n, &c);
		else
			list_add(m, db_u64(chunks, CHUNK_SEQ));
	}
	return ok;
}

static bool mend_chunks(struct mending *m)
{
	struct chunk_notes n = { 0 };
	sqlite3_stmt *chunks = NULL;
	bool ok;

	ok = db_prepare(m->db, reference_sources[0].select, &chunks, m->err) &&
	     db_prepare(
		     m->db,
		     "INSERT INTO bucket VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(bucket) DO "
		     "UPDATE SET longest=max(longest, excluded.longest), first_seq=min(first_seq, "
		     "excluded.first_seq), last_seq=max(last_seq, excluded.last_seq), n=n + "
		     "excluded.n",
		     &n.bucket, m->err) &&
	     db_prepare(m->db, "INSERT OR IGNORE INTO chunk_link VALUES(?1, ?2)", &n.link,
			m->err) &&
	     note_chunks(m, &n, chunks);
	sqlite3_finalize(chunks);
	sqlite3_finalize(n.bucket);
	sqlite3_finalize(n.link);
	ok = ok && run_for_each(m, "DELETE FROM chunk WHERE seq=?1", m->list, m->count,
				&m->out->lost_chunks);
	m->count = 0;
	return ok;
}

/* ---- requests and their profiles ---- */

struct request_line {
	uint64_t seq, profiles;
	uint64_t next;    /* the request behind it, or the end of the line */
	uint64_t samples; /* of its profiles */
	uint64_t end;     /* behind the last of them */
	bool whole;
};

/* Profiles stand one behind another, each followed by its samples. */
static bool read_line(struct mending *m, sqlite3_stmt *profiles, struct request_line *r)
{
	uint64_t count = 0;
	bool row = true, follows = true;

	r->end = r->seq + 1;
	r->samples = 0;
	db_bind_u64(profiles, 1, r->seq);
	db_bind_u64(profiles, 2, r->next);
	while (follows && count < r->profiles) {
		if (!db_step(m->db, profiles, &row, m->err, "reading profiles"))
			return false;
		follows = row && db_u64(profiles, 0) == r->end;
		if (!follows)
			break;
		r->end += 1 + db_u64(profiles, 1);
		r->samples += db_u64(profiles, 1);
		count++;
	}
	sqlite3_reset(profiles);
	r->whole = count == r->profiles;
	return true;
}

static bool number_between(struct mending *m, const char *sql, uint64_t from, uint64_t to,
			   uint64_t *out)
{
	sqlite3_stmt *s = NULL;
	bool row, ok = db_prepare(m->db, sql, &s, m->err);

	if (ok) {
		db_bind_u64(s, 1, from);
		db_bind_u64(s, 2, to);
		ok = db_step(m->db, s, &row, m->err, "mending the line");
	}
	*out = ok && row ? db_u64(s, 0) : 0;
	sqlite3_finalize(s);
	return ok;
}

static bool delete_profiles(struct mending *m, uint64_t from, uint64_t to)
{
	return db_exec_f(m->db, m->err, "DELETE FROM profile WHERE seq>=%llu AND seq<%llu",
			 (unsigned long long)from, (unsigned long long)to);
}

static bool mend_request(struct mending *m, sqlite3_stmt *profiles, struct request_line *r)
{
	uint64_t there;

	if (!read_line(m, profiles, r))
		return false;
	if (!r->whole) {
		m->out->lost_requests++;
		return delete_profiles(m, r->seq, r->next) &&
		       db_exec_f(m->db, m->err, "DELETE FROM request WHERE seq=%llu",
				 (unsigned long long)r->seq);
	}
	m->out->requests++;
	if (!number_between(m, "SELECT sum(n) FROM chunk WHERE seq>=?1 AND seq<?2", r->seq, r->end,
			    &there))
		return false;
	m->out->lost_samples += r->samples > there ? r->samples - there : 0;
	return delete_profiles(m, r->end, r->next);
}

/* Of a profile without its request nobody knows the time; of a request that lacks a profile nobody
 * can say what it was. */
static bool mend_line(struct mending *m)
{
	static const char next[] = "SELECT coalesce(min(seq), 1<<62) FROM request WHERE seq>?1";
	struct request_line r = { 0 };
	sqlite3_stmt *profiles = NULL;
	bool ok;

	ok = number_between(m, next, 0, 0, &r.next) && delete_profiles(m, 0, r.next) &&
	     db_prepare(m->db,
			"SELECT seq, samples FROM profile WHERE seq>?1 AND seq<?2 ORDER BY seq",
			&profiles, m->err);
	while (ok && r.next < (uint64_t)1 << 62) {
		r.seq = r.next;
		ok = number_between(m, next, r.seq, 0, &r.next) &&
		     number_between(m, "SELECT profiles FROM request WHERE seq=?1", r.seq, 0,
				    &r.profiles) &&
		     mend_request(m, profiles, &r);
	}
	sqlite3_finalize(profiles);
	return ok;
}

/* Retention goes by the oldest request that is young: one of the future would hold all. */
static bool mend_origins(struct mending *m)
{
	unsigned long long now = clock_realtime_ns();

	if (!db_exec_f(m->db, m->err,
		       "UPDATE request SET arrived=%llu WHERE arrived>%llu; UPDATE request SET "
		       "arrived=%llu, hash=x'' WHERE arrived<=0 OR length(hash)<>16",
		       now, now, now))
		return false;
	m->out->lost_origins = (uint64_t)sqlite3_changes64(m->db);
	return true;
}

/* ---- what rows name ---- */

/* A row that says nothing. */
static const char *const empty_rows[KIND_COUNT] = {
	[KIND_STRING] = "INSERT OR IGNORE INTO string(id, v) VALUES(?1, '')",
	[KIND_ATTRIBUTE] = "INSERT OR IGNORE INTO attribute(id) VALUES(?1)",
	[KIND_ATTRSET] = "INSERT OR IGNORE INTO attrset(id, attributes) VALUES(?1, x'')",
	[KIND_FUNCTION] = "INSERT OR IGNORE INTO function(id, hash) VALUES(?1, x'')",
	[KIND_MAPPING] = "INSERT OR IGNORE INTO mapping(id, hash) VALUES(?1, x'')",
	[KIND_LOCATION] = "INSERT OR IGNORE INTO location(id, hash) VALUES(?1, x'')",
	[KIND_STACK] = "INSERT OR IGNORE INTO stack(id, hash) VALUES(?1, x'')",
	[KIND_LINK] = "INSERT OR IGNORE INTO link(id) VALUES(?1)",
	[KIND_RESOURCE] = "INSERT OR IGNORE INTO resource(id) VALUES(?1)",
	[KIND_SCOPE] = "INSERT OR IGNORE INTO scope(id) VALUES(?1)",
	[KIND_SERIES] = "INSERT OR IGNORE INTO series(id, process) VALUES(?1, 0)",
};

static bool read_ids(struct mending *m, enum store_kind kind)
{
	struct id_bits *b = &m->there[kind];
	sqlite3_stmt *s = NULL;
	int64_t most;
	char sql[64];
	bool row = true, ok;

	snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE id<1 OR id>%lld", store_table(kind),
		 (long long)UINT32_MAX);
	ok = db_exec(m->db, sql, m->err);
	snprintf(sql, sizeof(sql), "SELECT max(id) FROM %s", store_table(kind));
	if (!ok || !db_number(m->db, sql, 0, &most, m->err))
		return false;
	b->most = ((uint64_t)most > b->most ? (uint64_t)most : b->most) + IDS_BEYOND;
	b->bits = calloc(b->most / 8 + 1, 1);
	assert(b->bits);
	snprintf(sql, sizeof(sql), "SELECT id FROM %s", store_table(kind));
	ok = db_prepare(m->db, sql, &s, m->err);
	while (ok && row) {
		ok = db_step(m->db, s, &row, m->err, "reading ids");
		if (ok && row)
			b->bits[db_u64(s, 0) / 8] |= (uint8_t)(1u << db_u64(s, 0) % 8);
	}
	sqlite3_finalize(s);
	return ok;
}

static void see_noise(void *ctx, enum store_kind kind, uint64_t id)
{
	struct mending *m = ctx;

	m->noise |= id > m->there[kind].most;
}

static bool is_damaged(struct mending *m, const struct reference_source *x, sqlite3_stmt *s)
{
	struct err ignored;

	m->noise = false;
	return !references_of(x, s, see_noise, m, &ignored) || m->noise;
}

struct naming {
	struct mending *m;
	uint64_t *lost[KIND_COUNT];
	size_t count[KIND_COUNT], cap[KIND_COUNT];
};

static void want_row(void *ctx, enum store_kind kind, uint64_t id)
{
	struct naming *n = ctx;
	uint8_t *bits = n->m->there[kind].bits;

	if (id > n->m->there[kind].most || bits[id / 8] >> id % 8 & 1)
		return;
	bits[id / 8] |= (uint8_t)(1u << id % 8);
	VEC_ROOM(n->lost[kind], n->count[kind], n->cap[kind]);
	n->lost[kind][n->count[kind]++] = id;
}

/* Rows that are lost, or damaged (those that are there, in m->list). */
static bool put_empty_rows(struct mending *m, enum store_kind of, struct naming *n)
{
	uint64_t *empty = m->out->empty, ignored = 0;
	char sql[96];
	bool ok = true;

	for (int kind = 1; ok && kind < KIND_COUNT; kind++)
		ok = run_for_each(m, empty_rows[kind], n->lost[kind], n->count[kind], &empty[kind]);
	if (ok && m->count) {
		snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE id=?1", store_table(of));
		ok = run_for_each(m, sql, m->list, m->count, &ignored) &&
		     run_for_each(m, empty_rows[of], m->list, m->count, &empty[of]);
	}
	m->count = 0;
	return ok;
}

static bool mend_source(struct mending *m, const struct reference_source *x)
{
	struct naming n = { .m = m };
	sqlite3_stmt *s = NULL;
	struct err ignored;
	bool row = true, ok = db_prepare(m->db, x->select, &s, m->err);

	while (ok) {
		ok = db_step(m->db, s, &row, m->err, "reading what rows name");
		if (!ok || !row)
			break;
		if (x->kind && is_damaged(m, x, s))
			list_add(m, db_u64(s, 0));
		else if (!references_of(x, s, want_row, &n, &ignored))
			continue; /* readers of the row say so */
	}
	sqlite3_finalize(s);
	ok = ok && put_empty_rows(m, x->kind, &n);
	for (int kind = 1; kind < KIND_COUNT; kind++)
		free(n.lost[kind]);
	return ok;
}

/* Nobody knows what the values of a lost series count: each gets a type of its own, so that no sum
 * mixes two. */
static const char name_lost_series[] =
	"CREATE TEMP TRIGGER lost_series AFTER INSERT ON main.series BEGIN INSERT INTO string(v) "
	"VALUES('type not readable (series ' || new.id || ')'); UPDATE series SET "
	"sample_type_id=(SELECT max(id) FROM string) WHERE id=new.id; END";

static bool mend_references(struct mending *m)
{
	bool ok = db_exec(m->db, name_lost_series, m->err);

	for (int kind = 1; ok && kind < KIND_COUNT; kind++)
		ok = read_ids(m, (enum store_kind)kind);
	for (const struct reference_source *x = reference_sources; ok && x->table; x++)
		ok = mend_source(m, x);
	return ok && db_exec(m->db, "DROP TRIGGER lost_series", m->err);
}

/* ---- the rest ---- */

/* Readers take a list of lists apart. */
static bool mend_names(struct mending *m)
{
	int64_t names;

	if (!db_exec(m->db,
		     "DELETE FROM symbol WHERE CASE WHEN json_valid(lines) THEN EXISTS (SELECT 1 "
		     "FROM json_each(lines) j WHERE j.type<>'array') ELSE 1 END",
		     m->err))
		return false;
	m->out->lost_names = (uint64_t)sqlite3_changes64(m->db);
	if (!db_number(m->db, "SELECT count(*) FROM symbol", 0, &names, m->err))
		return false;
	m->out->names = (uint64_t)names;
	return true;
}

/* No number of the line is given twice. */
static bool mend_state(struct mending *m)
{
	return db_exec_f(
		m->db, m->err,
		"INSERT INTO lookup_state VALUES(0, 1 + max(coalesce((SELECT max(last_seq) "
		"FROM bucket), 0), coalesce((SELECT max(seq) FROM request), 0), "
		"coalesce((SELECT max(seq + samples) FROM profile), 0))); INSERT INTO "
		"lookup_state SELECT %d, 1 FROM symbol LIMIT 1",
		STORE_STATE_NAMES);
}

static bool add_all_keys(struct mending *m)
{
	return db_exec(
		m->db,
		"INSERT OR IGNORE INTO sample_key SELECT v FROM attribute a JOIN string s ON "
		"s.id=a.key_id",
		m->err);
}

bool salvage_mend(sqlite3 *db, bool all_keys, struct store_salvaged *out, struct err *err)
{
	struct mending m = { .db = db, .out = out, .err = err };
	bool ok = mend_chunks(&m) && mend_references(&m) && mend_line(&m) && mend_origins(&m) &&
		  mend_names(&m) && (!all_keys || add_all_keys(&m)) && mend_state(&m);

	for (int kind = 1; kind < KIND_COUNT; kind++)
		free(m.there[kind].bits);
	free(m.list);
	return ok;
}
