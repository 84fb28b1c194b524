/*
 * ident.h - who is who: the content hash of each dictionary entry of a message.
 *
 * A hash covers all that an entry says, through every index down to the text, notes included, so
 * that equal entries have equal hashes whatever message, order or sender they came from. XXH3-128
 * of
 *
 *   string      the bytes
 *   attribute   key, unit, any (codec.h), notes          list        attribute...
 *   function    name, system name, filename, start line, notes
 *   mapping     start, limit, offset, filename, list, notes
 *   location    mapping, address, list, (function, line, column)..., notes
 *   stack       location..., notes                       link        trace id, span id, notes
 *
 * with each reference as the other's hash and each kind's number in front. The hash of an entry
 * that says nothing is none. The numbers are in files: append, never renumber.
 *
 * Computed on first use and remembered. Memory: the arena given to ident_begin(). Threads: one.
 */
#pragma once
#include "base/buf.h"
#include "base/hash.h"
#include "model/profiles.h"

enum store_kind {
	KIND_STRING = 1,
	KIND_ATTRIBUTE,
	KIND_ATTRSET,
	KIND_FUNCTION,
	KIND_MAPPING,
	KIND_LOCATION,
	KIND_STACK,
	KIND_LINK,
	KIND_RESOURCE,
	KIND_SCOPE,
	KIND_SERIES,
	KIND_COUNT,
};

/* What is known of an entry: its hash, and for the writer its row. */
struct memo {
	struct hash128 hash;
	uint32_t id;
	bool hashed;
};

/* The list of one attribute, as most locations have the same few. */
struct single {
	struct hash128 hash;
	uint32_t attribute;
	bool hashed;
};
enum { IDENT_SINGLES = 16 };

struct ident {
	const struct profiles *p;
	struct memo *strings, *attributes, *functions, *mappings, *locations, *stacks, *links;
	struct single singles[IDENT_SINGLES]; /* by attribute; a newer one takes the place */
	struct buf bytes;                     /* scratch */
	bool noted[MESSAGE_STACK + 1];        /* some message of that kind has notes */
};

static const struct hash128 HASH_NONE = { 0, 0 };
static inline bool hash_is_none(struct hash128 h)
{
	return !(h.lo | h.hi);
}

void ident_begin(struct ident *n, const struct profiles *p, struct arena *arena);
void ident_release(struct ident *n); /* the scratch; the memos are the arena's */

/* All of a message's code at once, table by table: faster than in the order of the stacks. */
void ident_code(struct ident *n);

struct hash128 ident_text(struct str s); /* none of no bytes */
struct hash128 ident_string(struct ident *n, uint32_t index);
struct hash128 ident_attribute(struct ident *n, uint32_t index);
struct hash128 ident_list(struct ident *n, struct range refs); /* of attribute_refs */
struct hash128 ident_refs(struct ident *n, const struct attribute_index *at, uint32_t count);
/* Of an attribute that is no table's: a resource's or scope's. */
struct hash128 ident_key_value(struct ident *n, const struct key_value *kv);
struct hash128 ident_function(struct ident *n, uint32_t index);
struct hash128 ident_mapping(struct ident *n, uint32_t index);
struct hash128 ident_location(struct ident *n, uint32_t index);
struct hash128 ident_stack(struct ident *n, uint32_t index);
struct hash128 ident_link(struct ident *n, uint32_t index);
/* Of bytes that the caller has put together. */
struct hash128 ident_bytes(enum store_kind kind, struct str bytes);
