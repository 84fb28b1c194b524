/*
 * survey.h - one quick walk over a body: how many of everything there is, and what tells the wire
 * versions apart.
 *
 * The counts size the model's arrays once, the marks feed detection (docs/wire-versions.md). It
 * goes no deeper than fields of Sample and steps over everything else by length. It reads what is
 * there of a body that is cut short.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

enum {
	SURVEY_TOP_FIELDS = 9,
	SURVEY_DICTIONARY_FIELDS = 8,
	SURVEY_PROFILE_FIELDS = 23,
	SURVEY_SAMPLE_FIELDS = 14
};

/* Of one field number: occurrences by wire type, and the bytes of the LEN ones. */
struct field_tally {
	uint32_t len_count, varint_count, i64_count;
	size_t len_bytes;
};

struct survey {
	struct field_tally top[SURVEY_TOP_FIELDS];               /* [0]: fields past the last */
	struct field_tally dictionary[SURVEY_DICTIONARY_FIELDS]; /* of top-level field 2, taken as a
								    ProfilesDictionary */
	struct field_tally profile[SURVEY_PROFILE_FIELDS];
	struct field_tally
		inner_profile[SURVEY_PROFILE_FIELDS]; /* v1.3: Profile inside ProfileContainer */
	struct field_tally sample[SURVEY_SAMPLE_FIELDS];
	uint32_t resource_profiles, scope_profiles, profiles;

	/* Marks. */
	uint32_t attribute_key_text;  /* dictionary field 6 entries whose field 1 is LEN: KeyValue,
					 v1.7 */
	uint32_t attribute_key_index; /* ... is VARINT: KeyValueAndUnit, v1.8+ */
	uint32_t repeated_sample_types; /* Profiles with field 1 more than once: up to v1.7 */
	uint32_t profile_7_len_0_or_16, profile_7_len_other, profile_8_len_0_or_16,
		profile_8_len_other;
	uint64_t profile_7_most, profile_11_most; /* of it as a list of indices; UINT64_MAX: it is
						     none */
	uint32_t profile_4_packed_like;   /* unused when 0: Profile field 4 as LEN (v1.4, v1.5: a
					     location_table entry) */
	uint32_t samples_3_unpacked_list; /* Sample field 3 as VARINT several times in one Sample */
	uint32_t samples_4_unpacked_list; /* the same of field 4 */
	uint32_t samples_2_and_5_differ; /* Sample fields 2 and 5 both there, with different numbers
					    of entries */
	uint32_t samples_2_without_5;    /* ... field 2 there, 3, 4, 5 not */
	uint32_t temporality;            /* ValueType field 3 in Profile field 1 or 5 */
	uint32_t samples_limit;
	uint32_t samples_looked_into; /* the others were counted only */
	bool container;               /* Profile elements are v1.3 ProfileContainers */
	bool broken;                  /* the walk met bytes that are no protobuf */
	bool hopeless;                /* ... before it met any field */
};

/* So many are looked into at first: nearly always enough to tell the version. */
enum { SURVEY_SAMPLES_FEW = 16, SURVEY_ATTRIBUTES_FEW = 16 };

/* `experimental`: the caller knows that it is v1.3. */
void survey_take(struct survey *s, struct str body, bool experimental, uint32_t samples_limit);

/* Calls `visit` with each Sample's content (of a body without containers) until it returns false.
 */
void survey_each_sample(struct str body, bool (*visit)(void *arg, struct str sample), void *arg);
/* Calls `visit` with the content of each Resource's and InstrumentationScope's KeyValue until it
 * returns false. */
void survey_each_attribute(struct str body, bool (*visit)(void *arg, struct str key_value),
			   void *arg);
/* ... of each entry of the dictionary's attribute_table. */
void survey_each_table_attribute(struct str body, bool (*visit)(void *arg, struct str entry),
				 void *arg);
