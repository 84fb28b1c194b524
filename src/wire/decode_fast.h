/*
 * decode_fast.h - runs of usual entries, quickly. Private to src/wire.
 *
 * Each function is called with the reader in front of a tag, decodes the usual entries of its kind
 * that follow one another there (v1.8 and later) and stops in front of the first tag that is
 * something else or something unusual: the caller's general decoder goes on from there. None of
 * them fails.
 */
#pragma once
#include "wire/decode.h"

void fast_strings(struct decoder *d, struct pb_reader *r);
void fast_stacks(struct decoder *d, struct pb_reader *r);
void fast_functions(struct decoder *d, struct pb_reader *r);
void fast_locations(struct decoder *d, struct pb_reader *r);
void fast_samples(struct decoder *d, struct pb_reader *r);
