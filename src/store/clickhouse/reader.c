#include "store/clickhouse/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/clickhouse/snapshot.h"
#include "store/lifted.h"

static const size_t limit_usual = (size_t)16 << 20;
enum {
	CALL_TIMEOUT_S = 120,
	UPPERS_MOST = 3000, /* upper halves of ids beside the ids in a query */
};

/* ---- a store ---- */

/* Not in the URL, which everybody can see: from the environment, or from a file that it names. */
static char *find_password(void)
{
	const char *text = getenv("FLAMETAP_CLICKHOUSE_PASSWORD");
	const char *path = getenv("FLAMETAP_CLICKHOUSE_PASSWORD_FILE");
	char bytes[4096] = "";
	FILE *f;

	if (text)
		return strdup(text);
	f = path ? fopen(path, "re") : NULL;
	if (!f)
		return NULL;
	if (fgets(bytes, sizeof(bytes), f))
		bytes[strcspn(bytes, "\r\n")] = 0;
	fclose(f);
	return strdup(bytes);
}

bool ch_open(const struct store_open_options *options, struct ch_store **out, struct err *err)
{
	struct ch_snapshot *snap;
	struct ch_store *s = calloc(1, sizeof(*s));

	assert(s);
	pthread_mutex_init(&s->lock, NULL);
	s->limit_bytes = options->limit_bytes ? options->limit_bytes : limit_usual;
	s->password = find_password();
	if (!ch_endpoint_parse(options->location, &s->endpoint, err) || !ch_begin(s, &snap, err)) {
		err_prefix(err, "%s", options->location);
		ch_close(s);
		return false;
	}
	ch_end(snap);
	*out = s;
	return true;
}

static void forget(struct ch_snapshot *snap)
{
	arena_reset(&snap->kept);
	for (unsigned i = 0; i < CH_KIND_SLOTS; i++)
		idmap_clear(&snap->entries[i]);
	snap->forgotten++;
}

static void forget_windows(struct ch_snapshot *snap)
{
	for (size_t i = 0; i < ARRAY_LEN(snap->reach); i++) {
		buf_release(&snap->reach[i].buckets);
		snap->reach[i] = (struct ch_reach){ 0 };
	}
	free(snap->listed.ids.ids);
	free(snap->listed.rows);
	snap->listed = (struct ch_listed){ 0 };
}

static void snapshot_free(struct ch_snapshot *snap)
{
	if (!snap)
		return;
	forget_windows(snap);
	ch_server_free(snap->server);
	buf_release(&snap->sql);
	buf_release(&snap->answer);
	arena_release(&snap->kept);
	for (unsigned i = 0; i < CH_KIND_SLOTS; i++)
		idmap_release(&snap->entries[i]);
	free(snap->values);
	free(snap->times);
	free(snap);
}

void ch_close(struct ch_store *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < sizeof(s->idle) / sizeof(s->idle[0]); i++)
		snapshot_free(s->idle[i]);
	pthread_mutex_destroy(&s->lock);
	ch_endpoint_release(&s->endpoint);
	if (s->password)
		explicit_bzero(s->password, strlen(s->password));
	free(s->password);
	free(s);
}

/* ---- snapshots ---- */

static struct ch_snapshot *take_idle(struct ch_store *s)
{
	struct ch_snapshot *snap = NULL;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; !snap && i < sizeof(s->idle) / sizeof(s->idle[0]); i++) {
		snap = s->idle[i];
		s->idle[i] = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	return snap;
}

static struct ch_snapshot *snapshot_new(struct ch_store *s, struct err *err)
{
	struct ch_options o = { .endpoint = &s->endpoint,
				.password = s->password,
				.timeout_ns = CALL_TIMEOUT_S * SECOND_NS };
	struct ch_snapshot *snap = calloc(1, sizeof(*snap));

	assert(snap);
	snap->store = s;
	arena_init(&snap->kept, 32 << 10, 0);
	snap->server = ch_server_new(&o, err);
	if (snap->server)
		return snap;
	snapshot_free(snap);
	return NULL;
}

