#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/sender.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "support/pipeline_fakes.h"

/* What is waited for comes; this only ends a test that would hang. */
#define WAIT_NS (60 * SECOND_NS)

struct fixture {
	struct metrics *metrics;
	struct sending_options sending;
	struct sender_options options;
	struct sender *sender;
	struct budget budget;
	char dir[64];
};

/* Fast retries: the tests wait for events, and these come soon. */
static void setup(struct fixture *f, enum sender_mode mode)
{
	*f = (struct fixture){ 0 };
	fake_reset(&fake_far);
	budget_init(&f->budget, 0);
	f->metrics = metrics_new();
	f->sending = (struct sending_options){
		.retry = { .enabled = true,
			   .initial_interval_ns = MILLI_NS,
			   .randomization_factor = 0.5,
			   .multiplier = 1.5,
			   .max_interval_ns = 2 * MILLI_NS },
		.queue = { .enabled = true,
			   .num_consumers = 2,
			   .queue_size = 4,
			   .max_bytes = 64 << 20 },
	};
	snprintf(f->dir, sizeof(f->dir), "/tmp/flametap-sender-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->options = (struct sender_options){ .id = "far",
					      .ops = &fake_far_exporter,
					      .sending = &f->sending,
					      .mode = mode,
					      .retry = true,
					      .spool_path = f->dir,
					      .budget = &f->budget,
					      .metrics = f->metrics };
}

static void start(struct fixture *f)
{
	struct err err = { 0 };

	f->sender = sender_new(&f->options);
	if (!sender_start(f->sender, &err))
		fail_msg("%s", err.msg);
}

/* As a graph stops it: drain, the exporter's own stop, finish. */
static void stop(struct fixture *f, uint64_t grace_ns)
{
	sender_drain(f->sender, clock_monotonic_ns() + grace_ns);
	fake_release(&fake_far, OUTCOME_RETRY);
	sender_finish(f->sender);
}

