/*
 * paths.c - names of messages, extras and places for people:
 * "resource_profiles[0].scope_profiles[0].profiles[0].samples[17]".
 *
 * The flat arrays are filled depth first, so that the owner of an entry is the last message whose
 * range begins at or before it and that is not empty.
 */
#include <assert.h>

#include "base/buf.h"
#include "model/profiles.h"

const char *message_kind_name(enum message_kind k)
{
	static const char *const names[] = {
		[MESSAGE_REQUEST] = "ExportProfilesServiceRequest",
		[MESSAGE_RESOURCE_PROFILES] = "ResourceProfiles",
		[MESSAGE_RESOURCE] = "Resource",
		[MESSAGE_SCOPE_PROFILES] = "ScopeProfiles",
		[MESSAGE_SCOPE] = "InstrumentationScope",
		[MESSAGE_PROFILE] = "Profile",
		[MESSAGE_SAMPLE] = "Sample",
		[MESSAGE_DICTIONARY] = "ProfilesDictionary",
		[MESSAGE_MAPPING] = "Mapping",
		[MESSAGE_LOCATION] = "Location",
		[MESSAGE_LINE] = "Line",
		[MESSAGE_FUNCTION] = "Function",
		[MESSAGE_LINK] = "Link",
		[MESSAGE_ATTRIBUTE] = "KeyValueAndUnit",
		[MESSAGE_STACK] = "Stack",
	};

	assert((size_t)k < sizeof(names) / sizeof(names[0]));
	return names[k];
}

const char *extra_key_name(enum extra_key k)
{
	static const char *const names[] = {
		[EXTRA_UNKNOWN_FIELDS] = "unknown_fields",
		[EXTRA_ENTITY_REFS] = "entity_refs",
		[EXTRA_SAMPLE_TEMPORALITY] = "aggregation_temporality",
		[EXTRA_PERIOD_TEMPORALITY] = "period_aggregation_temporality",
		[EXTRA_COMMENTS] = "comments",
		[EXTRA_DEFAULT_SAMPLE_TYPE] = "default_sample_type",
		[EXTRA_SAMPLE_TYPE_ORDINAL] = "sample_type_ordinal",
		[EXTRA_PROFILE_ATTRIBUTES] = "attributes",
		[EXTRA_DROP_FRAMES] = "drop_frames",
		[EXTRA_KEEP_FRAMES] = "keep_frames",
		[EXTRA_END_TIME] = "end_time_unix_nano",
		[EXTRA_START_TIME] = "start_time_unix_nano",
		[EXTRA_LABELS] = "labels",
		[EXTRA_STACKTRACE_ID] = "stacktrace_id_index",
		[EXTRA_IS_FOLDED] = "is_folded",
		[EXTRA_LOCATION_TYPE] = "type",
		[EXTRA_HAS_FUNCTIONS] = "has_functions",
		[EXTRA_HAS_FILENAMES] = "has_filenames",
		[EXTRA_HAS_LINE_NUMBERS] = "has_line_numbers",
		[EXTRA_HAS_INLINE_FRAMES] = "has_inline_frames",
		[EXTRA_BUILD_ID] = "build_id",
		[EXTRA_BUILD_ID_KIND] = "build_id_kind",
		[EXTRA_ID] = "id",
		[EXTRA_ODD_TRACE_ID] = "odd_trace_id",
		[EXTRA_ODD_SPAN_ID] = "odd_span_id",
		[EXTRA_ODD_PROFILE_ID] = "odd_profile_id",
		[EXTRA_NESTED_UNKNOWN_FIELDS] = "nested_unknown_fields",
		[EXTRA_ATTRIBUTE_UNITS] = "attribute_units",
		[EXTRA_LOCATION_INDEX] = "location_index",
		[EXTRA_SAMPLE_TYPE_UNKNOWN] = "sample_type_unknown_fields",
		[EXTRA_PERIOD_TYPE_UNKNOWN] = "period_type_unknown_fields",
		[EXTRA_UNIT_UNKNOWN] = "attribute_units_unknown_fields",
	};

	assert((size_t)k < sizeof(names) / sizeof(names[0]));
	return names[k];
}

static bool range_holds(struct range r, uint32_t index)
{
	return index >= r.first && index - r.first < r.count;
}

static void append_resource(struct buf *b, uint32_t resource)
{
	buf_printf(b, "resource_profiles[%u]", resource);
}

static void append_scope(struct buf *b, const struct profiles *p, uint32_t scope)
{
	for (uint32_t i = 0; i < p->resource_count; i++) {
		if (!range_holds(p->resources[i].scopes, scope))
			continue;
		append_resource(b, i);
		buf_printf(b, ".scope_profiles[%u]", scope - p->resources[i].scopes.first);
		return;
	}
}

