#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "store/clickhouse/request_page.h"
#include "store/schema/lifted.h"

static const size_t kept_most_bytes = (size_t)16 << 20; /* of entries that were read */
enum {
	CALL_TIMEOUT_S = 120,
	FRESH_MS = 100, /* how long the state that store_open() found may be used */
	/* Entries that say what the store is. The kinds' numbers put those of CH_KIND_REACH last.
	 */
	STATE_MOST = 2000,
};

/* ---- a store ---- */

/* The URL is no place for it, since anyone can see it: it comes from the environment, or from a
 * file that the environment names. */
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

static bool ch_begin(struct store *store, struct source **out, struct err *err);
static void ch_close(struct store *store);
static void put_back(struct ch_snapshot *snap);

static const struct store_ops store_ops = { .begin = ch_begin, .close = ch_close };

bool ch_open(const struct store_open_options *options, struct store **out, struct err *err)
{
	struct source *first;
	struct ch_store *s = calloc(1, sizeof(*s));

	assert(s);
	s->base.ops = &store_ops;
	pthread_mutex_init(&s->lock, NULL);
	s->password = find_password();
	if (!ch_endpoint_parse(options->location, &s->endpoint, err) ||
	    !ch_begin(&s->base, &first, err)) {
		AUTO(ptr_free) char *shown = ch_endpoint_shown(options->location);

		err_prefix(err, "%s", shown);
		ch_close(&s->base);
		return false;
	}
	ch_snapshot_of(first)->fresh = true; /* the first question mostly follows at once */
	put_back(ch_snapshot_of(first));
	*out = &s->base;
	return true;
}

static void forget(struct ch_snapshot *snap)
{
	arena_reset(&snap->kept);
	for (unsigned i = 0; i < CH_KIND_SLOTS; i++)
		idmap_clear(&snap->entries[i]);
	snap->forgotten++;
}

/* What was true of the store's newest state. */
static void forget_windows(struct ch_snapshot *snap)
{
	free(snap->reaching);
	snap->reaching = NULL;
	snap->reaching_count = 0;
	buf_reset(&snap->keys);
	free(snap->pages);
	snap->pages = NULL;
	snap->page_count = 0;
	snap->pages_known = false;
	for (size_t i = 0; i < ARRAY_LEN(snap->reach); i++) {
		buf_release(&snap->reach[i].buckets);
		snap->reach[i] = (struct ch_reach){ 0 };
	}
	for (size_t i = 0; i < ARRAY_LEN(snap->listed); i++) {
		free(snap->listed[i].ids.ids);
		free(snap->listed[i].rows);
		free(snap->listed[i].inner);
		snap->listed[i] = (struct ch_listed){ 0 };
	}
}

static void snapshot_free(struct ch_snapshot *snap)
{
	if (!snap)
		return;
	forget_windows(snap);
	ch_request_page_free(snap->page);
	ch_server_free(snap->server);
	buf_release(&snap->sql);
	buf_release(&snap->answer);
	buf_release(&snap->keys);
	arena_release(&snap->kept);
	for (unsigned i = 0; i < CH_KIND_SLOTS; i++)
		idmap_release(&snap->entries[i]);
	free(snap->values);
	free(snap->times);
	free(snap);
}

