/*
 * losses.h - what of a message has no place in the version that it is written in.
 *
 * Values and times of samples always have one. Threads: any; the message is sealed.
 */
#pragma once
#include "wire/otlp.h"

enum otlp_loss {
	LOSS_UNKNOWN_FIELDS, /* fields: another version may use their numbers for something else,
				and from inside attribute values they are not written back */
	LOSS_OLD_FIELDS,     /* fields of older versions: comments, labels, ids of entries, ... */
	LOSS_UNITS,          /* attributes: up to v1.7 all of one key have one unit; and units that
				no attribute has */
	LOSS_EVENT_VALUES,   /* samples: up to v1.7 they have one sum, whatever their timestamps */
	LOSS_CLAMPED_SUMS,   /* samples whose sum passes 64 bits */
	LOSS_BAD_TEXT,       /* texts that are no UTF-8: bad bytes become U+FFFD */
	OTLP_LOSSES,
};

struct otlp_losses {
	uint64_t count[OTLP_LOSSES];
};

const char *otlp_loss_name(enum otlp_loss l); /* "unknown_fields": the reason in counters */
/* False when there are none. `json`: OTLP/JSON, which is of the newest version. */
bool otlp_losses(const struct profiles *p, enum wire_version version, bool json,
		 struct otlp_losses *out);
/* "3 unknown fields, the unit of 1 attribute": for people. */
void otlp_losses_append_text(struct buf *b, const struct otlp_losses *l);
