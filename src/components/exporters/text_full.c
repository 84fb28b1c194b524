/*
 * text_full.c - layout full: all that a message holds, for people to read and for scripts to
 * take apart.
 *
 * One item a line, indented under what it belongs to. A line's cells stand two or more spaces
 * apart; a cell is a bare word or a JSON string (text_full.h). What is not set is left out. In
 * the grammar below capitals stand for values and [] for what may be missing.
 *
 *   request  wire V  resources N  scopes N  profiles N  samples N  timestamps N
 *     [unknown_fields  N]
 *     [bad_indices  N]           each is shown in its place: <bad index 7 of 5>
 *     [refused_profiles  N]      these are not shown
 *   resource N
 *     [schema_url  URL]
 *     [dropped_attributes_count  N]
 *     [attributes]
 *       KEY  KIND  VALUE[  ref key,value]      ref: what came as an index of a string
 *         unknown  PLACE  BASE64               fields of no schema inside an attribute: . (its
 *                                              KeyValue), value, value.array_value.values[1], ...
 *     scope N
 *       [name  TEXT], [version  TEXT], and as of a resource
 *       profile N  samples N
 *         [profile_id  32 HEX DIGITS]
 *         [time  NANOSECONDS  UTC]
 *         [duration  NANOSECONDS  GO DURATION]
 *         [sample_type  TYPE  UNIT[  temporality N NAME]]
 *         [period_type  TYPE  UNIT[  temporality N NAME]]
 *         [period  N]
 *         [dropped_attributes_count  N]
 *         [original_payload  FORMAT  N bytes  BASE64]      of 3072 bytes, "..." for more
 *         [attributes]
 *           KEY  KIND  VALUE[  unit UNIT]
 *         sample N  events N  value N[ UNIT]   what the sample counts for, sample_total()
 *           [link  trace 32 HEX DIGITS  span 16 HEX DIGITS]
 *           [values  N  N...]                  in the order that came
 *           [timestamps  N]                    sorted
 *             NANOSECONDS  LOCAL TIME[  value N]  #PLACE   PLACE: where it came in, from 0;
 *                                              value: the one of that place, if as many
 *           [attributes]
 *             KEY  KIND  VALUE[  unit UNIT]
 *           frames  N                          leaf first
 *             N  TYPE  FUNCTION[  inline DEPTH][  at FILE:LINE:COLUMN][  system NAME]
 *               [  start LINE][  addr 0xHEX][  in MAPPING#INDEX[  build ID]]   on one line
 *               KEY  KIND  VALUE[  unit UNIT]  attributes of the location, without its type
 *   [mappings  N]
 *     #INDEX  FILE  memory 0xHEX-0xHEX  offset 0xHEX
 *       KEY  KIND  VALUE[  unit UNIT]
 *
 *   [unreferenced                    entries of tables that nothing refers to, but the zero entries
 *     link #N  trace 32 HEX DIGITS  span 16 HEX DIGITS
 *     stack #N  frames N             and its frames, as a sample's
 *     location #N                    and its rows, as frame 0
 *     function #N  NAME[  at FILE][  system NAME][  start LINE]
 *     attribute #N  KEY  KIND  VALUE[  unit UNIT]
 *     string #N  TEXT]
 *
 * FUNCTION is - where a location has no lines, and "" where a function has no name. An inlined
 * chain takes one line a function, the number stands on its first; `inline 2` is two calls
 * inside the function that really has the frame. Below any message may stand
 *   extra  NAME  JSON            what only older wire versions have, and unknown fields
 *   bad  FIELD  <bad index 7 of 5>             of a reference inside an attribute's value
 */
#include "components/exporters/text_full.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "components/exporters/any_strip.h"
#include "wire/otlp.h"

enum { PAYLOAD_SHOWN_BYTES = 3072, KEY_COLUMNS = 18 };

static void head(struct text_renderer *t, struct buf *b, unsigned indent, const char *word,
		 uint32_t n)
{
	text_full_indent(b, indent);
	buf_str(b, t->style.bold);
	buf_printf(b, "%s %u", word, n);
	buf_str(b, t->style.off);
}

/* "key  " in the column of keys */
static void key(struct buf *b, unsigned indent, const char *word)
{
	size_t start;

	text_full_indent(b, indent);
	start = b->len;
	buf_str(b, str_cstr(word));
	text_full_pad(b, start, KEY_COLUMNS - 2);
	buf_lit(b, "  ");
}

static void text_row(struct buf *b, unsigned indent, const char *word, struct str s)
{
	if (!s.len)
		return;
	key(b, indent, word);
	text_full_word(b, s);
	buf_char(b, '\n');
}

