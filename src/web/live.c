/*
 * live.c - GET /api/v1/live: a page is told when samples have come.
 *
 *   event: commit
 *   data: {"asof":"1234"}
 *
 * One thread asks the source for its newest state once a second while anyone listens, and tells all
 * of them; a comment every 15 s shows who has gone. A page that reads slowly gets the latest state
 * only (net_events_send).
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "web/internal.h"

enum { LISTENERS_MOST = 256, BEAT_S = 15 };

struct web_live {
	const struct web_sources *sources;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool started, stopping;                  /* guarded */
	struct net_events *list[LISTENERS_MOST]; /* guarded; new ones have asof 0 */
	uint64_t told[LISTENERS_MOST];           /* guarded: the state each was told of */
	uint32_t count;                          /* guarded */
};

static bool newest(const struct web_sources *sources, uint64_t *asof)
{
	struct query_source *source;
	struct err err;
	bool ok;

	if (!sources->open(sources->ctx, &source, &err))
		return false;
	ok = source->ops->asof(source, asof, &err);
	query_source_free(source);
	return ok;
}

/* Under the lock. */
static void drop(struct web_live *l, uint32_t at)
{
	net_events_close(l->list[at]);
	l->count--;
	l->list[at] = l->list[l->count];
	l->told[at] = l->told[l->count];
}

/* Under the lock. */
static void tell(struct web_live *l, bool known, uint64_t asof, bool beat)
{
	struct buf text = { 0 };

	buf_printf(&text, "event: commit\ndata: {\"asof\":\"%llu\"}\n\n", (unsigned long long)asof);
	for (uint32_t i = l->count; i-- > 0;) {
		bool there = true;

		if (known && l->told[i] != asof) {
			there = net_events_send(l->list[i], buf_view(&text));
			l->told[i] = asof;
		} else if (beat) {
			there = net_events_send(l->list[i], STR(": still here\n\n"));
		}
		if (!there)
			drop(l, i);
	}
	buf_release(&text);
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
		bool known;

		if (l->count == 0) {
			pthread_cond_wait(&l->changed, &l->lock);
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		known = newest(l->sources, &asof);
		pthread_mutex_lock(&l->lock);
		tell(l, known, asof, second % BEAT_S == 0);
		if (!l->stopping)
			wait_second(l);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

struct web_live *web_live_new(const struct web_sources *sources)
{
	struct web_live *l = calloc(1, sizeof(*l));

	l->sources = sources;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	return l;
}

static const char *add(struct web_live *l, struct net_request *r)
{
	struct net_header headers[WEB_HEADERS_MOST];
	size_t count = web_common_headers(headers);

	if (l->stopping)
		return "flametap is stopping";
	if (l->count == LISTENERS_MOST)
		return "too many pages follow live";
	if (!l->started && pthread_create(&l->thread, NULL, watch, l) != 0)
		return "no thread for live";
	l->started = true;
	headers[count++] = (struct net_header){ "content-type", STR("text/event-stream") };
	headers[count++] = (struct net_header){ "cache-control", STR("no-store") };
	l->told[l->count] = 0;
	l->list[l->count++] = net_reply_events(r, headers, count);
	pthread_cond_signal(&l->changed);
	return NULL;
}

void web_live_add(struct web_live *l, struct net_request *r)
{
	const char *why;

	pthread_mutex_lock(&l->lock);
	why = add(l, r);
	pthread_mutex_unlock(&l->lock);
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
}

void web_live_free(struct web_live *l)
{
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