static void ch_close(struct store *store)
{
	struct ch_store *s = CONTAINER_OF(store, struct ch_store, base);

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

/* ---- what the store is ---- */

enum state_row { STATE_SHARDS, STATE_ASOF, STATE_SYMBOLS, STATE_OTHERS }; /* or an entry's kind */

struct state {
	uint64_t schema, shards; /* shards: not 0, there are some */
	size_t reaching_cap, page_cap;
};

/* Rows of (what, n, m, text). How far requests have come is seen first, so that what stands in the
 * dictionary before a request does is seen, too. Of what may be many, pages come last, and times
 * that reach before. */
static void put_state(struct buf *sql)
{
	buf_reset(sql);
	buf_printf(sql,
		   "SELECT toUInt8(%d) AS what, max(last_seq) AS n, toUInt64(0) AS m, '' AS text "
		   "FROM flametap_requests UNION ALL ",
		   STATE_ASOF);
	buf_printf(sql,
		   "SELECT toUInt8(%d) AS what, count() AS n, toUInt64(0) AS m, '' AS text FROM "
		   "system.tables WHERE database = currentDatabase() AND name = "
		   "'flametap_samples_local' UNION ALL ",
		   STATE_SHARDS);
	buf_printf(sql,
		   "SELECT toUInt8(%d) AS what, max(hash_hi) AS n, toUInt64(0) AS m, '' AS text "
		   "FROM flametap_dictionary WHERE kind = %d UNION ALL ",
		   STATE_SYMBOLS, CH_KIND_SYMBOL);
	buf_printf(
		sql,
		"SELECT kind AS what, if(kind = %d, hash_hi, toUInt64(numbers[1])) AS n, "
		"toUInt64(max(numbers[2])) AS m, texts[1] AS text FROM flametap_dictionary WHERE "
		"kind IN (%d, %d, %d, %d) GROUP BY what, n, text ORDER BY what = %d, what DESC, n "
		"LIMIT %d FORMAT RowBinary",
		CH_KIND_PAGE, CH_KIND_REACH, CH_KIND_SCHEMA, CH_KIND_KEY, CH_KIND_PAGE,
		CH_KIND_PAGE, STATE_MOST);
}

static void add_reaching(struct ch_snapshot *snap, struct state *s, uint64_t bucket,
			 uint64_t longest)
{
	if (snap->reaching_count == s->reaching_cap) {
		s->reaching_cap = s->reaching_cap * 2 + 16;
		snap->reaching = realloc(snap->reaching, s->reaching_cap * sizeof(*snap->reaching));
		assert(snap->reaching);
	}
	snap->reaching[snap->reaching_count++] = (struct ch_reaching){ bucket, longest };
}

static void add_page(struct ch_snapshot *snap, struct state *s, struct str service, uint64_t page)
{
	if (snap->page_count == s->page_cap) {
		s->page_cap = s->page_cap * 2 + 64;
		snap->pages = realloc(snap->pages, s->page_cap * sizeof(*snap->pages));
		assert(snap->pages);
	}
	snap->pages[snap->page_count++] = (struct ch_service_page){ ch_service_id(service), page };
}

static void take_state(struct ch_snapshot *snap, struct state *s, struct codec *c)
{
	unsigned what = (unsigned)row_get(c, 1);
	uint64_t n = row_get(c, 8), m = row_get(c, 8);
	struct str text = row_get_str(c);

	switch (what) {
	case STATE_SHARDS:
		s->shards = n;
		break;
	case STATE_ASOF:
		snap->asof = n;
		break;
	case STATE_SYMBOLS:
		snap->names_put_ns = n;
		break;
	case CH_KIND_SCHEMA:
		s->schema = n > s->schema ? n : s->schema;
		break;
	case CH_KIND_KEY:
		row_str(&snap->keys, text);
		break;
	case CH_KIND_PAGE:
		add_page(snap, s, text, n);
		break;
	default:
		add_reaching(snap, s, n, m);
		break;
	}
}

static bool find_state(struct ch_snapshot *snap, struct err *err)
{
	struct state s = { .reaching_cap = 1 };
	uint32_t rows = 0;
	struct codec c;

	snap->reaching = calloc(1, sizeof(*snap->reaching));
	assert(snap->reaching);
	put_state(&snap->sql);
	if (!ch_ask(snap, &c, err))
		return false;
	for (; codec_more(&c); rows++)
		take_state(snap, &s, &c);
	if (!ch_answer_ended(&c, "its state", err))
		return false;
	/* Shards answer when they like: what one says of pages may be older than what another says
	 * of requests. */
	snap->pages_known = rows < STATE_MOST + STATE_OTHERS && !s.shards;
	if (rows >= STATE_MOST + STATE_OTHERS &&
	    !snap->page_count) { /* there may be more times that reach */
		free(snap->reaching);
		snap->reaching = NULL;
		snap->reaching_count = 0;
	}
	return ch_schema_judge(snap->server, s.schema, err);
}

/* The error about a server that is too old names its version, not the SQL that it rejects. */
static bool find_why(struct ch_snapshot *snap, struct err *err)
{
	struct ch_version version;
	struct err other;

	if (err->kind == ERR_INTERNAL && !ch_server_connect(snap->server, &version, &other))
		*err = other;
	if (err->kind == ERR_NOT_FOUND)
		err_set(err, ERR_NOT_FOUND,
			"the database %s has no profiles: `flametap backend -receiver "
			"clickhouse` keeps them there",
			ch_server_database(snap->server));
	return false;
}

static bool is_fresh(const struct ch_snapshot *snap)
{
	return snap->fresh && clock_monotonic_ns() - snap->made_ns < FRESH_MS * MILLI_NS;
}

static const struct source_ops source_ops;

static bool ch_begin(struct store *store, struct source **out, struct err *err)
{
	struct ch_store *s = CONTAINER_OF(store, struct ch_store, base);
	struct ch_snapshot *snap = take_idle(s);

	if (!snap)
		snap = snapshot_new(s, err);
	if (!snap)
		return false;
	ch_server_end_by(snap->server, UINT64_MAX);
	if (!is_fresh(snap)) {
		forget_windows(snap);
		if (!find_state(snap, err) && !find_why(snap, err)) {
			snapshot_free(snap);
			return false;
		}
		snap->made_ns = clock_monotonic_ns();
	}
	snap->fresh = false;
	snap->base.ops = &source_ops;
	*out = &snap->base;
	return true;
}

static void put_back(struct ch_snapshot *snap)
{
	struct ch_store *s = snap->store;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; snap && i < sizeof(s->idle) / sizeof(s->idle[0]); i++)
		if (!s->idle[i]) {
			s->idle[i] = snap;
			snap = NULL;
		}
	pthread_mutex_unlock(&s->lock);
	snapshot_free(snap);
}

