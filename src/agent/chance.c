#include "agent/chance.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"

struct chance {
	struct chance_options o;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool on, stopping; /* lock */
};

static uint32_t draw(void)
{
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint32_t)clock_monotonic_ns();
	return random % 100;
}

/* lock held */
static void turn(struct chance *c, bool on)
{
	if (on == c->on)
		return;
	c->on = on;
	c->o.enable(c->o.ctx, on);
	LOG(LOG_INFO, on ? "Sampling in this interval" : "Not sampling in this interval");
}

static void *run(void *arg)
{
	struct chance *c = arg;

	pthread_setname_np(pthread_self(), "chance");
	pthread_mutex_lock(&c->lock);
	while (!c->stopping) {
		uint64_t end = clock_monotonic_ns() + c->o.interval_ns;
		struct timespec until = { .tv_sec = (time_t)(end / SECOND_NS),
					  .tv_nsec = (long)(end % SECOND_NS) };

		turn(c, draw() < c->o.threshold);
		while (!c->stopping && clock_monotonic_ns() < end)
			pthread_cond_timedwait(&c->wake, &c->lock, &until);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

struct chance *chance_new(const struct chance_options *options)
{
	struct chance *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;
	int failed;

	assert(c);
	c->o = *options;
	c->on = true;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->wake, &attr);
	pthread_condattr_destroy(&attr);
	if (options->threshold < 100) {
		failed = pthread_create(&c->thread, NULL, run, c);
		assert(!failed);
	}
	return c;
}

void chance_free(struct chance *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	if (c->o.threshold < 100)
		pthread_join(c->thread, NULL);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->wake);
	free(c);
}
