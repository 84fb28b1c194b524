/* Who follows, over real connections: told of the newest state, of each change, of the end; who
 * goes is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <poll.h>
#include <cmocka.h>

#include "net/server_test.h"
#include "web/internal.h"

/* A source that only has a state. */
struct fake {
	atomic_ullong asof;
	atomic_bool broken;
	atomic_uint opened, freed;
};
struct fake_source {
	struct source base;
	struct fake *fake;
};

static bool fake_asof(struct source *s, uint64_t *out, struct err *err)
{
	struct fake *f = ((struct fake_source *)s)->fake;

	if (atomic_load(&f->broken))
		return err_set(err, ERR_IO, "broken");
	*out = atomic_load(&f->asof);
	return true;
}

static void fake_free(struct source *s)
{
	atomic_fetch_add(&((struct fake_source *)s)->fake->freed, 1);
	free(s);
}

static const struct source_ops fake_ops = { .asof = fake_asof, .free = fake_free };

static bool fake_open(void *ctx, struct source **out, struct err *err)
{
	struct fake_source *s = calloc(1, sizeof(*s));

	(void)err;
	s->base.ops = &fake_ops;
	s->fake = ctx;
	atomic_fetch_add(&s->fake->opened, 1);
	*out = &s->base;
	return true;
}

static void follow(struct net_request *r, struct blob *body, void *ctx)
{
	blob_unref(body);
	web_live_add(ctx, r);
}

struct live {
	struct fake fake;
	struct web_options options;
	struct web_live *live;
	struct server server;
	bool stopped;
};

static void live_start(struct live *l)
{
	*l = (struct live){ .options = { .sources = { fake_open, &l->fake, "fake", "" },
					 .timeout_ns = UINT64_C(60000000000) } };
	atomic_store(&l->fake.asof, 7);
	l->live = web_live_new(&l->options);
	server_init(&l->server, (struct net_app_options){ 0 }, 0);
	net_app_route(l->server.app, "GET", "/", NULL, (struct net_handler){ follow, l->live });
	server_listen(&l->server, NULL);
}

static void live_stop(struct live *l)
{
	if (!l->stopped)
		web_live_stop(l->live);
	l->stopped = true;
}

static void live_end(struct live *l)
{
	live_stop(l);
	server_stop(&l->server);
	web_live_free(l->live);
	assert_int_equal(atomic_load(&l->fake.opened), atomic_load(&l->fake.freed));
}

static int follower(const struct live *l)
{
	int fd = peer_connect(&l->server);

	assert_true(peer_send(fd, STR("GET / HTTP/1.1\r\nHost: x\r\n\r\n")));
	return fd;
}

static void expect(int fd, struct buf *read, const char *text)
{
	if (!peer_read(fd, read, text, 1))
		fail_msg("no %s in: %.*s", text, STR_ARG(buf_view(read)));
}

static void test_each_change_is_told_to_all(void **state)
{
	AUTO(buf_release) struct buf a = { 0 }, b = { 0 };
	struct live l;
	int first, second;

	(void)state;
	live_start(&l);
	first = follower(&l);
	expect(first, &a, "event: commit\ndata: {\"asof\":\"7\"}\n\n");
	assert_true(str_search(buf_view(&a), STR("text/event-stream")) > 0);
	second = follower(&l);
	expect(second, &b, "{\"asof\":\"7\"}");
	atomic_store(&l.fake.asof, 18446744073709551615ull);
	expect(first, &a, "{\"asof\":\"18446744073709551615\"}");
	expect(second, &b, "{\"asof\":\"18446744073709551615\"}");
	close(first);
	atomic_store(&l.fake.asof, 9);
	expect(second, &b, "{\"asof\":\"9\"}");
	live_stop(&l);
	expect(second, &b, "0\r\n\r\n"); /* the last chunk */
	close(second);
	live_end(&l);
}

static void test_a_broken_source_is_asked_again(void **state)
{
	AUTO(buf_release) struct buf read = { 0 };
	struct live l;
	int fd;

	(void)state;
	live_start(&l);
	atomic_store(&l.fake.broken, true);
	fd = follower(&l);
	expect(fd, &read, ": still here\n\n");
	assert_true(str_search(buf_view(&read), STR("commit")) < 0);
	atomic_store(&l.fake.broken, false);
	expect(fd, &read, "{\"asof\":\"7\"}");
	close(fd);
	live_end(&l);
}

/* 256 places: one more is refused, and those who went make room. */
static void test_places_are_bounded_and_freed(void **state)
{
	enum { PLACES = 256 };
	AUTO(buf_release) struct buf read = { 0 };
	int fds[PLACES], fd;
	struct live l;

	(void)state;
	live_start(&l);
	for (int i = 0; i < PLACES; i++) {
		fds[i] = follower(&l);
		buf_reset(&read);
		expect(fds[i], &read, "HTTP/1.1 200");
	}
	buf_reset(&read);
	fd = follower(&l);
	expect(fd, &read, "HTTP/1.1 503");
	close(fd);
	for (int i = 0; i < PLACES; i++)
		close(fds[i]);
	for (unsigned change = 8;; change++) { /* who has gone is seen when something is told */
		atomic_store(&l.fake.asof, change);
		buf_reset(&read);
		fd = follower(&l);
		expect(fd, &read, "\r\n\r\n");
		close(fd);
		if (str_search(buf_view(&read), STR("HTTP/1.1 200")) == 0)
			break;
		assert_true(change < 60); /* seconds, at most */
		poll(NULL, 0, 1000);
	}
	live_end(&l);
}

static void test_after_the_end_nobody_follows(void **state)
{
	AUTO(buf_release) struct buf read = { 0 };
	struct live l;
	int fd;

	(void)state;
	live_start(&l);
	live_stop(&l);
	fd = follower(&l);
	expect(fd, &read, "HTTP/1.1 503");
	close(fd);
	live_end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_change_is_told_to_all),
		cmocka_unit_test(test_a_broken_source_is_asked_again),
		cmocka_unit_test(test_places_are_bounded_and_freed),
		cmocka_unit_test(test_after_the_end_nobody_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
