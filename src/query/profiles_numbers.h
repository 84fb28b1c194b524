/*
 * profiles_numbers.h - the numbers that a message gets as a source: of its series, attribute sets
 * and owners. Only profiles_source.c uses this.
 */
#pragma once
#include <assert.h>
#include "query/profiles_source.h"

struct memory_series {
	uint32_t scope;      /* of p->scopes */
	uint32_t profile;    /* the first of its type there */
	struct range lifted; /* of profiles_source.lifted */
	uint64_t process;
};

struct profiles_source {
	struct source base;
	const struct profiles *p;
	struct profiles_source_options options;
	struct any_value extra;       /* of options.key */
	struct memory_series *series; /* id - 1 */
	uint32_t series_count;
	struct attribute_index *lifted; /* of the series, one after another */
	uint32_t lifted_count, lifted_cap;
	uint32_t *series_of_sample;      /* id; 0 = refused */
	struct range *series_of_profile; /* of profile_series; empty = refused */
	uint32_t *profile_series;        /* ids: of a profile each once */
	uint32_t profile_series_count, profile_series_cap;
	uint32_t *resource_of_scope;
	uint64_t *owner_of_scope; /* by content: several files may tell of one program */
	struct range *sets;       /* of attribute_refs; id - 1 */
	uint32_t set_count;
	uint32_t *set_of_sample;
	struct source_attribute *scratch;
	uint32_t scratch_count;
	struct source_range extent;
};

static inline void *must(void *p)
{
	assert(p);
	return p;
}

/* Of m->p. */
void profiles_number(struct profiles_source *m);
