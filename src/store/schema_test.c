/* schema_test.c - a store of an older schema: read as it is, brought up to date by a writer; and
 * the keys of samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "model/builder.h"
#include "model/equal.h"
#include "store/codec.h"
#include "store/db.h"
#include "store/store.h"
#include "store/schema.h"
#include "store/store_for_tests.h"

/* Of some of these the store keeps what a series says in its row (labels.h). */
static const struct str label_keys[] = { { "service.name", 12 },
					 { "process.executable.name", 23 },
					 { "host.name", 9 },
					 { "container.id", 12 },
					 { "k8s.pod.name", 12 } };

struct seen {
	uint64_t process[512];
	uint64_t labels[512]; /* hash of what they say under label_keys */
	uint32_t count, brief;
	bool with_labels;
};

static void put_label(struct buf *out, const struct source_series *s, struct str key)
{
	const struct source_attributes lists[] = { s->lifted, s->resource, s->scope };

	buf_char(out, '\n');
	for (size_t l = 0; l < ARRAY_LEN(lists); l++)
		for (uint32_t i = 0; i < lists[l].count; i++)
			if (str_equal(lists[l].ptr[i].key, key)) {
				any_value_append_text(out, &lists[l].ptr[i].value);
				return;
			}
}

static bool take_series(void *arg, const struct source_series *s, struct err *err)
{
	struct seen *seen = arg;
	struct buf text;

	(void)err;
	assert_true(seen->count < ARRAY_LEN(seen->process));
	buf_init(&text, 0);
	for (size_t i = 0; seen->with_labels && i < ARRAY_LEN(label_keys); i++)
		put_label(&text, s, label_keys[i]);
	seen->labels[seen->count] = hash64(buf_view(&text));
	seen->process[seen->count++] = s->process;
	seen->brief += s->brief;
	buf_release(&text);
	return true;
}

static bool count_key(void *arg, struct str key, struct err *err)
{
	(void)err;
	(void)key;
	++*(uint32_t *)arg;
	return true;
}

enum { IN_FULL, BRIEF, BRIEF_WITH_LABELS, WAYS };

static struct seen series_of(struct source *snap, int way)
{
	struct source_series_ask ask = { .range = SOURCE_ALWAYS, .brief = way != IN_FULL };
	struct seen seen = { .with_labels = way != BRIEF };
	struct err err;

	if (way == BRIEF_WITH_LABELS) {
		ask.keys = label_keys;
		ask.key_count = ARRAY_LEN(label_keys);
	}
	if (!source_series(snap, &ask, take_series, &seen, &err))
		fail_msg("%s", err.msg);
	return seen;
}

static void assert_whole(struct source *snap, struct profiles *const *in, size_t count)
{
	uint64_t seq = 0;
	struct err err;

	for (size_t i = 0; i < count; i++) {
		struct profiles *out;

		if (!snap->ops->next_request(snap, seq, &seq, &out, &err) ||
		    !profiles_equal(in[i], out, 0, &err))
			fail_msg("%s: %s", wire_fixtures[i], err.msg);
		profiles_free(out);
	}
}

static void assert_keys(struct source *snap, bool known_wanted)
{
	uint32_t count = 0;
	struct err err;
	bool known;

	assert_true(snap->ops->sample_keys(snap, count_key, &count, &known, &err));
	assert_int_equal(known, known_wanted);
	assert_true(!known || count > 0);
}

/* ---- an older store: samples in rows of their own ---- */

#define WITHOUT_CHUNKS \
	"DROP VIEW samples; DROP VIEW chunk_rows; DROP TABLE chunk; DROP TABLE chunk_link; "

#define WITHOUT_LABELS "ALTER TABLE series DROP COLUMN labels; "

#define WITHOUT_CODE_BLOCKS "DROP TABLE code_block; "

#define WITHOUT_LINK_KEYS                                                                      \
	"DROP TABLE link_key; DELETE FROM lookup_state WHERE kind=69; CREATE INDEX link_span " \
	"ON link(span_id); CREATE INDEX link_trace ON link(trace_id); "

static const char *const to_version[] = {
	[1] = "DROP TABLE sample_key; ALTER TABLE series DROP COLUMN process; PRAGMA "
	      "user_version=1",
	[2] = WITHOUT_CHUNKS "PRAGMA user_version=2",
	[3] = WITHOUT_CODE_BLOCKS "PRAGMA user_version=3",
	[4] = WITHOUT_LABELS "PRAGMA user_version=4",
	[5] = WITHOUT_LINK_KEYS "PRAGMA user_version=5",
};

struct old_rows {
	sqlite3 *db;
	sqlite3_stmt *add;
	struct buf more;
};

