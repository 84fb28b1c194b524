/*
 * live.c - GET /api/v1/live: a page is told what has come.
 *
 *   event: commit                          there is a newer state
 *   data: {"asof":"1234"}
 *
 *   event: state                           who follows a window (from=now-15m): ask for all of it
 *   data: {"asof":"1234","from":"...","step_ns":3000000000}
 *
 *   event: delta                           what came into it since, and what left it
 *   data: {"asof":"1240","from":"...","add":{...},"drop":{...}}
 *
 *   event: store                           it does not take what comes, or takes it again
 *   data: {"failing":{"since_ns":"...","error":"...","refused":1}}, or {}
 *
 * One thread asks the source for its newest state once a second while anyone listens. Who follows
 * the same selection over the same window shares a channel: each delta is made once (live_delta.c)
 * and sent to all. A page that reads slowly is not sent more than WAITING_MOST; past that what
 * waits is thrown away for the newest state, from which it begins anew. The same where a delta
 * can't be made, or would be large.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pipeline/failing.h"
#include "query/time/time_range.h"
#include "web/internal.h"

enum { LISTENERS_MOST = 256, BEAT_S = 15, WAITING_MOST = 512 * 1024, STEPS = 300 };
#define SLICE_NS    (10 * UINT64_C(1000000000)) /* what has left a window is taken away in these */
#define SPAN_MOST   (366 * 86400 * UINT64_C(1000000000))
#define PAUSE_NS    (10 * UINT64_C(1000000000)) /* after what went wrong */
#define COVERAGE_NS (10 * UINT64_C(1000000000)) /* of windows up to an hour; longer ones: more */
/* All samples of a window are walked: so often, and for at most 1/PROCESSES_SHARE of the time. */
#define PROCESSES_NS    (60 * UINT64_C(1000000000))
#define PROCESSES_SHARE 500

/* One selection over one window. Channels are added under the lock, at the list's head, and taken
 * away by the thread alone. */
struct channel {
	struct channel *next;
	char *query; /* what the parameters were read from */
	struct buf key;
	struct arena arena;
	struct live_selection selection;
	uint64_t span_ns;
	struct live_state state; /* the thread's; asof 0: none yet */
	uint64_t quiet_until_ns, coverage_due_ns, processes_due_ns;
	uint32_t listeners;               /* guarded */
	bool adds_up;                     /* the thread's: false: only told of commits */
	enum { STAYS, MOVED, ANEW } turn; /* the thread's */
	struct buf delta;                 /* of this turn */
};

struct listener {
	struct net_events *events;
	struct channel *channel; /* NULL: only told of commits */
	uint64_t told;           /* the commit it was told of */
	bool placed;             /* was told its channel's state, and all deltas since */
	uint64_t store_told;     /* the change of the store's state that it was told of */
};

/* Whether the store takes what comes. The thread's. */
struct store_state {
	struct store_failing is;
	bool fails;
	uint64_t changes; /* 0: it never failed */
};

struct web_live {
	const struct web_options *options;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool started;                         /* guarded */
	atomic_bool stopping;                 /* set under the lock */
	struct listener list[LISTENERS_MOST]; /* guarded */
	uint32_t count;                       /* guarded */
	struct channel *channels;             /* guarded */
	struct store_state store;
};

/* ---- channels ---- */

static void channel_free(struct channel *c)
{
	if (!c)
		return;
	arena_release(&c->arena);
	buf_release(&c->key);
	buf_release(&c->delta);
	free(c->query);
	free(c);
}

static void key_of(struct buf *key, const struct params *p)
{
	static const char *const names[] = { "type", "query", "x",
					     "by",   "group", "trace",
					     "span", "from",  "timeline_group" };

	for (size_t n = 0; n < ARRAY_LEN(names); n++)
		for (uint32_t i = 0; i < p->count; i++)
			if (str_is(p->ptr[i].name, names[n])) {
				buf_printf(key, "%zu:%zu:", n, p->ptr[i].value.len);
				buf_str(key, p->ptr[i].value);
			}
}

