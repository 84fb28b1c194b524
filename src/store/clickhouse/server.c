#include "store/clickhouse/server.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/log.h"
#include "net/client.h"
#include "store/clickhouse/rowbinary.h"

enum {
	TIMEOUT_S = 30,
	CONNECT_TIMEOUT_S = 5,
	ANSWER_MOST_MIB = 64,
	SETTLE_S = 60,
	SETTLE_LOOKS = 6,    /* one after another that do not see an insert: it is over */
	WAIT_SLICE_MS = 100, /* how soon a cancel is seen */
};

/* As a query's id: of which process of ours, and its number. */
#define INSERT_ID "flametap-%016llx-"

struct ch_server {
	char *base, *database, *settings, *more_settings;
	bool compress;
	uint64_t timeout_ns;
	struct tls_options tls; /* borrowed strings: the options' owner's */
	uint64_t connect_timeout_ns;
	size_t answer_most_bytes;
	struct client_header headers[2];
	uint32_t header_count;
	char *user, *password;
	struct http_client *asking, *inserting;
	struct ch_version version; /* major 0: not asked yet */
	bool in_default;           /* calls go to the database `default`, which always is */
	_Atomic uint64_t end_by_ns;
	uint64_t id_prefix, id_count;
	struct buf url;
};

/* ---- versions ---- */

static const struct {
	uint32_t major, minor;
	enum ch_feature feature;
} since[] = {
	{ 19, 5, CH_CODECS },       { 19, 13, CH_LOW_CARDINALITY }, { 20, 3, CH_TTL },
	{ 20, 3, CH_SKIP_INDEX },   { 20, 12, CH_ZSTD_BODY },       { 21, 12, CH_ASYNC_INSERT },
	{ 21, 8, CH_DEDUP_WINDOW },
};

bool ch_version_parse(struct str text, struct ch_version *out, struct err *err)
{
	struct ch_version v = { 0 };
	struct str rest = str_trim(text), part[2] = { { 0 } };
	uint64_t major = 0, minor = 0;

	if (!str_split(&rest, '.', &part[0]) || !str_split(&rest, '.', &part[1]) ||
	    !str_to_u64(part[0], &major) || !str_to_u64(part[1], &minor) || major > 9999 ||
	    minor > 9999)
		return err_set(err, ERR_INVALID, "\"%.*s\" is not a version of ClickHouse",
			       (int)(text.len < 40 ? text.len : 40), text.ptr ? text.ptr : "");
	if (major < 18 || (major == 18 && minor < 16))
		return err_set(
			err, ERR_UNSUPPORTED,
			"ClickHouse %llu.%llu is older than 18.16, the oldest that is supported",
			(unsigned long long)major, (unsigned long long)minor);
	v.major = (uint32_t)major;
	v.minor = (uint32_t)minor;
	for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++)
		if (major > since[i].major || (major == since[i].major && minor >= since[i].minor))
			v.features |= since[i].feature;
	*out = v;
	return true;
}

/* ---- endpoints ---- */

static char *copy_of(struct str s)
{
	char *c = strndup(s.ptr ? s.ptr : "", s.len);

	assert(c);
	return c;
}

static bool scheme_check(struct str text, struct err *err)
{
	static const char *const native[] = { "tcp://", "clickhouse://", "native://" };

	for (size_t i = 0; i < sizeof(native) / sizeof(native[0]); i++)
		if (str_has_prefix(text, str_cstr(native[i])))
			return err_set(err, ERR_INVALID,
				       "\"%s\" is ClickHouse's native protocol: name its HTTP "
				       "port, http://host:8123 "
				       "(https://host:8443 with TLS)",
				       native[i]);
	if (!str_has_prefix(text, STR("http://")) && !str_has_prefix(text, STR("https://")))
		return err_set(err, ERR_INVALID,
			       "the ClickHouse endpoint begins with http:// or https://, as "
			       "http://host:8123");
	return true;
}

/* The first of some characters, or the length. */
static size_t find_any(struct str s, const char *chars)
{
	size_t i = 0;

	while (i < s.len && !strchr(chars, s.ptr[i]))
		i++;
	return i;
}

