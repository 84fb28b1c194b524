/* Equal questions over real connections: those that wait have one run, those that come during a run
 * the next; who goes takes nobody along. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <poll.h>
#include <cmocka.h>
#include <semaphore.h>
#include <time.h>

#include "net/server_test.h"
#include "web/internal.h"

enum { HANG_S = 60, MANY = 20 };

/* What an answer waits for, once it has begun. */
enum waits_for { FOR_GO, FOR_LEADER_GONE, FOR_ALL_GONE };

static struct {
	struct web_options options;
	struct web_jobs *jobs;
	struct web_sharing *sharing;
	struct server server;
	sem_t taken, begun, go;
	atomic_int runs, waits_for, given_up;
} t;

static void wait_sem(sem_t *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += HANG_S;
	if (sem_timedwait(s, &until) != 0)
		fail_msg("waited %d s in vain", HANG_S);
}

static void free_source(struct source *s)
{
	free(s);
}

static bool open_source(void *ctx, struct source **out, struct err *err)
{
	static const struct source_ops ops = { .free = free_source };

	(void)ctx;
	(void)err;
	*out = calloc(1, sizeof(**out));
	(*out)->ops = &ops;
	return true;
}

static bool is_over(const struct web_ask *a, enum waits_for waits_for)
{
	const struct web_question *first = a->given_up_ctx;

	return !first ||
	       (waits_for == FOR_ALL_GONE ? a->given_up(first) : atomic_load(first->gone));
}

static bool answer(struct web_ask *a, struct err *err)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	enum waits_for waits_for = (enum waits_for)atomic_load(&t.waits_for);
	int run = atomic_fetch_add(&t.runs, 1) + 1;

	sem_post(&t.begun);
	if (waits_for == FOR_GO)
		sem_wait(&t.go);
	else
		for (int i = 0; i < HANG_S * 1000 && !is_over(a, waits_for); i++)
			nanosleep(&moment, NULL);
	if (a->given_up && a->given_up(a->given_up_ctx)) {
		atomic_fetch_add(&t.given_up, 1);
		return err_set(err, ERR_CANCELLED, "given up");
	}
	buf_printf(&a->body, "run %d.", run);
	return true;
}

static void take(struct net_request *r, struct blob *body, void *ctx)
{
	struct web_question *q = web_question_new(&t.options, r, answer, &web_plain_form);

	(void)ctx;
	blob_unref(body);
	web_sharing_add(t.sharing, q, net_request_path(r));
	sem_post(&t.taken);
}

static int start(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.options = (struct web_options){ .sources = { open_source, NULL, "fake", "" },
					  .timeout_ns = HANG_S * UINT64_C(1000000000) };
	sem_init(&t.taken, 0, 0);
	sem_init(&t.begun, 0, 0);
	sem_init(&t.go, 0, 0);
	t.jobs = web_jobs_new(1, 4);
	t.sharing = web_sharing_new(t.jobs);
	server_init(&t.server, (struct net_app_options){ 0 }, 0);
	net_app_route(t.server.app, "GET", "/", NULL, (struct net_handler){ take, NULL });
	server_listen(&t.server, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	server_stop(&t.server);
	web_jobs_free(t.jobs);
	web_sharing_free(t.sharing);
	sem_destroy(&t.taken);
	sem_destroy(&t.begun);
	sem_destroy(&t.go);
	return 0;
}

/* The question is in. */
static int ask(const char *path)
{
	int fd = peer_connect(&t.server);
	char request[80];
	int len = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);

	assert_true(peer_send(fd, str_from(request, (size_t)len)));
	wait_sem(&t.taken);
	return fd;
}

static void expect(int fd, const char *text)
{
	AUTO(buf_release) struct buf read = { 0 };

	if (!peer_read(fd, &read, text, 1))
		fail_msg("no %s in: %.*s", text, STR_ARG(buf_view(&read)));
	close(fd);
}

static void test_equal_questions_have_one_run(void **state)
{
	int first = ask("/a"), later[MANY], waiting[MANY];

	(void)state;
	wait_sem(&t.begun);
	for (int i = 0; i < MANY; i++) { /* more than the pool's queue holds */
		waiting[i] = ask("/b");
		later[i] = ask("/a");
	}
	for (int i = 0; i < 3; i++)
		sem_post(&t.go);
	expect(first, "run 1.");
	for (int i = 0; i < MANY; i++) {
		expect(waiting[i], "run 2.");
		expect(later[i], "run 3."); /* the first run began before they asked */
	}
	assert_int_equal(t.runs, 3);
	sem_post(&t.go);
	expect(ask("/a"), "run 4."); /* nothing of what was is kept */
}

static void test_other_questions_have_their_own_limit(void **state)
{
	int first = ask("/a"), others[5];

	(void)state;
	wait_sem(&t.begun);
	for (int i = 0; i < 5; i++) {
		char path[16];

		snprintf(path, sizeof(path), "/%d", i);
		others[i] = ask(path);
	}
	expect(others[4], "too many questions at once");
	for (int i = 0; i < 5; i++)
		sem_post(&t.go);
	expect(first, "run 1.");
	for (int i = 0; i < 4; i++)
		expect(others[i], "run ");
}

static void test_who_goes_takes_nobody_along(void **state)
{
	int first = ask("/a"), leader, stays;

	(void)state;
	wait_sem(&t.begun);
	leader = ask("/b");
	stays = ask("/b");
	atomic_store(&t.waits_for, FOR_LEADER_GONE);
	sem_post(&t.go);
	expect(first, "run 1.");
	wait_sem(&t.begun);
	close(leader);
	expect(stays, "run 2.");
	assert_int_equal(t.given_up, 0);
}

static void test_a_run_that_nobody_waits_for_ends(void **state)
{
	int first = ask("/a"), a, b;

	(void)state;
	wait_sem(&t.begun);
	a = ask("/b");
	b = ask("/b");
	atomic_store(&t.waits_for, FOR_ALL_GONE);
	sem_post(&t.go);
	expect(first, "run 1.");
	wait_sem(&t.begun);
	close(a);
	close(b);
	first = ask("/c"); /* behind it in the pool */
	wait_sem(&t.begun);
	assert_int_equal(t.given_up, 1);
	close(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_equal_questions_have_one_run, start, end),
		cmocka_unit_test_setup_teardown(test_other_questions_have_their_own_limit, start,
						end),
		cmocka_unit_test_setup_teardown(test_who_goes_takes_nobody_along, start, end),
		cmocka_unit_test_setup_teardown(test_a_run_that_nobody_waits_for_ends, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
