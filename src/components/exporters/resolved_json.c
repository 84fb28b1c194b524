#include "components/exporters/resolved_json.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "components/exporters/json_any.h"
#include "components/exporters/line_cache.h"
#include "components/exporters/names.h"
#include "model/intern.h"

enum {
	CACHE_TEXT_BYTES = 2 << 20,
	NOTES_KEPT = 1 << 14,
	PREFIX_KEPT_BYTES = 64 << 10,
	PREFIX_MOST_BYTES = 256 << 20, /* attributes of a resource, a scope and a profile */
};

struct mapping_note {
	uint32_t sample_seen; /* the last sample that used it, by its place + 1 */
	bool first_of_name;   /* no earlier mapping has this file name */
	bool has_build_id;
};

struct json_renderer {
	struct config_strings sample_types;
	json_resource_wanted_fn *wanted; /* NULL: all */
	void *wanted_ctx;
	struct names names;
	struct line_cache frames;   /* by location: one or more objects, each behind a comma */
	struct line_cache mappings; /* by mapping: "file":"hex", a member of build_ids */
	struct mapping_note *notes; /* by mapping */
	uint32_t note_cap;
	uint32_t *used; /* the mappings of the sample at hand that have a build id, each once */
	uint32_t used_count;
	struct line_cache attributes; /* by attribute: "key":value */
	struct buf prefix;            /* what the samples of the profile at hand have in common */
};

struct json_renderer *json_renderer_new(const struct config_strings *sample_types)
{
	struct json_renderer *j = calloc(1, sizeof(*j));

	assert(j);
	j->sample_types = *sample_types;
	line_cache_init(&j->frames, CACHE_TEXT_BYTES);
	line_cache_init(&j->mappings, CACHE_TEXT_BYTES);
	line_cache_init(&j->attributes, CACHE_TEXT_BYTES);
	buf_init(&j->prefix, PREFIX_MOST_BYTES);
	return j;
}

void json_renderer_filter(struct json_renderer *j, json_resource_wanted_fn *wanted, void *ctx)
{
	j->wanted = wanted;
	j->wanted_ctx = ctx;
}

void json_renderer_free(struct json_renderer *j)
{
	if (!j)
		return;
	line_cache_release(&j->frames);
	line_cache_release(&j->mappings);
	free(j->notes);
	free(j->used);
	line_cache_release(&j->attributes);
	buf_release(&j->prefix);
	free(j);
}

/* "," unless it would follow an opening bracket: for objects that are made in one piece, without a
 * chunk handed on inside */
static void comma(struct buf *b)
{
	if (b->len && b->ptr[b->len - 1] != '{' && b->ptr[b->len - 1] != '[')
		buf_char(b, ',');
}

#define KEY(b, name) (comma(b), buf_lit(b, "\"" name "\":"))

static void append_bad(struct buf *b, const struct bad_index *bad)
{
	buf_char(b, '"');
	names_append_bad(b, bad);
	buf_char(b, '"');
}

/* "key":"string" of a field that names a string, when it is set */
static void name_member(struct json_renderer *j, struct buf *b, const char *key, struct strindex s,
			enum message_kind message, uint32_t index, const char *field)
{
	const struct bad_index *bad = s.v ? NULL : names_bad(&j->names, message, index, field, 0);

	if (!s.v && !bad)
		return;
	comma(b);
	buf_char(b, '"');
	buf_str(b, str_cstr(key));
	buf_lit(b, "\":");
	if (bad)
		append_bad(b, bad);
	else
		buf_json_string(b, profiles_string(j->names.profiles, s));
}

static void string_member(struct buf *b, const char *key, struct str s)
{
	if (!s.len)
		return;
	comma(b);
	buf_char(b, '"');
	buf_str(b, str_cstr(key));
	buf_lit(b, "\":");
	buf_json_string(b, s);
}

static void count_member(struct buf *b, const char *key, uint64_t n)
{
	if (!n)
		return;
	comma(b);
	buf_char(b, '"');
	buf_str(b, str_cstr(key));
	buf_lit(b, "\":");
	buf_u64(b, n);
}

