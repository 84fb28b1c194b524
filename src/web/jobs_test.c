/* Each job is run once: by a thread, or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <semaphore.h>
#include <time.h>

#include "base/cleanup.h"
#include "web/internal.h"

enum { HANG_S = 60, QUEUE = 3, MANY = 64 };

struct counted {
	struct web_job job;
	sem_t *begun, *go; /* go NULL: does not wait */
	atomic_int ran, refused;
};

static void wait_for(sem_t *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += HANG_S;
	if (sem_timedwait(s, &until) != 0)
		fail_msg("waited %d s in vain", HANG_S);
}

static void count(struct web_job *job, bool refused)
{
	struct counted *c = (struct counted *)job;

	atomic_fetch_add(refused ? &c->refused : &c->ran, 1);
	if (refused)
		return;
	sem_post(c->begun);
	if (c->go)
		sem_wait(c->go);
}

static void test_queue_is_bounded(void **state)
{
	struct counted jobs[1 + QUEUE + 1] = { 0 };
	sem_t begun, go;
	struct web_jobs *pool = web_jobs_new(1, QUEUE);

	(void)state;
	sem_init(&begun, 0, 0);
	sem_init(&go, 0, 0);
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
		jobs[i].job.run = count;
		jobs[i].begun = &begun;
		jobs[i].go = &go;
		web_jobs_add(pool, &jobs[i].job);
		if (i == 0)
			wait_for(&begun); /* the one thread has it; the rest waits in the queue */
	}
	assert_int_equal(jobs[1 + QUEUE].refused, 1);
	for (size_t i = 0; i < 1 + QUEUE; i++)
		sem_post(&go);
	for (size_t i = 0; i < QUEUE; i++)
		wait_for(&begun);
	web_jobs_free(pool);
	for (size_t i = 0; i < 1 + QUEUE; i++) {
		assert_int_equal(jobs[i].ran, 1);
		assert_int_equal(jobs[i].refused, 0);
	}
	assert_int_equal(jobs[1 + QUEUE].ran, 0);
	sem_destroy(&begun);
	sem_destroy(&go);
}

/* What is quick waits neither behind what runs nor behind what waits. */
static void test_quick_ones_wait_for_nobody(void **state)
{
	struct counted slow[1 + QUEUE] = { 0 }, quick = { 0 };
	struct web_jobs *pool = web_jobs_new(1, QUEUE);
	sem_t begun, quick_begun, go;

	(void)state;
	sem_init(&begun, 0, 0);
	sem_init(&quick_begun, 0, 0);
	sem_init(&go, 0, 0);
	for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
		slow[i] = (struct counted){ .job.run = count, .begun = &begun, .go = &go };
		web_jobs_add(pool, &slow[i].job);
		if (i == 0)
			wait_for(&begun);
	}
	quick = (struct counted){ .job = { .run = count, .quick = true }, .begun = &quick_begun };
	web_jobs_add(pool, &quick.job); /* the queue of the others is full, their thread busy */
	wait_for(&quick_begun);
	assert_int_equal(quick.ran, 1);
	for (size_t i = 0; i < ARRAY_LEN(slow); i++)
		sem_post(&go);
	for (size_t i = 1; i < ARRAY_LEN(slow); i++)
		wait_for(&begun);
	web_jobs_free(pool);
	for (size_t i = 0; i < ARRAY_LEN(slow); i++)
		assert_int_equal(slow[i].ran, 1);
	sem_destroy(&begun);
	sem_destroy(&quick_begun);
	sem_destroy(&go);
}

/* Whatever the end meets in the queue is refused, not forgotten. */
static void test_end_answers_everything(void **state)
{
	struct counted jobs[MANY] = { 0 };
	struct web_jobs *pool = web_jobs_new(2, MANY);
	sem_t begun;

	(void)state;
	sem_init(&begun, 0, 0);
	for (size_t i = 0; i < MANY; i++) {
		jobs[i].job.run = count;
		jobs[i].begun = &begun;
		web_jobs_add(pool, &jobs[i].job);
	}
	web_jobs_free(pool);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(jobs[i].ran + jobs[i].refused, 1);
	web_jobs_free(NULL);
	sem_destroy(&begun);
}

static void test_no_threads_no_wait(void **state)
{
	struct counted job = { .job.run = count };
	struct web_jobs *pool = web_jobs_new(0, QUEUE);

	(void)state;
	web_jobs_add(pool, &job.job);
	assert_int_equal(job.refused, 1);
	web_jobs_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queue_is_bounded),
		cmocka_unit_test(test_quick_ones_wait_for_nobody),
		cmocka_unit_test(test_end_answers_everything),
		cmocka_unit_test(test_no_threads_no_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
