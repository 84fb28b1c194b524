/*
 * changed.h - what a processor that changed its own batch does at the end: the dictionary loses
 * what is not used any more, the growth is charged, and the batch goes on or is answered.
 */
#pragma once
#include "model/edit.h"
#include "pipeline/component.h"

/* Takes over the batch. `ok` false: it could not be changed, `err` says why. */
void changed_hand_on(const struct component_host *host, struct batch *batch,
		     const struct edit *edit, bool ok, struct err *err, struct completion *done);
