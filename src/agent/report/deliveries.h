/*
 * deliveries.h - reports on their way through the pipeline: offered again while it says "not now".
 *
 * Bounded in number: past it the oldest that waits is given up and counted. Threads: any; the
 * completions come on the pipeline's.
 */
#pragma once
#include "pipeline/component.h"
#include "pipeline/telemetry.h"

enum { DELIVERIES_MOST = 16 };

struct deliveries;

/* `lost` counts events that are given up. */
struct deliveries *deliveries_new(struct consumer *next, struct metrics *metrics, const char *id,
				  struct metric *lost);
/* Takes over the batch, in which so many events are. */
void deliveries_offer(struct deliveries *d, struct batch *batch, uint64_t events);
/* Offers again what is due; the monotonic time when something is next, UINT64_MAX for nothing. */
uint64_t deliveries_run(struct deliveries *d, uint64_t now_ns);
/* Events given up since the last call; a log line says how many, of how many reports, and why. */
uint64_t deliveries_take_lost(struct deliveries *d);
/* Offers what waits a last time, and waits until all is answered or the deadline has passed; what
 * then waits is given up. The log says what was lost, and what nobody has answered for. */
void deliveries_finish(struct deliveries *d, uint64_t deadline_ns);
/* When answers are still due the last of them frees it. NULL is fine. */
void deliveries_free(struct deliveries *d);