/* user@ or user:password@ */
static bool take_user(struct str *authority, struct ch_endpoint *e, struct err *err)
{
	size_t at = find_any(*authority, "@");
	struct str user = str_head(*authority, at);

	if (at == authority->len)
		return true;
	if (str_find(user, ':') >= 0)
		return err_set(err, ERR_INVALID,
			       "there is a password in the ClickHouse endpoint, where everybody "
			       "can read it: give it as "
			       "'password' (${env:...}) or -clickhouse.password-file");
	e->user = copy_of(user);
	*authority = str_skip(*authority, at + 1);
	return true;
}

/* A password may have any characters: it lasts up to the last @. */
char *ch_endpoint_shown(const char *text)
{
	const char *scheme = strstr(text, "://"), *user = scheme ? scheme + 3 : text;
	const char *colon = strchr(user, ':'), *at = strrchr(user, '@');
	struct buf b;
	char *shown;

	if (!colon || !at || at < colon)
		return strdup(text);
	buf_init(&b, 0);
	buf_printf(&b, "%.*s***%s", (int)(colon + 1 - text), text, at);
	shown = copy_of(buf_view(&b));
	buf_release(&b);
	return shown;
}

bool ch_endpoint_parse(const char *text, struct ch_endpoint *out, struct err *err)
{
	struct str s = str_cstr(text), scheme, authority, path, query;
	struct ch_endpoint e = { 0 };
	struct buf base;
	size_t len;

	if (!scheme_check(s, err))
		return false;
	scheme = str_head(s, (size_t)str_search(s, STR("://")) + 3);
	s = str_skip(s, scheme.len);
	authority = str_head(s, find_any(s, "/?"));
	s = str_skip(s, authority.len);
	path = str_head(s, find_any(s, "?"));
	query = str_skip(s, path.len + 1);
	while (str_has_prefix(path, STR("/")))
		path = str_skip(path, 1);
	while (str_has_suffix(path, STR("/")))
		path.len--;
	if (!take_user(&authority, &e, err))
		return false;
	if (!authority.len) {
		ch_endpoint_release(&e);
		return err_set(err, ERR_INVALID, "the ClickHouse endpoint names no host");
	}
	buf_init(&base, 0);
	buf_str(&base, scheme);
	buf_str(&base, authority);
	buf_lit(&base, "/\0");
	e.base = buf_take(&base, &len);
	if (path.len)
		e.database = copy_of(path);
	if (query.len)
		e.settings = copy_of(query);
	*out = e;
	return true;
}

void ch_endpoint_release(struct ch_endpoint *e)
{
	free(e->base);
	free(e->user);
	free(e->database);
	free(e->settings);
	*e = (struct ch_endpoint){ 0 };
}

static char *first_of(const char *a, const char *b, const char *c)
{
	return copy_of(str_cstr(a && *a ? a : b && *b ? b : c));
}

static char *database_of(const struct ch_endpoint *e, const char *database)
{
	return first_of(database, e->database, "default");
}

char *ch_endpoint_store(const struct ch_endpoint *e, const char *database)
{
	AUTO(ptr_free) char *name = database_of(e, database);
	struct buf b;
	size_t len;

	buf_init(&b, 0);
	buf_printf(&b, "%s%s", e->base, name);
	buf_char(&b, '\0');
	return buf_take(&b, &len);
}

/* ---- a server ---- */

struct ch_server *ch_server_new(const struct ch_options *o, struct err *err)
{
	struct ch_server *s = calloc(1, sizeof(*s));
	struct http_client_options http = { .tls = o->tls };

