/*
 * usage.h - which dictionary entries a run of samples needs: the first step of splitting and
 * merging.
 *
 * One array per table: after usage_mark() an entry's number is 0 when it is not needed; the needed
 * ones are numbered from 1 in their old order. Entry 0 keeps number 0 and is always there.
 */
#pragma once
#include "model/profiles.h"

/*
 * Samples and profiles to keep: a flag for each of the flat arrays' entries. The samples of a
 * profile that goes must go, too. A scope or resource stays while one of its profiles does.
 */
struct selection {
	const bool *samples, *profiles;
};

struct usage {
	const struct profiles *p;
	struct range samples;
	const struct selection *kept; /* NULL: everything in the run */
	uint32_t kept_count;          /* samples */
	uint32_t *strings, *mappings, *locations, *functions, *links, *attributes, *stacks;
	uint32_t *lines; /* here number 0 is "not needed" and 1 the first line: lines have no zero
			    entry */
	bool *resources, *scopes, *profiles;
	uint32_t string_count, mapping_count, location_count, function_count, link_count,
		attribute_count, stack_count;
	uint32_t line_count, stack_location_count;
};

/*
 * Marks what samples[first .. first+count) need, with the profiles, scopes and resources that hold
 * them. What is empty stands where the next sample would; it belongs to the run that holds that
 * sample, at the very end to the run that reaches it.
 */
void usage_mark(struct usage *u, const struct profiles *p, struct range samples);
/* The same of a selection of the whole message. */
void usage_mark_kept(struct usage *u, const struct profiles *p, const struct selection *kept);
/* Is this sample of the run one that stays? */
static inline bool usage_keeps(const struct usage *u, uint32_t sample)
{
	return !u->kept || u->kept->samples[sample];
}
void usage_release(struct usage *u);
/* The part of a profile's samples that is in the run. */
struct range usage_samples(const struct usage *u, const struct profile *p);
