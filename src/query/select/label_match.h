/*
 * label_match.h - matchers and the group-by key against the attributes of one level (a sample's
 * set, a series, a profile). Only src/query includes this.
 */
#pragma once
#include "query/engine.h"

/* What a level's attributes say; the group's text is in the query's memory. */
bool label_match_attributes(struct query *q, struct source_attributes attributes,
			    struct attribute_match *out, struct err *err) MUST_CHECK;
/* Of a series: its resource, scope and what was lifted, and the pseudo labels of its type. */
bool label_match_series(struct query *q, const struct source_series *s, struct str type_id,
			struct attribute_match *out, struct err *err) MUST_CHECK;

/* The levels of a row: its set, its series, its profile. NULL: not there, or nothing to say. */
enum { LEVEL_SET, LEVEL_SERIES, LEVEL_PROFILE, LEVELS };
struct row_levels {
	const struct attribute_match *of[LEVELS];
};
/* Does a row match? */
bool label_levels_match(const struct query *q, const struct row_levels *l, uint32_t empty_match);
/* Its group: the sample's own value, else the series', the profile's. */
struct str label_levels_group(const struct query *q, const struct row_levels *l);

/* service.name, service_name */
bool label_is_service(struct str key);
/* Matchers (bits) that an attribute of this key may decide; *group: it may be the group, too. */
uint32_t label_key_concerns(const struct query *q, struct str key, bool *group);
/* Of the matchers in `bits` alone: does a series match when nothing below it says otherwise? */
bool label_series_matches(const struct match_bits *series, uint32_t bits, uint32_t empty_match);

/* The matchers that an absent attribute satisfies. */
bool label_empty_match(const struct query *q, uint32_t *out, struct err *err) MUST_CHECK;