static void append_key_values(struct buf *b, struct key_values list)
{
	buf_char(b, '{');
	for (uint32_t i = 0; i < list.count; i++) {
		comma(b);
		buf_json_string(b, list.ptr[i].key);
		buf_char(b, ':');
		json_any_append(b, &list.ptr[i].value);
	}
	buf_char(b, '}');
}

static void append_attribute_member(struct json_renderer *j, struct buf *b, uint32_t index)
{
	const struct attribute *a = &j->names.profiles->dict.attributes[index];
	const struct bad_index *bad =
		a->key.v ? NULL : names_bad(&j->names, MESSAGE_ATTRIBUTE, index, "key_strindex", 0);

	if (bad)
		append_bad(b, bad);
	else
		buf_json_string(b, profiles_string(j->names.profiles, a->key));
	buf_char(b, ':');
	json_any_append(b, &a->value);
}

static void append_attribute(struct json_renderer *j, struct buf *b, uint32_t index)
{
	struct str text;
	size_t start;

	if (!line_cache_get(&j->attributes, index, &text)) {
		append_attribute_member(j, line_cache_make(&j->attributes, &start), index);
		if (!line_cache_made(&j->attributes, index, start, &text)) {
			append_attribute_member(j, b, index);
			return;
		}
	}
	buf_str(b, text);
}

static bool append_attributes(struct json_renderer *j, struct render_out *out, struct range list,
			      enum message_kind message, uint32_t index, struct err *err)
{
	const struct profiles *p = j->names.profiles;

	buf_char(out->buf, '{');
	for (uint32_t i = 0; i < list.count; i++) {
		uint32_t a = names_attribute_ref(p, list, i).v;
		const struct bad_index *bad =
			a ? NULL : names_bad(&j->names, message, index, "attribute_indices", i);

		if (i)
			buf_char(out->buf, ',');
		if (bad) {
			append_bad(out->buf, bad);
			buf_lit(out->buf, ":null");
		} else {
			append_attribute(j, out->buf, a);
		}
		if (!render_out_check(out, err))
			return false;
	}
	buf_char(out->buf, '}');
	return true;
}

static bool has_units(const struct profiles *p, struct range list)
{
	for (uint32_t i = 0; i < list.count; i++) {
		if (p->dict.attributes[names_attribute_ref(p, list, i).v].unit.v)
			return true;
	}
	return false;
}

static bool append_units(struct json_renderer *j, struct render_out *out, struct range list,
			 struct err *err)
{
	const struct profiles *p = j->names.profiles;
	bool first = true;

	if (!has_units(p, list))
		return true;
	buf_lit(out->buf, ",\"attribute_units\":{");
	for (uint32_t i = 0; i < list.count; i++) {
		const struct attribute *a = &p->dict.attributes[names_attribute_ref(p, list, i).v];

		if (!a->unit.v)
			continue;
		if (!first)
			buf_char(out->buf, ',');
		first = false;
		buf_json_string(out->buf, profiles_string(p, a->key));
		buf_char(out->buf, ':');
		buf_json_string(out->buf, profiles_string(p, a->unit));
		if (!render_out_check(out, err))
			return false;
	}
	buf_char(out->buf, '}');
	return true;
}

static void append_function(struct json_renderer *j, struct buf *b, const struct line *line)
{
	const struct dictionary *d = &j->names.profiles->dict;
	uint32_t index = line->function.v;
	const struct function *f = &d->functions[index];
	const struct bad_index *bad =
		index ? NULL
		      : names_bad(&j->names, MESSAGE_LINE, NAMES_INDEX(d->lines, line),
				  "function_index", 0);

	if (bad) {
		KEY(b, "function");
		append_bad(b, bad);
	} else {
		name_member(j, b, "function", f->name, MESSAGE_FUNCTION, index, "name_strindex");
		name_member(j, b, "system_name", f->system_name, MESSAGE_FUNCTION, index,
			    "system_name_strindex");
		name_member(j, b, "file", f->filename, MESSAGE_FUNCTION, index,
			    "filename_strindex");
	}
	if (line->line) {
		KEY(b, "line");
		buf_i64(b, line->line);
	}
	if (line->column) {
		KEY(b, "column");
		buf_i64(b, line->column);
	}
	if (f->start_line) {
		KEY(b, "start_line");
		buf_i64(b, f->start_line);
	}
}

