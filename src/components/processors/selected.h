/* selected.h - what a processor that drops samples does at the end of a message. */
#pragma once
#include "model/subset.h"
#include "pipeline/component.h"

/* Flags of a message's samples and profiles, all true: they stay. */
struct selected {
	bool *samples, *profiles;
};
struct selected selected_new(const struct profiles *p);
void selected_release(struct selected *s);
/*
 * Takes over the batch, hands on what stays of it with a minimal dictionary, and answers OK where
 * nothing does. False: it could not be made, and the sender was asked to try again.
 */
bool selected_hand_on(const struct component_host *host, struct batch *batch,
		      const struct selected *s, struct completion *done);
