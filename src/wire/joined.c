#include "wire/joined.h"

#include <stdbool.h>

#include "wire/pb_reader.h"

enum {
	BODY_RESOURCE_PROFILES = 1,
	BODY_DICTIONARY = 2,
	BODY_STRING_TABLE = 6, /* v1.6 */
	DICTIONARY_STRING_TABLE = 5,
};

struct walk {
	const char *start;
	bool profiles_seen, dictionary_seen, dictionary_first;
	size_t next_profiles; /* the first resource_profiles behind the dictionary, or 0 */
};

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

static void meet_profiles(struct walk *w, size_t at)
{
	w->profiles_seen = true;
	if (w->dictionary_seen && !w->dictionary_first && !w->next_profiles)
		w->next_profiles = at;
}

/* Where the next body begins if this dictionary is not the first, else 0. */
static size_t meet_dictionary(struct walk *w, size_t at)
{
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
		meet_profiles(w, at);
		break;
	case PB_TAG(BODY_DICTIONARY, PB_LEN):
		nested = pb_message(r);
		return begins_string_table(nested, r->fault) ? meet_dictionary(w, at) : 0;
	case PB_TAG(BODY_STRING_TABLE, PB_LEN):
		return pb_bytes(r).len == 0 && !r->fault ? meet_string(w) : 0;
	}
	pb_skip(r, tag);
	return 0;
}

size_t otlp_first_body(struct str bytes)
{
	struct walk w = { .start = bytes.ptr };
	struct pb_reader r = pb_reader_of(bytes);

	while (pb_more(&r)) {
		size_t next = meet_field(&w, &r);

		if (next)
			return next;
	}
	/* A last body that is cut short has lost its dictionary, and must not read the one before
	 * it. */
	return r.fault && w.next_profiles ? w.next_profiles : bytes.len;
}