/* "now-15m" to now; 0: no window that moves. */
static bool span_of(const struct params *p, uint64_t *span_ns, struct err *err)
{
	struct str from = params_get(p, "from"), to = params_get(p, "to");
	const uint64_t at = UINT64_C(1) << 62;
	uint64_t begin;

	*span_ns = 0;
	if (!str_has_prefix(from, STR("now-")) || (to.len && !str_is(to, "now")))
		return true;
	if (!time_parse(from, at, &begin, err))
		return false;
	if (at - begin < SLICE_NS || at - begin > SPAN_MOST)
		return err_set(
			err, ERR_INVALID,
			"from=%.*s: a window that is followed has 10 s at least and 366 days "
			"at most",
			STR_ARG(str_head(from, 40)));
	*span_ns = at - begin;
	return true;
}

/* Whole seconds, as the page has them. */
static uint64_t step_of(uint64_t span_ns)
{
	uint64_t seconds = span_ns / STEPS / 1000000000;

	return (seconds ? seconds : 1) * 1000000000;
}

/* NULL and err->kind ERR_NONE: nothing is followed. */
static struct channel *channel_new(struct web_live *l, struct str query, struct err *err)
{
	struct channel *c = calloc(1, sizeof(*c));

	c->query = malloc(query.len + 1);
	memcpy(c->query, query.len ? query.ptr : "", query.len);
	arena_init(&c->arena, 1024, 0);
	err->kind = ERR_NONE;
	if (!params_parse(&c->arena, str_from(c->query, query.len), &c->selection.params, err) ||
	    !params_known(&c->selection.params, WEB_SELECTION " timeline_group", err) ||
	    !span_of(&c->selection.params, &c->span_ns, err) || !c->span_ns) {
		channel_free(c);
		return NULL;
	}
	c->selection.options = l->options;
	c->selection.step_ns = step_of(c->span_ns);
	c->selection.cancelled = &l->stopping;
	c->adds_up = true;
	key_of(&c->key, &c->selection.params);
	return c;
}

/* Under the lock: the one that there is of that key, or this one. */
static struct channel *channel_join(struct web_live *l, struct channel *one)
{
	for (struct channel *c = l->channels; c && one; c = c->next) {
		if (str_equal(buf_view(&c->key), buf_view(&one->key))) {
			channel_free(one);
			c->listeners++;
			return c;
		}
	}
	if (one) {
		one->next = l->channels;
		one->listeners = 1;
		l->channels = one;
	}
	return one;
}

/* Under the lock. */
static void channels_sweep(struct web_live *l)
{
	for (struct channel **at = &l->channels; *at;) {
		struct channel *c = *at;

		if (c->listeners) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		channel_free(c);
	}
}

static bool coverage_due(struct channel *c)
{
	uint64_t now = clock_monotonic_ns(), every = c->span_ns / 360;

	if (now < c->coverage_due_ns)
		return false;
	c->coverage_due_ns = now + (every > COVERAGE_NS ? every : COVERAGE_NS);
	return true;
}

static uint64_t processes_next(uint64_t began_ns)
{
	uint64_t now = clock_monotonic_ns(), rest = (now - began_ns) * PROCESSES_SHARE;

	return now + (rest > PROCESSES_NS ? rest : PROCESSES_NS);
}

static struct live_state state_now(const struct channel *c, uint64_t asof)
{
	uint64_t now = clock_realtime_ns(), from = now > c->span_ns ? now - c->span_ns : 0;

	return (struct live_state){ asof, from / SLICE_NS * SLICE_NS };
}