static void count_row(struct buf *b, unsigned indent, const char *word, uint64_t n)
{
	if (!n)
		return;
	key(b, indent, word);
	buf_u64(b, n);
	buf_char(b, '\n');
}

static void append_key_value(struct buf *b, const struct key_value *kv)
{
	bool value_ref = any_has_reference(&kv->value);

	text_full_key_cell(b, kv->key);
	text_full_value(b, &kv->value);
	if (kv->key_strindex.v || value_ref)
		buf_printf(b, "  ref %s%s%s", kv->key_strindex.v ? "key" : "",
			   kv->key_strindex.v && value_ref ? "," : "", value_ref ? "value" : "");
	buf_char(b, '\n');
}

/* Attributes by value: of resources and scopes. */
static bool append_key_values(struct render_out *out, unsigned indent, struct key_values list,
			      struct err *err)
{
	if (list.count == 0)
		return true;
	text_full_indent(out->buf, indent);
	buf_lit(out->buf, "attributes\n");
	for (uint32_t i = 0; i < list.count; i++) {
		text_full_indent(out->buf, indent + 2);
		append_key_value(out->buf, &list.ptr[i]);
		text_full_unknown(out->buf, indent + 4, &list.ptr[i].value);
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

struct stamp {
	uint64_t ns;
	uint32_t place;
};

static int stamp_compare(const void *a, const void *b)
{
	const struct stamp *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

static const struct stamp *sorted_stamps(struct text_renderer *t, struct range list)
{
	bool sorted = true;

	if (list.count > t->stamp_cap) {
		free(t->stamps);
		t->stamp_cap = list.count < 64 ? 64 : list.count;
		t->stamps = malloc(t->stamp_cap * sizeof(*t->stamps));
		assert(t->stamps);
	}
	for (uint32_t i = 0; i < list.count; i++) {
		t->stamps[i] = (struct stamp){ t->names.profiles->timestamps[list.first + i], i };
		sorted &= i == 0 || t->stamps[i - 1].ns <= t->stamps[i].ns;
	}
	if (!sorted)
		qsort(t->stamps, list.count, sizeof(*t->stamps), stamp_compare);
	return t->stamps;
}

static bool append_timestamps(struct text_renderer *t, struct render_out *out,
			      const struct sample *s, struct err *err)
{
	bool paired = s->values.count == s->timestamps.count;
	const struct stamp *stamps;
	struct buf *b = out->buf;

	if (s->timestamps.count == 0)
		return true;
	count_row(b, 8, "timestamps", s->timestamps.count);
	stamps = sorted_stamps(t, s->timestamps);
	for (uint32_t i = 0; i < s->timestamps.count; i++) {
		text_full_indent(b, 10);
		buf_u64(b, stamps[i].ns);
		buf_lit(b, "  ");
		clock_append_late_time(b, stamps[i].ns, true, &t->local_zone);
		if (paired) {
			buf_lit(b, "  value ");
			buf_i64(b, t->names.profiles->values[s->values.first + stamps[i].place]);
		}
		buf_lit(b, "  #");
		buf_u64(b, stamps[i].place);
		buf_char(b, '\n');
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

static bool append_values(struct text_renderer *t, struct render_out *out, struct range list,
			  struct err *err)
{
	if (list.count == 0)
		return true;
	key(out->buf, 8, "values");
	for (uint32_t i = 0; i < list.count; i++) {
		if (i)
			buf_lit(out->buf, "  ");
		buf_i64(out->buf, t->names.profiles->values[list.first + i]);
		if (!render_out_check(out, err))
			return false;
	}
	buf_char(out->buf, '\n');
	return true;
}

static void append_link(struct text_renderer *t, struct buf *b, uint32_t sample)
{
	uint32_t index = t->names.profiles->samples[sample].link.v;
	const struct link *l = &t->names.profiles->dict.links[index];
	const struct bad_index *bad =
		index ? NULL : names_bad(&t->names, MESSAGE_SAMPLE, sample, "link_index", 0);

	if (!index && !bad)
		return;
	key(b, 8, "link");
	if (bad) {
		names_append_bad(b, bad);
		buf_char(b, '\n');
		return;
	}
	buf_lit(b, "trace ");
	buf_hex(b, l->trace_id, sizeof(l->trace_id));
	buf_lit(b, "  span ");
	buf_hex(b, l->span_id, sizeof(l->span_id));
	buf_char(b, '\n');
	text_full_extras(t, b, 10, MESSAGE_LINK, index);
}

static bool append_attribute_list(struct text_renderer *t, struct render_out *out, unsigned indent,
				  struct range list, enum message_kind message, uint32_t index,
				  struct err *err)
{
	if (list.count == 0)
		return true;
	text_full_indent(out->buf, indent);
	buf_lit(out->buf, "attributes\n");
	return text_full_attributes(t, out, indent + 2, list, message, index, NULL, err);
}

static void append_sample_head(struct text_renderer *t, struct buf *b,
			       const struct profile *profile, uint32_t place,
			       const struct sample *s)
{
	struct sample_total total = sample_total(t->names.profiles, profile, s);
	struct str unit = profiles_string(t->names.profiles, profile->sample_type.unit);

	head(t, b, 6, "sample", place);
	buf_printf(b, "  events %" PRIu64 "  value %" PRId64, total.events, total.value);
	if (unit.len) {
		buf_char(b, ' ');
		text_full_word(b, unit);
	}
	buf_char(b, '\n');
}

static bool append_sample(struct text_renderer *t, struct render_out *out,
			  const struct profile *profile, uint32_t place, struct err *err)
{
	uint32_t index = profile->samples.first + place;
	const struct sample *s = &t->names.profiles->samples[index];

	append_sample_head(t, out->buf, profile, place, s);
	append_link(t, out->buf, index);
	text_full_extras(t, out->buf, 8, MESSAGE_SAMPLE, index);
	return append_values(t, out, s->values, err) && append_timestamps(t, out, s, err) &&
	       append_attribute_list(t, out, 8, s->attributes, MESSAGE_SAMPLE, index, err) &&
	       text_full_frames(t, out, index, err);
}

static void append_value_type(struct text_renderer *t, struct buf *b, const char *word,
			      uint32_t profile, struct value_type type, const char *const fields[2],
			      enum extra_key temporality)
{
	static const char *const names[] = { "unspecified", "delta", "cumulative" };
	const struct extra *e =
		profiles_extra(t->names.profiles, MESSAGE_PROFILE, profile, temporality);

	if (!type.type.v && !type.unit.v && !e &&
	    !names_bad(&t->names, MESSAGE_PROFILE, profile, fields[0], 0) &&
	    !names_bad(&t->names, MESSAGE_PROFILE, profile, fields[1], 0))
		return;
	key(b, 6, word);
	text_full_name(t, b, type.type, MESSAGE_PROFILE, profile, fields[0]);
	buf_lit(b, "  ");
	text_full_name(t, b, type.unit, MESSAGE_PROFILE, profile, fields[1]);
	if (e && e->value.kind == ANY_INT) {
		uint64_t n = (uint64_t)e->value.integer;

		buf_printf(b, "  temporality %" PRId64 " %s", e->value.integer,
			   n < 3 ? names[n] : "unknown");
	}
	buf_char(b, '\n');
}

static void append_payload(struct buf *b, const struct profile *profile)
{
	struct str payload = profile->original_payload;

	if (!payload.len && !profile->original_payload_format.len)
		return;
	key(b, 6, "original_payload");
	text_full_word(b, profile->original_payload_format);
	buf_printf(b, "  %zu bytes  ", payload.len);
	buf_base64(b, payload.ptr, str_head(payload, PAYLOAD_SHOWN_BYTES).len);
	if (payload.len > PAYLOAD_SHOWN_BYTES)
		buf_lit(b, "...");
	buf_char(b, '\n');
}

static void append_times(struct text_renderer *t, struct buf *b, const struct profile *profile)
{
	if (profile->time_unix_nano) {
		key(b, 6, "time");
		buf_u64(b, profile->time_unix_nano);
		buf_lit(b, "  ");
		clock_append_late_time(b, profile->time_unix_nano, false, &t->utc_zone);
		buf_char(b, '\n');
	}
	if (profile->duration_nano) {
		key(b, 6, "duration");
		buf_u64(b, profile->duration_nano);
		buf_lit(b, "  ");
		duration_append(b, profile->duration_nano);
		buf_char(b, '\n');
	}
}

static void append_profile_head(struct text_renderer *t, struct buf *b, uint32_t index,
				uint32_t place)
{
	static const char *const sample_fields[] = { "sample_type.type_strindex",
						     "sample_type.unit_strindex" };
	static const char *const period_fields[] = { "period_type.type_strindex",
						     "period_type.unit_strindex" };
	const struct profile *profile = &t->names.profiles->profiles[index];

	head(t, b, 4, "profile", place);
	buf_printf(b, "  samples %u\n", profile->samples.count);
	if (!id_is_zero(profile->profile_id, sizeof(profile->profile_id))) {
		key(b, 6, "profile_id");
		buf_hex(b, profile->profile_id, sizeof(profile->profile_id));
		buf_char(b, '\n');
	}
	append_times(t, b, profile);
	append_value_type(t, b, "sample_type", index, profile->sample_type, sample_fields,
			  EXTRA_SAMPLE_TEMPORALITY);
	append_value_type(t, b, "period_type", index, profile->period_type, period_fields,
			  EXTRA_PERIOD_TEMPORALITY);
	if (profile->period) {
		key(b, 6, "period");
		buf_i64(b, profile->period);
		buf_char(b, '\n');
	}
	count_row(b, 6, "dropped_attributes_count", profile->dropped_attributes_count);
	append_payload(b, profile);
	text_full_extras(t, b, 6, MESSAGE_PROFILE, index);
}

static bool append_profile(struct text_renderer *t, struct render_out *out, uint32_t index,
			   uint32_t place, struct err *err)
{
	const struct profile *profile = &t->names.profiles->profiles[index];

	append_profile_head(t, out->buf, index, place);
	if (!append_attribute_list(t, out, 6, profile->attributes, MESSAGE_PROFILE, index, err))
		return false;
	for (uint32_t i = 0; i < profile->samples.count; i++) {
		if (!append_sample(t, out, profile, i, err))
			return false;
	}
	return render_out_check(out, err);
}

static bool append_scope(struct text_renderer *t, struct render_out *out, uint32_t index,
			 uint32_t place, struct err *err)
{
	const struct profiles *p = t->names.profiles;
	const struct scope_profiles *s = &p->scopes[index];
	struct buf *b = out->buf;

	head(t, b, 2, "scope", place);
	buf_char(b, '\n');
	text_row(b, 4, "name", s->name);
	text_row(b, 4, "version", s->version);
	text_row(b, 4, "schema_url", s->schema_url);
	count_row(b, 4, "dropped_attributes_count", s->dropped_attributes_count);
	text_full_extras(t, b, 4, MESSAGE_SCOPE_PROFILES, index);
	text_full_extras(t, b, 4, MESSAGE_SCOPE, index);
	if (!append_key_values(out, 4, s->attributes, err))
		return false;
	for (uint32_t i = 0; i < s->profiles.count; i++) {
		uint32_t k = s->profiles.first + i;

		if (names_profile_wanted(p, &p->profiles[k], &t->options.sample_types) &&
		    !append_profile(t, out, k, i, err))
			return false;
	}
	return render_out_check(out, err);
}

static bool append_resource(struct text_renderer *t, struct render_out *out, uint32_t index,
			    struct err *err)
{
	const struct resource_profiles *r = &t->names.profiles->resources[index];
	struct buf *b = out->buf;

	head(t, b, 0, "resource", index);
	buf_char(b, '\n');
	text_row(b, 2, "schema_url", r->schema_url);
	count_row(b, 2, "dropped_attributes_count", r->dropped_attributes_count);
	text_full_extras(t, b, 2, MESSAGE_RESOURCE_PROFILES, index);
	text_full_extras(t, b, 2, MESSAGE_RESOURCE, index);
	if (!append_key_values(out, 2, r->attributes, err))
		return false;
	for (uint32_t i = 0; i < r->scopes.count; i++) {
		if (!append_scope(t, out, r->scopes.first + i, i, err))
			return false;
	}
	return render_out_check(out, err);
}

static void append_request_head(struct text_renderer *t, struct buf *b)
{
	const struct profiles *p = t->names.profiles;

	buf_str(b, t->style.bold);
	buf_lit(b, "request");
	buf_str(b, t->style.off);
	buf_printf(
		b, "  wire %s  resources %u  scopes %u  profiles %u  samples %u  timestamps %u\n",
		p->source_version ? wire_version_name(p->source_version) : "-", p->resource_count,
		p->scope_count, p->profile_count, p->sample_count, p->timestamp_count);
	count_row(b, 2, "unknown_fields", p->unknown_field_count);
	count_row(b, 2, "bad_indices", p->bad_index_count);
	count_row(b, 2, "refused_profiles", p->refused_profile_count);
	text_full_extras(t, b, 2, MESSAGE_REQUEST, 0);
	text_full_extras(t, b, 2, MESSAGE_DICTIONARY, 0);
}

bool text_full_render(struct text_renderer *t, const struct profiles *p, struct render_out *out,
		      struct err *err)
{
	append_request_head(t, out->buf);
	for (uint32_t i = 0; i < p->resource_count; i++) {
		if (!append_resource(t, out, i, err))
			return false;
	}
	if (!text_full_mappings(t, out, err) || !text_full_unreferenced(t, out, err))
		return false;
	buf_char(out->buf, '\n');
	return true;
}