static void append_address(struct buf *b, uint64_t address)
{
	buf_lit(b, ",\"address\":\"");
	names_append_hex(b, address, 1);
	buf_char(b, '"');
}

static void append_mapping_name(struct json_renderer *j, struct buf *b, uint32_t index)
{
	const struct mapping *m = &j->names.profiles->dict.mappings[index];
	const struct bad_index *bad = m->filename.v ? NULL
						    : names_bad(&j->names, MESSAGE_MAPPING, index,
								"filename_strindex", 0);

	if (bad)
		append_bad(b, bad);
	else
		buf_json_string(b, profiles_string(j->names.profiles, m->filename));
}

/* The build id stands in build_ids, under the name, where that says which mapping is meant. */
static void append_mapping(struct json_renderer *j, struct buf *b, uint32_t index)
{
	buf_lit(b, ",\"mapping\":");
	append_mapping_name(j, b, index);
	if (j->notes[index].has_build_id && !j->notes[index].first_of_name) {
		buf_lit(b, ",\"build_id\":");
		buf_json_string(
			b, names_build_id(&j->names, &j->names.profiles->dict.mappings[index]));
	}
}

static void append_place(struct json_renderer *j, struct buf *b, const struct location *l)
{
	const struct location *table = j->names.profiles->dict.locations;
	const struct bad_index *bad;

	if (l->address || l->lines.count == 0)
		append_address(b, l->address);
	if (l->mapping.v) {
		append_mapping(j, b, l->mapping.v);
		return;
	}
	bad = names_bad(&j->names, MESSAGE_LOCATION, NAMES_INDEX(table, l), "mapping_index", 0);
	if (bad) {
		buf_lit(b, ",\"mapping\":");
		append_bad(b, bad);
	}
}

static void append_build_id_member(struct json_renderer *j, struct buf *b, uint32_t index)
{
	append_mapping_name(j, b, index);
	buf_char(b, ':');
	buf_json_string(b, names_build_id(&j->names, &j->names.profiles->dict.mappings[index]));
}

/* ,"build_ids":{"file":"hex"} of the mappings that the sample's frames are in */
static bool append_build_ids(struct json_renderer *j, struct render_out *out, struct err *err)
{
	if (j->used_count == 0)
		return true;
	buf_lit(out->buf, ",\"build_ids\":{");
	for (uint32_t i = 0; i < j->used_count; i++) {
		struct str text;
		size_t start;

		if (i)
			buf_char(out->buf, ',');
		if (!line_cache_get(&j->mappings, j->used[i], &text)) {
			append_build_id_member(j, line_cache_make(&j->mappings, &start),
					       j->used[i]);
			if (!line_cache_made(&j->mappings, j->used[i], start, &text))
				return err_set(err, ERR_LIMIT, "a build id is too long");
		}
		buf_str(out->buf, text);
		if (!render_out_check(out, err))
			return false;
	}
	buf_char(out->buf, '}');
	return true;
}

static void note_mapping(struct json_renderer *j, uint32_t sample, uint32_t mapping)
{
	struct mapping_note *note = &j->notes[mapping];

	if (note->sample_seen == sample + 1)
		return;
	note->sample_seen = sample + 1;
	if (note->has_build_id && note->first_of_name)
		j->used[j->used_count++] = mapping;
}

static bool name_same(const void *ctx, uint32_t index, const void *key)
{
	const struct profiles *p = ctx;

	return str_equal(profiles_string(p, p->dict.mappings[index].filename),
			 *(const struct str *)key);
}