/* Without the lock. What it costs follows what came. */
static void channel_turn(struct channel *c, struct source *source, uint64_t asof)
{
	struct live_state is = state_now(c, asof), was = c->state;
	struct live_also also;
	struct err err;
	uint64_t began;
	bool ok;

	c->turn = STAYS;
	buf_reset(&c->delta);
	if (!c->adds_up || (was.asof == is.asof && was.from == is.from && was.asof) ||
	    clock_monotonic_ns() < c->quiet_until_ns)
		return;
	c->state = is;
	c->turn = ANEW;
	if (!was.asof || is.asof < was.asof || is.from < was.from || c->quiet_until_ns) {
		c->quiet_until_ns = 0;
		return;
	}
	buf_lit(&c->delta, "event: delta\ndata: ");
	began = clock_monotonic_ns();
	also = (struct live_also){ coverage_due(c), began >= c->processes_due_ns };
	ok = live_delta(source, &c->selection, was, is, also, &c->delta, &err);
	if (also.processes)
		c->processes_due_ns = processes_next(began);
	if (ok) {
		buf_lit(&c->delta, "\n\n");
		c->turn = MOVED;
		return;
	}
	c->adds_up = err.kind != ERR_UNSUPPORTED;
	c->quiet_until_ns = clock_monotonic_ns() + PAUSE_NS;
}

/* ---- listeners: under the lock ---- */

static void drop(struct web_live *l, uint32_t at)
{
	net_events_close(l->list[at].events);
	if (l->list[at].channel)
		l->list[at].channel->listeners--;
	l->list[at] = l->list[--l->count];
}

static bool send_commit(struct listener *to, uint64_t asof)
{
	struct buf text = { 0 };
	bool there;

	buf_printf(&text, "event: commit\ndata: {\"asof\":\"%llu\"}\n\n", (unsigned long long)asof);
	there = net_events_send(to->events, buf_view(&text));
	to->told = asof;
	buf_release(&text);
	return there;
}

static bool send_state(struct listener *to)
{
	const struct channel *c = to->channel;
	struct buf text = { 0 };
	bool there;

	buf_printf(&text,
		   "event: state\ndata: {\"asof\":\"%llu\",\"from\":\"%llu\",\"step_ns\":%llu}\n\n",
		   (unsigned long long)c->state.asof, (unsigned long long)c->state.from,
		   (unsigned long long)c->selection.step_ns);
	there = net_events_send(to->events, buf_view(&text));
	to->placed = true;
	buf_release(&text);
	return there;
}

/* False: it has gone. *told: something was sent. */
static bool tell_follower(struct listener *to, bool *told)
{
	const struct channel *c = to->channel;

	*told = c->state.asof && (!to->placed || c->turn != STAYS);
	if (!*told)
		return true;
	if (to->placed && c->turn == MOVED) {
		switch (net_events_append(to->events, buf_view(&c->delta), WAITING_MOST)) {
		case NET_EVENTS_SENT:
			return true;
		case NET_EVENTS_GONE:
			return false;
		case NET_EVENTS_FULL:
			break;
		}
	}
	return send_state(to);
}

static void look_at_store(struct web_live *l)
{
	struct store_state *s = &l->store;
	struct store_failing now = { 0 };
	bool fails = web_store_failing(l->options, &now);

	if (fails == s->fails && now.refused == s->is.refused &&
	    now.since_unix_ns == s->is.since_unix_ns)
		return;
	s->is = now;
	s->fails = fails;
	s->changes++;
}

/* What waits already says it later. False: the listener has gone. */
static bool tell_store(const struct store_state *s, struct listener *to)
{
	struct buf text = { 0 };
	enum net_events_fate sent;

	if (to->store_told == s->changes)
		return true;
	buf_lit(&text, "event: store\ndata: {");
	if (s->fails) {
		buf_lit(&text, "\"failing\":");
		web_put_failing(&text, &s->is);
	}
	buf_lit(&text, "}\n\n");
	sent = net_events_append(to->events, buf_view(&text), WAITING_MOST);
	if (sent == NET_EVENTS_SENT)
		to->store_told = s->changes;
	buf_release(&text);
	return sent != NET_EVENTS_GONE;
}

static bool tell_one(struct listener *to, bool known, uint64_t asof, bool beat)
{
	bool told = false, there = true;

	if (to->channel && to->channel->adds_up) {
		there = tell_follower(to, &told);
	} else if (known && to->told != asof) {
		there = send_commit(to, asof);
		told = true;
	}
	if (there && !told && beat)
		there = net_events_append(to->events, STR(": still here\n\n"), WAITING_MOST) !=
			NET_EVENTS_GONE;
	return there;
}

