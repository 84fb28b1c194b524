/* reader_profiles.c - profiles of a window, and what agents say they watched: from rows of
 * requests. */
#include "store/clickhouse/snapshot.h"
#include "store/id_list.h"
#include "store/schema/lifted.h"
#include "store/schema/schema.h"

enum { PROFILES_A_PAGE = 20000 };

struct profile_row {
	struct source_profile p;
	uint64_t last, attributes;
	struct codec series;
	uint32_t series_count;
};

/* `ms` from a time; INT32_MIN and INT32_MAX mean as early and as late as possible. */
static uint64_t ms_from(uint64_t time, int32_t ms)
{
	uint64_t ns = (uint64_t)llabs((long long)ms) * 1000000;

	if (ms < 0)
		return ms == INT32_MIN || ns > time ? 0 : time - ns;
	return ms == INT32_MAX || ns > UINT64_MAX - time ? UINT64_MAX : time + ns;
}

static bool read_profile(struct codec *c, struct profile_row *out)
{
	struct profile_row r = { 0 };
	uint64_t first;
	struct str uid;

	r.p.first_sample = row_get(c, 8) + 1;
	r.p.sample_count = (uint32_t)row_get(c, 4);
	r.p.time = row_get(c, 8);
	r.p.duration = row_get(c, 8);
	first = ms_from(r.p.time, (int32_t)row_get(c, 4));
	r.p.earliest = first < r.p.time ? first : r.p.time;
	r.last = ms_from(r.p.time, (int32_t)row_get(c, 4));
	r.series_count = row_get_count(c, 8);
	r.series = codec_of(row_get_fixed(c, (size_t)r.series_count * 8));
	r.attributes = row_get(c, 8);
	uid = row_get_fixed(c, sizeof(r.p.id));
	if (uid.len)
		memcpy(r.p.id, uid.ptr, sizeof(r.p.id));
	*out = r;
	return !c->failed;
}

/* With that, r->p.series is the first of its series that the scan is about. */
static bool touches(const struct source_scan *what, struct profile_row *r)
{
	uint64_t end = r->p.time + r->p.duration;
	uint64_t last = r->last > end ? r->last : end;
	struct codec series = r->series;

	if (r->p.earliest >= what->range.to || last < what->range.from)
		return false;
	for (uint32_t i = 0; i < r->series_count; i++) {
		r->p.series = row_get(&series, 8);
		if (!what->series || id_list_has(what->series, what->series_count, r->p.series))
			return true;
	}
	return !what->series;
}

static bool take_attributes(void *ctx, uint64_t id, struct source_attributes a, struct err *err)
{
	struct source_attributes *out = ctx;

	(void)id, (void)err;
	*out = a;
	return true;
}

/* A page of profiles behind *after: their bytes are the caller's, for more is asked while they are
 * walked. */
static bool ask_profiles(struct ch_snapshot *snap, const struct source_scan *what, uint64_t after,
			 struct buf *out, struct err *err)
{
	uint64_t asof = what->asof < snap->asof ? what->asof : snap->asof;
	uint64_t from = what->range.from / STORE_BUCKET_NS * STORE_BUCKET_NS;
	uint64_t to = what->range.to < UINT64_MAX - STORE_BUCKET_NS
			      ? what->range.to + STORE_BUCKET_NS
			      : 0;
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT seq + `profile.place` AS at, `profile.samples`, `profile.time`, "
		   "`profile.duration`, `profile.first_ms`, `profile.last_ms`, `profile.series`, "
		   "`profile.attributes`, `profile.uid` FROM flametap_requests ARRAY JOIN profile "
		   "WHERE last_seq > %llu AND seq + `profile.place` > %llu AND "
		   "seq + `profile.place` <= %llu AND samples > 0 AND t_last >= %llu",
		   (unsigned long long)after, (unsigned long long)after, (unsigned long long)asof,
		   (unsigned long long)from);
	if (to)
		buf_printf(&snap->sql, " AND t_first < %llu", (unsigned long long)to);
	buf_printf(&snap->sql, " ORDER BY at LIMIT %d FORMAT RowBinary", PROFILES_A_PAGE);
	if (!ch_ask(snap, &c, err))
		return false;
	buf_reset(out);
	buf_str(out, buf_view(&snap->answer));
	return true;
}

/* The attribute sets of a page, at once. */
static bool fetch_sets(struct ch_snapshot *snap, const struct source_scan *what, struct str bytes,
		       struct err *err)
{
	struct codec c = codec_of(bytes);
	struct id_list sets = { 0 };
	struct profile_row r;
	bool ok;

	while (codec_more(&c) && read_profile(&c, &r))
		if (touches(what, &r))
			id_list_add(&sets, r.attributes);
	ch_trim(snap);
	ok = ch_fetch(snap, KIND_ATTRSET, sets.ids, sets.count, err);
	free(sets.ids);
	return ok;
}

bool ch_profiles(struct source *source, const struct source_scan *what, source_profile_fn *fn,
		 void *arg, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	uint64_t after = what->after;
	bool ok = true, more = true;
	struct buf page;

	buf_init(&page, 0);
	while (ok && more) {
		struct profile_row r;
		struct codec c;

		ok = ask_profiles(snap, what, after, &page, err) &&
		     fetch_sets(snap, what, buf_view(&page), err);
		c = codec_of(buf_view(&page));
		more = ok && codec_more(&c);
		while (ok && more && codec_more(&c)) {
			ok = read_profile(&c, &r) || ch_answer_ended(&c, "profiles", err);
			if (!ok)
				break;
			after = r.p.first_sample - 1;
			if (!touches(what, &r))
				continue;
			ok = (!r.attributes ||
			      ch_attributes(source, &r.attributes, 1, take_attributes,
					    &r.p.attributes, err)) &&
			     fn(arg, &r.p, err);
		}
	}
	buf_release(&page);
	return ok;
}

/* ---- coverage ---- */

bool ch_coverage(struct source *source, struct source_range range, source_coverage_fn *fn,
		 void *arg, struct err *err)
{
	struct ch_snapshot *snap = ch_snapshot_of(source);
	struct buf page;
	struct codec c;
	bool ok = true;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT `coverage.host`, `coverage.t0`, `coverage.t1`, `coverage.reason`, "
		   "`coverage.n` FROM "
		   "flametap_requests ARRAY JOIN coverage WHERE seq <= %llu AND `coverage.t0` < "
		   "%llu AND `coverage.t1` >= "
		   "%llu ORDER BY `coverage.host`, `coverage.t0` FORMAT RowBinary",
		   (unsigned long long)snap->asof, (unsigned long long)range.to,
		   (unsigned long long)range.from);
	if (!ch_ask(snap, &c, err))
		return false;
	page = snap->answer; /* as with samples */
	buf_init(&snap->answer, 0);
	while (ok && codec_more(&c)) {
		struct source_coverage x;

		x.host = row_get_str(&c);
		x.range.from = row_get(&c, 8);
		x.range.to = row_get(&c, 8);
		x.reason = row_get_str(&c);
		x.n = row_get(&c, 8);
		ok = c.failed || fn(arg, &x, err);
	}
	buf_release(&snap->answer);
	snap->answer = page;
	return ok && ch_answer_ended(&c, "coverage", err);
}
