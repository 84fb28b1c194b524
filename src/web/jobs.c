/* jobs.c - the threads that answer questions, and the bounded queues before them: one of the quick
 * ones, which wait behind no other, and one of the rest. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "web/internal.h"

struct line_of_jobs {
	struct web_job *first, **end;
	uint32_t waiting;
};

struct web_jobs {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct line_of_jobs quick, rest; /* guarded */
	uint32_t most;
	bool closed; /* guarded */
	uint32_t thread_count;
	bool quick_started;
	pthread_t quick_thread;
	pthread_t threads[];
};

static void put(struct line_of_jobs *line, struct web_job *job)
{
	job->next = NULL;
	*line->end = job;
	line->end = &job->next;
	line->waiting++;
}

static struct web_job *pop(struct line_of_jobs *line)
{
	struct web_job *job = line->first;

	if (!job)
		return NULL;
	line->first = job->next;
	if (!line->first)
		line->end = &line->first;
	line->waiting--;
	return job;
}

static struct web_job *next_job(struct web_jobs *jobs, bool only_quick)
{
	struct web_job *job = pop(&jobs->quick);

	return job || only_quick ? job : pop(&jobs->rest);
}

/* NULL: the end. */
static struct web_job *take(struct web_jobs *jobs, bool only_quick)
{
	struct web_job *job = NULL;

	pthread_mutex_lock(&jobs->lock);
	while (!jobs->closed && !(job = next_job(jobs, only_quick)))
		pthread_cond_wait(&jobs->changed, &jobs->lock);
	pthread_mutex_unlock(&jobs->lock);
	return job;
}

static void *answer(void *arg)
{
	struct web_jobs *jobs = arg;
	struct web_job *job;

	pthread_setname_np(pthread_self(), "web-query");
	while ((job = take(jobs, false)))
		job->run(job, false);
	return NULL;
}

static void *answer_quick(void *arg)
{
	struct web_jobs *jobs = arg;
	struct web_job *job;

	pthread_setname_np(pthread_self(), "web-quick");
	while ((job = take(jobs, true)))
		job->run(job, false);
	return NULL;
}

struct web_jobs *web_jobs_new(uint32_t threads, uint32_t queue_most)
{
	struct web_jobs *jobs = calloc(1, sizeof(*jobs) + threads * sizeof(jobs->threads[0]));

	pthread_mutex_init(&jobs->lock, NULL);
	pthread_cond_init(&jobs->changed, NULL);
	jobs->quick.end = &jobs->quick.first;
	jobs->rest.end = &jobs->rest.first;
	jobs->most = queue_most;
	for (; jobs->thread_count < threads; jobs->thread_count++)
		if (pthread_create(&jobs->threads[jobs->thread_count], NULL, answer, jobs) != 0)
			break;
	jobs->quick_started = jobs->thread_count > 0 &&
			      pthread_create(&jobs->quick_thread, NULL, answer_quick, jobs) == 0;
	return jobs;
}

void web_jobs_add(struct web_jobs *jobs, struct web_job *job)
{
	struct line_of_jobs *line = job->quick ? &jobs->quick : &jobs->rest;
	bool refused;

	job->queued_ns = clock_monotonic_ns();
	pthread_mutex_lock(&jobs->lock);
	refused = jobs->closed || line->waiting == jobs->most || jobs->thread_count == 0;
	if (!refused) {
		put(line, job);
		pthread_cond_broadcast(&jobs->changed);
	}
	pthread_mutex_unlock(&jobs->lock);
	if (refused)
		job->run(job, true);
}

void web_jobs_free(struct web_jobs *jobs)
{
	struct web_job *job;

	if (!jobs)
		return;
	pthread_mutex_lock(&jobs->lock);
	jobs->closed = true;
	pthread_cond_broadcast(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
	for (uint32_t i = 0; i < jobs->thread_count; i++)
		pthread_join(jobs->threads[i], NULL);
	if (jobs->quick_started)
		pthread_join(jobs->quick_thread, NULL);
	while ((job = next_job(jobs, false)))
		job->run(job, true);
	pthread_cond_destroy(&jobs->changed);
	pthread_mutex_destroy(&jobs->lock);
	free(jobs);
}
