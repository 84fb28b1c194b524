/*
 * otlp_leftovers.h - what is still to be sent of requests that were split and failed half-way.
 *
 * A peer that took the first parts of a request and then went away gets only the rest when the
 * request comes again. The request is known by its hash, so it does not matter who brings it: the
 * retry, the spool after a restart of the queue, or the sender itself. Bounded: the oldest entry
 * makes room (that request would be sent whole again). Threads: any.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include "base/err.h"
#include "base/hash.h"
#include "model/profiles.h"

enum {
	LEFTOVER_PARTS_MOST = 40
}; /* halving 2^32 samples leaves one open part on each of 32 levels */

struct leftover {
	bool split;                              /* false: nothing was sent yet, the whole is due */
	struct range parts[LEFTOVER_PARTS_MOST]; /* of samples; the next one last */
	uint32_t part_count;
	bool any_accepted;
	uint64_t rejected_profiles, lost_samples, lost_parts;
	char warning[240];
	struct err first_loss;
};

struct leftovers {
	pthread_mutex_t lock;                /* guards the list */
	struct leftover_entry *first, *last; /* oldest first */
	uint32_t count;
};

void leftovers_init(struct leftovers *l);
void leftovers_release(struct leftovers *l);
void leftovers_put(struct leftovers *l, struct hash128 request, const struct leftover *left);
/* Takes it out; false when there is none, *out is then untouched. */
bool leftovers_take(struct leftovers *l, struct hash128 request, struct leftover *out);
