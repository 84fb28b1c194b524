/* reader_scan.c - samples of a window, profiles, coverage: from rows of ClickHouse's to what they
 * say. */
#include "store/clickhouse/snapshot.h"
#include "store/id_list.h"
#include "store/lifted.h"
#include "store/schema.h"

enum { SERIES_IN_SQL = 5000, PROFILES_A_PAGE = 20000, ROWS_AHEAD = CH_IDS_MOST, ROWS_AGAIN = 1000 };

/* Buckets before the window that hold samples which end in it. */
static bool ask_reach(struct ch_snapshot *snap, uint64_t from, uint64_t first, struct buf *out,
		      struct err *err)
{
	const char *comma = "";
	struct codec c;

	buf_reset(&snap->sql);
	buf_printf(&snap->sql,
		   "SELECT DISTINCT numbers[1] FROM flametap_dictionary WHERE kind = %d "
		   "AND numbers[1] < %llu AND "
		   "toFloat64(numbers[1] + 1) * " CH_BUCKET_NS
		   " + toFloat64(numbers[2]) >= toFloat64(%llu) FORMAT "
		   "RowBinary",
		   CH_KIND_REACH, (unsigned long long)first, (unsigned long long)(from - 1));
	if (!ch_ask(snap, &c, err))
		return false;
	while (codec_more(&c)) {
		if (!*comma)
			buf_printf(out, " OR %s IN (", ch_schema_bucket(snap->split));
		buf_printf(out, "%s%llu", comma, (unsigned long long)row_get(&c, 8));
		comma = ",";
	}
	if (*comma)
		buf_char(out, ')');
	return ch_answer_ended(&c, "times", err);
}

/* Asked once a window. */
static const struct ch_reach *find_reach(struct ch_snapshot *snap, uint64_t from, uint64_t first,
					 struct err *err)
{
	struct ch_reach *r;

	for (size_t i = 0; i < ARRAY_LEN(snap->reach); i++)
		if (snap->reach[i].known && snap->reach[i].from == from)
			return &snap->reach[i];
	r = &snap->reach[snap->reach_next++ % ARRAY_LEN(snap->reach)];
	buf_reset(&r->buckets);
	r->from = from;
	r->known = ask_reach(snap, from, first, &r->buckets, err);
	return r->known ? r : NULL;
}

/* The condition on buckets of the window, and of those that reach into it. */
bool ch_window(struct ch_snapshot *snap, uint64_t from, uint64_t to, struct buf *where,
	       struct err *err)
{
	uint64_t bucket_ns = strtoull(CH_BUCKET_NS, NULL, 10), first = from / bucket_ns,
		 last = (to - 1) / bucket_ns;
	const char *bucket = ch_schema_bucket(snap->split);

	buf_printf(where, "((%s >= %llu AND %s <= %llu)", bucket, (unsigned long long)first, bucket,
		   (unsigned long long)last);
	if (first) {
		const struct ch_reach *r = find_reach(snap, from, first, err);

		if (!r)
			return false;
		buf_str(where, buf_view(&r->buckets));
	}
	buf_char(where, ')');
	return true;
}
/* ---- a row ---- */

static void want(struct ch_snapshot *snap, uint32_t values, uint32_t times)
{
	if (values > snap->value_cap) {
		snap->value_cap = values * 2;
		free(snap->values);
		snap->values = malloc(snap->value_cap * sizeof(*snap->values));
		assert(snap->values);
	}
	if (times > snap->time_cap) {
		snap->time_cap = times * 2;
		free(snap->times);
		snap->times = malloc(snap->time_cap * sizeof(*snap->times));
		assert(snap->times);
	}
}

const char *ch_sample_columns(const struct ch_snapshot *snap)
{
	return snap->split ? "base, place, t0, span_ms, series, stack, attributes, link, value, "
			     "shape, `values`, offsets, times"
			   : "base, place, t0, span, series, stack, attributes, link, value, "
			     "shape, `values`, times";
}

/* Where there are any, `times` has none. */
static uint32_t read_offsets(struct ch_snapshot *snap, struct codec *c, uint64_t t0)
{
	uint32_t n = row_get_count(c, 4);

	want(snap, 0, n + 2);
	for (uint32_t i = 0; i < n; i++)
		snap->times[i + 1] = t0 + row_get(c, 4);
	return n;
}

