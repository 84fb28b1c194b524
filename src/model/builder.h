/*
 * builder.h - makes a struct profiles piece by piece: for the agent, for JSON, for merging and
 * splitting.
 *
 * Dictionary entries are interned: adding an equal entry again gives the same index. Samples,
 * profiles, scopes and resources are added in order: builder_begin_resource(), _begin_scope(),
 * _begin_profile(), then samples; a begin ends what was open at its level. Strings are borrowed
 * unless builder_copy_strings was asked for. Indices given to a builder must come from it
 * (asserted). Failure (limit_bytes, 2^32 entries) is remembered and reported by builder_finish().
 * Threads: one.
 */
#pragma once
#include "model/profiles.h"

struct builder;

struct builder_options {
	size_t limit_bytes; /* of the result's arena; 0 = none */
	bool copy_strings;  /* else they must outlive the result, or be in `body` */
	struct blob *body;  /* the result takes a reference; may be NULL */
};

struct builder *builder_new(const struct builder_options *options);
void builder_free(struct builder *b); /* drops what was built; NULL is fine */

struct strindex builder_string(struct builder *b, struct str s);
struct mapping_index builder_mapping(struct builder *b, const struct mapping *m,
				     const struct attribute_index *attributes, uint32_t count);
struct function_index builder_function(struct builder *b, const struct function *f);
struct location_index builder_location(struct builder *b, const struct location *l,
				       const struct line *lines, uint32_t line_count,
				       const struct attribute_index *attributes,
				       uint32_t attribute_count);
/* The lines of a location in the flat array: for builder_extra(). */
struct range builder_lines(const struct builder *b, struct location_index location);
struct stack_index builder_stack(struct builder *b, const struct location_index *locations,
				 uint32_t count);
struct link_index builder_link(struct builder *b, const struct link *l);
struct attribute_index builder_attribute(struct builder *b,
					 const struct attribute *a); /* value is copied deeply */

/* The next dictionary entry but a string is added even when an equal one is there: for one that
 * extras tell apart. */
void builder_append_next(struct builder *b);

struct resource_profiles *builder_begin_resource(
	struct builder *b); /* zeroed; the caller fills attributes, schema_url, ...; */
struct scope_profiles *builder_begin_scope(
	struct builder *b); /* each pointer holds until the next begin at its level; */
struct profile *builder_begin_profile(
	struct builder *b); /* the range of children is the builder's to fill */
/* The place of the newest resource, scope, profile or sample in its flat array: for
 * builder_extra(). */
uint32_t builder_newest(const struct builder *b, enum message_kind message);
void builder_profile_attributes(struct builder *b, const struct attribute_index *attributes,
				uint32_t count);
/* Appends to the open profile; values or timestamps may be NULL with count 0. Gives the sample's
 * place in the flat array. */
uint32_t builder_sample(struct builder *b, struct stack_index stack, struct link_index link,
			const struct attribute_index *attributes, uint32_t attribute_count,
			const int64_t *values, uint32_t value_count, const uint64_t *timestamps,
			uint32_t timestamp_count);
void builder_extra(struct builder *b, enum message_kind message, uint32_t index, enum extra_key key,
		   const struct any_value *v); /* value is copied deeply */
void builder_bad_index(struct builder *b, const struct bad_index *bad);
struct any_value builder_any(struct builder *b,
			     const struct any_value *v); /* deep copy into the result */
struct key_values builder_key_values(struct builder *b, const struct key_value *kv, uint32_t count);
struct arena *builder_arena(struct builder *b);

/* Seals and hands over the message; NULL and err on failure. The builder is freed either way. */
struct profiles *builder_finish(struct builder *b, struct err *err) MUST_CHECK;