/* As versions 1 and 2 wrote it: more is NULL for one timestamp, 0 for none, else lists. */
static bool put_old_row(void *arg, const struct source_row *x, struct err *ignored)
{
	struct old_rows *o = arg;
	bool silent = x->value_count == 0 && x->total == 1;
	bool implied = silent || (x->value_count == 1 && x->values[0] == x->total);
	uint64_t before = x->time;
	struct err err;

	(void)ignored;
	buf_reset(&o->more);
	codec_put(&o->more, x->last - x->time);
	codec_put(&o->more, x->value_count);
	for (uint32_t i = 0; i < x->value_count; i++)
		codec_put_signed(&o->more, x->values[i]);
	for (uint32_t i = 0; i < x->timestamp_count; i++) {
		codec_put_signed(&o->more, (int64_t)(x->timestamps[i] - before));
		before = x->timestamps[i];
	}
	db_bind_u64(o->add, 1, x->time / STORE_BUCKET_NS);
	db_bind_u64(o->add, 2, x->series);
	db_bind_u64(o->add, 3, x->time % STORE_BUCKET_NS);
	db_bind_u64(o->add, 4, x->sample);
	db_bind_id(o->add, 5, x->stack);
	db_bind_id(o->add, 6, x->attributes);
	db_bind_id(o->add, 7, x->link);
	if (silent)
		sqlite3_bind_null(o->add, 8);
	else
		sqlite3_bind_int64(o->add, 8, x->total);
	if (implied && x->timestamp_count == 1)
		sqlite3_bind_null(o->add, 9);
	else if (implied && x->timestamp_count == 0)
		sqlite3_bind_int(o->add, 9, 0);
	else
		db_bind_blob(o->add, 9, buf_view(&o->more));
	if (!db_run(o->db, o->add, &err, "an old row"))
		fail_msg("%s", err.msg);
	return true;
}

