#include "pipeline/failing.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { STORES_MOST = 16, PATH_MOST = 512 }; /* of further ones nothing is known */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char path[PATH_MOST]; /* empty: free */
	struct store_failing is;
} stores[STORES_MOST]; /* lock; those that fail */

/* Under the lock: where the store is, where `wanted` a free place; else STORES_MOST. */
static unsigned place_of(const char *path, bool wanted)
{
	unsigned free_one = STORES_MOST;

	for (unsigned i = 0; i < STORES_MOST; i++) {
		if (strcmp(stores[i].path, path) == 0)
			return i;
		if (!stores[i].path[0] && free_one == STORES_MOST)
			free_one = i;
	}
	return wanted ? free_one : STORES_MOST;
}

void store_failing_note(const char *path, uint32_t requests, const struct err *failure)
{
	unsigned at;

	if (strlen(path) >= PATH_MOST)
		return;
	pthread_mutex_lock(&lock);
	at = place_of(path, failure != NULL);
	if (at < STORES_MOST && !failure) {
		stores[at].path[0] = '\0';
	} else if (at < STORES_MOST) {
		if (!stores[at].path[0]) {
			snprintf(stores[at].path, PATH_MOST, "%s", path);
			stores[at].is =
				(struct store_failing){ .since_unix_ns = clock_realtime_ns() };
		}
		stores[at].is.refused += requests;
		snprintf(stores[at].is.error, sizeof(stores[at].is.error), "%s", failure->msg);
	}
	pthread_mutex_unlock(&lock);
}

bool store_failing_now(const char *path, struct store_failing *out)
{
	unsigned at;

	pthread_mutex_lock(&lock);
	at = place_of(path, false);
	if (at < STORES_MOST)
		*out = stores[at].is;
	pthread_mutex_unlock(&lock);
	return at < STORES_MOST;
}