/* The newest request, and are there names found later? */
static bool find_asof(struct ch_snapshot *snap, struct err *err)
{
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(
		&snap->sql,
		"SELECT max(last_seq), (SELECT max(hash_hi) FROM flametap_dictionary WHERE kind = "
		"%d) FROM flametap_requests FORMAT RowBinary",
		CH_KIND_SYMBOL);
	if (!ch_ask(snap, &c, err))
		return false;
	snap->asof = row_get(&c, 8);
	snap->names_put_ns = row_get(&c, 8);
	return ch_answer_ended(&c, "requests", err);
}

bool ch_begin(struct ch_store *s, struct ch_snapshot **out, struct err *err)
{
	struct ch_snapshot *snap = take_idle(s);
	struct ch_version version;

	if (!snap)
		snap = snapshot_new(s, err);
	if (!snap)
		return false;
	ch_server_end_by(snap->server, UINT64_MAX);
	if (!ch_server_connect(snap->server, &version, err) ||
	    !ch_schema_test(snap->server, &snap->split, err) || !find_asof(snap, err)) {
		if (err->kind == ERR_NOT_FOUND)
			err_set(err, ERR_NOT_FOUND,
				"the database %s has no profiles: `flametap backend -receiver "
				"clickhouse` keeps them there",
				ch_server_database(snap->server));
		snapshot_free(snap);
		return false;
	}
	*out = snap;
	return true;
}

void ch_end(struct ch_snapshot *snap)
{
	struct ch_store *s;

	if (!snap)
		return;
	s = snap->store;
	forget(snap);
	forget_windows(snap);
	snap->lost = NULL;
	snap->last_seq = 0;
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; snap && i < sizeof(s->idle) / sizeof(s->idle[0]); i++)
		if (!s->idle[i]) {
			s->idle[i] = snap;
			snap = NULL;
		}
	pthread_mutex_unlock(&s->lock);
	snapshot_free(snap);
}

void ch_cancel(struct ch_snapshot *snap)
{
	ch_server_end_by(snap->server, 0);
}

void ch_tolerate(struct ch_snapshot *snap, uint64_t *lost)
{
	snap->lost = lost;
}

void ch_trim(struct ch_snapshot *snap)
{
	if (snap->kept.reserved_bytes > snap->store->limit_bytes)
		forget(snap);
}

void ch_make_room(struct ch_snapshot *snap)
{
	if (snap->kept.reserved_bytes > snap->store->limit_bytes / 2)
		forget(snap);
}

/* ---- asking ---- */

bool ch_ask(struct ch_snapshot *snap, struct codec *out, struct err *err)
{
	if (!ch_query(snap->server, buf_view(&snap->sql), NULL, &snap->answer, err))
		return false;
	*out = codec_of(buf_view(&snap->answer));
	return true;
}

bool ch_answer_ended(const struct codec *c, const char *what, struct err *err)
{
	return !c->failed ||
	       err_set(err, ERR_INVALID, "ClickHouse's answer about %s is cut short", what);
}

void ch_put_ids(struct buf *b, const uint64_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (i)
			buf_char(b, ',');
		buf_u64(b, ids[i]);
	}
}

void id_list_add(struct id_list *l, uint64_t id)
{
	if (l->count == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 256;
		l->ids = realloc(l->ids, l->cap * sizeof(*l->ids));
		assert(l->ids);
	}
	l->ids[l->count++] = id;
}

/* ---- the whole ---- */

bool ch_facts(struct ch_snapshot *snap, struct store_facts *out, struct err *err)
{
	struct store_facts f = { .asof = snap->asof };
	uint64_t first, last, samples;
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT count(), sum(length(`profile.samples`)), sum(samples), minIf(t_first, "
		   "samples > 0), max(t_last) FROM "
		   "flametap_requests WHERE last_seq <= %llu FORMAT RowBinary",
		   (unsigned long long)snap->asof);
	if (!ch_ask(snap, &c, err))
		return false;
	f.requests = row_get(&c, 8);
	f.profiles = row_get(&c, 8);
	samples = row_get(&c, 8);
	first = row_get(&c, 8);
	last = row_get(&c, 8);
	f.oldest = samples ? first : 0;
	f.newest = samples ? last : 0;
	*out = f;
	return ch_answer_ended(&c, "requests", err);
}