static void teardown(struct fixture *f)
{
	char command[128];

	sender_free(f->sender);
	metrics_free(f->metrics);
	assert_int_equal(budget_used(&f->budget), 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", f->dir);
	assert_int_equal(system(command), 0);
}

static int64_t metric(struct fixture *f, const char *line)
{
	const char *at;
	long long value = -1;
	struct buf b;

	buf_init(&b, 0);
	metrics_write(f->metrics, &b);
	buf_char(&b, 0);
	at = strstr(b.ptr, line);
	if (at)
		sscanf(at + strlen(line), " %lld", &value);
	buf_release(&b);
	return value;
}

#define SENT           "otelcol_exporter_sent_profile_samples{exporter=\"far\"}"
#define SEND_FAILED    "otelcol_exporter_send_failed_profile_samples{exporter=\"far\"}"
#define ENQUEUE_FAILED "otelcol_exporter_enqueue_failed_profile_samples{exporter=\"far\"}"
#define QUEUE_SIZE     "otelcol_exporter_queue_size{data_type=\"profiles\",exporter=\"far\"}"
#define QUEUE_CAPACITY "otelcol_exporter_queue_capacity{data_type=\"profiles\",exporter=\"far\"}"
#define IN_FLIGHT      "otelcol_exporter_in_flight_requests{data_type=\"profiles\",exporter=\"far\"}"
#define RETRIES        "flametap_exporter_retries_total{exporter=\"far\"}"
#define DROPPED(why)   "flametap_exporter_dropped_requests_total{exporter=\"far\",reason=\"" why "\"}"

/* Gauges are set by the sender's thread, a moment later. */
static void wait_metric(struct fixture *f, const char *line, int64_t want)
{
	for (int i = 0; i < 20000 && metric(f, line) != want; i++)
		usleep(1000);
	if (metric(f, line) != want)
		fail_msg("%s stays at %lld", line, (long long)metric(f, line));
}

static struct outcome send(struct fixture *f, uint32_t samples, uint32_t seed)
{
	return feed(sender_consumer(f->sender), fake_batch(samples, seed, &f->budget));
}

static const struct {
	uint32_t failures;
	double chance;
	uint64_t want_ns;
} intervals[] = {
	{ 1, 0.5, 5 * SECOND_NS },           { 1, 0, 2500 * MILLI_NS },
	{ 2, 0.5, 7500 * MILLI_NS },         { 3, 0.5, 11250 * MILLI_NS },
	{ 9, 0.5, 30 * SECOND_NS },          { 9, 0, 15 * SECOND_NS },
	{ 4000000000, 0.5, 30 * SECOND_NS },
};

static void test_intervals(void **state)
{
	const struct retry_options o = { true, 5 * SECOND_NS, 0.5, 1.5, 30 * SECOND_NS, 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(intervals); i++) {
		uint64_t ns = retry_interval_ns(&o, intervals[i].failures, intervals[i].chance);

		if (ns != intervals[i].want_ns)
			fail_msg("row %zu: %llu ns", i, (unsigned long long)ns);
	}
}

/* OK on enqueue, though the peer holds everything; past the queue's size: try later. */
static void test_memory_full(void **state)
{
	struct outcome o;
	struct fixture f;

	(void)state;
	setup(&f, SENDER_MEMORY);
	fake_far.hold = true;
	start(&f);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
	o = send(&f, 3, 9);
	assert_int_equal(o.kind, OUTCOME_RETRY);
	assert_int_equal(o.err.kind, ERR_BUSY);
	assert_string_equal(o.err.msg, "sending queue is full");
	assert_int_equal(metric(&f, ENQUEUE_FAILED), 3);
	fake_wait(&fake_far, &fake_far.held_count, 2);
	assert_int_equal(fake_far.in_flight_most, 2); /* num_consumers */
	assert_int_equal(metric(&f, QUEUE_CAPACITY), 4);
	wait_metric(&f, QUEUE_SIZE, 4);
	wait_metric(&f, IN_FLIGHT, 2);
	fake_release(&fake_far, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 4);
	wait_metric(&f, QUEUE_SIZE, 0);
	wait_metric(&f, IN_FLIGHT, 0);
	stop(&f, WAIT_NS);
	assert_int_equal(metric(&f, SENT), 12);
	teardown(&f);
}

/* Bytes bound the queue whatever the sizer counts. */
static void test_memory_bytes(void **state)
{
	struct fixture f;
	uint32_t taken = 0;

	(void)state;
	setup(&f, SENDER_MEMORY);
	f.sending.queue.queue_size = 1000;
	f.sending.queue.max_bytes = 1 << 20;
	fake_far.hold = true;
	start(&f);
	while (send(&f, 1000, taken).kind == OUTCOME_OK)
		assert_true(++taken < 1000);
	assert_true(taken > 0);
	assert_true(budget_used(&f.budget) <= 1 << 20);
	stop(&f, 10 * MILLI_NS);
	assert_int_equal(metric(&f, DROPPED("shutdown")), taken);
	assert_int_equal(metric(&f, SEND_FAILED), taken * 1000);
	teardown(&f);
}

static void test_memory_retries(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, SENDER_MEMORY);
	for (uint32_t i = 0; i < 7; i++)
		fake_far.answers[fake_far.answer_count++] = OUTCOME_RETRY;
	start(&f);
	assert_int_equal(send(&f, 5, 1).kind, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 1);
	stop(&f, WAIT_NS);
	assert_int_equal(fake_far.requests, 8);
	assert_int_equal(metric(&f, RETRIES), 7);
	assert_int_equal(metric(&f, SEND_FAILED), 0); /* a retry is no failure */
	assert_int_equal(metric(&f, SENT), 5);
	teardown(&f);
}

