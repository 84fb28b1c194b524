/*
 * pprof_drop.h - the frames that a pprof's own drop_frames and keep_frames take off its stacks.
 *
 * As `go tool pprof` does on reading (github.com/google/pprof, profile/prune.go): a frame whose
 * whole name matches drop_frames and not keep_frames goes, and with it all that it called, unless
 * nothing but such frames stands between it and the root. Names are looked at without a leading
 * point and without parameters. Threads: one.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"

struct regex;

struct pprof_drop { /* zeroed: nothing is dropped */
	struct regex *drop, *keep;
};

/* Without `drop` the other one says nothing. */
bool pprof_drop_init(struct pprof_drop *d, struct str drop, struct str keep,
		     struct err *err) MUST_CHECK;
void pprof_drop_release(struct pprof_drop *d);
bool pprof_drop_matches(const struct pprof_drop *d, struct str function, bool *matches,
			struct err *err) MUST_CHECK;

/* What a location is to a stack. */
enum pprof_frame {
	PPROF_KEPT,
	PPROF_DROPPED,      /* with what it called */
	PPROF_DROPS_CALLED, /* stays, as what called the function that is inlined into it and goes
			     */
};

/* How many frames go from the leaf of a stack; leaf first. */
uint32_t pprof_drop_count(const enum pprof_frame *stack, uint32_t count);
