#include "wire/joined.h"

#include <stdbool.h>

#include "wire/pb_reader.h"

enum {
	BODY_RESOURCE_PROFILES = 1,
	BODY_DICTIONARY = 2,
	BODY_STRING_TABLE = 6, /* v1.6 */
	DICTIONARY_STRING_TABLE = 5,
};

/* The wire versions that an element can be of. */
enum {
	FITS_V1_3 = 1,
	FITS_V1_4 = 2,
	FITS_V1_5 = 4,
	FITS_OWN_TABLES = FITS_V1_4 | FITS_V1_5,
	FITS_OLD_SHARED = 8, /* v1.6, v1.7 */
	FITS_V1_8 = 16,      /* v1.8, v1.9 */
	FITS_V1_10 = 32,
	FITS_NEW = FITS_V1_8 | FITS_V1_10,
	FITS_ALL = 63,
};

enum { SAMPLES_LOOKED_INTO = 16 };

struct walk {
	const char *start;
	bool profiles_seen, dictionary_seen, dictionary_first;
	size_t next_profiles; /* the first resource_profiles behind the dictionary, or 0 */
	unsigned fits;        /* what all elements so far can be of */
	size_t unsure; /* the first of the resource_profiles just before that fit anything, or 0 */
};

/* What a Profile's fields say; only marks that no other version can have. */
struct profile_marks {
	bool samples, location, runs, time, nested, first_string, old_time, old_duration;
};

/* Sample fields 3 and 4 from v1.8 on: the one that is a list is the attributes of v1.8, the values
 * of v1.10; the other a link. */
static unsigned new_sample_fits(struct pb_reader r)
{
	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		if (tag == PB_TAG(3, PB_LEN))
			return FITS_V1_8;
		if (tag == PB_TAG(4, PB_LEN))
			return FITS_V1_10;
		pb_skip(&r, tag);
	}
	return FITS_NEW;
}

static unsigned weigh(const struct profile_marks *m, unsigned own_tables, unsigned newer)
{
	if (m->samples && (m->location || m->first_string))
		return own_tables;
	if (m->old_time && (m->runs || m->old_duration))
		return FITS_OLD_SHARED;
	/* Without samples it may be v1.3's end time beside its nested profile. */
	if (m->time && (m->samples || !m->nested))
		return newer;
	return FITS_ALL;
}

static unsigned profile_fits(struct pb_reader r)
{
	struct profile_marks m = { 0 };
	unsigned own_tables = FITS_OWN_TABLES, newer = FITS_NEW, looked = 0;

	while (pb_more(&r)) {
		uint32_t tag = pb_tag(&r);

		switch (tag) {
		case PB_TAG(2, PB_I64): /* ProfileContainer.start_time_unix_nano */
			return FITS_V1_3;
		case PB_TAG(2, PB_LEN):
			m.samples = true;
			if (newer != FITS_NEW || looked++ >= SAMPLES_LOOKED_INTO)
				break;
			newer = new_sample_fits(pb_message(&r));
			continue;
		case PB_TAG(3, PB_I64): /* v1.8: time_unix_nano */
			if (m.samples)
				return newer;
			m.time = true;
			break;
		case PB_TAG(3, PB_LEN): /* v1.6: location_indices */
			m.runs = true;
			break;
		case PB_TAG(4, PB_LEN): /* v1.4: location_table */
			m.location = true;
			break;
		case PB_TAG(4, PB_VARINT): /* v1.6: time_nanos; v1.8: duration_nano */
			m.old_time = true;
			break;
		case PB_TAG(5, PB_VARINT): /* v1.6: duration_nanos */
			m.old_duration = true;
			break;
		case PB_TAG(8, PB_LEN): /* v1.3: the Profile; v1.8: profile_id */
			m.nested = true;
			break;
		case PB_TAG(10, PB_LEN): /* v1.4: string_table, whose first is "" */
			m.first_string |= pb_bytes(&r).len == 0 && !r.fault;
			continue;
		case PB_TAG(18, PB_LEN): /* v1.4: attributes */
			own_tables = FITS_V1_4;
			break;
		case PB_TAG(22, PB_LEN): /* v1.5: attribute_indices */
		case PB_TAG(22, PB_VARINT):
			own_tables = FITS_V1_5;
			break;
		}
		pb_skip(&r, tag);
	}
	return weigh(&m, own_tables, newer);
}

/* A fit that more profiles cannot narrow. */
static bool settled(unsigned fits)
{
	return fits != FITS_ALL && fits != FITS_OWN_TABLES && fits != FITS_NEW;
}

