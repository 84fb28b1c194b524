/*
 * reader_rebuild.h - rows of the store's dictionary back into entries of a message's: the first
 * half of reader_request.c, which alone uses this.
 *
 * A row becomes an entry when the first sample needs it, and is remembered by its id, so that an
 * entry is made once a request. After a failure (r->failed, with its reason in r->err) all calls
 * give zeros.
 */
#pragma once
#include "model/builder.h"
#include "store/schema/ident.h"
#include "store/read/reader_internal.h"

struct rebuild {
	struct sqlite_snapshot *snap;
	struct builder *b;
	struct arena scratch; /* of one request */
	struct idmap maps[KIND_COUNT];
	uint64_t note_from, note_next; /* no notes from the one up to below the other */
	struct kept_sample *line; /* the request's samples, by their place behind it; on the heap */
	uint64_t line_first, line_cap;
	struct err *err;
	bool failed;
};

struct rebuild_refs {
	struct attribute_index *at;
	uint32_t count;
};

/* id 0: the zero entry. */
struct rebuild_refs rebuild_refs(struct rebuild *r, uint64_t id); /* of an attribute set */
struct strindex rebuild_string(struct rebuild *r, uint64_t id);
struct stack_index rebuild_stack(struct rebuild *r, uint64_t id);
struct link_index rebuild_link(struct rebuild *r, uint64_t id);
/* Begin a resource and a scope of the message. */
void rebuild_resource(struct rebuild *r, uint64_t id);
void rebuild_scope(struct rebuild *r, uint64_t id);
/* What the newest shape of such a message has no place for. */
void rebuild_notes(struct rebuild *r, struct str notes, enum message_kind message, uint32_t index);

/* The row of an id; NULL after a failure. */
sqlite3_stmt *rebuild_row(struct rebuild *r, enum query q, uint64_t id);
void rebuild_fail_when(struct rebuild *r, bool wrong, const char *what, uint64_t id);
struct str rebuild_copy(struct rebuild *r, struct str s);  /* until the request's end */
struct str rebuild_owned(struct rebuild *r, struct str s); /* the message's */
void rebuild_copy_id(uint8_t *out, size_t size, struct str bytes);
