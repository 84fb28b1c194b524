/*
 * subset.h - a message cut into smaller ones with minimal dictionaries, or several merged into one.
 *
 * Splitting cuts between samples, inside profiles where needed; each part's dictionary holds only
 * what its samples use. Extras and everything else of a message travel with it.
 */
#pragma once
#include "model/profiles.h"
#include "model/usage.h"

/* Picks samples[first .. first+count) of the flat array, with the profiles, scopes and resources
 * that hold them. What is empty goes with the part that has the sample after it (at the very end:
 * with the part that reaches it); what belongs to the whole request, with the part from sample 0.
 */
struct profiles *profiles_subset(const struct profiles *p, uint32_t first_sample, uint32_t count,
				 struct err *err) MUST_CHECK;
/* What a selection keeps, with a minimal dictionary. */
struct profiles *profiles_select(const struct profiles *p, const struct selection *keep,
				 struct err *err) MUST_CHECK;
/* All messages' resources one after another, with one dictionary. */
struct profiles *profiles_merge(const struct profiles *const *parts, uint32_t count,
				struct err *err) MUST_CHECK;
