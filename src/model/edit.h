/*
 * edit.h - changes a sealed message in place: attribute lists of resources, scopes, profiles and
 * samples, and strings of the dictionary.
 *
 * A list is taken out with edit_load(), changed as an array, and put back with edit_store(). The
 * attributes of profiles and samples are dictionary entries: those that are unchanged keep theirs,
 * new ones are interned, and the ones that nothing uses any more stay in the table until
 * profiles_select() (`dictionary_changed` says that there may be some). All values are copied into
 * the message's arena. Threads: one; the message is the caller's own.
 */
#pragma once
#include "model/profiles.h"

struct edit;

struct edit *edit_new(struct profiles *p);
void edit_free(struct edit *e); /* NULL is fine */

struct edit_attribute {
	struct str key;
	struct any_value value;
	struct strindex unit;
	struct strindex key_strindex; /* resources, scopes: as the sender wrote it */
	uint32_t entry; /* profiles, samples: the dictionary's; EDIT_NEW: to be interned */
};
#define EDIT_NEW UINT32_MAX

struct edit_list {
	enum message_kind owner; /* RESOURCE, SCOPE, PROFILE, SAMPLE */
	uint32_t index;
	struct edit_attribute *items;
	uint32_t count, cap;
};

/* Replaces what `l` held; its storage is used again. */
void edit_load(const struct profiles *p, enum message_kind owner, uint32_t index,
	       struct edit_list *l);
void edit_list_release(struct edit_list *l);
struct edit_attribute *edit_find(const struct edit_list *l, struct str key); /* NULL: not there */
/* Sets or adds; the value is borrowed until edit_store(). */
void edit_set(struct edit_list *l, struct str key, const struct any_value *v);
void edit_remove(struct edit_list *l, uint32_t at); /* the others keep their order */
/* False (ERR_LIMIT) when the message may not grow so far: its list is as it was. */
bool edit_store(struct edit *e, const struct edit_list *l, struct err *err) MUST_CHECK;

/* The index of a string, added where it is not there. */
bool edit_string(struct edit *e, struct str s, struct strindex *out, struct err *err) MUST_CHECK;
/* Copies into the message's arena; false (ERR_LIMIT) without room. */
bool edit_text(struct edit *e, struct str s, struct str *out, struct err *err) MUST_CHECK;
bool edit_dictionary_changed(const struct edit *e);