static void make_notes(struct json_renderer *j, const struct profiles *p)
{
	struct intern_table names;

	if (p->dict.mapping_count > j->note_cap || j->note_cap > NOTES_KEPT) {
		free(j->notes);
		free(j->used);
		j->note_cap = p->dict.mapping_count < 64 ? 64 : p->dict.mapping_count;
		j->notes = malloc(j->note_cap * sizeof(*j->notes));
		j->used = malloc(j->note_cap * sizeof(*j->used));
		assert(j->notes && j->used);
	}
	intern_init(&names);
	for (uint32_t i = 0; i < p->dict.mapping_count; i++) {
		struct str name = profiles_string(p, p->dict.mappings[i].filename);
		uint32_t first = intern_find_or_add(&names, hash64(name), name_same, p, &name, i);

		j->notes[i] = (struct mapping_note){
			.first_of_name = first == UINT32_MAX,
			.has_build_id = names_build_id(&j->names, &p->dict.mappings[i]).len > 0,
		};
	}
	intern_release(&names);
}

/* One object for each line of a location, or one for a location without lines. */
static bool append_typed_objects(struct json_renderer *j, struct render_out *out,
				 const struct location *l, struct str type, struct err *err)
{
	const struct dictionary *d = &j->names.profiles->dict;
	uint32_t count = l->lines.count ? l->lines.count : 1;

	for (uint32_t i = 0; i < count; i++) {
		struct buf *b = out->buf;

		if (i)
			buf_char(b, ',');
		buf_lit(b, "{\"type\":");
		buf_json_string(b, type);
		if (l->lines.count)
			append_function(j, b, &d->lines[l->lines.first + i]);
		if (count - i > 1)
			buf_lit(b, ",\"inline\":true");
		append_place(j, b, l);
		buf_char(b, '}');
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

static bool append_frame_objects(struct json_renderer *j, struct render_out *out,
				 const struct location *l, struct err *err)
{
	struct buf text;
	bool ok;

	buf_init(&text, 0);
	ok = append_typed_objects(j, out, l, names_frame_type(&j->names, l, &text), err);
	buf_release(&text);
	return ok;
}

static bool append_location(struct json_renderer *j, struct render_out *out, uint32_t index,
			    bool first, struct err *err)
{
	const struct location *l = &j->names.profiles->dict.locations[index];
	struct render_out cached = { 0 };
	struct str text;
	size_t start;

	if (!line_cache_get(&j->frames, index, &text)) {
		cached.buf = line_cache_make(&j->frames, &start);
		buf_char(cached.buf, ',');
		if (!append_frame_objects(j, &cached, l, err) ||
		    !line_cache_made(&j->frames, index, start, &text)) {
			if (!first)
				buf_char(out->buf, ',');
			return append_frame_objects(j, out, l, err);
		}
	}
	line_cache_copy(out->buf, first ? str_skip(text, 1) : text);
	return true;
}

static void append_bad_frame(struct buf *b, const struct bad_index *bad, bool first)
{
	if (!first)
		buf_char(b, ',');
	buf_lit(b, "{\"type\":\"unknown\",\"function\":");
	append_bad(b, bad);
	buf_char(b, '}');
}

static bool append_frames(struct json_renderer *j, struct render_out *out, uint32_t sample,
			  struct err *err)
{
	const struct dictionary *d = &j->names.profiles->dict;
	uint32_t stack = j->names.profiles->samples[sample].stack.v;
	struct range list = d->stacks[stack].locations;
	const struct bad_index *bad =
		stack ? NULL : names_bad(&j->names, MESSAGE_SAMPLE, sample, "stack_index", 0);

	j->used_count = 0;
	buf_lit(out->buf, ",\"frames\":[");
	if (bad)
		append_bad_frame(out->buf, bad, true);
	for (uint32_t k = 0; k < list.count; k++) {
		uint32_t index = d->stack_locations[list.first + k].v;

		bad = index ? NULL
			    : names_bad(&j->names, MESSAGE_STACK, stack, "location_indices", k);
		if (bad)
			append_bad_frame(out->buf, bad, k == 0);
		else if (!append_location(j, out, index, k == 0, err))
			return false;
		note_mapping(j, sample, d->locations[index].mapping.v);
		if (!render_out_check(out, err))
			return false;
	}
	buf_char(out->buf, ']');
	return append_build_ids(j, out, err);
}

static bool append_numbers(struct json_renderer *j, struct render_out *out, const struct sample *s,
			   struct err *err)
{
	const struct profiles *p = j->names.profiles;

	if (s->values.count) {
		buf_lit(out->buf, ",\"values\":[");
		for (uint32_t i = 0; i < s->values.count; i++) {
			if (i)
				buf_char(out->buf, ',');
			buf_i64(out->buf, p->values[s->values.first + i]);
			if (!render_out_check(out, err))
				return false;
		}
		buf_char(out->buf, ']');
	}
	if (s->timestamps.count) {
		buf_lit(out->buf, ",\"timestamps_unix_nano\":[");
		for (uint32_t i = 0; i < s->timestamps.count; i++) {
			if (i)
				buf_char(out->buf, ',');
			buf_u64(out->buf, p->timestamps[s->timestamps.first + i]);
			if (!render_out_check(out, err))
				return false;
		}
		buf_char(out->buf, ']');
	}
	return true;
}

static void append_link(struct json_renderer *j, struct buf *b, uint32_t sample)
{
	uint32_t index = j->names.profiles->samples[sample].link.v;
	const struct link *l = &j->names.profiles->dict.links[index];
	const struct bad_index *bad =
		index ? NULL : names_bad(&j->names, MESSAGE_SAMPLE, sample, "link_index", 0);

	if (bad) {
		buf_lit(b, ",\"trace_id\":");
		append_bad(b, bad);
	}
	if (!index)
		return;
	buf_lit(b, ",\"trace_id\":\"");
	buf_hex(b, l->trace_id, sizeof(l->trace_id));
	buf_lit(b, "\",\"span_id\":\"");
	buf_hex(b, l->span_id, sizeof(l->span_id));
	buf_char(b, '"');
}

static bool append_sample(struct json_renderer *j, struct render_out *out,
			  const struct profile *profile, uint32_t index, struct err *err)
{
	const struct sample *s = &j->names.profiles->samples[index];
	struct sample_total total = sample_total(j->names.profiles, profile, s);
	struct buf *b = out->buf;

	buf_str(b, buf_view(&j->prefix));
	buf_lit(b, ",\"value\":");
	buf_i64(b, total.value);
	buf_lit(b, ",\"events\":");
	buf_u64(b, total.events);
	if (!append_numbers(j, out, s, err))
		return false;
	append_link(j, b, index);
	buf_lit(b, ",\"attributes\":");
	if (!append_attributes(j, out, s->attributes, MESSAGE_SAMPLE, index, err) ||
	    !append_units(j, out, s->attributes, err) || !append_frames(j, out, index, err))
		return false;
	buf_lit(b, "}\n");
	return render_out_check(out, err);
}

static void append_scope(struct buf *b, const struct scope_profiles *s)
{
	KEY(b, "scope");
	buf_char(b, '{');
	string_member(b, "name", s->name);
	string_member(b, "version", s->version);
	count_member(b, "dropped_attributes_count", s->dropped_attributes_count);
	if (s->attributes.count) {
		KEY(b, "attributes");
		append_key_values(b, s->attributes);
	}
	buf_char(b, '}');
}

static bool append_profile_object(struct json_renderer *j, struct render_out *out, uint32_t index,
				  struct err *err)
{
	const struct profile *profile = &j->names.profiles->profiles[index];
	struct buf *b = out->buf;

	KEY(b, "profile");
	buf_char(b, '{');
	if (!id_is_zero(profile->profile_id, sizeof(profile->profile_id))) {
		KEY(b, "profile_id");
		buf_char(b, '"');
		buf_hex(b, profile->profile_id, sizeof(profile->profile_id));
		buf_char(b, '"');
	}
	count_member(b, "time_unix_nano", profile->time_unix_nano);
	count_member(b, "duration_nano", profile->duration_nano);
	name_member(j, b, "period_type", profile->period_type.type, MESSAGE_PROFILE, index,
		    "period_type.type_strindex");
	name_member(j, b, "period_unit", profile->period_type.unit, MESSAGE_PROFILE, index,
		    "period_type.unit_strindex");
	if (profile->period) {
		KEY(b, "period");
		buf_i64(b, profile->period);
	}
	count_member(b, "dropped_attributes_count", profile->dropped_attributes_count);
	if (profile->attributes.count) {
		KEY(b, "attributes");
		if (!append_attributes(j, out, profile->attributes, MESSAGE_PROFILE, index, err))
			return false;
	}
	buf_char(b, '}');
	return true;
}

/* {"resource":{...},"scope":{...},"profile":{...},"sample_type":"...","sample_unit":"..." */
static bool make_prefix(struct json_renderer *j, const struct resource_profiles *r,
			const struct scope_profiles *s, uint32_t index, struct err *err)
{
	const struct profile *profile = &j->names.profiles->profiles[index];
	struct render_out out = { .buf = &j->prefix };
	struct buf *b = out.buf;

	buf_reset(b);
	buf_lit(b, "{\"resource\":");
	append_key_values(b, r->attributes);
	count_member(b, "resource_dropped_attributes_count", r->dropped_attributes_count);
	append_scope(b, s);
	if (!append_profile_object(j, &out, index, err))
		return false;
	name_member(j, b, "sample_type", profile->sample_type.type, MESSAGE_PROFILE, index,
		    "sample_type.type_strindex");
	name_member(j, b, "sample_unit", profile->sample_type.unit, MESSAGE_PROFILE, index,
		    "sample_type.unit_strindex");
	return render_out_check(&out, err);
}

static bool append_profile(struct json_renderer *j, struct render_out *out,
			   const struct resource_profiles *r, const struct scope_profiles *s,
			   uint32_t index, struct err *err)
{
	const struct profile *profile = &j->names.profiles->profiles[index];

	if (!make_prefix(j, r, s, index, err))
		return false;
	for (uint32_t i = 0; i < profile->samples.count; i++) {
		if (!append_sample(j, out, profile, profile->samples.first + i, err))
			return false;
	}
	return true;
}

static bool append_resource(struct json_renderer *j, struct render_out *out,
			    const struct resource_profiles *r, struct err *err)
{
	const struct profiles *p = j->names.profiles;

	for (uint32_t i = r->scopes.first; i < r->scopes.first + r->scopes.count; i++) {
		struct range list = p->scopes[i].profiles;

		for (uint32_t k = list.first; k < list.first + list.count; k++) {
			if (names_profile_wanted(p, &p->profiles[k], &j->sample_types) &&
			    !append_profile(j, out, r, &p->scopes[i], k, err))
				return false;
		}
	}
	return true;
}

bool json_render(struct json_renderer *j, const struct profiles *p, struct render_out *out,
		 struct err *err)
{
	j->names = (struct names){ .profiles = p, .put = names_put_raw };
	line_cache_begin(&j->frames, p->dict.location_count);
	line_cache_begin(&j->mappings, p->dict.mapping_count);
	line_cache_begin(&j->attributes, p->dict.attribute_count);
	make_notes(j, p);
	buf_reset(&j->prefix);
	buf_trim(&j->prefix, PREFIX_KEPT_BYTES);
	for (uint32_t i = 0; i < p->resource_count; i++) {
		const struct resource_profiles *r = &p->resources[i];

		if (j->wanted && !j->wanted(j->wanted_ctx, r))
			continue;
		if (!append_resource(j, out, r, err))
			return false;
	}
	return true;
}