/* How a request is given up: what the peer says, what the options say, and what is counted. */
static const struct {
	enum sender_mode mode;
	enum outcome_kind answer;
	bool retry_enabled;
	uint64_t elapsed_ns;
	const char *dropped;
	enum outcome_kind told; /* DIRECT: whoever sent it */
} drops[] = {
	{ SENDER_MEMORY, OUTCOME_PERMANENT, true, 0, DROPPED("refused"), OUTCOME_OK },
	{ SENDER_MEMORY, OUTCOME_RETRY, false, 0, DROPPED("no_retry"), OUTCOME_OK },
	{ SENDER_MEMORY, OUTCOME_RETRY, true, 5 * MILLI_NS, DROPPED("retries_over"), OUTCOME_OK },
	{ SENDER_DIRECT, OUTCOME_PERMANENT, true, 0, DROPPED("refused"), OUTCOME_PERMANENT },
	{ SENDER_DIRECT, OUTCOME_RETRY, false, 0, DROPPED("no_retry"), OUTCOME_RETRY },
	{ SENDER_DIRECT, OUTCOME_RETRY, true, 5 * MILLI_NS, DROPPED("retries_over"),
	  OUTCOME_RETRY },
	{ SENDER_SPOOL, OUTCOME_PERMANENT, true, 0, DROPPED("refused"), OUTCOME_OK },
	{ SENDER_SPOOL, OUTCOME_RETRY, false, 0, DROPPED("no_retry"), OUTCOME_OK },
};

static void test_drops(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(drops); i++) {
		struct fixture f;

		setup(&f, drops[i].mode);
		f.sending.retry.enabled = drops[i].retry_enabled;
		f.sending.retry.max_elapsed_time_ns = drops[i].elapsed_ns;
		for (uint32_t k = 0; k < 64; k++)
			fake_far.answers[fake_far.answer_count++] = drops[i].answer;
		start(&f);
		if (send(&f, 5, 1).kind != drops[i].told)
			fail_msg("row %zu: told otherwise", i);
		while (metric(&f, drops[i].dropped) != 1)
			usleep(200); /* the end of the last attempt is counted by the sender's
					thread */
		assert_int_equal(metric(&f, SEND_FAILED), 5);
		stop(&f, WAIT_NS);
		assert_int_equal(fake_far.kept, 0);
		teardown(&f);
	}
}

/* The peer's own hint is longer than the backoff: it is kept to, and so max_elapsed_time is over at
 * once. */
static void test_retry_after(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, SENDER_MEMORY);
	f.sending.retry.max_elapsed_time_ns = 60 * SECOND_NS;
	fake_far.retry_after_ns = 3600 * SECOND_NS;
	fake_far.answers[0] = OUTCOME_RETRY;
	fake_far.answer_count = 1;
	start(&f);
	assert_int_equal(send(&f, 5, 1).kind, OUTCOME_OK);
	while (metric(&f, DROPPED("retries_over")) != 1)
		usleep(200);
	stop(&f, WAIT_NS);
	assert_int_equal(fake_far.requests, 1);
	teardown(&f);
}

/* The answer is the peer's, with all that it says. */
static void test_direct(void **state)
{
	struct fixture f;
	struct waiter w;

	(void)state;
	setup(&f, SENDER_DIRECT);
	fake_far.hold = true;
	start(&f);
	waiter_init(&w);
	consumer_consume(sender_consumer(f.sender), fake_batch(2, 1, NULL), &w.completion);
	fake_wait(&fake_far, &fake_far.held_count, 1);
	assert_false(waiter_answered(&w));
	fake_release(&fake_far, OUTCOME_OK);
	assert_int_equal(waiter_wait(&w).kind, OUTCOME_OK);
	stop(&f, WAIT_NS);
	teardown(&f);
}

static void test_wait_for_result(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, SENDER_MEMORY);
	f.sending.queue.wait_for_result = true;
	fake_far.answers[0] = OUTCOME_PERMANENT;
	fake_far.answer_count = 1;
	start(&f);
	assert_int_equal(send(&f, 2, 1).kind, OUTCOME_PERMANENT);
	assert_int_equal(send(&f, 2, 2).kind, OUTCOME_OK);
	assert_int_equal(fake_far.kept, 1);
	stop(&f, WAIT_NS);
	teardown(&f);
}

