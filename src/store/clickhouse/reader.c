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
enum { CALL_TIMEOUT_S = 120 };

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
}

static void snapshot_free(struct ch_snapshot *snap)
{
	if (!snap)
		return;
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
	buf_printf(&snap->sql,
		   "SELECT max(last_seq), (SELECT count() FROM flametap_dictionary WHERE kind = "
		   "%d) FROM flametap_requests FORMAT RowBinary",
		   CH_KIND_SYMBOL);
	if (!ch_ask(snap, &c, err))
		return false;
	snap->asof = row_get(&c, 8);
	snap->overlay = row_get(&c, 8) != 0;
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
	if (!ch_server_connect(snap->server, &version, err) || !ch_schema_test(snap->server, err) ||
	    !find_asof(snap, err)) {
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
		   "SELECT count(), sum(length(`profile.seq`)), sum(samples), minIf(t_first, "
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

/* Copies what the entry refers to into the arena. */
static bool keep_entry(struct ch_snapshot *snap, unsigned kind, struct codec *c)
{
	struct ch_entry *e = arena_zalloc(&snap->kept, sizeof(*e));
	struct str *texts;
	struct str refs, numbers;
	uint64_t *ref_copy;
	int64_t *number_copy;
	struct idmap *map = &snap->entries[ch_slot(kind)];

	e->id = row_get(c, 8);
	e->hash_hi = row_get(c, 8);
	e->ref_count = row_get_count(c, 8);
	refs = row_get_fixed(c, (size_t)e->ref_count * 8);
	e->number_count = row_get_count(c, 8);
	numbers = row_get_fixed(c, (size_t)e->number_count * 8);
	e->text_count = row_get_count(c, 1);
	if (c->failed)
		return false;
	ref_copy = arena_alloc_array(&snap->kept, e->ref_count, 8);
	number_copy = arena_alloc_array(&snap->kept, e->number_count, 8);
	texts = arena_alloc_array(&snap->kept, e->text_count, sizeof(*texts));
	if (e->ref_count)
		memcpy(ref_copy, refs.ptr, refs.len);
	if (e->number_count)
		memcpy(number_copy, numbers.ptr, numbers.len);
	for (uint32_t i = 0; i < e->text_count; i++)
		texts[i] = str_dup(&snap->kept, row_get_str(c));
	e->refs = ref_copy;
	e->numbers = number_copy;
	e->texts = texts;
	e->notes = str_dup(&snap->kept, row_get_str(c));
	if (!c->failed && e->id && !idmap_find(map, e->id))
		idmap_add(map, e->id)->ptr = e;
	return !c->failed;
}

static bool fetch_some(struct ch_snapshot *snap, unsigned kind, const uint64_t *ids, size_t count,
		       struct err *err)
{
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT id, hash_hi, refs, numbers, texts, notes FROM flametap_dictionary WHERE "
		   "kind = %u AND id IN (",
		   kind);
	ch_put_ids(&snap->sql, ids, count);
	buf_str(&snap->sql, kind == CH_KIND_SYMBOL ? STR(") ORDER BY hash_hi DESC") : STR(")"));
	buf_lit(&snap->sql, " LIMIT 1 BY id FORMAT RowBinary");
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