static void ch_end(struct source *source)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);

	forget(snap);
	forget_windows(snap);
	ch_request_page_free(snap->page);
	snap->page = NULL;
	snap->whole = false;
	put_back(snap);
}

void ch_trim(struct ch_snapshot *snap)
{
	if (snap->kept.reserved_bytes > kept_most_bytes)
		forget(snap);
}

void ch_want_whole(struct ch_snapshot *snap)
{
	if (!snap->whole)
		forget(snap);
	snap->whole = true;
}

void ch_make_room(struct ch_snapshot *snap)
{
	if (snap->kept.reserved_bytes > kept_most_bytes / 2)
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

void id_list_add(struct id_list *l, uint64_t id)
{
	VEC_ROOM(l->ids, l->count, l->cap);
	l->ids[l->count++] = id;
}

/* ---- the whole ---- */

static bool ch_asof(struct source *source, uint64_t *out, struct err *err)
{
	(void)err;
	*out = ch_snapshot_of(source)->asof;
	return true;
}

static bool ch_names_state(struct source *source, uint64_t *out, struct err *err)
{
	(void)err;
	*out = ch_snapshot_of(source)->names_put_ns;
	return true;
}

static bool ch_extent(struct source *source, struct source_range *out, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	uint64_t samples, first, last;
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT sum(samples), minIf(t_first, samples > 0), max(t_last) FROM "
		   "flametap_requests WHERE last_seq <= %llu FORMAT RowBinary",
		   (unsigned long long)snap->asof);
	if (!ch_ask(snap, &c, err))
		return false;
	samples = row_get(&c, 8);
	first = row_get(&c, 8);
	last = row_get(&c, 8);
	if (!ch_answer_ended(&c, "requests", err))
		return false;
	if (!samples)
		return err_set(err, ERR_NOT_FOUND, "there are no samples");
	*out = (struct source_range){ first, last + (last < UINT64_MAX) };
	return true;
}

static const struct source_ops source_ops = {
	.series = ch_series,
	.sample_keys = ch_sample_keys,
	.scan = ch_scan,
	.events = ch_events,
	.profiles = ch_profiles,
	.stacks = ch_stacks,
	.locations = ch_locations,
	.attributes = ch_attributes,
	.sets_with_rows = true,
	.links = ch_links,
	.find_links = ch_find_links,
	.coverage = ch_coverage,
	.asof = ch_asof,
	.names_state = ch_names_state,
	.extent = ch_extent,
	.next_request = ch_next_request,
	.free = ch_end,
};