static void read_lists(struct ch_snapshot *snap, struct codec *c, struct store_sample *x)
{
	uint32_t offsets = 0;

	struct str bytes;

	x->value_count = row_get_count(c, 8);
	bytes = row_get_fixed(c, (size_t)x->value_count * 8);
	want(snap, x->value_count, 0);
	if (bytes.len)
		memcpy(snap->values, bytes.ptr, bytes.len);
	if (snap->split)
		offsets = read_offsets(snap, c, x->t0);
	x->timestamp_count = row_get_count(c, 8);
	bytes = row_get_fixed(c, (size_t)x->timestamp_count * 8);
	want(snap, 0, x->timestamp_count + 2);
	if (bytes.len)
		memcpy(snap->times + 1, bytes.ptr, bytes.len);
	else
		x->timestamp_count = offsets;
	x->values = snap->values;
	x->timestamps = snap->times + 1;
}

bool ch_read_sample(struct ch_snapshot *snap, struct codec *c, struct store_sample *out)
{
	struct store_sample x = { .events = 1 };
	enum ch_shape shape;

	x.seq = row_get(c, 8);
	x.seq += row_get(c, 4);
	x.t0 = row_get(c, 8);
	x.t1 = snap->split ? x.t0 : x.t0 + row_get(c, 8);
	if (snap->split)
		row_get(c, 2); /* span_ms is for the server: times say it to the nanosecond */
	x.series = row_get(c, 8);
	x.stack = row_get(c, 8);
	x.attributes = row_get(c, 8);
	x.link = row_get(c, 8);
	x.value = (int64_t)row_get(c, 8);
	shape = (enum ch_shape)row_get(c, 1);
	read_lists(snap, c, &x);
	if (shape == CH_MANY_TIMES) {
		snap->times[0] = x.t0;
		snap->times[++x.timestamp_count] = x.t1;
		x.timestamps = snap->times;
		x.timestamp_count++;
	} else if (shape == CH_LISTS || shape == CH_OFFSETS) {
		for (uint32_t i = 0; snap->split && i < x.timestamp_count; i++)
			x.t1 = x.timestamps[i] > x.t1 ? x.timestamps[i] : x.t1;
	} else {
		snap->time = x.t0;
		snap->value = x.value;
		x.timestamps = &snap->time;
		x.values = &snap->value;
		x.timestamp_count = shape == CH_ONE_TIME || shape == CH_ONE_TIME_VALUE;
		x.value_count = shape == CH_ONE_TIME_VALUE || shape == CH_NO_TIME_VALUE;
	}
	if (x.timestamp_count)
		x.events = x.timestamp_count;
	*out = x;
	return !c->failed;
}

/* ---- scans ---- */

struct scan {
	struct ch_snapshot *snap;
	const struct store_scan *what;
	const store_id *links;
	size_t link_count;
	bool (*fn)(void *arg, const struct store_sample *s);
	void *arg;
	struct buf where;
	bool series_here; /* series are looked at here: there are too many for SQL */
	bool ended;
	struct err *err;
};

/* Whose last timestamp is not before it. */
static void put_reaching(struct scan *x, uint64_t from)
{
	if (x->snap->split) /* rounded up, and no sum may pass 2^64 */
		buf_printf(&x->where,
			   " AND (t0 >= %llu OR span_ms = 65535 OR %llu - t0 <= span_ms * "
			   "1000000)",
			   (unsigned long long)from, (unsigned long long)from);
	else
		buf_printf(&x->where, " AND t0 + span >= %llu", (unsigned long long)from);
}

static bool put_where(struct scan *x)
{
	const struct store_scan *w = x->what;
	uint64_t asof = w->asof && w->asof < x->snap->asof ? w->asof : x->snap->asof;

	if (!ch_window(x->snap, w->from, w->to, &x->where, x->err))
		return false;
	buf_printf(&x->where, " AND base + place <= %llu", (unsigned long long)asof);
	if (w->to != UINT64_MAX)
		buf_printf(&x->where, " AND t0 < %llu", (unsigned long long)w->to);
	if (w->from)
		put_reaching(x, w->from);
	if (w->after)
		buf_printf(&x->where, " AND base + place > %llu", (unsigned long long)w->after);
	x->series_here = w->series && w->series_count > SERIES_IN_SQL;
	if (w->series && !x->series_here) {
		buf_lit(&x->where, " AND series IN (");
		ch_put_ids(&x->where, w->series, w->series_count);
		buf_char(&x->where, ')');
	}
	if (x->links) {
		buf_lit(&x->where, " AND link IN (");
		ch_put_ids(&x->where, x->links, x->link_count);
		buf_char(&x->where, ')');
	}
	return true;
}