/* A full queue lets the sender wait; at a stop it is told to come again. */
static void test_block_on_overflow(void **state)
{
	struct waiter w[4];
	struct fixture f;

	(void)state;
	setup(&f, SENDER_MEMORY);
	f.sending.queue.queue_size = 2;
	f.sending.queue.block_on_overflow = true;
	fake_far.hold = true;
	start(&f);
	for (uint32_t i = 0; i < 4; i++) {
		waiter_init(&w[i]);
		consumer_consume(sender_consumer(f.sender), fake_batch(2, i, NULL),
				 &w[i].completion);
	}
	fake_wait(&fake_far, &fake_far.held_count, 2);
	assert_true(waiter_answered(&w[1]));
	assert_false(waiter_answered(&w[2]));
	fake_release(&fake_far, OUTCOME_OK);
	assert_int_equal(waiter_wait(&w[2]).kind, OUTCOME_OK);
	assert_int_equal(waiter_wait(&w[3]).kind, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 4);

	pthread_mutex_lock(&fake_far.lock);
	fake_far.hold = true;
	pthread_mutex_unlock(&fake_far.lock);
	for (uint32_t i = 0; i < 3; i++) {
		waiter_init(&w[i]);
		consumer_consume(sender_consumer(f.sender), fake_batch(2, i, NULL),
				 &w[i].completion);
	}
	stop(&f, 10 * MILLI_NS);
	assert_int_equal(waiter_wait(&w[2]).err.kind, ERR_UNAVAILABLE);
	teardown(&f);
}

/* The peer is away at the stop: one attempt each, then all is dropped and counted. The first two
 * have one more if their answers had been looked at before the stop. */
static void test_stop_drains(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, SENDER_MEMORY);
	f.sending.retry.initial_interval_ns = f.sending.retry.max_interval_ns = 3600 * SECOND_NS;
	for (uint32_t i = 0; i < 64; i++)
		fake_far.answers[fake_far.answer_count++] = OUTCOME_RETRY;
	start(&f);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(send(&f, 1, i).kind, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.requests, 2); /* both slots wait an hour */
	stop(&f, WAIT_NS);
	assert_int_equal(metric(&f, DROPPED("shutdown")), 4);
	assert_in_range(fake_far.requests, 4, 6);
	assert_int_equal(send(&f, 1, 9).err.kind, ERR_UNAVAILABLE);
	teardown(&f);
}

/* A drain on a thread of its own, while the sender's thread is kept busy. */
struct drain {
	struct sender *sender;
	uint64_t deadline_ns;
	pthread_t thread;
};

static void *drain_main(void *arg)
{
	struct drain *d = arg;

	sender_drain(d->sender, d->deadline_ns);
	return NULL;
}

/* Returns once the drain has been announced: what waits for room in the queue is refused then. */
static void drain_begin(struct fixture *f, struct drain *d, uint64_t grace_ns)
{
	struct waiter w;

	waiter_init(&w);
	consumer_consume(sender_consumer(f->sender), fake_batch(100, 99, NULL), &w.completion);
	assert_false(waiter_answered(&w));
	d->sender = f->sender;
	d->deadline_ns = clock_monotonic_ns() + grace_ns;
	assert_int_equal(pthread_create(&d->thread, NULL, drain_main, d), 0);
	assert_int_equal(waiter_wait(&w).err.kind, ERR_UNAVAILABLE);
}

/* An answer that takes long: it keeps the sender's thread. */
struct long_answer {
	struct completion completion;
	sem_t begun, go_on;
};

static void long_answer_done(struct completion *c, const struct outcome *o)
{
	struct long_answer *a = CONTAINER_OF(c, struct long_answer, completion);

	(void)o;
	sem_post(&a->begun);
	sem_wait(&a->go_on);
}