static void put_old_rows(struct test_store *t)
{
	struct source_scan all = { .range = SOURCE_ALWAYS, .asof = SOURCE_NEWEST };
	struct source *snap = test_store_read(t);
	struct old_rows o = { 0 };
	struct err err;

	buf_init(&o.more, 0);
	assert_int_equal(sqlite3_open_v2(t->path, &o.db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	if (!db_exec(o.db, "BEGIN", &err) ||
	    !db_prepare(o.db, "INSERT INTO sample VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
			&o.add, &err) ||
	    !snap->ops->scan(snap, &all, put_old_row, &o, &err) || !db_exec(o.db, "COMMIT", &err))
		fail_msg("%s", err.msg);
	sqlite3_finalize(o.add);
	sqlite3_close(o.db);
	buf_release(&o.more);
	test_store_end(t, snap);
}

static void make_older(struct test_store *t, int version)
{
	if (version < 3)
		put_old_rows(t);
	for (int i = 5; i >= version; i--)
		test_store_sql(t->path, to_version[i]);
}

static void assert_same_labels(const struct seen *a, const struct seen *b)
{
	assert_int_equal(a->count, b->count);
	assert_memory_equal(a->labels, b->labels, a->count * sizeof(a->labels[0]));
	assert_memory_equal(a->process, b->process, a->count * sizeof(a->process[0]));
}

struct totals {
	uint64_t samples, events, times, links, stacks;
	int64_t value;
};

static bool add_up(void *arg, const struct source_row *x, struct err *err)
{
	struct totals *t = arg;

	(void)err;
	t->samples++;
	t->events += x->timestamp_count ? x->timestamp_count : 1;
	t->value += x->total;
	t->links += x->link;
	t->stacks += x->stack * x->attributes * x->series;
	for (uint32_t i = 0; i < x->timestamp_count; i++)
		t->times += x->timestamps[i] * (i + 1);
	return true;
}

struct found_links {
	uint64_t ids[64];
	uint32_t count;
};

static bool take_link(void *arg, const struct source_link *l, struct err *err)
{
	struct found_links *f = arg;

	(void)err;
	if (f->count < ARRAY_LEN(f->ids))
		f->ids[f->count++] = l->id;
	return true;
}

/* Everything, half of it in time, and what has a link. */
static void totals_of(struct source *snap, struct totals out[3])
{
	struct source_scan what = { .range = SOURCE_ALWAYS, .asof = SOURCE_NEWEST }, linked = what;
	struct found_links links = { 0 };
	struct source_range extent;
	struct err err;

	memset(out, 0, 3 * sizeof(out[0]));
	if (!snap->ops->extent(snap, &extent, &err) ||
	    !source_scan(snap, &what, add_up, &out[0], &err))
		fail_msg("%s", err.msg);
	linked.links = links.ids;
	if (!snap->ops->find_links(snap, NULL, NULL, take_link, &links, &err))
		fail_msg("%s", err.msg);
	linked.link_count = links.count;
	if (!source_scan(snap, &linked, add_up, &out[1], &err))
		fail_msg("%s", err.msg);
	what.range.from = extent.from + (extent.to - 1 - extent.from) / 2;
	what.range.to = extent.to;
	if (!source_scan(snap, &what, add_up, &out[2], &err))
		fail_msg("%s", err.msg);
	assert_true(out[0].samples > out[2].samples && out[2].samples > 0);
	assert_true(out[1].samples > 0 && out[1].samples < out[0].samples);
}

static void an_older_store_is_read_and_brought_up_to_date(void **state)
{
	int version = (int)(intptr_t)*state;
	struct totals before[3], after[3];
	const size_t count = ARRAY_LEN(wire_fixtures), half = count / 2;
	struct profiles *in[ARRAY_LEN(wire_fixtures)];
	struct seen now, full, older;
	struct source *snap;
	struct test_store t;

	test_store_make(&t);
	for (size_t i = 0; i < count; i++)
		in[i] = test_fixture(wire_fixtures[i]);
	for (size_t i = 0; i < half; i++)
		test_store_put(&t, in[i], i + 1);
	store_writer_close(t.w);
	t.w = NULL;
	snap = test_store_read(&t);
	now = series_of(snap, BRIEF_WITH_LABELS);
	assert_true(now.brief > now.count / 2);
	full = series_of(snap, IN_FULL);
	assert_same_labels(&full, &now);
	assert_int_equal(full.brief, 0);
	assert_keys(snap, true);
	totals_of(snap, before);
	test_store_end(&t, snap);

	make_older(&t, version);
	snap = test_store_read(&t); /* as it is: nobody who only reads may change it */
	assert_whole(snap, in, half);
	totals_of(snap, after);
	assert_memory_equal(before, after, sizeof(before));
	for (int way = 0; way < WAYS; way++) {
		older = series_of(snap, way);
		assert_int_equal(older.count, now.count);
		assert_memory_equal(older.process, now.process, now.count * sizeof(uint64_t));
		assert_true(way == BRIEF ||
			    memcmp(older.labels, now.labels, now.count * sizeof(uint64_t)) == 0);
	}
	assert_int_equal(older.brief, version > 4 ? now.brief : 0);
	assert_keys(snap, version > 1);
	test_store_end(&t, snap);

	test_store_open(&t);
	snap = test_store_read(&t);
	totals_of(snap, after);
	assert_memory_equal(before, after, sizeof(before));
	test_store_end(&t, snap);
	for (size_t i = half; i < count; i++)
		test_store_put(&t, in[i], i + 1);
	snap = test_store_read(&t);
	assert_whole(snap, in, count);
	full = series_of(snap, IN_FULL);
	older = series_of(snap, BRIEF_WITH_LABELS); /* the newer ones have labels */
	assert_same_labels(&full, &older);
	assert_true(older.brief > 0 && older.count > now.count);
	assert_memory_equal(older.process, now.process, now.count * sizeof(uint64_t));
	assert_keys(snap, version > 1); /* nobody knows which those of version 1 have */
	totals_of(snap, after);
	test_store_end(&t, snap);
	test_store_sql(t.path,
		       "CREATE TABLE seen AS SELECT count(*) AS n, count(DISTINCT seq) AS m FROM "
		       "samples");
	assert_int_equal(test_store_number(&t, "SELECT n FROM seen"), after[0].samples);
	assert_int_equal(test_store_number(&t, "SELECT m FROM seen"), after[0].samples);
	for (size_t i = 0; i < count; i++)
		profiles_free(in[i]);
	test_store_remove(&t);
}

static void an_upgrade_is_all_or_nothing(void **state)
{
	struct test_store t;
	struct err err;

	(void)state;
	test_store_make(&t);
	store_writer_close(t.w);
	t.w = NULL;
	/* Somebody's table stands in the way of the second step. */
	test_store_sql(t.path, WITHOUT_LINK_KEYS WITHOUT_LABELS WITHOUT_CODE_BLOCKS WITHOUT_CHUNKS
		       "ALTER TABLE series DROP COLUMN process; PRAGMA user_version=1");
	assert_false(store_writer_open(&t.options, &t.w, t.aside, &err));
	assert_non_null(strstr(err.msg, "schema version 1 to"));
	t.w = NULL;
	test_store_sql(t.path, "DROP TABLE sample_key");
	test_store_open(&t);
	test_store_remove(&t);
}

/* ---- keys ---- */

static const struct {
	const char *resource_key, *resource_value, *scope_key, *sample_key;
	bool service_is_odd, kept; /* kept: sample_key is in the table */
	int labels;                /* how many the series' row says; -1: it does not */
} cases[] = {
	{ "service.name", "a", "x", "thread.name", false, true, 1 },
	{ "service.name", "a", "x", "service.name", true, true, 1 }, /* the sample's wins */
	/* Lifted into its series; the host is its profiler's, too. */
	{ "host.name", "a", "x", "service.name", false, false, 3 },
	{ "service.name", "", "x", "thread.name", true, true, 1 },
	{ "service-name", "a", "x", "thread.name", true, true, -1 },
	{ "service_name", "a", "x", "thread.name", true, true, -1 },
	{ "host.name", "a", "service.name", "thread.name", true, true, -1 },
	{ "process.executable.name", "a", "x", "process.pid", false, false, 1 },
	{ "process.executable.name", "", "x", "process.pid", true, false, 1 },
	{ "process.pid", "a", "x", "process.pid", false, true, 0 },
	{ "k8s.pod.name", "a", "x", "container.id", false, false, 2 },
	{ "k8s.pod.name", "a", "x", "k8s.pod.name", false, true, 1 },
	{ "k8s.pod.name", "a", "x", "container_id", false, true, 1 },
	{ "k8s_pod-name", "a", "x", "thread.name", false, true, -1 },
	{ "thread.name", "a", "host_name", "thread.name", false, true, -1 },
};

static struct profiles *message(size_t i)
{
	struct builder_options options = { .copy_strings = true };
	struct builder *b = builder_new(&options);
	struct any_value text = { .kind = ANY_STRING, .string = STR("v") };
	struct key_value resource = { .key = str_cstr(cases[i].resource_key), .value = text };
	struct key_value scope_value = { .key = str_cstr(cases[i].scope_key), .value = text };
	struct attribute a = { .value = builder_any(b, &text) };
	struct attribute_index at;
	struct scope_profiles *scope;
	struct profile *p;
	struct profiles *out;
	struct err err;
	uint64_t time = 1700000000000000000;

	resource.value.string = str_cstr(cases[i].resource_value);
	builder_begin_resource(b)->attributes = builder_key_values(b, &resource, 1);
	scope = builder_begin_scope(b);
	scope->attributes = builder_key_values(b, &scope_value, 1);
	p = builder_begin_profile(b);
	p->time_unix_nano = time;
	a.key = builder_string(b, str_cstr(cases[i].sample_key));
	at = builder_attribute(b, &a);
	builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, &at, 1, NULL, 0,
		       &time, 1);
	out = builder_finish(b, &err);
	if (!out)
		fail_msg("%s", err.msg);
	return out;
}

struct keys {
	struct str wanted;
	bool service, found;
};

static bool look_at_key(void *arg, struct str key, struct err *err)
{
	struct keys *k = arg;

	(void)err;
	k->service |= str_is(key, "service.name");
	k->found |= str_equal(key, k->wanted);
	return true;
}

/* Of the one series of a sample: the varints that are not 0. */
static int count_labels(struct test_store *t)
{
	struct codec c;
	sqlite3_stmt *s;
	struct err err;
	sqlite3 *db;
	int count = -1;
	bool row;

	assert_int_equal(sqlite3_open_v2(t->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (!db_prepare(db, "SELECT labels FROM series ORDER BY id DESC LIMIT 1", &s, &err) ||
	    !db_step(db, s, &row, &err, "labels"))
		fail_msg("%s", err.msg);
	assert_true(row);
	if (sqlite3_column_type(s, 0) != SQLITE_NULL)
		for (c = codec_of(db_bytes(s, 0)), count = 0; codec_more(&c);)
			count += codec_get(&c) > 0;
	sqlite3_finalize(s);
	sqlite3_close(db);
	return count;
}

static void keys_of_samples(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct keys k = { .wanted = str_cstr(cases[i].sample_key) };
		struct profiles *p = message(i);
		struct source *snap;
		struct test_store t;
		struct err err;
		bool known;

		test_store_make(&t);
		test_store_put(&t, p, 1);
		snap = test_store_read(&t);
		assert_true(snap->ops->sample_keys(snap, look_at_key, &k, &known, &err));
		if (!known || k.found != cases[i].kept || k.service != cases[i].service_is_odd)
			fail_msg("case %zu: known %d, found %d, service %d", i, known, k.found,
				 k.service);
		if (count_labels(&t) != cases[i].labels)
			fail_msg("case %zu: %d labels, not %d", i, count_labels(&t),
				 cases[i].labels);
		test_store_end(&t, snap);
		test_store_remove(&t);
		profiles_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(an_older_store_is_read_and_brought_up_to_date, (void *)1),
		cmocka_unit_test_prestate(an_older_store_is_read_and_brought_up_to_date, (void *)2),
		cmocka_unit_test_prestate(an_older_store_is_read_and_brought_up_to_date, (void *)3),
		cmocka_unit_test_prestate(an_older_store_is_read_and_brought_up_to_date, (void *)4),
		cmocka_unit_test_prestate(an_older_store_is_read_and_brought_up_to_date, (void *)5),
		cmocka_unit_test(an_upgrade_is_all_or_nothing),
		cmocka_unit_test(keys_of_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
