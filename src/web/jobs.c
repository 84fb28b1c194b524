/* jobs.c - the threads that answer questions, and the bounded queue before them. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "web/internal.h"

struct web_jobs {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct web_job *first, **end; /* guarded */
	uint32_t waiting, most;       /* guarded */
	bool closed;                  /* guarded */
	uint32_t thread_count;
	pthread_t threads[];
};

static struct web_job *take(struct web_jobs *jobs)
{
	struct web_job *job;

	pthread_mutex_lock(&jobs->lock);
	while (!jobs->first && !jobs->closed)
		pthread_cond_wait(&jobs->changed, &jobs->lock);
	job = jobs->closed ? NULL : jobs->first;
	if (job) {
		jobs->first = job->next;
		if (!jobs->first)
			jobs->end = &jobs->first;
		jobs->waiting--;
	}
	pthread_mutex_unlock(&jobs->lock);
	return job;
}

static void *answer(void *arg)
{
	struct web_jobs *jobs = arg;
	struct web_job *job;

	pthread_setname_np(pthread_self(), "web-query");
	while ((job = take(jobs)))
		job->run(job, false);
	return NULL;
}

struct web_jobs *web_jobs_new(uint32_t threads, uint32_t queue_most)
{
	struct web_jobs *jobs = calloc(1, sizeof(*jobs) + threads * sizeof(jobs->threads[0]));

	pthread_mutex_init(&jobs->lock, NULL);
	pthread_cond_init(&jobs->changed, NULL);
	jobs->end = &jobs->first;
	jobs->most = queue_most;
	for (; jobs->thread_count < threads; jobs->thread_count++)
		if (pthread_create(&jobs->threads[jobs->thread_count], NULL, answer, jobs) != 0)
			break;
	return jobs;
}

void web_jobs_add(struct web_jobs *jobs, struct web_job *job)
{
	bool refused;

	job->next = NULL;
	job->queued_ns = clock_monotonic_ns();
	pthread_mutex_lock(&jobs->lock);
	refused = jobs->closed || jobs->waiting == jobs->most || jobs->thread_count == 0;
	if (!refused) {
		*jobs->end = job;
		jobs->end = &job->next;
		jobs->waiting++;
		pthread_cond_signal(&jobs->changed);
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
	while ((job = jobs->first)) {
		jobs->first = job->next;
		job->run(job, true);
	}
	pthread_cond_destroy(&jobs->changed);
	pthread_mutex_destroy(&jobs->lock);
	free(jobs);
}