/* `level` messages above the Profiles: 1 for ResourceProfiles, which are field 2 all the way. */
static unsigned profiles_fit(struct pb_reader r, unsigned level)
{
	unsigned fits = FITS_ALL;

	while (pb_more(&r) && !settled(fits)) {
		uint32_t tag = pb_tag(&r);
		struct pb_reader nested;
		unsigned one;

		if (tag != PB_TAG(2, PB_LEN)) {
			pb_skip(&r, tag);
			continue;
		}
		nested = pb_message(&r);
		one = level ? profiles_fit(nested, level - 1) : profile_fits(nested);
		if (fits & one)
			fits &= one;
	}
	return fits;
}

/* The first string of a table is always "". A dictionary that is cut before its strings is taken
 * for a whole one's head. */
static bool begins_string_table(struct pb_reader dictionary, bool cut)
{
	while (pb_more(&dictionary)) {
		uint32_t tag = pb_tag(&dictionary);

		if (tag == PB_TAG(DICTIONARY_STRING_TABLE, PB_LEN))
			return pb_bytes(&dictionary).len == 0 && !dictionary.fault;
		pb_skip(&dictionary, tag);
	}
	return cut;
}

/* Where the next body begins if these are of another version than what came before, else 0. */
static size_t meet_profiles(struct walk *w, struct pb_reader profiles, size_t at)
{
	unsigned fits = profiles_fit(profiles, 1);

	if (!(w->fits & fits))
		return w->unsure ? w->unsure : at;
	if (fits != FITS_ALL)
		w->unsure = 0;
	else if (w->fits != FITS_ALL && !w->unsure)
		w->unsure = at;
	w->fits &= fits;
	w->profiles_seen = true;
	if (w->dictionary_seen && !w->dictionary_first && !w->next_profiles)
		w->next_profiles = at;
	return 0;
}

/* Where the next body begins if this dictionary is not the first, else 0. */
static size_t meet_dictionary(struct walk *w, size_t at)
{
	/* Up to v1.5 there is none. */
	if (!(w->fits & (FITS_OLD_SHARED | FITS_NEW)))
		return w->unsure ? w->unsure : at;
	if (w->dictionary_seen)
		return w->next_profiles ? w->next_profiles : at;
	w->dictionary_seen = true;
	w->dictionary_first = !w->profiles_seen;
	return 0;
}

/* v1.6: a string of the one table there; "" may stand in it once more without a new body. */
static size_t meet_string(struct walk *w)
{
	if (w->dictionary_seen)
		return w->next_profiles;
	w->dictionary_seen = true;
	return 0;
}

static size_t meet_field(struct walk *w, struct pb_reader *r)
{
	size_t at = (size_t)((const char *)r->p - w->start);
	uint32_t tag = pb_tag(r);
	struct pb_reader nested;

	switch (tag) {
	case PB_TAG(BODY_RESOURCE_PROFILES, PB_LEN):
		nested = pb_message(r);
		return meet_profiles(w, nested, at);
	case PB_TAG(BODY_DICTIONARY, PB_LEN):
		nested = pb_message(r);
		return begins_string_table(nested, r->fault) ? meet_dictionary(w, at) : 0;
	case PB_TAG(BODY_STRING_TABLE, PB_LEN):
		return pb_bytes(r).len == 0 && !r->fault ? meet_string(w) : 0;
	}
	pb_skip(r, tag);
	return 0;
}

/* What can stand behind the brace of an object. */
static bool follows_brace(char c)
{
	return c == '"' || c == '}' || c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* gzip, zstd or a JSON object where a field should begin: no version has such a field. */
static bool begins_other_kind(const struct pb_reader *r)
{
	struct str s = str_from(r->p, pb_left(r));

	if (str_has_prefix(s, STR("\x1f\x8b\x08")) || str_has_prefix(s, STR("\x28\xb5\x2f\xfd")))
		return true;
	return s.len >= 2 && s.ptr[0] == '{' && follows_brace(s.ptr[1]);
}

size_t otlp_first_body(struct str bytes)
{
	struct walk w = { .start = bytes.ptr, .fits = FITS_ALL };
	struct pb_reader r = pb_reader_of(bytes);

	while (pb_more(&r)) {
		size_t at = (size_t)((const char *)r.p - bytes.ptr), next;

		if (at && begins_other_kind(&r))
			return at;
		next = meet_field(&w, &r);
		if (next)
			return next;
	}
	/* A last body that is cut short has lost its dictionary, and must not read the one before
	 * it. */
	return r.fault && w.next_profiles ? w.next_profiles : bytes.len;
}