	assert(s);
	s->end_by_ns = UINT64_MAX;
	s->base = copy_of(str_cstr(o->endpoint->base));
	s->user = first_of(o->user, o->endpoint->user, "default");
	s->password = first_of(o->password, NULL, "");
	s->database = database_of(o->endpoint, o->database);
	s->settings = first_of(o->endpoint->settings, NULL, "");
	s->more_settings = first_of(o->more_settings, NULL, "");
	s->compress = o->compress;
	s->tls = o->tls;
	s->timeout_ns = o->timeout_ns ? o->timeout_ns : TIMEOUT_S * SECOND_NS;
	s->connect_timeout_ns = o->connect_timeout_ns;
	s->answer_most_bytes =
		o->answer_most_bytes ? o->answer_most_bytes : (size_t)ANSWER_MOST_MIB << 20;
	s->headers[s->header_count++] = (struct client_header){ "X-ClickHouse-User", s->user };
	if (*s->password)
		s->headers[s->header_count++] =
			(struct client_header){ "X-ClickHouse-Key", s->password };
	if (getrandom(&s->id_prefix, sizeof(s->id_prefix), 0) != sizeof(s->id_prefix))
		s->id_prefix = clock_realtime_ns();
	buf_init(&s->url, 0);
	http.headers = s->headers;
	http.header_count = s->header_count;
	http.max_response_bytes = s->answer_most_bytes;
	http.connect_timeout_ns = o->connect_timeout_ns;
	s->asking = http_client_new(&http, err);
	if (s->asking)
		return s;
	ch_server_free(s);
	return NULL;
}

void ch_server_free(struct ch_server *s)
{
	if (!s)
		return;
	http_client_free(s->asking);
	http_client_free(s->inserting);
	free(s->base);
	free(s->user);
	if (s->password)
		explicit_bzero(s->password, strlen(s->password));
	free(s->password);
	free(s->database);
	free(s->settings);
	free(s->more_settings);
	buf_release(&s->url);
	free(s);
}

const char *ch_server_database(const struct ch_server *s)
{
	return s->database;
}

void ch_server_end_by(struct ch_server *s, uint64_t deadline_ns)
{
	atomic_store(&s->end_by_ns, deadline_ns);
}

/* ---- errors that a server answers ---- */

/* "Code: 60, e.displayText() = DB::Exception: Table ..." or "Code: 60. DB::Exception: ..." */
static int error_code(struct str text)
{
	ptrdiff_t at = str_search(text, STR("Code: "));
	int code = 0;

	if (at < 0)
		return 0;
	text = str_skip(text, (size_t)at + 6);
	for (size_t i = 0; i < text.len && i < 6 && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++)
		code = code * 10 + (text.ptr[i] - '0');
	return code;
}

static enum err_kind kind_of_code(int code, int status)
{
	switch (code) {
	case 60:  /* no such table */
	case 81:  /* no such database */
	case 372: /* no such session */
		return ERR_NOT_FOUND;
	case 192: /* unknown user */
	case 193: /* wrong password */
	case 194:
	case 516:
		return ERR_UNAUTHENTICATED;
	case 497:
	case 164: /* read-only */
		return ERR_PERMISSION;
	case 202: /* too many queries */
	case 373: /* a session that another query is in */
	case 241: /* memory */
	case 252: /* too many parts */
	case 243: /* disk */
		return ERR_BUSY;
	case 159:
	case 160:
		return ERR_TIMEOUT;
	case 209:
	case 210:
	case 225: /* no ZooKeeper */
	case 242: /* read-only replica */
	case 279:
	case 285: /* too few live replicas */
	case 319: /* unknown status of an insert */
	case 999:
		return ERR_UNAVAILABLE;
	case 0:
		return status == 401   ? ERR_UNAUTHENTICATED
		       : status == 403 ? ERR_PERMISSION
		       : status == 404 ? ERR_NOT_FOUND
		       : status == 429 ? ERR_BUSY
		       : status >= 502 ? ERR_UNAVAILABLE
				       : ERR_INTERNAL;
	default:
		return ERR_INTERNAL;
	}
}

/* One line, without what every message has. */
static void put_message(struct str text, struct err *err, enum err_kind kind)
{
	char line[200];
	size_t n = 0;
	ptrdiff_t skip = str_search(text, STR("DB::Exception: ")), tail;

	if (skip >= 0)
		text = str_skip(text, (size_t)skip + 15);
	tail = str_search(text, STR(", e.what() = "));
	if (tail >= 0)
		text = str_head(text, (size_t)tail);
	for (size_t i = 0; i < text.len && n < sizeof(line) - 1; i++)
		line[n++] = (unsigned char)text.ptr[i] >= ' ' ? text.ptr[i] : ' ';
	line[n] = 0;
	err_set(err, kind, "ClickHouse: %s", line);
}

