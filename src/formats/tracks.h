/*
 * tracks.h - samples as viewers of time want them: a track for each profile type of each thread,
 * its events in the order of time. Only src/formats includes this.
 */
#pragma once
#include "model/intern.h"
#include "model/profiles.h"

struct event {
	uint64_t time;
	int64_t value;
	uint32_t sample, track;
};

struct track {            /* a profile type of a thread */
	uint32_t profile; /* of the message: type, unit, period */
	struct str process, thread;
	int64_t pid, tid;
	bool timed; /* every event has a time, and lasts a period */
};

struct tracks {
	const struct profiles *p;
	struct event *events; /* by track, then time */
	uint32_t event_count, event_cap;
	struct track *ptr;
	uint32_t count, cap;
	struct intern_table table;
};

void tracks_gather(struct tracks *t, const struct profiles *p);
void tracks_release(struct tracks *t);
/* Samples that count periods of a time. */
bool tracks_counts_time(const struct profiles *p, const struct profile *profile);