/* A stop that comes while the thread is busy is seen before it sleeps again, here for an hour. */
static void test_stop_while_busy(void **state)
{
	struct long_answer answer = { .completion.done = long_answer_done };
	struct waiter in_backoff;
	uint64_t start_ns;
	struct fixture f;
	struct drain d;

	(void)state;
	setup(&f, SENDER_MEMORY);
	f.sending.retry.initial_interval_ns = f.sending.retry.max_interval_ns = 3600 * SECOND_NS;
	f.sending.queue = (struct queue_options){ .enabled = true,
						  .num_consumers = 2,
						  .queue_size = 10,
						  .sizer = QUEUE_ITEMS,
						  .max_bytes = 64 << 20,
						  .wait_for_result = true,
						  .block_on_overflow = true };
	fake_far.answers[0] = OUTCOME_RETRY;
	fake_far.answers[1] = OUTCOME_PERMANENT;
	fake_far.answer_count = 2;
	sem_init(&answer.begun, 0, 0);
	sem_init(&answer.go_on, 0, 0);
	start(&f);
	waiter_init(&in_backoff);
	consumer_consume(sender_consumer(f.sender), fake_batch(1, 1, NULL), &in_backoff.completion);
	wait_metric(&f, RETRIES, 1);
	consumer_consume(sender_consumer(f.sender), fake_batch(1, 2, NULL), &answer.completion);
	sem_wait(&answer.begun);
	start_ns = clock_monotonic_ns();
	drain_begin(&f, &d, 2 * WAIT_NS);
	sem_post(&answer.go_on);
	pthread_join(d.thread, NULL);
	assert_true(clock_monotonic_ns() - start_ns < WAIT_NS);
	assert_int_equal(waiter_wait(&in_backoff).kind, OUTCOME_OK); /* its attempt of the drain */
	sender_finish(f.sender);
	sem_destroy(&answer.begun);
	sem_destroy(&answer.go_on);
	teardown(&f);
}

/* The grace is over while the thread is inside the exporter, where the lock of the fake keeps it:
 * the drain waits for it, and after the drain, when the exporter is stopped, no attempt begins. */
static void test_no_attempt_after_drain(void **state)
{
	struct timespec moment;
	struct fixture f;
	uint32_t requests;
	struct drain d;

	(void)state;
	setup(&f, SENDER_MEMORY);
	f.sending.queue.num_consumers = 3;
	f.sending.queue.queue_size = 4;
	f.sending.queue.block_on_overflow = true;
	fake_far.hold = true;
	start(&f);
	pthread_mutex_lock(&fake_far.lock);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(send(&f, 1, i).kind, OUTCOME_OK);
	wait_metric(&f, IN_FLIGHT, 1);
	drain_begin(&f, &d, 0);
	clock_gettime(CLOCK_REALTIME, &moment);
	moment.tv_nsec += 50 * MILLI_NS;
	moment.tv_sec += moment.tv_nsec / SECOND_NS;
	moment.tv_nsec %= SECOND_NS;
	assert_int_equal(pthread_timedjoin_np(d.thread, NULL, &moment), ETIMEDOUT);
	pthread_mutex_unlock(&fake_far.lock);
	pthread_join(d.thread, NULL);
	requests = fake_far.requests;
	assert_in_range(requests, 1, 3);
	fake_release(&fake_far, OUTCOME_OK);
	sender_finish(f.sender);
	assert_int_equal(fake_far.requests, requests);
	assert_int_equal(metric(&f, SENT), requests);
	assert_int_equal(metric(&f, DROPPED("shutdown")), 4 - requests);
	teardown(&f);
}

/* The spool holds what the peer does not take, and gives it out in order, each once. */
static void test_spool(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, SENDER_SPOOL);
	fake_far.hold = true;
	start(&f);
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.held_count, 2);
	wait_metric(&f, QUEUE_SIZE, 50);
	assert_int_equal(metric(&f, QUEUE_CAPACITY), 0); /* bytes bound a spool */
	fake_release(&fake_far, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 50);
	stop(&f, WAIT_NS);
	assert_int_equal(fake_far.requests, 50);
	for (uint32_t i = 0; i < 50; i++)
		for (uint32_t k = 0; k < i; k++)
			assert_memory_not_equal(&fake_far.hashes[i], &fake_far.hashes[k],
						sizeof(struct hash128));
	assert_int_equal(metric(&f, SENT), 150);
	assert_int_equal(metric(&f, QUEUE_SIZE), 0);
	teardown(&f);
}

/* A stop with calls in flight waits for their answers and records them: what the peer took is not
 * sent again at the next start, what it did not answer in time is. */