bool ch_asof(struct ch_snapshot *snap, uint64_t *out, struct err *err)
{
	(void)err;
	*out = snap->asof;
	return true;
}

bool ch_names_state(struct ch_snapshot *snap, uint64_t *out, struct err *err)
{
	(void)err;
	*out = snap->names_put_ns;
	return true;
}

bool ch_extent(struct ch_snapshot *snap, uint64_t *oldest, uint64_t *newest, struct err *err)
{
	struct store_facts f;

	if (!ch_facts(snap, &f, err))
		return false;
	*oldest = f.oldest;
	*newest = f.newest;
	return true;
}

/* ---- dictionary ---- */

static uint64_t *get_refs(struct ch_snapshot *snap, struct codec *c, uint32_t *count)
{
	uint32_t n = row_get_count(c, 8);
	struct str high = row_get_fixed(c, (size_t)n * 8);
	uint64_t *refs = arena_alloc_array(&snap->kept, n, 8);

	*count = c->failed ? 0 : n;
	if (*count)
		memcpy(refs, high.ptr, high.len);
	if (!snap->split)
		return refs;
	if (row_get_count(c, 2) != n)
		c->failed = true;
	for (uint32_t i = 0; i < n && !c->failed; i++)
		refs[i] = refs[i] << 16 | row_get(c, 2);
	return refs;
}

/* Copies what the entry refers to into the arena. */
static bool keep_entry(struct ch_snapshot *snap, unsigned kind, struct codec *c)
{
	struct ch_entry *e = arena_zalloc(&snap->kept, sizeof(*e));
	struct str *texts;
	struct str numbers;
	uint64_t *refs;
	int64_t *number_copy;
	struct idmap *map = &snap->entries[ch_slot(kind)];

	e->id = row_get(c, 8);
	if (snap->split)
		e->id = e->id << 16 | row_get(c, 2);
	e->hash_hi = row_get(c, 8);
	refs = get_refs(snap, c, &e->ref_count);
	e->number_count = row_get_count(c, 8);
	numbers = row_get_fixed(c, (size_t)e->number_count * 8);
	e->text_count = row_get_count(c, 1);
	if (c->failed)
		return false;
	number_copy = arena_alloc_array(&snap->kept, e->number_count, 8);
	texts = arena_alloc_array(&snap->kept, e->text_count, sizeof(*texts));
	if (e->number_count)
		memcpy(number_copy, numbers.ptr, numbers.len);
	for (uint32_t i = 0; i < e->text_count; i++)
		texts[i] = str_dup(&snap->kept, row_get_str(c));
	e->refs = refs;
	e->numbers = number_copy;
	e->texts = texts;
	e->notes = str_dup(&snap->kept, row_get_str(c));
	if (!c->failed && e->id && !idmap_find(map, e->id))
		idmap_add(map, e->id)->ptr = e;
	return !c->failed;
}

/* The key is in halves: the upper ones are few, as many as there are groups of like entries, or as
 * many as ids; then only from where to where they go helps. Ids ascend. */
static void put_upper(struct buf *sql, const uint64_t *ids, size_t count)
{
	const char *comma = "";
	size_t uppers = 1;

	for (size_t i = 1; i < count; i++)
		uppers += ids[i] >> 16 != ids[i - 1] >> 16;
	buf_printf(sql, " AND id_high >= %llu AND id_high <= %llu",
		   (unsigned long long)(ids[0] >> 16), (unsigned long long)(ids[count - 1] >> 16));
	if (uppers > UPPERS_MOST)
		return;
	buf_lit(sql, " AND id_high IN (");
	for (size_t i = 0; i < count; i++) {
		if (i && ids[i] >> 16 == ids[i - 1] >> 16)
			continue;
		buf_printf(sql, "%s%llu", comma, (unsigned long long)(ids[i] >> 16));
		comma = ",";
	}
	buf_char(sql, ')');
}

