/*
 * names.h - what a renderer prints in the place of an index: the name, or "<bad index 7 of 5>"
 * where the index that came pointed past its table (lenient decoding keeps 0 and a record of it).
 *
 * Also the few look-ups that all renderers share: build ids, frame types, the sample type's name.
 * Threads: a value, no state.
 */
#pragma once
#include "base/buf.h"
#include "model/profiles.h"
#include "pipeline/options.h"

struct names {
	const struct profiles *profiles;
	/* How text goes into the output: as it came (names_put_raw), or fit for a terminal
	 * (text_append_printable). */
	void (*put)(struct buf *b, struct str s);
};

void names_put_raw(struct buf *b, struct str s);

/* The record of a bad index, where the message has any. */
const struct bad_index *names_bad(const struct names *n, enum message_kind message, uint32_t index,
				  const char *field, uint32_t element);
void names_append_bad(struct buf *b, const struct bad_index *bad);

/* A string that a message's field names. */
void names_append(const struct names *n, struct buf *b, struct strindex s,
		  enum message_kind message, uint32_t index, const char *field);

/* The index in its flat array of an entry given by pointer. */
#define NAMES_INDEX(table, entry) ((uint32_t)((entry) - (table)))

/* The function's name of a line, and its file's; "" when the line has none. */
void names_append_function(const struct names *n, struct buf *b, const struct line *line);
void names_append_file(const struct names *n, struct buf *b, const struct line *line);
/* A mapping's file name; the location's mapping is not 0, or bad. */
void names_append_mapping(const struct names *n, struct buf *b, const struct location *location);
bool names_has_mapping(const struct names *n, const struct location *location);
/* "native", "kernel", ...; "unknown" when the location says none. A value that is no string is
 * spelled out in `text`, which the caller has initialized and releases. */
struct str names_frame_type(const struct names *n, const struct location *location,
			    struct buf *text);
/* The first of process.executable.build_id.gnu, .go, .htlhash that a mapping has, else an empty
 * string. */
struct str names_build_id(const struct names *n, const struct mapping *mapping);

/*
 * The container.id of a sample as text: its own, else its resource's; "" where neither has one or
 * it is empty. sample NULL asks the resource alone. A value that is no string is spelled out in
 * `text`, which the caller has initialized and releases.
 */
struct str names_container_id(const struct profiles *p, const struct resource_profiles *r,
			      const struct sample *sample, struct buf *text);

/* "0x1f", with at least so many digits: Go's %#04x has four. */
void names_append_hex(struct buf *b, uint64_t v, unsigned digits_least);

/* True when `list` is empty or holds `s`. */
bool names_wanted(const struct config_strings *list, struct str s);
/* Whether a profile is shown: not refused, and of a wanted sample type. */
bool names_profile_wanted(const struct profiles *p, const struct profile *profile,
			  const struct config_strings *sample_types);

/* The lists of attribute_refs, stack_locations, ...: the entry at `k` of a range. */
static inline struct attribute_index names_attribute_ref(const struct profiles *p, struct range r,
							 uint32_t k)
{
	return p->attribute_refs[r.first + k];
}
