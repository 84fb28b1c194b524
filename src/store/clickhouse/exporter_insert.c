#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/clickhouse/exporter_internal.h"
#include "store/clickhouse/replicas.h"
#include "store/clickhouse/rowbinary.h"
#include "store/schema/schema.h"

/* ---- what is there already ---- */

static int by_place(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Inserts and the counts of them go to the same replica of each shard, the first that is there:
 * another one may lag behind, and what it does not have yet would be sent again. */
#define IN_ORDER "&load_balancing=in_order"

static bool is_cluster(const struct clickhouse *x)
{
	return clickhouse_text(x->cluster_name) != NULL;
}

/* Reading one's own inserts from whichever replica answers needs the quorum's help. */
static const char *reading(const struct clickhouse *x)
{
	if (x->insert_quorum > 1)
		return is_cluster(x) ? IN_ORDER "&select_sequential_consistency=1"
				     : "&select_sequential_consistency=1";
	return is_cluster(x) ? IN_ORDER : NULL;
}

/* Widens the range to the times that samples of the message may have as t0. */
static void widen(const struct profiles *p, uint64_t *from, uint64_t *to)
{
	for (uint32_t i = 0; i < p->timestamp_count; i++) {
		*from = p->timestamps[i] < *from ? p->timestamps[i] : *from;
		*to = p->timestamps[i] > *to ? p->timestamps[i] : *to;
	}
	for (uint32_t i = 0; i < p->profile_count; i++) {
		*from = p->profiles[i].time_unix_nano < *from ? p->profiles[i].time_unix_nano
							      : *from;
		*to = p->profiles[i].time_unix_nano > *to ? p->profiles[i].time_unix_nano : *to;
	}
}

static void put_ids(struct clickhouse *x, const struct work *works, uint32_t n, bool unsure_only)
{
	const char *comma = "";
	uint64_t from = UINT64_MAX, to = 0;
	uint16_t first = UINT16_MAX, last = 0;

	buf_lit(&x->sql, " WHERE request IN (");
	for (uint32_t i = 0; i < n; i++) {
		if (works[i].there || (unsure_only && !works[i].unsure))
			continue;
		buf_printf(&x->sql, "%s%llu", comma,
			   (unsigned long long)ch_request_id(works[i].request.hash));
		comma = ",";
		first = works[i].day < first ? works[i].day : first;
		last = works[i].day > last ? works[i].day : last;
		if (unsure_only)
			widen(works[i].request.profiles, &from, &to);
	}
	/* A repeated request arrived within dedup_window; one from the spool keeps its day. */
	first = (uint16_t)(first > 1 ? first - 1 : first);
	buf_printf(&x->sql, ") AND date >= toDate(%u) AND date <= toDate(%u)", first, last);
	if (unsure_only) /* samples are ordered by time */
		buf_printf(&x->sql, " AND bucket >= %llu AND bucket <= %llu",
			   (unsigned long long)(from / STORE_BUCKET_NS),
			   (unsigned long long)(to / STORE_BUCKET_NS));
}

static bool mark_there(struct clickhouse *x, struct work *works, uint32_t n, struct err *err)
{
	struct codec c;

	buf_reset(&x->sql);
	buf_lit(&x->sql, "SELECT request, arrived FROM flametap_requests");
	put_ids(x, works, n, false);
	buf_lit(&x->sql, " FORMAT RowBinary");
	if (!ch_query(x->server, buf_view(&x->sql), reading(x), &x->answer, err))
		return false;
	c = codec_of(buf_view(&x->answer));
	while (codec_more(&c)) {
		uint64_t id = row_get(&c, 8), arrived = row_get(&c, 8);

		for (uint32_t i = 0; i < n; i++) {
			uint64_t mine = works[i].request.arrived_unix_ns;
			uint64_t apart = mine > arrived ? mine - arrived : arrived - mine;

			/* The same request again, or the very one that we are about to insert. */
			if (ch_request_id(works[i].request.hash) == id &&
			    (!apart || apart < x->dedup_window_ns))
				works[i].there = true;
		}
	}
	return !c.failed ||
	       err_set(err, ERR_INTERNAL, "ClickHouse's answer about requests is cut short");
}

static struct work *work_of(struct work *works, uint32_t n, uint64_t id)
{
	for (uint32_t i = 0; i < n; i++)
		if (works[i].unsure && !works[i].there &&
		    ch_request_id(works[i].request.hash) == id)
			return &works[i];
	return NULL;
}

/* Which samples of unsure requests are there: at most their own number, so memory is bounded by the
 * batch's. */
static bool count_samples(struct clickhouse *x, struct work *works, uint32_t n, struct err *err)
{
	struct codec c;
	uint32_t unsure = 0;

	for (uint32_t i = 0; i < n; i++)
		unsure += works[i].unsure && !works[i].there;
	if (!unsure)
		return true;
	buf_reset(&x->sql);
	buf_lit(&x->sql, "SELECT request, base, groupArray(place) FROM flametap_samples");
	put_ids(x, works, n, true);
	buf_lit(&x->sql, " GROUP BY request, base FORMAT RowBinary");
	if (!ch_query(x->server, buf_view(&x->sql), reading(x), &x->answer, err))
		return false;
	c = codec_of(buf_view(&x->answer));
	while (codec_more(&c)) {
		uint64_t id = row_get(&c, 8), base = row_get(&c, 8);
		uint32_t places = row_get_count(&c, 4);
		struct work *w = work_of(works, n, id);

		if (w && places > w->request.have_count) {
			free(w->have);
			w->have = malloc(places * sizeof(*w->have));
			assert(w->have);
			for (uint32_t i = 0; i < places; i++)
				w->have[i] = (uint32_t)row_get(&c, 4);
			qsort(w->have, places, sizeof(*w->have), by_place);
			w->request.have = w->have;
			w->request.have_count = places;
			w->request.base = base;
			w->repaired = true;
		} else {
			row_get_fixed(&c, (size_t)places * 4);
		}
	}
	return !c.failed ||
	       err_set(err, ERR_INTERNAL, "ClickHouse's answer about samples is cut short");
}

/* ---- inserting ---- */

static void insert_settings(const struct clickhouse *x, struct buf *b)
{
	/* All of it in one block, and in one part. */
	buf_lit(b, "&insert_distributed_sync=1&max_insert_block_size=1048576");
	if (x->version.features & CH_ASYNC_INSERT)
		buf_printf(b, "&async_insert=%d&wait_for_async_insert=1", x->async_insert);
	if (is_cluster(x))
		buf_lit(b, IN_ORDER);
	if (x->insert_quorum)
		buf_printf(b, "&insert_quorum=%u", x->insert_quorum);
	buf_char(b, '\0');
}

/* fenced: rows that must not be there twice; entries and links may be. */
static bool insert(struct clickhouse *x, const char *sql, bool fenced, struct str rows,
		   struct err *err)
{
	struct buf settings;
	bool ok;

	if (!rows.len)
		return true;
	buf_init(&settings, 0);
	insert_settings(x, &settings);
	ok = fenced ? ch_fence_insert(&x->fence, x->server, sql, settings.ptr, rows, err)
		    : ch_insert(x->server, str_cstr(sql), settings.ptr, rows, err);
	buf_release(&settings);
	return ok;
}

static bool insert_samples(struct clickhouse *x, struct err *err)
{
	struct ch_encoder *e = &x->encoder;
	struct str all = buf_view(&e->samples);
	size_t from = 0;
	bool ok = true;

	for (uint32_t i = 0; ok && i <= e->cut_count; i++) {
		size_t to = i < e->cut_count ? e->cuts[i] : all.len;

		ok = insert(x, ch_insert_samples, true, str_from(all.ptr + from, to - from), err);
		from = to;
	}
	return ok;
}

/* All rows of a batch have one day, so that one insert is one partition. */
static bool insert_day(struct clickhouse *x, struct work *works, uint32_t n, uint16_t day,
		       struct err *err)
{
	struct ch_encoder *e = &x->encoder;
	uint64_t now = clock_realtime_ns();
	bool ok;

	ch_encoder_reset(e);
	for (uint32_t i = 0; i < n; i++)
		if (!works[i].there && works[i].day == day)
			ch_encoder_put(e, &works[i].request, now);
	ok = insert(x, ch_insert_dictionary, false, buf_view(&e->dictionary), err) &&
	     insert(x, ch_insert_links, false, buf_view(&e->links), err) &&
	     insert_samples(x, err) &&
	     insert(x, ch_insert_requests, true, buf_view(&e->requests), err);
	if (!ok) {
		ch_encoder_forget(e);
		return false;
	}
	clickhouse_count(x->rows, e->dictionary_rows);
	clickhouse_count(x->samples, e->sample_rows);
	for (uint32_t i = 0; i < n; i++)
		if (!works[i].there && works[i].day == day) {
			works[i].inserted = true;
			clickhouse_count(x->repaired, works[i].repaired);
		}
	return true;
}

/* The same request twice in one batch. */
static void mark_doubles(struct work *works, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = 0; k < i; k++)
			works[i].there |= works[k].request.hash.lo == works[i].request.hash.lo &&
					  works[k].request.hash.hi == works[i].request.hash.hi;
}

