/*
 * rebuild.h - dictionary rows of a store back into entries of a message, for whole requests: the
 * same for both stores, which give each row as a struct rebuild_entry.
 *
 * A row becomes an entry when the first that names it does, and is remembered by its id. After a
 * failure (r->failed, with its reason in r->err) all calls give zeros.
 * Memory: an arena until rebuild_end(). Threads: one.
 */
#pragma once
#include "model/builder.h"
#include "store/idmap.h"
#include "store/schema/codec.h"
#include "store/schema/ident.h"

struct rebuild_attribute {
	struct str key, unit, notes;
	struct any_value value;
	bool key_by_reference;
};

/*
 * What a row says, 0 and "" where it says less:
 *
 *            texts                            numbers                      refs
 *   function name, system name, file          start line
 *   mapping  file                             start, limit, offset         attrset
 *   location                                  address, (line, column)...   mapping, attrset,
 *                                                                          function...
 *   stack                                                                  location...
 *   link     trace id, span id
 *   resource schema URL                       dropped                      attrset
 *   scope    name, version, schema URL        dropped                      attrset
 *   series   type, unit, period type, unit    period
 *   attrset  (attributes)
 */
struct rebuild_entry {
	struct str texts[4], notes;
	const int64_t *numbers;
	const uint64_t *refs;
	uint32_t number_count, ref_count;
	const struct rebuild_attribute *attributes;
	uint32_t attribute_count;
};

struct rebuild;
/* Fills in the entry, which starts as zeros; what it points to lasts until rebuild_end(). */
typedef bool rebuild_entry_fn(struct rebuild *r, enum store_kind kind, uint64_t id,
			      struct rebuild_entry *out, struct err *err);

struct rebuild {
	rebuild_entry_fn *entry;
	struct builder *b;
	struct arena scratch;
	struct idmap maps[KIND_COUNT];
	struct err *err;
	bool failed;
};

void rebuild_begin(struct rebuild *r, rebuild_entry_fn *entry, struct err *err);
/* NULL after a failure. Releases all that the rebuild has. */
struct profiles *rebuild_end(struct rebuild *r);
void rebuild_fail_when(struct rebuild *r, bool wrong, const char *what, uint64_t id);

/* A request's layout: resources; each: its row, its scopes; each of these: its row, its profiles
 * (docs/store.md). put_profile is called for each profile, in order. */
void rebuild_layout(struct rebuild *r, const uint64_t *layout, size_t count, uint64_t request,
		    void (*put_profile)(struct rebuild *r));

struct rebuild_sample {
	bool there;
	uint64_t stack, attributes, link;
	const int64_t *values;
	const uint64_t *times;
	uint32_t value_count, time_count;
};
void rebuild_sample(struct rebuild *r, const struct rebuild_sample *x, struct str notes);

/* Of the profile that was begun last: its types and its attributes. */
void rebuild_types(struct rebuild *r, uint64_t series, struct profile *to);
void rebuild_profile_attributes(struct rebuild *r, uint64_t attrset);
/* What the newest shape of such a message has no place for. */
void rebuild_notes(struct rebuild *r, struct str notes, enum message_kind message, uint32_t index);
struct str rebuild_copy(struct rebuild *r, struct str s);  /* until rebuild_end() */
struct str rebuild_owned(struct rebuild *r, struct str s); /* the message's */
