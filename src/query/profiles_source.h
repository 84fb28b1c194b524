/*
 * profiles_source.h - one sealed message as a source of samples: files, uploads, what `record`
 * took.
 *
 * Numbers are the message's indices (a sample's is its place in the flat array plus 1). Refused
 * profiles are left out. Memory: the message stays the caller's and must outlive the source.
 */
#pragma once
#include "model/profiles.h"
#include "store/source.h"

struct source *profiles_source_new(const struct profiles *p);

struct profiles_source_options {
	struct str key,
		value; /* an attribute that every resource has besides its own; the caller's */
	void (*freed)(void *ctx); /* the source is gone; may be NULL */
	void *ctx;
};
struct source *profiles_source_new_with(const struct profiles *p,
					const struct profiles_source_options *options);
