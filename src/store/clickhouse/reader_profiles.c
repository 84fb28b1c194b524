/* reader_profiles.c - profiles of a window, and what agents say they watched: from rows of
 * requests. */
#include "store/clickhouse/snapshot.h"
#include "store/id_list.h"
#include "store/lifted.h"
#include "store/schema.h"

enum { PROFILES_A_PAGE = 20000 };

#define PROFILE_COLUMNS                                                                            \
	"`profile.series`, `profile.attributes`, `profile.dropped`, `profile.uid`, seq, arrived, " \
	"hash, version"

struct profile_row {
	struct store_profile p;
	uint64_t first, last, attributes;
	struct codec series;
	uint32_t series_count;
	struct str uid, hash;
};

static void put_profile_columns(struct ch_snapshot *snap)
{
	buf_printf(&snap->sql,
		   "SELECT %s AS at, `profile.samples`, `profile.time`, "
		   "`profile.duration`, %s, " PROFILE_COLUMNS,
		   ch_schema_profile_seq(snap->split),
		   snap->split ? "`profile.first_ms`, `profile.last_ms`"
			       : "`profile.first`, `profile.last`");
}

/* A time so many milliseconds from another: the first and the last number are as far as times go.
 */
static uint64_t ms_from(uint64_t time, int32_t ms)
{
	uint64_t ns = (uint64_t)llabs((long long)ms) * 1000000;

	if (ms < 0)
		return ms == INT32_MIN || ns > time ? 0 : time - ns;
	return ms == INT32_MAX || ns > UINT64_MAX - time ? UINT64_MAX : time + ns;
}

static bool read_profile(struct codec *c, bool split, struct profile_row *out)
{
	struct profile_row r = { 0 };

	r.p.seq = row_get(c, 8);
	r.p.sample_count = (uint32_t)row_get(c, 4);
	r.p.time_unix_nano = row_get(c, 8);
	r.p.duration_nano = row_get(c, 8);
	r.first = split ? ms_from(r.p.time_unix_nano, (int32_t)row_get(c, 4)) : row_get(c, 8);
	r.last = split ? ms_from(r.p.time_unix_nano, (int32_t)row_get(c, 4)) : row_get(c, 8);
	r.series_count = row_get_count(c, 8);
	r.series = codec_of(row_get_fixed(c, (size_t)r.series_count * 8));
	r.attributes = row_get(c, 8);
	r.p.dropped_attributes_count = (uint32_t)row_get(c, 4);
	r.uid = row_get_fixed(c, 16);
	r.p.request_seq = row_get(c, 8);
	r.p.arrived = row_get(c, 8);
	r.hash = row_get_fixed(c, 16);
	r.p.source_version = (uint8_t)row_get(c, 1);
	*out = r;
	return !c->failed;
}

/* With that, r->p.series is the first of its series that the scan is about. */
static bool touches(const struct store_scan *what, struct profile_row *r)
{
	uint64_t end = r->p.time_unix_nano + r->p.duration_nano;
	uint64_t first = r->first < r->p.time_unix_nano ? r->first : r->p.time_unix_nano;
	uint64_t last = r->last > end ? r->last : end;
	struct codec series = r->series;

	if (first >= what->to || last < what->from)
		return false;
	for (uint32_t i = 0; i < r->series_count; i++) {
		r->p.series = row_get(&series, 8);
		if (!what->series || id_list_has(what->series, what->series_count, r->p.series))
			return true;
	}
	return !what->series;
}

static bool take_attributes(void *arg, store_id id, struct store_attributes a)
{
	struct store_attributes *out = arg;

	(void)id;
	*out = a;
	return true;
}

static bool give_profile(struct ch_snapshot *snap, struct profile_row *r, struct store_profile *out,
			 struct err *err)
{
	static const uint8_t none[16];

	*out = r->p;
	out->first_ns = r->first < r->p.time_unix_nano ? r->first : r->p.time_unix_nano;
	out->uid_made = memcmp(r->uid.ptr, none, sizeof(none)) == 0;
	if (out->uid_made)
		profile_uid_make(out->uid, r->hash, r->p.seq - r->p.request_seq);
	else
		memcpy(out->uid, r->uid.ptr, sizeof(out->uid));
	return !r->attributes ||
	       ch_each_attributes(snap, &r->attributes, 1, take_attributes, &out->attributes, err);
}

/* A page of profiles behind *after: their bytes are the caller's, for more is asked while they are
 * walked. */