/* Finds what of the batch is there. For unsure requests only replicas that have caught up count. */
static bool find_there(struct clickhouse *x, struct work *works, uint32_t n, struct err *err)
{
	bool unsure = false;

	for (uint32_t i = 0; i < n; i++)
		unsure |= works[i].unsure;
	return (!unsure || ch_replicas_have_all(x->server, &x->schema, reading(x), err)) &&
	       mark_there(x, works, n, err) && count_samples(x, works, n, err) &&
	       /* Another one may have answered by then. */
	       (!unsure || ch_replicas_have_all(x->server, &x->schema, reading(x), err));
}

/* An insert without an answer must have ended before its rows can be counted. */
static bool close_fence(struct clickhouse *x, struct err *err)
{
	struct buf settings;
	bool ok;

	buf_init(&settings, 0);
	insert_settings(x, &settings);
	ok = ch_fence_close(&x->fence, x->server, x->cluster_name, settings.ptr, err);
	buf_release(&settings);
	return ok;
}

/* Beside the spool, which is there by now. */
static void keep_session(struct clickhouse *x)
{
	struct buf path;

	if (!x->host->spool_dir || !x->fence.first)
		return;
	buf_init(&path, 0);
	buf_printf(&path, "%s/", x->host->spool_dir);
	for (const char *id = x->host->id; *id; id++)
		buf_char(&path, *id == '/' ? '-' : *id);
	buf_lit(&path, ".session\0");
	ch_fence_keep(&x->fence, path.ptr);
	buf_release(&path);
}

bool clickhouse_insert(struct clickhouse *x, struct work *works, uint32_t n, struct err *err)
{
	uint64_t fresh = 0;

	mark_doubles(works, n);
	keep_session(x);
	if (!close_fence(x, err) || !find_there(x, works, n, err))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!works[i].there && !works[i].inserted &&
		    !insert_day(x, works, n, works[i].day, err))
			return false;
	for (uint32_t i = 0; i < n; i++)
		fresh += works[i].inserted;
	clickhouse_count(x->requests, fresh);
	clickhouse_count(x->duplicates, n - fresh);
	return true;
}
