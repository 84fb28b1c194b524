/*
 * store_bench.c - what one OTLP body costs on its way into the SQLite store: decoding, rows,
 * commit.
 *
 * usage: store_bench [--seed N] [--bodies N] [--dir DIR] [--group N] [--bare-links] [BODY.pb]
 *
 * Bodies are the generator's (gen_bodies.h); with BODY.pb, that one again and again, its times
 * moved on by the decoder's output (a new hash each). CPU is of the whole process; one transaction
 * holds `group` bodies, synchronous=FULL. The first tenth warms up and is not counted.
 *
 * Beside it, in the same run and with the same settings, the floor: the rows that each transaction
 * has added, dictionary and samples, read back and put into a second file by prepared statements
 * alone, in the same order and groups (without bucket, lookup and link_key, which
 * count as ours; links have plain indices on their ids instead, or none with --bare-links).
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gen_bodies.h"
#include "store/schema/schema.h"
#include "store/write/writer.h"
#include "wire/otlp.h"

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

static struct blob *encoded(struct gen *g, uint64_t *arrived)
{
	struct profiles *p = gen_body(g, arrived);
	struct buf b;
	struct err err;
	char *bytes;
	size_t len;

	buf_init(&b, 0);
	if (!otlp_encode(p, WIRE_NEWEST, &b, &err))
		abort();
	profiles_free(p);
	bytes = buf_take(&b, &len);
	return blob_adopt(bytes, len);
}

struct run {
	struct store_writer *w;
	uint64_t decode_ns, put_ns, commit_ns, wall_ns, bytes, bodies;
};

static void fail(const struct err *err)
{
	fprintf(stderr, "store_bench: %s\n", err->msg);
	exit(1);
}

/* ---- the floor ---- */

static const struct {
	const char *select, *insert, *last;
} copies[] = {
#define ROWS(table, key, places, order)                                     \
	{                                                                   \
		"SELECT * FROM " table " WHERE " key ">?1 ORDER BY " order, \
			"INSERT INTO " table " VALUES(" places ")",         \
			"SELECT max(" key ") FROM " table                   \
	}
	ROWS("string", "id", "?,?", "id"),
	ROWS("attribute", "id", "?,?,?,?,?,?", "id"),
	ROWS("attrset", "id", "?,?", "id"),
	ROWS("function", "id", "?,?,?,?,?,?,?", "id"),
	ROWS("mapping", "id", "?,?,?,?,?,?,?,?,?", "id"),
	ROWS("location", "id", "?,?,?,?,?,?,?,?", "id"),
	ROWS("stack", "id", "?,?,?,?,?", "id"),
	ROWS("link", "id", "?,?,?,?", "id"),
	ROWS("resource", "id", "?,?,?,?,?", "id"),
	ROWS("scope", "id", "?,?,?,?,?,?,?", "id"),
	ROWS("series", "id", "?,?,?,?,?,?,?,?,?,?,?,?,?", "id"),
	ROWS("request", "seq", "?,?,?,?,?,?,?,?,?,?", "seq"),
	ROWS("profile", "seq", "?,?,?,?,?,?,?,?,?,?,?,?", "seq"),
	ROWS("chunk", "seq", "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?", "seq"),
	{ "SELECT * FROM chunk_link WHERE seq>?1 ORDER BY link_id",
	  "INSERT INTO chunk_link VALUES(?,?)", "SELECT max(seq) FROM chunk" },
};
enum { COPIES = sizeof(copies) / sizeof(copies[0]), COLUMNS_MOST = 23 };

struct kept_rows {
	sqlite3_value **values;
	size_t count, cap;
	int columns;
};

struct floor {
	sqlite3 *from, *to;
	sqlite3_stmt *select[COPIES], *insert[COPIES];
	sqlite3_int64 last[COPIES];
	struct kept_rows rows[COPIES];
	uint64_t insert_ns, commit_ns;
};

static void must(sqlite3 *db, int rc)
{
	if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE)
		return;
	fprintf(stderr, "store_bench: floor: %s\n", sqlite3_errmsg(db));
	exit(1);
}