struct bucket {
	uint64_t number, rows;
};

/* When the series were asked for they were found to have no more than a page: there is no need to
 * ask how much each bucket has. */
static bool is_one_page(const struct scan *x)
{
	const struct ch_listed *l = &x->snap->listed;
	const struct store_scan *w = x->what;
	uint64_t rows = 0;
	size_t at = 0;

	if (!w->series || !l->rows || w->from < l->from || w->to > l->to)
		return false;
	for (size_t i = 0; i < w->series_count; i++) {
		while (at < l->ids.count && l->ids.ids[at] < w->series[i])
			at++;
		if (at == l->ids.count || l->ids.ids[at] != w->series[i])
			return false;
		rows += l->rows[at];
		if (rows > CH_PAGE_ROWS)
			return false;
	}
	return true;
}

static bool list_buckets(struct scan *x, struct bucket **out, size_t *count)
{
	struct codec c;

	if (is_one_page(x)) {
		*count = 0;
		return true;
	}
	buf_reset(&x->snap->sql);
	buf_printf(&x->snap->sql, "SELECT toUInt64(%s) AS b, count() FROM flametap_samples WHERE ",
		   ch_schema_bucket(x->snap->split));
	buf_str(&x->snap->sql, buf_view(&x->where));
	buf_lit(&x->snap->sql, " GROUP BY b ORDER BY b FORMAT RowBinary");
	if (!ch_ask(x->snap, &c, x->err))
		return false;
	*count = (size_t)(c.end - c.at) / 16;
	*out = calloc(*count + 1, sizeof(**out));
	assert(*out);
	for (size_t i = 0; i < *count; i++) {
		(*out)[i].number = row_get(&c, 8);
		(*out)[i].rows = row_get(&c, 8);
	}
	return ch_answer_ended(&c, "buckets", x->err);
}

/* Who looks at attributes asks for a list when it meets a new one: those of the next rows are
 * fetched at once, for each question of its own is a way to the server and back. */
static bool fetch_lists_ahead(struct scan *x, struct codec c)
{
	struct id_list lists = { 0 };
	struct store_sample s;
	bool ok;

	if (x->what->parts && !(x->what->parts & SAMPLE_ATTRIBUTES))
		return true;
	for (uint32_t i = 0; i < ROWS_AHEAD && codec_more(&c) && ch_read_sample(x->snap, &c, &s);
	     i++)
		id_list_add(&lists, s.attributes);
	ch_make_room(x->snap);
	ok = ch_fetch(x->snap, KIND_ATTRSET, lists.ids, lists.count, x->err);
	free(lists.ids);
	return ok;
}

/* The samples of some buckets of the window (NULL: of all of it); of one large bucket those whose
 * place is `part` of `parts`. */