static void test_spool_drain_awaits_calls(void **state)
{
	static const struct {
		enum outcome_kind answer;
		uint64_t grace_ns;
		uint32_t sent_again;
	} cases[] = {
		{ OUTCOME_OK, WAIT_NS, 0 },
		{ OUTCOME_PERMANENT, WAIT_NS, 0 },
		{ OUTCOME_RETRY, WAIT_NS, 2 },
		{ OUTCOME_RETRY, 0, 2 }, /* no answer before the exporter is stopped */
	};

	(void)state;
	for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
		struct fixture f;
		struct drain d;

		setup(&f, SENDER_SPOOL);
		f.sending.retry.initial_interval_ns = f.sending.retry.max_interval_ns =
			3600 * SECOND_NS;
		fake_far.hold = true;
		start(&f);
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
		fake_wait(&fake_far, &fake_far.held_count, 2);
		d.sender = f.sender;
		d.deadline_ns = clock_monotonic_ns() + cases[c].grace_ns;
		assert_int_equal(pthread_create(&d.thread, NULL, drain_main, &d), 0);
		if (cases[c].grace_ns == 0)
			pthread_join(d.thread, NULL);
		fake_release(&fake_far, cases[c].answer);
		if (cases[c].grace_ns != 0)
			pthread_join(d.thread, NULL);
		sender_finish(f.sender);
		assert_int_equal(fake_far.requests, 2);
		sender_free(f.sender);

		fake_far.hold = false;
		start(&f);
		assert_int_equal(send(&f, 3, 7).kind, OUTCOME_OK);
		fake_wait(&fake_far, &fake_far.requests, 2 + cases[c].sent_again + 1);
		stop(&f, WAIT_NS);
		assert_int_equal(fake_far.requests, 2 + cases[c].sent_again + 1);
		teardown(&f);
	}
}

/* Only what memory had no room for is read back, not what came behind it; and a slow peer's backlog
 * is not packed. */
static void test_spool_from_memory(void **state)
{
	enum { LARGE = 30000 };
	struct batch *large = fake_batch(LARGE, 100, NULL);
	struct fixture f;

	(void)state;
	setup(&f, SENDER_SPOOL);
	f.sending.queue.max_bytes = batch_bytes(large) * 3 / 2;
	fake_far.hold = true;
	start(&f);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
	assert_int_equal(feed(sender_consumer(f.sender), large).kind, OUTCOME_OK);
	for (uint32_t i = 4; i < 9; i++)
		assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
	assert_true(metric(&f, "flametap_spool_bytes{exporter=\"far\"}") > 2 * LARGE);
	fake_wait(&fake_far, &fake_far.held_count, 2);
	fake_release(&fake_far, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 10);
	stop(&f, WAIT_NS);
	assert_int_equal(fake_far.requests, 10);
	assert_int_equal(fake_far.read_back, 1);
	assert_int_equal(metric(&f, SENT), 9 * 3 + LARGE);
	teardown(&f);
}

/* Those that wait in memory behind one that does not stay in the spool at a stop: each is sent
 * after it, once. */
static void test_spool_stop_with_memory(void **state)
{
	struct batch *large = fake_batch(30000, 100, NULL);
	struct fixture f;

	(void)state;
	setup(&f, SENDER_SPOOL);
	f.sending.queue.max_bytes = batch_bytes(large) * 3 / 2;
	fake_far.hold = true;
	start(&f);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
	assert_int_equal(feed(sender_consumer(f.sender), large).kind, OUTCOME_OK);
	for (uint32_t i = 2; i < 5; i++)
		assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.held_count, 2);
	stop(&f, MILLI_NS);
	sender_free(f.sender);
	start(&f);
	fake_wait(&fake_far, &fake_far.kept, 6);
	stop(&f, WAIT_NS);
	assert_int_equal(fake_far.kept, 6);
	assert_int_equal(fake_far.read_back, 6);
	teardown(&f);
}

/* An exporter that gathers gets more than num_consumers at once, as long as memory has room. */
static void test_spool_gathered(void **state)
{
	struct component_ops gathering = fake_far_exporter;
	struct batch *large[2] = { fake_batch(30000, 100, NULL), fake_batch(30000, 101, NULL) };
	struct fixture f;

	(void)state;
	gathering.gathers = true;
	setup(&f, SENDER_SPOOL);
	f.options.ops = &gathering;
	f.sending.queue.max_bytes = batch_bytes(large[0]) * 4;
	fake_far.hold = true;
	start(&f);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(feed(sender_consumer(f.sender), large[i]).kind, OUTCOME_OK);
	/* The second is read back, which takes the rest of the memory. */
	fake_wait(&fake_far, &fake_far.held_count, 7);
	assert_int_equal(send(&f, 3, 5).kind, OUTCOME_OK);
	wait_metric(&f, QUEUE_SIZE, 8);
	assert_int_equal(metric(&f, IN_FLIGHT), 7);
	fake_release(&fake_far, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 8);
	stop(&f, WAIT_NS);
	assert_int_equal(fake_far.read_back, 2);
	teardown(&f);
}

