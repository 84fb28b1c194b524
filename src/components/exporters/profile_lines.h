/*
 * profile_lines.h - a whole profile as one JSON line, each frame and each set of attributes in it
 * once: JSON_LINE_A_PROFILE of resolved_json.h, which shows the form. Private to resolved_json.c.
 *
 * Memory: tables by location, kept between requests. Threads: one at a time.
 */
#pragma once
#include "components/exporters/json_parts.h"
#include "model/intern.h"

enum { FRAME_SLOT_TEXT = 12 };

/* The frames of a location, or of a bad index, in the line at hand. */
struct frame_slot {
	uint32_t first;             /* its first frame */
	uint32_t count;             /* of frames, one a line; 0: not in this line yet */
	uint32_t text_len;          /* of `text`; 0: it did not fit */
	char text[FRAME_SLOT_TEXT]; /* ",17" or, of several frames, ",17,18" */
};

struct attribute_set {
	uint32_t sample; /* the first that has it */
	bool has_units;
};

struct profile_lines {
	struct json_parts *parts;
	struct frame_slot *slots; /* by location, then by bad index */
	uint32_t *order;          /* the slots of the line at hand, in the order of their frames */
	uint32_t slot_count, slot_cap, order_count, frame_count;
	struct attribute_set *sets;
	uint32_t set_count, set_cap;
	struct intern_table set_table;
};

void profile_lines_init(struct profile_lines *l, struct json_parts *parts);
void profile_lines_release(struct profile_lines *l);
/* A new message, which `parts` have begun. */
void profile_lines_begin(struct profile_lines *l, const struct profiles *p);
/* Samples of a profile: a run of them, or those picked. */
struct sample_list {
	const uint32_t *picked; /* NULL: a run */
	uint32_t first, count;
};
static inline uint32_t sample_list_at(const struct sample_list *s, uint32_t i)
{
	return s->picked ? s->picked[i] : s->first + i;
}

/* The line of one profile, behind its head (json_profile_head()). Fails as `out` does. */
bool profile_line_append(struct profile_lines *l, struct render_out *out, struct str head,
			 uint32_t profile, const struct sample_list *samples, struct err *err);