static void tell(struct web_live *l, bool known, uint64_t asof, bool beat)
{
	for (uint32_t i = l->count; i-- > 0;)
		if (!tell_one(&l->list[i], known, asof, beat) ||
		    !tell_store(&l->store, &l->list[i]))
			drop(l, i);
	channels_sweep(l);
}

/* ---- the thread ---- */

/* What has been added to the list of channels since waits for the next turn. */
static bool turn(struct web_live *l, struct channel *channels, uint64_t *asof)
{
	const struct web_sources *sources = &l->options->sources;
	struct source *source;
	struct err err;
	bool ok;

	for (struct channel *c = channels; c; c = c->next)
		c->turn = STAYS;
	if (!sources->open(sources->ctx, &source, &err))
		return false;
	ok = source->ops->asof(source, asof, &err);
	for (struct channel *c = channels; c && ok && !atomic_load(&l->stopping); c = c->next)
		channel_turn(c, source, *asof);
	source_free(source);
	return ok;
}

/* Under the lock: a second, or until the end. */
static void wait_second(struct web_live *l)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	pthread_cond_timedwait(&l->changed, &l->lock, &until);
}

static void *watch(void *arg)
{
	struct web_live *l = arg;
	uint64_t asof = 0;

	pthread_setname_np(pthread_self(), "web-live");
	pthread_mutex_lock(&l->lock);
	for (unsigned second = 0; !l->stopping; second++) {
		struct channel *channels = l->channels;
		bool known;

		if (l->count == 0) {
			pthread_cond_wait(&l->changed, &l->lock);
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		known = turn(l, channels, &asof);
		look_at_store(l);
		pthread_mutex_lock(&l->lock);
		tell(l, known, asof, second % BEAT_S == 0);
		if (!l->stopping)
			wait_second(l);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* ---- the outside ---- */

struct web_live *web_live_new(const struct web_options *options)
{
	struct web_live *l = calloc(1, sizeof(*l));

	l->options = options;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	return l;
}

static size_t live_headers(struct net_header headers[WEB_HEADERS_MOST])
{
	size_t count = web_common_headers(headers);

	headers[count++] = (struct net_header){ "content-type", STR("text/event-stream") };
	headers[count++] = (struct net_header){ "cache-control", STR("no-store") };
	return count;
}

static const char *add(struct web_live *l, struct net_request *r, struct channel **channel)
{
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = live_headers(headers);

	if (l->stopping)
		return "flametap is stopping";
	if (l->count == LISTENERS_MOST)
		return "too many pages follow live";
	if (!l->started && pthread_create(&l->thread, NULL, watch, l) != 0)
		return "no thread for live";
	l->started = true;
	l->list[l->count++] = (struct listener){
		.events = net_reply_events(r, headers, count),
		.channel = channel_join(l, *channel),
	};
	*channel = NULL;
	pthread_cond_signal(&l->changed);
	return NULL;
}

void web_live_add(struct web_live *l, struct net_request *r)
{
	struct err err;
	struct channel *channel = channel_new(l, net_request_query(r), &err);
	const char *why;

	if (!channel && err.kind != ERR_NONE) {
		web_reply_error(r, web_status_of(&err), str_cstr(err.msg), str_from("", 0), NULL);
		return;
	}
	if (str_is(net_request_method(r), "HEAD")) { /* nothing is followed */
		struct net_header headers[WEB_HEADERS_MOST];
		size_t count = live_headers(headers);

		channel_free(channel);
		net_reply_http(r, 200, headers, count, str_from("", 0));
		return;
	}
	pthread_mutex_lock(&l->lock);
	why = add(l, r, &channel);
	pthread_mutex_unlock(&l->lock);
	channel_free(channel);
	if (why)
		web_reply_error(r, 503, str_cstr(why), str_from("", 0), NULL);
}

void web_live_stop(struct web_live *l)
{
	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	if (l->started)
		pthread_join(l->thread, NULL);
	while (l->count)
		drop(l, l->count - 1);
	channels_sweep(l);
}

void web_live_free(struct web_live *l)
{
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