static bool scan_page(struct scan *x, const struct bucket *first, const struct bucket *last,
		      uint64_t part, uint64_t parts)
{
	const char *bucket = ch_schema_bucket(x->snap->split);
	struct buf *sql = &x->snap->sql;
	uint64_t forgotten;
	struct buf page;
	struct codec c;
	bool ok;

	buf_reset(sql);
	buf_printf(sql, "SELECT %s FROM flametap_samples WHERE ", ch_sample_columns(x->snap));
	if (first)
		buf_printf(sql, "%s >= %llu AND %s <= %llu AND ", bucket,
			   (unsigned long long)first->number, bucket,
			   (unsigned long long)last->number);
	buf_str(sql, buf_view(&x->where));
	if (parts > 1)
		buf_printf(sql, " AND place %% %llu = %llu", (unsigned long long)parts,
			   (unsigned long long)part);
	buf_lit(sql, " FORMAT RowBinary");
	if (!ch_ask(x->snap, &c, x->err))
		return false;
	page = x->snap->answer; /* who is called back may ask for more */
	buf_init(&x->snap->answer, 0);
	ok = true;
	forgotten = x->snap->forgotten;
	for (uint32_t i = 0, since = ROWS_AHEAD; ok && !x->ended && codec_more(&c); i++, since++) {
		struct store_sample s;

		if (since >= ROWS_AHEAD ||
		    (since >= ROWS_AGAIN && forgotten != x->snap->forgotten)) {
			ok = fetch_lists_ahead(x, c);
			forgotten = x->snap->forgotten;
			since = 0;
		}
		if (!ok || !ch_read_sample(x->snap, &c, &s))
			break;
		if (x->series_here &&
		    !id_list_has(x->what->series, x->what->series_count, s.series))
			continue;
		x->ended = !x->fn(x->arg, &s);
	}
	ok = ok && ch_answer_ended(&c, "samples", x->err);
	buf_release(&x->snap->answer);
	x->snap->answer = page;
	return ok;
}

static bool scan_pages(struct scan *x, const struct bucket *buckets, size_t count)
{
	size_t from = 0;

	if (!buckets)
		return scan_page(x, NULL, NULL, 0, 1);
	while (from < count && !x->ended) {
		uint64_t rows = buckets[from].rows, parts = rows / CH_PAGE_ROWS + 1;
		size_t to = from + 1;

		while (to < count && rows + buckets[to].rows <= CH_PAGE_ROWS)
			rows += buckets[to++].rows;
		for (uint64_t part = 0; part < parts && !x->ended; part++)
			if (!scan_page(x, &buckets[from], &buckets[to - 1], part, parts))
				return false;
		from = to;
	}
	return true;
}

static bool scan(struct scan *x)
{
	struct bucket *buckets = NULL;
	size_t count = 0;
	bool ok;

	if (x->what->to <= x->what->from || (x->what->series && !x->what->series_count) ||
	    (x->links && !x->link_count))
		return true;
	buf_init(&x->where, 0);
	ok = put_where(x) && list_buckets(x, &buckets, &count) && scan_pages(x, buckets, count);
	free(buckets);
	buf_release(&x->where);
	return ok;
}

bool ch_scan(struct ch_snapshot *snap, const struct store_scan *what,
	     bool (*fn)(void *arg, const struct store_sample *s), void *arg, struct err *err)
{
	struct scan x = { .snap = snap, .what = what, .fn = fn, .arg = arg, .err = err };

	return scan(&x);
}

/* When some links were seen: their samples are there, and not in all of the window. */
static bool narrow(struct ch_snapshot *snap, const store_id *links, size_t count,
		   struct store_scan *what, struct err *err)
{
	uint64_t first, last;
	struct codec c;

	buf_reset(&snap->sql);
	buf_lit(&snap->sql, "SELECT min(t0), max(t1) FROM flametap_links WHERE link IN (");
	ch_put_ids(&snap->sql, links, count);
	buf_lit(&snap->sql, ") FORMAT RowBinary");
	if (!ch_ask(snap, &c, err))
		return false;
	first = row_get(&c, 8);
	last = row_get(&c, 8);
	if (!ch_answer_ended(&c, "links", err))
		return false;
	if (last < UINT64_MAX && last + 1 < what->to)
		what->to = last + 1;
	if (first > what->from)
		what->from = first;
	return true;
}

bool ch_scan_links(struct ch_snapshot *snap, const store_id *links, size_t link_count,
		   const struct store_scan *what,
		   bool (*fn)(void *arg, const struct store_sample *s), void *arg, struct err *err)
{
	bool ok = true, ended = false;

	for (size_t i = 0; ok && !ended && i < link_count; i += CH_IDS_MOST) {
		struct store_scan narrowed = *what;
		struct scan x = {
			.snap = snap, .what = &narrowed, .fn = fn, .arg = arg, .err = err
		};

		x.links = links + i;
		x.link_count = link_count - i < CH_IDS_MOST ? link_count - i : CH_IDS_MOST;
		ok = narrow(snap, x.links, x.link_count, &narrowed, err) && scan(&x);
		ended = x.ended;
	}
	return ok;
}

/* ---- profiles ---- */

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