static void append_profile(struct buf *b, const struct profiles *p, uint32_t profile)
{
	for (uint32_t i = 0; i < p->scope_count; i++) {
		if (!range_holds(p->scopes[i].profiles, profile))
			continue;
		append_scope(b, p, i);
		buf_printf(b, ".profiles[%u]", profile - p->scopes[i].profiles.first);
		return;
	}
}

static void append_sample(struct buf *b, const struct profiles *p, uint32_t sample)
{
	for (uint32_t i = 0; i < p->profile_count; i++) {
		if (!range_holds(p->profiles[i].samples, sample))
			continue;
		append_profile(b, p, i);
		buf_printf(b, ".samples[%u]", sample - p->profiles[i].samples.first);
		return;
	}
}

static void append_line(struct buf *b, const struct profiles *p, uint32_t line)
{
	const struct dictionary *d = &p->dict;

	for (uint32_t i = 0; i < d->location_count; i++) {
		if (!range_holds(d->locations[i].lines, line))
			continue;
		buf_printf(b, "dictionary.location_table[%u].lines[%u]", i,
			   line - d->locations[i].lines.first);
		return;
	}
}

void profiles_append_path(struct buf *b, const struct profiles *p, enum message_kind message,
			  uint32_t index)
{
	switch (message) {
	case MESSAGE_REQUEST:
		buf_lit(b, "request");
		return;
	case MESSAGE_RESOURCE_PROFILES:
		append_resource(b, index);
		return;
	case MESSAGE_RESOURCE:
		append_resource(b, index);
		buf_lit(b, ".resource");
		return;
	case MESSAGE_SCOPE_PROFILES:
		append_scope(b, p, index);
		return;
	case MESSAGE_SCOPE:
		append_scope(b, p, index);
		buf_lit(b, ".scope");
		return;
	case MESSAGE_PROFILE:
		append_profile(b, p, index);
		return;
	case MESSAGE_SAMPLE:
		append_sample(b, p, index);
		return;
	case MESSAGE_DICTIONARY:
		buf_lit(b, "dictionary");
		return;
	case MESSAGE_MAPPING:
		buf_printf(b, "dictionary.mapping_table[%u]", index);
		return;
	case MESSAGE_LOCATION:
		buf_printf(b, "dictionary.location_table[%u]", index);
		return;
	case MESSAGE_LINE:
		append_line(b, p, index);
		return;
	case MESSAGE_FUNCTION:
		buf_printf(b, "dictionary.function_table[%u]", index);
		return;
	case MESSAGE_LINK:
		buf_printf(b, "dictionary.link_table[%u]", index);
		return;
	case MESSAGE_ATTRIBUTE:
		buf_printf(b, "dictionary.attribute_table[%u]", index);
		return;
	case MESSAGE_STACK:
		buf_printf(b, "dictionary.stack_table[%u]", index);
		return;
	}
}

/* A profile of several sample types is one profile of the message and several of the model. */
static uint32_t split_off(const struct profiles *p, uint32_t first, uint32_t profile)
{
	uint32_t n = 0;

	for (uint32_t i = first; i <= profile; i++) {
		const struct extra *x =
			profiles_extra(p, MESSAGE_PROFILE, i, EXTRA_SAMPLE_TYPE_ORDINAL);

		n += x && x->value.integer > 0;
	}
	return n;
}

static void append_sent_profile(struct buf *b, const struct profiles *p, uint32_t profile)
{
	for (uint32_t i = 0; i < p->scope_count; i++) {
		uint32_t first = p->scopes[i].profiles.first;

		if (!range_holds(p->scopes[i].profiles, profile))
			continue;
		append_scope(b, p, i);
		buf_printf(b, ".profiles[%u]", profile - first - split_off(p, first, profile));
		return;
	}
}

void bad_index_append_place(struct buf *b, const struct bad_index *bad)
{
	const struct bad_origin *o = &bad->origin;
	const char *field = o->root ? o->field : bad->field;

	if (o->part_in && o->part == UINT32_MAX)
		buf_printf(b, "%s.", o->part_in);
	else if (o->part_in)
		buf_printf(b, "%s[%u].", o->part_in, o->part);
	buf_str(b, str_cstr(field));
	if (o->root ? o->list : str_has_suffix(str_cstr(field), STR("indices")))
		buf_printf(b, "[%u]", o->root ? o->element : bad->element);
}

void bad_index_append_text(struct buf *b, const struct profiles *p, const struct bad_index *bad)
{
	const struct bad_origin *o = &bad->origin;

	if (o->root) {
		if (o->profile != UINT32_MAX)
			append_sent_profile(b, p, o->profile);
		buf_str(b, str_cstr(o->root));
		if (o->entry_in)
			buf_printf(b, "%s[%u].", o->entry_in, o->entry);
	} else {
		profiles_append_path(b, p, bad->message, bad->index);
		buf_char(b, '.');
	}
	bad_index_append_place(b, bad);
	buf_printf(b, " is %lld, %s has %u", (long long)bad->value, bad->table, bad->table_count);
}