static void floor_open(struct floor *f, const char *from, const char *to, bool link_indices)
{
	struct err err;

	must(NULL, sqlite3_open(from, &f->from));
	must(NULL, sqlite3_open(to, &f->to));
	if (!schema_prepare(f->to, &err))
		fail(&err);
	if (link_indices)
		must(f->to, sqlite3_exec(f->to,
					 "CREATE INDEX link_span ON link(span_id); "
					 "CREATE INDEX link_trace ON link(trace_id)",
					 NULL, NULL, NULL));
	must(f->to, sqlite3_exec(f->to,
				 "PRAGMA synchronous=FULL; PRAGMA cache_size=-8192; PRAGMA "
				 "wal_autocheckpoint=1024; PRAGMA secure_delete=OFF",
				 NULL, NULL, NULL));
	for (int i = 0; i < COPIES; i++) {
		must(f->from,
		     sqlite3_prepare_v2(f->from, copies[i].select, -1, &f->select[i], NULL));
		must(f->to, sqlite3_prepare_v2(f->to, copies[i].insert, -1, &f->insert[i], NULL));
	}
}

static void floor_read(struct floor *f, int i)
{
	struct kept_rows *k = &f->rows[i];
	sqlite3_stmt *s = f->select[i];

	k->columns = sqlite3_column_count(s);
	sqlite3_bind_int64(s, 1, f->last[i]);
	for (k->count = 0; sqlite3_step(s) == SQLITE_ROW;)
		for (int c = 0; c < k->columns; c++) {
			if (k->count == k->cap) {
				k->cap = k->cap ? k->cap * 2 : 1024;
				k->values = realloc(k->values, k->cap * sizeof(sqlite3_value *));
			}
			k->values[k->count++] = sqlite3_value_dup(sqlite3_column_value(s, c));
		}
	must(f->from, sqlite3_reset(s));
}

static void floor_write(struct floor *f)
{
	uint64_t t0 = cpu_ns(), t1;

	must(f->to, sqlite3_exec(f->to, "BEGIN IMMEDIATE", NULL, NULL, NULL));
	for (int i = 0; i < COPIES; i++)
		for (size_t at = 0; at < f->rows[i].count; at += (size_t)f->rows[i].columns) {
			for (int c = 0; c < f->rows[i].columns; c++)
				must(f->to, sqlite3_bind_value(f->insert[i], c + 1,
							       f->rows[i].values[at + (size_t)c]));
			must(f->to, sqlite3_step(f->insert[i]));
			must(f->to, sqlite3_reset(f->insert[i]));
		}
	t1 = cpu_ns();
	must(f->to, sqlite3_exec(f->to, "COMMIT", NULL, NULL, NULL));
	f->insert_ns += t1 - t0;
	f->commit_ns += cpu_ns() - t1;
}

static void floor_step(struct floor *f)
{
	for (int i = 0; i < COPIES; i++)
		floor_read(f, i);
	floor_write(f);
	for (int i = 0; i < COPIES; i++) {
		sqlite3_stmt *s;

		for (size_t k = 0; k < f->rows[i].count; k++)
			sqlite3_value_free(f->rows[i].values[k]);
		must(f->from, sqlite3_prepare_v2(f->from, copies[i].last, -1, &s, NULL));
		must(f->from, sqlite3_step(s));
		f->last[i] = sqlite3_column_int64(s, 0);
		sqlite3_finalize(s);
	}
}

static void floor_close(struct floor *f)
{
	for (int i = 0; i < COPIES; i++) {
		sqlite3_finalize(f->select[i]);
		sqlite3_finalize(f->insert[i]);
		free(f->rows[i].values);
	}
	sqlite3_close(f->from);
	sqlite3_close(f->to);
}

