/*
 * json_parts.h - the pieces that a resolved sample is shown with in JSON (resolved_json.h): made
 * once a message and copied from then on. Private to the JSON renderers.
 *
 * Functions that take a render_out may hand a chunk on and fail as it does; those that take a buf
 * append a short text.
 * Memory: caches kept between requests. Threads: one at a time.
 */
#pragma once
#include "formats/line_cache.h"
#include "formats/names.h"
#include "formats/render_out.h"

struct json_mapping_note {
	uint32_t last_user; /* the last sample or profile that used it, by its place + 1 */
	uint32_t stands_in; /* whose build_ids this one's is: an earlier one of that name and id,
			     * else itself */
	bool first_of_name; /* no earlier mapping has this file name */
	bool has_build_id;
	bool differs; /* from the first of its name, whose build id stands in build_ids */
};

struct json_parts {
	struct names names;
	struct line_cache frames;        /* by location: one or more objects, each behind a comma */
	struct line_cache mappings;      /* by mapping: "file":"hex", a member of build_ids */
	struct line_cache attributes;    /* by attribute: "key":value */
	struct line_cache places;        /* by mapping: ,"mapping":"file" of a frame */
	struct line_cache types;         /* by attribute: {"type":"native" */
	struct json_mapping_note *notes; /* by mapping */
	uint32_t note_cap;
	uint32_t *used; /* the mappings of the user at hand that have a build id, each once */
	uint32_t used_count;
};

void json_parts_init(struct json_parts *j);
void json_parts_release(struct json_parts *j);
void json_parts_begin(struct json_parts *j, const struct profiles *p);

/* {"resource":{...},"scope":{...},"profile":{...},"sample_type":"...","sample_unit":"..." */
bool json_profile_head(struct json_parts *j, struct buf *b, const struct resource_profiles *r,
		       const struct scope_profiles *s, uint32_t index, struct err *err);
/* ,"values":[...],"timestamps_unix_nano":[...] */
bool json_numbers_append(struct json_parts *j, struct render_out *out, const struct sample *s,
			 struct err *err);
/* ,"trace_id":"...","span_id":"..." */
void json_link_append(struct json_parts *j, struct buf *b, uint32_t sample);
/* "extra":{...} of a profile or sample, behind a comma where one is due: what only older wire
 * versions have. */
void json_extras_append(struct json_parts *j, struct buf *b, enum message_kind message,
			uint32_t index);
/* ,"original_payload":"base64" */
void json_payload_append(struct json_parts *j, struct buf *b, uint32_t profile);
/* {"key":value,...}, and ,"attribute_units":{"key":"unit"} where there are any */
bool json_attributes_append(struct json_parts *j, struct render_out *out, struct range list,
			    enum message_kind message, uint32_t index, struct err *err);
bool json_has_units(const struct profiles *p, struct range list);
bool json_units_append(struct json_parts *j, struct render_out *out, struct range list,
		       struct err *err);
/* The objects of a location, one for each line of it or one alone, and that of a bad index. */
bool json_location_append(struct json_parts *j, struct render_out *out, uint32_t index, bool first,
			  struct err *err);
void json_bad_frame_append(struct buf *b, const struct bad_index *bad, bool first);

/* ,"build_ids":{"file":"hex"} of the mappings used since `used_count` was set to 0. */
void json_mapping_use(struct json_parts *j, uint32_t user, uint32_t mapping);
bool json_build_ids_append(struct json_parts *j, struct render_out *out, struct err *err);
