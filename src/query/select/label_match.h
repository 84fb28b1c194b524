/*
 * label_match.h - matchers and the group-by key against the attributes of one level (a sample's
 * set, a series, a profile). Only src/query includes this.
 */
#pragma once
#include "query/engine.h"

struct label_matching {
	struct query *q;
	struct match_bits bits;
	uint32_t exact; /* matchers whose key was met byte for byte: punctuation twins do not count
			   then */
	uint32_t of_list; /* matchers met so in the list at hand: a key may stand in it twice */
	struct str group;
	bool has_group, group_exact, group_weak;
	struct buf scratch, group_text;
};

void label_matching_init(struct label_matching *m, struct query *q);
bool label_match_one(struct label_matching *m, struct str key, struct str value,
		     struct err *err) MUST_CHECK;
bool label_match_attributes(struct label_matching *m, struct source_attributes attributes,
			    struct err *err) MUST_CHECK;
/* Its resource, scope and what was lifted, and the pseudo labels of the profile type. */
bool label_match_series(struct label_matching *m, const struct source_series *s, struct str type_id,
			struct err *err) MUST_CHECK;
/* Hands out the result (the group's text in the query's memory) and frees. */
bool label_matching_end(struct label_matching *m, struct match_bits *bits, struct str *group,
			bool *has_group, bool *group_weak, struct err *err) MUST_CHECK;

/* service.name, service_name */
bool label_is_service(struct str key);
/* Matchers (bits) that an attribute of this key may decide; *group: it may be the group, too. */
uint32_t label_key_concerns(const struct query *q, struct str key, bool *group);
/* Of the matchers in `bits` alone: does a series match when nothing below it says otherwise? */
bool label_series_matches(const struct match_bits *series, uint32_t bits, uint32_t empty_match);

/* Does a row match, given what each level says? NULL: the level is not there. */
bool label_bits_match(const struct query *q, const struct match_bits *sample,
		      const struct match_bits *series, const struct match_bits *profile,
		      uint32_t empty_match);
/* The matchers that an absent attribute satisfies. */
bool label_empty_match(const struct query *q, uint32_t *out, struct err *err) MUST_CHECK;