static bool ask_profiles(struct ch_snapshot *snap, const struct store_scan *what, uint64_t after,
			 struct buf *out, struct err *err)
{
	uint64_t asof = what->asof && what->asof < snap->asof ? what->asof : snap->asof;
	uint64_t from = what->from / STORE_BUCKET_NS * STORE_BUCKET_NS;
	const char *seq = ch_schema_profile_seq(snap->split);
	uint64_t to = what->to < UINT64_MAX - STORE_BUCKET_NS ? what->to + STORE_BUCKET_NS : 0;
	struct codec c;

	buf_reset(&snap->sql);
	put_profile_columns(snap);
	buf_printf(&snap->sql,
		   " FROM flametap_requests ARRAY JOIN profile WHERE last_seq > %llu AND %s > %llu "
		   "AND %s <= %llu AND samples > 0 AND t_last >= %llu",
		   (unsigned long long)after, seq, (unsigned long long)after, seq,
		   (unsigned long long)asof, (unsigned long long)from);
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
static bool fetch_sets(struct ch_snapshot *snap, const struct store_scan *what, struct str bytes,
		       struct err *err)
{
	struct codec c = codec_of(bytes);
	struct id_list sets = { 0 };
	struct profile_row r;
	bool ok;

	while (codec_more(&c) && read_profile(&c, snap->split, &r))
		if (touches(what, &r))
			id_list_add(&sets, r.attributes);
	ch_trim(snap);
	ok = ch_fetch(snap, KIND_ATTRSET, sets.ids, sets.count, err);
	free(sets.ids);
	return ok;
}

bool ch_each_profile(struct ch_snapshot *snap, const struct store_scan *what,
		     bool (*fn)(void *arg, const struct store_profile *p), void *arg,
		     struct err *err)
{
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
			struct store_profile p;

			ok = read_profile(&c, snap->split, &r) ||
			     ch_answer_ended(&c, "profiles", err);
			if (!ok)
				break;
			after = r.p.seq;
			if (!touches(what, &r))
				continue;
			ok = give_profile(snap, &r, &p, err);
			more = ok && fn(arg, &p);
		}
	}
	buf_release(&page);
	return ok;
}

bool ch_profile_of(struct ch_snapshot *snap, uint64_t seq, struct store_profile *out,
		   struct err *err)
{
	struct profile_row r;
	struct codec c;

	buf_reset(&snap->sql);
	put_profile_columns(snap);
	buf_printf(&snap->sql,
		   " FROM flametap_requests ARRAY JOIN profile WHERE seq < %llu AND last_seq >= "
		   "%llu AND %s <= %llu ORDER BY at DESC LIMIT 1 FORMAT RowBinary",
		   (unsigned long long)seq, (unsigned long long)seq,
		   ch_schema_profile_seq(snap->split), (unsigned long long)seq);
	if (!ch_ask(snap, &c, err))
		return false;
	if (!codec_more(&c) || !read_profile(&c, snap->split, &r) ||
	    seq > r.p.seq + r.p.sample_count)
		return err_set(err, ERR_NOT_FOUND, "the profile of sample %llu is no longer kept",
			       (unsigned long long)seq);
	return give_profile(snap, &r, out, err);
}

/* ---- coverage ---- */

bool ch_each_coverage(struct ch_snapshot *snap, uint64_t from, uint64_t to,
		      bool (*fn)(void *arg, const struct store_coverage *c), void *arg,
		      struct err *err)
{
	struct buf page;
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT `coverage.host`, `coverage.t0`, `coverage.t1`, `coverage.reason`, "
		   "`coverage.n` FROM "
		   "flametap_requests ARRAY JOIN coverage WHERE seq <= %llu AND `coverage.t0` < "
		   "%llu AND `coverage.t1` >= "
		   "%llu ORDER BY `coverage.host`, `coverage.t0` FORMAT RowBinary",
		   (unsigned long long)snap->asof, (unsigned long long)to,
		   (unsigned long long)from);
	if (!ch_ask(snap, &c, err))
		return false;
	page = snap->answer; /* as with samples */
	buf_init(&snap->answer, 0);
	while (codec_more(&c)) {
		struct store_coverage x;

		x.host = row_get_str(&c);
		x.t0 = row_get(&c, 8);
		x.t1 = row_get(&c, 8);
		x.reason = row_get_str(&c);
		x.n = row_get(&c, 8);
		if (c.failed || !fn(arg, &x))
			break;
	}
	buf_release(&snap->answer);
	snap->answer = page;
	return ch_answer_ended(&c, "coverage", err);
}