/* No memory to read a record back: it waits, and is not lost. */
static void test_spool_no_memory(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, SENDER_SPOOL);
	fake_far.hold = true;
	start(&f);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(send(&f, 3, i).kind, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.held_count, 2);
	stop(&f, MILLI_NS);
	sender_free(f.sender);
	f.budget.limit_bytes = 10; /* for the next start */
	start(&f);
	usleep(20000);
	assert_int_equal(fake_far.kept, 0);
	stop(&f, WAIT_NS);
	sender_free(f.sender);
	f.budget.limit_bytes = 0;
	start(&f);
	fake_wait(&fake_far, &fake_far.kept, 10);
	stop(&f, WAIT_NS);
	assert_int_equal(fake_far.kept, 10);
	teardown(&f);
}

static void test_spool_locked(void **state)
{
	struct fixture f;
	struct sender *second;
	struct err err;

	(void)state;
	setup(&f, SENDER_SPOOL);
	start(&f);
	second = sender_new(&f.options);
	assert_false(sender_start(second, &err));
	assert_non_null(strstr(err.msg, "is in use by process"));
	sender_free(second);
	stop(&f, WAIT_NS);
	teardown(&f);
}

struct pusher {
	struct fixture *f;
	uint32_t first;
};

static void *push_many(void *arg)
{
	struct pusher *p = arg;

	for (uint32_t i = 0; i < 100; i++)
		while (send(p->f, 1, p->first + i).kind != OUTCOME_OK)
			usleep(100);
	return NULL;
}

/* Four threads at once, each mode, a peer that fails now and then: every request is kept exactly
 * once. */
static void test_threads(void **state)
{
	(void)state;
	for (int mode = SENDER_DIRECT; mode <= SENDER_SPOOL; mode++) {
		struct pusher pushers[4];
		pthread_t threads[4];
		struct fixture f;

		setup(&f, mode);
		f.options.spool_fsync = SPOOL_FSYNC_NEVER;
		for (uint32_t i = 0; i < 64; i++)
			fake_far.answers[fake_far.answer_count++] =
				i % 3 ? OUTCOME_OK : OUTCOME_RETRY;
		start(&f);
		for (uint32_t t = 0; t < 4; t++) {
			pushers[t] = (struct pusher){ &f, t * 1000 };
			assert_int_equal(pthread_create(&threads[t], NULL, push_many, &pushers[t]),
					 0);
		}
		for (uint32_t t = 0; t < 4; t++)
			pthread_join(threads[t], NULL);
		fake_wait(&fake_far, &fake_far.kept, 400);
		stop(&f, WAIT_NS);
		assert_int_equal(fake_far.kept, 400);
		assert_int_equal(metric(&f, SENT), 400);
		teardown(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_memory_full),
		cmocka_unit_test(test_memory_bytes),
		cmocka_unit_test(test_memory_retries),
		cmocka_unit_test(test_drops),
		cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_direct),
		cmocka_unit_test(test_wait_for_result),
		cmocka_unit_test(test_block_on_overflow),
		cmocka_unit_test(test_stop_drains),
		cmocka_unit_test(test_stop_while_busy),
		cmocka_unit_test(test_no_attempt_after_drain),
		cmocka_unit_test(test_spool),
		cmocka_unit_test(test_spool_drain_awaits_calls),
		cmocka_unit_test(test_spool_from_memory),
		cmocka_unit_test(test_spool_stop_with_memory),
		cmocka_unit_test(test_spool_gathered),
		cmocka_unit_test(test_spool_no_memory),
		cmocka_unit_test(test_spool_locked),
		cmocka_unit_test(test_threads),
	};

	log_setup(LOG_ERROR, LOG_TEXT, open("/dev/null", O_WRONLY));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