static bool fetch_some(struct ch_snapshot *snap, unsigned kind, const uint64_t *ids, size_t count,
		       struct err *err)
{
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT %s, numbers, texts, notes FROM flametap_dictionary WHERE kind = %u",
		   snap->split ? "id_high, id_low, hash_hi, refs_high, refs_low"
			       : "id, hash_hi, refs",
		   kind);
	if (snap->split)
		put_upper(&snap->sql, ids, count);
	buf_lit(&snap->sql, " AND id IN (");
	ch_put_ids(&snap->sql, ids, count);
	buf_str(&snap->sql, kind == CH_KIND_SYMBOL ? STR(") ORDER BY hash_hi DESC") : STR(")"));
	buf_printf(&snap->sql, " LIMIT 1 BY %s FORMAT RowBinary",
		   snap->split ? "id_high, id_low" : "id");
	if (!ch_ask(snap, &c, err))
		return false;
	while (codec_more(&c))
		if (!keep_entry(snap, kind, &c))
			break;
	return ch_answer_ended(&c, "the dictionary", err);
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

bool ch_fetch(struct ch_snapshot *snap, unsigned kind, const uint64_t *ids, size_t count,
	      struct err *err)
{
	struct idmap *map = &snap->entries[ch_slot(kind)];
	struct id_list wanted = { 0 };
	size_t kept = 0;
	bool ok = true;

	for (size_t i = 0; i < count; i++)
		if (ids[i] && !idmap_find(map, ids[i]))
			id_list_add(&wanted, ids[i]);
	if (wanted.count)
		qsort(wanted.ids, wanted.count, sizeof(*wanted.ids), by_id);
	for (size_t i = 0; i < wanted.count; i++)
		if (!i || wanted.ids[i] != wanted.ids[i - 1])
			wanted.ids[kept++] = wanted.ids[i];
	for (size_t i = 0; ok && i < kept; i += CH_IDS_MOST)
		ok = fetch_some(snap, kind, wanted.ids + i,
				kept - i < CH_IDS_MOST ? kept - i : CH_IDS_MOST, err);
	free(wanted.ids);
	return ok;
}

const struct ch_entry *ch_entry(struct ch_snapshot *snap, unsigned kind, uint64_t id,
				struct err *err)
{
	struct idmap_slot *slot = idmap_find(&snap->entries[ch_slot(kind)], id);

	if (slot)
		return slot->ptr;
	err_set(err, ERR_NOT_FOUND, "the dictionary has no entry %llu of kind %u",
		(unsigned long long)id, kind);
	return NULL;
}

/* ---- values ---- */

static bool parse_double(struct str text, double *out)
{
	char number[64], *end;
	uint64_t bits;

	if (!text.len || text.len >= sizeof(number))
		return false;
	memcpy(number, text.ptr, text.len);
	number[text.len] = 0;
	if (strncmp(number, "nan:", 4) == 0) {
		bits = strtoull(number + 4, &end, 16);
		memcpy(out, &bits, sizeof(bits));
	} else {
		*out = strtod(number, &end);
	}
	return !*end;
}

bool ch_value(int64_t kind, struct str text, struct arena *arena, struct any_value *out,
	      struct err *err)
{
	struct any_value v = { .kind = (enum any_kind)(kind & 127) };
	bool ok = true;
	struct codec c;

	switch (v.kind) {
	case ANY_EMPTY:
		break;
	case ANY_STRING:
		v.string = text;
		codec_string_reference(&v, (kind & 128) != 0);
		break;
	case ANY_BYTES:
		v.string = text;
		break;
	case ANY_BOOL:
		v.boolean = str_is(text, "true");
		break;
	case ANY_INT:
		ok = str_to_i64(text, &v.integer);
		break;
	case ANY_DOUBLE:
		ok = parse_double(text, &v.real);
		break;
	case ANY_ARRAY:
	case ANY_KVLIST:
		c = codec_of(text);
		v = codec_get_any(&c, arena);
		ok = !c.failed && !codec_more(&c);
		break;
	default:
		ok = false;
	}
	if (ok)
		*out = v;
	return ok || err_set(err, ERR_INVALID, "an attribute's value of kind %lld is damaged",
			     (long long)kind);
}
