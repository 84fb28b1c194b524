/*
 * labels.h - the labels that a program gave the thread or goroutine of a sample: from the record
 * that BPF sent to text that can be compared, and from that text to pairs.
 *
 *   text: { u16 bytes of key, u16 bytes of value (both little-endian), key, value } per label,
 *         sorted by key: equal sets are equal texts, in whatever order a map had them
 *
 * Memory: a text borrows from its struct labels until the next labels_take(). Threads: one at a
 * time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"
#include "bpf/records.h"

/* What became of labels that are not there as they were. */
enum label_loss {
	LABEL_LOST_MANY,       /* past the limits on number and size of a set */
	LABEL_LOST_CUT,        /* sent, but its key or value was longer */
	LABEL_LOST_UNREADABLE, /* memory was not present; of a whole set: counts one */
	LABEL_LOST_RING, /* no room in the ring, or its sample came too late: one for the set */
	LABEL_LOSSES
};

struct labels {
	uint8_t text[LABELS_ROOM];
	uint64_t lost[LABEL_LOSSES];
};

/* The text of a RECORD_LABELS; false: the record is senseless. */
bool labels_take(struct labels *l, struct str record, struct str *text);
/* Takes the next pair off a text; false: there is none. */
bool labels_next(struct str *text, struct str *key, struct str *value);
