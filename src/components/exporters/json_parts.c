#include "components/exporters/json_parts.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "components/exporters/json_any.h"
#include "model/intern.h"

enum {
	CACHE_TEXT_BYTES = 2 << 20,
	NOTES_KEPT = 1 << 14,
};

void json_parts_init(struct json_parts *j)
{
	*j = (struct json_parts){ 0 };
	line_cache_init(&j->frames, CACHE_TEXT_BYTES);
	line_cache_init(&j->mappings, CACHE_TEXT_BYTES);
	line_cache_init(&j->attributes, CACHE_TEXT_BYTES);
	line_cache_init(&j->places, CACHE_TEXT_BYTES);
	line_cache_init(&j->types, CACHE_TEXT_BYTES);
}

void json_parts_release(struct json_parts *j)
{
	line_cache_release(&j->frames);
	line_cache_release(&j->mappings);
	line_cache_release(&j->attributes);
	line_cache_release(&j->places);
	line_cache_release(&j->types);
	free(j->notes);
	free(j->used);
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
static void name_member(struct json_parts *j, struct buf *b, const char *key, struct strindex s,
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

static void append_attribute_member(struct json_parts *j, struct buf *b, uint32_t index)
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

static void append_attribute(struct json_parts *j, struct buf *b, uint32_t index)
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

bool json_attributes_append(struct json_parts *j, struct render_out *out, struct range list,
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

bool json_has_units(const struct profiles *p, struct range list)
{
	for (uint32_t i = 0; i < list.count; i++) {
		if (p->dict.attributes[names_attribute_ref(p, list, i).v].unit.v)
			return true;
	}
	return false;
}

bool json_units_append(struct json_parts *j, struct render_out *out, struct range list,
		       struct err *err)
{
	const struct profiles *p = j->names.profiles;
	bool first = true;

	if (!json_has_units(p, list))
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

static void append_function(struct json_parts *j, struct buf *b, const struct line *line)
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

static void append_mapping_name(struct json_parts *j, struct buf *b, uint32_t index)
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
static void make_mapping(struct json_parts *j, struct buf *b, uint32_t index)
{
	buf_lit(b, ",\"mapping\":");
	append_mapping_name(j, b, index);
	if (j->notes[index].differs) {
		buf_lit(b, ",\"build_id\":");
		buf_json_string(
			b, names_build_id(&j->names, &j->names.profiles->dict.mappings[index]));
	}
}

static void append_mapping(struct json_parts *j, struct buf *b, uint32_t index)
{
	struct str text;
	size_t start;

	if (!line_cache_get(&j->places, index, &text)) {
		make_mapping(j, line_cache_make(&j->places, &start), index);
		if (!line_cache_made(&j->places, index, start, &text)) {
			make_mapping(j, b, index);
			return;
		}
	}
	line_cache_copy(b, text);
}

static void append_place(struct json_parts *j, struct buf *b, const struct location *l)
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

static void append_build_id_member(struct json_parts *j, struct buf *b, uint32_t index)
{
	append_mapping_name(j, b, index);
	buf_char(b, ':');
	buf_json_string(b, names_build_id(&j->names, &j->names.profiles->dict.mappings[index]));
}

/* ,"build_ids":{"file":"hex"} of the mappings that the sample's frames are in */
bool json_build_ids_append(struct json_parts *j, struct render_out *out, struct err *err)
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

void json_mapping_use(struct json_parts *j, uint32_t user, uint32_t mapping)
{
	struct json_mapping_note *note;

	mapping = j->notes[mapping].stands_in;
	note = &j->notes[mapping];
	if (note->last_user == user + 1)
		return;
	note->last_user = user + 1;
	if (note->has_build_id && note->first_of_name)
		j->used[j->used_count++] = mapping;
}

static bool name_same(const void *ctx, uint32_t index, const void *key)
{
	const struct profiles *p = ctx;

	return str_equal(profiles_string(p, p->dict.mappings[index].filename),
			 *(const struct str *)key);
}

static void make_notes(struct json_parts *j, const struct profiles *p)
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
		struct str id = names_build_id(&j->names, &p->dict.mappings[i]);
		bool is_first = first == UINT32_MAX;
		bool same = is_first ||
			    str_equal(id, names_build_id(&j->names, &p->dict.mappings[first]));

		j->notes[i] = (struct json_mapping_note){
			.stands_in = is_first || !same ? i : first,
			.first_of_name = is_first,
			.has_build_id = id.len > 0,
			.differs = !same,
		};
	}
	intern_release(&names);
}

static void make_type(struct json_parts *j, struct buf *b, const struct location *l)
{
	struct buf text;

	buf_init(&text, 0);
	buf_lit(b, "{\"type\":");
	buf_json_string(b, names_frame_type(&j->names, l, &text));
	buf_release(&text);
}

/* {"type":"native" - nearly all locations have one attribute, which is their type. */
static void append_type(struct json_parts *j, struct buf *b, const struct location *l)
{
	struct str text;
	uint32_t index;
	size_t start;

	if (l->attributes.count != 1) {
		make_type(j, b, l);
		return;
	}
	index = names_attribute_ref(j->names.profiles, l->attributes, 0).v;
	if (!line_cache_get(&j->types, index, &text)) {
		make_type(j, line_cache_make(&j->types, &start), l);
		if (!line_cache_made(&j->types, index, start, &text)) {
			make_type(j, b, l);
			return;
		}
	}
	line_cache_copy(b, text);
}

/* One object for each line of a location, or one for a location without lines. */
static bool append_frame_objects(struct json_parts *j, struct render_out *out,
				 const struct location *l, struct err *err)
{
	const struct dictionary *d = &j->names.profiles->dict;
	uint32_t count = l->lines.count ? l->lines.count : 1;

	for (uint32_t i = 0; i < count; i++) {
		struct buf *b = out->buf;

		if (i)
			buf_char(b, ',');
		append_type(j, b, l);
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

bool json_location_append(struct json_parts *j, struct render_out *out, uint32_t index, bool first,
			  struct err *err)
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

void json_bad_frame_append(struct buf *b, const struct bad_index *bad, bool first)
{
	if (!first)
		buf_char(b, ',');
	buf_lit(b, "{\"type\":\"unknown\",\"function\":");
	append_bad(b, bad);
	buf_char(b, '}');
}

bool json_numbers_append(struct json_parts *j, struct render_out *out, const struct sample *s,
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

void json_link_append(struct json_parts *j, struct buf *b, uint32_t sample)
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

void json_extras_append(struct json_parts *j, struct buf *b, enum message_kind message,
			uint32_t index)
{
	const struct profiles *p = j->names.profiles;
	struct range r = p->extra_count ? profiles_extras(p, message, index) : (struct range){ 0 };
	bool begun = false;

	for (uint32_t i = r.first; i < r.first + r.count; i++) {
		const struct extra *x = &p->extras[i];

		if (extra_is_raw(x->key) || x->key == EXTRA_PROFILE_ATTRIBUTES)
			continue; /* the latter are among the attributes */
		if (!begun) {
			KEY(b, "extra");
			buf_char(b, '{');
			begun = true;
		}
		comma(b);
		buf_printf(b, "\"%s\":", extra_key_name(x->key));
		json_any_append(b, &x->value);
	}
	if (begun)
		buf_char(b, '}');
}

void json_payload_append(struct json_parts *j, struct buf *b, uint32_t profile)
{
	struct str payload = j->names.profiles->profiles[profile].original_payload;

	if (!payload.len)
		return;
	buf_lit(b, ",\"original_payload\":\"");
	buf_base64(b, payload.ptr, payload.len);
	buf_char(b, '"');
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

static bool append_profile_object(struct json_parts *j, struct render_out *out, uint32_t index,
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
	string_member(b, "original_payload_format", profile->original_payload_format);
	if (profile->attributes.count) {
		KEY(b, "attributes");
		if (!json_attributes_append(j, out, profile->attributes, MESSAGE_PROFILE, index,
					    err))
			return false;
	}
	json_extras_append(j, b, MESSAGE_PROFILE, index);
	buf_char(b, '}');
	return true;
}

bool json_profile_head(struct json_parts *j, struct buf *b, const struct resource_profiles *r,
		       const struct scope_profiles *s, uint32_t index, struct err *err)
{
	const struct profile *profile = &j->names.profiles->profiles[index];
	struct render_out out = { .buf = b };

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

void json_parts_begin(struct json_parts *j, const struct profiles *p)
{
	j->names = (struct names){ .profiles = p, .put = names_put_raw };
	line_cache_begin(&j->frames, p->dict.location_count);
	line_cache_begin(&j->mappings, p->dict.mapping_count);
	line_cache_begin(&j->attributes, p->dict.attribute_count);
	line_cache_begin(&j->places, p->dict.mapping_count);
	line_cache_begin(&j->types, p->dict.attribute_count);
	make_notes(j, p);
}