/* ---- one call ---- */

/* Held by the waiting thread and by the client's: the waiting one may give up first. */
struct waiting {
	struct client_call call;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done, ok;
	unsigned holders;
	struct buf answer;
	struct err err;
	size_t answer_most;
};

static void let_go(struct waiting *w)
{
	bool last;

	pthread_mutex_lock(&w->lock);
	last = --w->holders == 0;
	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	buf_release(&w->answer);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->changed);
	free(w);
}

static void put_refusal(struct str text, int status, struct err *err)
{
	put_message(text, err, kind_of_code(error_code(text), status));
}

static void judge(struct waiting *w, const struct client_result *r)
{
	if (r->ok && r->body.len >= w->answer_most) {
		err_set(&w->err, ERR_LIMIT, "ClickHouse's answer is larger than %zu bytes",
			w->answer_most);
	} else if (r->ok) {
		w->ok = true;
		buf_str(&w->answer, r->body);
	} else if (r->http_status) {
		put_refusal(r->details.len ? r->details : r->message, r->http_status, &w->err);
	} else {
		err_set(&w->err, ERR_UNAVAILABLE, "ClickHouse does not answer: %.*s",
			(int)(r->message.len < 180 ? r->message.len : 180),
			r->message.ptr ? r->message.ptr : "");
	}
}

static void call_done(struct client_call *call, const struct client_result *r)
{
	struct waiting *w = (struct waiting *)call; /* its first member */

	pthread_mutex_lock(&w->lock);
	judge(w, r);
	w->done = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	let_go(w);
}

static struct waiting *waiting_new(const struct ch_server *s)
{
	struct waiting *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;

	assert(w);
	w->call.done = call_done;
	w->holders = 2;
	w->answer_most = s->answer_most_bytes;
	buf_init(&w->answer, 0);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &attr);
	pthread_condattr_destroy(&attr);
	return w;
}

static void wait_slice(struct waiting *w)
{
	uint64_t until = clock_monotonic_ns() + WAIT_SLICE_MS * MILLI_NS;
	struct timespec t = { .tv_sec = (time_t)(until / SECOND_NS),
			      .tv_nsec = (long)(until % SECOND_NS) };

	pthread_cond_timedwait(&w->changed, &w->lock, &t);
}

static bool call(struct ch_server *s, struct http_client *client, struct blob *body,
		 struct buf *out, struct err *err)
{
	struct waiting *w = waiting_new(s);
	bool ok;

	buf_char(&s->url, '\0');
	http_client_call(client, "POST", s->url.ptr, NULL, body, s->timeout_ns, &w->call);
	pthread_mutex_lock(&w->lock);
	while (!w->done && clock_monotonic_ns() < atomic_load(&s->end_by_ns))
		wait_slice(w);
	ok = w->done && w->ok;
	if (!ok && w->done)
		*err = w->err;
	else if (!ok)
		err_set(err, ERR_CANCELLED, "cancelled");
	if (ok && out) {
		struct buf before = *out;

		*out = w->answer;
		w->answer = before;
	}
	pthread_mutex_unlock(&w->lock);
	let_go(w);
	return ok;
}

static void put_encoded(struct buf *url, struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    strchr("-_.~", c))
			buf_char(url, (char)c);
		else
			percent_append(url, c);
	}
}

static void begin_url(struct ch_server *s, const char *settings)
{
	buf_reset(&s->url);
	buf_str(&s->url, str_cstr(s->base));
	buf_lit(&s->url, "?database=");
	put_encoded(&s->url, s->in_default ? STR("default") : str_cstr(s->database));
	if (*s->settings)
		buf_printf(&s->url, "&%s", s->settings);
	buf_str(&s->url, str_cstr(s->more_settings));
	if (settings)
		buf_str(&s->url, str_cstr(settings));
}

bool ch_query(struct ch_server *s, struct str sql, const char *settings, struct buf *out,
	      struct err *err)
{
	struct blob *body = blob_copy(sql);
	bool ok;