static void put_one(struct run *r, struct blob *body, uint64_t number, uint64_t arrived,
		    uint64_t shift)
{
	const struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;
	struct profiles *p = NULL;
	struct store_request q = { .hash = { number, ~number }, .arrived_unix_ns = arrived };
	uint64_t t0 = cpu_ns(), t1;
	bool duplicate;
	struct err err;

	if (!otlp_decode(body, &options, &p, &report, NULL, &err))
		fail(&err);
	r->decode_ns += cpu_ns() - t0;
	for (uint32_t i = 0; shift && i < p->timestamp_count; i++)
		p->timestamps[i] += shift;
	for (uint32_t i = 0; shift && i < p->profile_count; i++)
		p->profiles[i].time_unix_nano += shift;
	t1 = cpu_ns();
	q.profiles = p;
	if (!store_writer_put(r->w, &q, &duplicate, &err))
		fail(&err);
	r->put_ns += cpu_ns() - t1;
	r->bytes += body->len;
	r->bodies++;
	profiles_free(p);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, bodies = 400, group = 1, arrived = 0;
	const char *dir = "/tmp", *file = NULL;
	bool link_indices = true;
	struct store_writer_options options = { .durability = STORE_DURABLE_DISK };
	struct run r = { 0 };
	struct floor f = { 0 };
	char path[256], floor_path[264];
	struct blob *fixed = NULL;
	struct err err;
	struct gen g;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			seed = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--bodies") == 0 && i + 1 < argc)
			bodies = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--group") == 0 && i + 1 < argc)
			group = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--bare-links") == 0)
			link_indices = false;
		else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
			dir = argv[++i];
		else
			file = argv[i];
	}
	snprintf(path, sizeof(path), "%s/store-bench-%d.db", dir, (int)getpid());
	options.path = path;
	if (!store_writer_open(&options, &r.w, NULL, &err))
		fail(&err);
	snprintf(floor_path, sizeof(floor_path), "%s-floor", path);
	floor_open(&f, path, floor_path, link_indices);
	gen_init(&g, seed, bodies, 1763900000 * SECOND_NS);
	if (file) {
		FILE *in = fopen(file, "rb");

		fixed = blob_new(1 << 24);
		if (!in)
			return perror(file), 1;
		fixed->len = fread(fixed->ptr, 1, 1 << 24, in);
		fclose(in);
	}
	for (uint64_t i = 0; i < bodies; i += group) {
		struct blob *made[64];
		uint64_t n = group < 64 ? group : 64, t, wall;

		for (uint64_t k = 0; k < n; k++)
			made[k] = fixed ? blob_ref(fixed) : encoded(&g, &arrived);
		if (i == bodies / 10 / group * group) {
			struct store_writer *w = r.w;

			r = (struct run){ .w = w };
			f.insert_ns = f.commit_ns = 0;
		}
		wall = clock_monotonic_ns();
		if (!store_writer_begin(r.w, &err))
			fail(&err);
		for (uint64_t k = 0; k < n; k++)
			put_one(&r, made[k], i + k, arrived, file ? (i + k) * 20 * SECOND_NS : 0);
		t = cpu_ns();
		if (!store_writer_commit(r.w, &err))
			fail(&err);
		r.commit_ns += cpu_ns() - t;
		r.wall_ns += clock_monotonic_ns() - wall;
		floor_step(&f);
		for (uint64_t k = 0; k < n; k++)
			blob_unref(made[k]);
	}
	printf("%llu bodies of %llu bytes, %llu a transaction: CPU us a body: decode %llu, rows "
	       "%llu, "
	       "commit %llu, in all %llu; wall %llu; file %llu bytes, %.1f a sample\n",
	       (unsigned long long)r.bodies, (unsigned long long)(r.bytes / r.bodies),
	       (unsigned long long)group, (unsigned long long)(r.decode_ns / r.bodies / 1000),
	       (unsigned long long)(r.put_ns / r.bodies / 1000),
	       (unsigned long long)(r.commit_ns / r.bodies / 1000),
	       (unsigned long long)((r.decode_ns + r.put_ns + r.commit_ns) / r.bodies / 1000),
	       (unsigned long long)(r.wall_ns / r.bodies / 1000),
	       (unsigned long long)store_writer_facts(r.w).file_bytes,
	       (double)store_writer_facts(r.w).file_bytes /
		       (double)store_writer_facts(r.w).samples);
	printf("floor: rows %llu, commit %llu, in all %llu; rows and commit take %.2f times that\n",
	       (unsigned long long)(f.insert_ns / r.bodies / 1000),
	       (unsigned long long)(f.commit_ns / r.bodies / 1000),
	       (unsigned long long)((f.insert_ns + f.commit_ns) / r.bodies / 1000),
	       (double)(r.put_ns + r.commit_ns) / (double)(f.insert_ns + f.commit_ns));
	floor_close(&f);
	store_writer_close(r.w);
	unlink(path);
	unlink(floor_path);
	snprintf(path, sizeof(path), "%s/store-bench-%d.db-lock", dir, (int)getpid());
	unlink(path);
	return 0;
}
