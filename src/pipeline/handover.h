/*
 * handover.h - what a component of a graph leaves to its successor, while a changed configuration
 * replaces that graph: a running sampler, so that nothing is missed meanwhile.
 *
 * The graph opens it before it stops the old components, and closes it when the new ones run; what
 * nobody took is freed then. Memory: what is left belongs to the handover until it is taken.
 * Threads: the main thread, in start() and stop().
 */
#pragma once
#include <stdbool.h>

enum { HANDOVERS_MOST = 16 };

struct handover {
	bool open;
	unsigned count;
	struct handover_item {
		const void *kind; /* whose: the component's ops */
		char id[64];
		void *what;
		void (*free_what)(void *what);
	} items[HANDOVERS_MOST];
};

/* h may be NULL: there is never a successor. */
bool handover_is_open(const struct handover *h);
/* Only while it is open. False: no room; it stays the caller's. */
bool handover_leave(struct handover *h, const void *kind, const char *id, void *what,
		    void (*free_what)(void *what));
/* What was left under that name, now the caller's; NULL: nothing. */
void *handover_take(struct handover *h, const void *kind, const char *id);
void handover_open(struct handover *h);
void handover_close(struct handover *h);