	begin_url(s, settings);
	/* An error in the middle must not look like rows: the server answers once it has all of it.
	 */
	buf_printf(&s->url, "&wait_end_of_query=1&buffer_size=%zu", s->answer_most_bytes);
	ok = call(s, s->asking, body, out, err);
	blob_unref(body);
	return ok;
}

/* ---- inserts ---- */

static bool make_inserting(struct ch_server *s, struct err *err)
{
	struct http_client_options http = {
		.tls = s->tls,
		.headers = s->headers,
		.header_count = s->header_count,
		.connect_timeout_ns = s->connect_timeout_ns,
		.fresh_connections =
			true, /* an insert is never repeated but by who counted first */
	};

	if (s->inserting)
		return true;
	if (s->compress)
		http.compression =
			s->version.features & CH_ZSTD_BODY ? COMPRESSION_ZSTD : COMPRESSION_GZIP;
	http.compression_level = 1;
	s->inserting = http_client_new(&http, err);
	return s->inserting != NULL;
}

bool ch_insert(struct ch_server *s, struct str sql, const char *settings, struct str rows,
	       struct err *err)
{
	struct blob *body;
	bool ok;

	if (!make_inserting(s, err))
		return false;
	begin_url(s, settings);
	buf_printf(&s->url, "&query_id=" INSERT_ID "%llu&query=", (unsigned long long)s->id_prefix,
		   (unsigned long long)++s->id_count);
	put_encoded(&s->url, sql);
	body = blob_copy(rows);
	ok = call(s, s->inserting, body, NULL, err);
	blob_unref(body);
	return ok;
}

/* Shards run queries of their own for ours, with ours as the initial one. */
static void put_ours(const struct ch_server *s, struct buf *sql)
{
	buf_printf(sql, " WHERE initial_query_id LIKE '" INSERT_ID "%%'",
		   (unsigned long long)s->id_prefix);
}

static void put_processes(const char *cluster, struct buf *sql)
{
	if (!cluster || !*cluster) {
		buf_lit(sql, "system.processes");
		return;
	}
	buf_lit(sql, "cluster(");
	ch_quote(sql, str_cstr(cluster));
	buf_lit(sql, ", system, processes)");
}

static bool count_inserts(struct ch_server *s, const char *cluster, struct str which, uint64_t *n,
			  struct err *err)
{
	struct buf sql, out;
	bool ok;

	buf_init(&sql, 0);
	buf_init(&out, 0);
	buf_lit(&sql, "SELECT count() FROM ");
	put_processes(cluster, &sql);
	buf_str(&sql, which);
	ok = ch_query(s, buf_view(&sql), "&load_balancing=in_order", &out, err);
	if (ok && !str_to_u64(str_trim(buf_view(&out)), n))
		ok = err_set(err, ERR_INTERNAL, "ClickHouse does not count its inserts");
	buf_release(&sql);
	buf_release(&out);
	return ok;
}

/* Only a hint: without the permission, or when it comes too late, we just wait. */
static void end_inserts(struct ch_server *s)
{
	struct err ignored;
	struct buf sql;

	buf_init(&sql, 0);
	buf_lit(&sql, "KILL QUERY");
	put_ours(s, &sql);
	buf_lit(&sql, " ASYNC");
	if (!ch_query(s, buf_view(&sql), NULL, NULL, &ignored))
		LOG(LOG_DEBUG, "ClickHouse does not end an insert", LOG_S("error", ignored.msg));
	buf_release(&sql);
}

static void pause_between_looks(void)
{
	struct timespec pause = { .tv_nsec = 20 * (long)MILLI_NS };

	nanosleep(&pause, NULL);
}

/* Returns after `looks` in a row saw none of them. */
static bool wait_until_absent(struct ch_server *s, const char *cluster, struct str which,
			      unsigned looks, bool end, struct err *err)
{
	uint64_t deadline = clock_monotonic_ns() + SETTLE_S * SECOND_NS, busy = 0;
	unsigned absent = 0;

	while (absent < looks) {
		if (!count_inserts(s, cluster, which, &busy, err))
			return false;
		absent = busy ? 0 : absent + 1;
		if (busy && clock_monotonic_ns() > deadline)
			return err_set(err, ERR_TIMEOUT,
				       "ClickHouse is still working on an insert after %d s",
				       SETTLE_S);
		if (busy && end)
			end_inserts(s);
		if (absent < looks)
			pause_between_looks();
	}
	return true;
}

