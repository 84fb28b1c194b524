/*
 * decode_usual.h - runs of entries of the very shapes that nearly all senders write. Private to
 * decode_fast.c.
 *
 * Each function is handed the state of a run, decodes straight on as long as every entry has one of
 * its few shapes, and leaves the first other one, untouched, to the looser loops of decode_fast.c.
 * None of them fails.
 */
#pragma once
#include "wire/decode.h"

enum {
	LOAD_BYTES = 8,
	USUAL_SLACK = 24, /* loads and stores may reach so far past what they count */
};

struct sample_tags {
	uint8_t attributes, link; /* which changed places with values in v1.10 */
};

/* Where the run stands: what is read, and the next free entries of the arrays that it fills. */
struct sample_run {
	const uint8_t *p, *end, *readable_end;
	struct sample *out, *last;
	struct attribute_index *refs;
	uint64_t *times;
	uint32_t ref_count, ref_cap, time_count, time_cap;
	struct range no_values;
	struct sample_tags tags;
};

struct location_run {
	const uint8_t *p, *end, *readable_end;
	struct location *out, *last;
	struct attribute_index *refs;
	struct line *lines;
	uint32_t ref_count, ref_cap, line_count, line_cap;
};

void usual_samples(struct sample_run *run);
void usual_locations(struct location_run *run);