/* A server under load may have the insert in a socket that no thread of it has read yet; a look
 * takes as long to be begun as the insert does. */
bool ch_settled(struct ch_server *s, const char *cluster, struct err *err)
{
	struct buf ours;
	bool ok;

	buf_init(&ours, 0);
	put_ours(s, &ours);
	ok = wait_until_absent(s, cluster, buf_view(&ours), SETTLE_LOOKS, true, err);
	buf_release(&ours);
	return ok;
}

/* Adds the ids of running inserts: "'flametap-...','flametap-...'". */
static bool see_inserts(struct ch_server *s, const char *cluster, struct buf *seen, struct err *err)
{
	struct buf sql, out;
	struct codec c;
	bool ok;

	buf_init(&sql, 0);
	buf_init(&out, 0);
	buf_lit(&sql, "SELECT DISTINCT initial_query_id FROM ");
	put_processes(cluster, &sql);
	buf_lit(&sql, " WHERE initial_query_id LIKE 'flametap-%' LIMIT 1000 FORMAT RowBinary");
	ok = ch_query(s, buf_view(&sql), "&load_balancing=in_order", &out, err);
	c = codec_of(buf_view(&out));
	while (ok && codec_more(&c)) {
		buf_str(seen, seen->len ? STR(",") : STR(""));
		ch_quote(seen, row_get_str(&c));
	}
	if (ok && c.failed)
		ok = err_set(err, ERR_INTERNAL, "ClickHouse does not name its inserts");
	buf_release(&sql);
	buf_release(&out);
	return ok;
}

bool ch_others_settled(struct ch_server *s, const char *cluster, struct err *err)
{
	struct buf seen, which;
	bool ok = true;

	buf_init(&seen, 0);
	buf_init(&which, 0);
	for (unsigned i = 0; ok && i < SETTLE_LOOKS; i++) {
		if (i)
			pause_between_looks();
		ok = see_inserts(s, cluster, &seen, err);
	}
	buf_lit(&which, " WHERE initial_query_id IN (");
	buf_str(&which, buf_view(&seen));
	buf_char(&which, ')');
	ok = ok && (!seen.len || wait_until_absent(s, cluster, buf_view(&which), 1, false, err));
	buf_release(&seen);
	buf_release(&which);
	return ok;
}

bool ch_server_connect(struct ch_server *s, struct ch_version *out, struct err *err)
{
	struct buf answer;
	bool ok = true;

	if (!s->version.major) {
		buf_init(&answer, 0);
		ok = ch_query(s, STR("SELECT version()"), NULL, &answer, err) &&
		     ch_version_parse(buf_view(&answer), &s->version, err);
		buf_release(&answer);
	}
	if (ok)
		*out = s->version;
	return ok;
}

bool ch_server_make_database(struct ch_server *s, const char *cluster, struct err *err)
{
	struct buf sql;
	bool ok;

	buf_init(&sql, 0);
	buf_lit(&sql, "CREATE DATABASE IF NOT EXISTS ");
	ch_quote_name(&sql, str_cstr(s->database));
	if (cluster && *cluster) {
		buf_lit(&sql, " ON CLUSTER ");
		ch_quote_name(&sql, str_cstr(cluster));
	}
	s->in_default = true;
	ok = ch_query(s, buf_view(&sql), NULL, NULL, err);
	s->in_default = false;
	buf_release(&sql);
	return ok || err_prefix(err, "making the database %s", s->database);
}

/* ---- SQL ---- */

static void put_quoted(struct buf *b, struct str text, char quote)
{
	buf_char(b, quote);
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		if (c == quote || c == '\\')
			buf_char(b, '\\');
		if (c)
			buf_char(b, c);
		else
			buf_lit(b, "\\0");
	}
	buf_char(b, quote);
}

void ch_quote(struct buf *b, struct str text)
{
	put_quoted(b, text, '\'');
}

void ch_quote_name(struct buf *b, struct str name)
{
	put_quoted(b, name, '`');
}
