/*
 * text_classic.c - the layouts 2026, seed-000, seed-001 and typed: one family, which the lazy
 * backend grew through.
 *
 *   --------------- New Resource Profile --------------
 *     key: value
 *   ------------------- New Profile -------------------
 *     ProfileID: 32 hex digits
 *     Time: ...            2026, seed-001
 *     Duration: ...        2026: nanoseconds; seed-001: a date
 *     PeriodType: [..]     2026: type, unit; seed-001: type, unit, temporality
 *     Period: n            2026, seed-001
 *     Dropped attributes count: n
 *     SampleType: name
 *     key: value           profile attributes, then a line of 48 '~'
 *   ------------------- New Sample --------------------
 *     Timestamp[i]: n (local time)        not typed
 *     key: value           then a line of 51 '-'
 *   Instrumentation: type, Function: f, File: f, Line: n, Column: n     each line, leaf first
 *   Instrumentation: type: Function: 0x0000, File: mapping              without lines
 *   ------------------- End Sample --------------------
 *   ------------------- End Profile -------------------
 *   -------------- End Resource Profile ---------------
 *                          an empty line
 * Sources: the seeds; opentelemetry-lazybackend, June 2026; its customprofilesexporter for `typed`.
 */
#include "components/exporters/text_layout.h"

#include "components/exporters/any_strip.h"

static void heading(const struct text_renderer *t, struct buf *b, struct str text)
{
	buf_str(b, t->style.dim);
	buf_str(b, text);
	buf_str(b, t->style.off);
	buf_char(b, '\n');
}

/* pdata's ValueType.String() */
static const char *kind_name(enum any_kind kind)
{
	static const char *const names[] = {
		[ANY_EMPTY] = "Empty", [ANY_STRING] = "Str",    [ANY_BOOL] = "Bool",
		[ANY_INT] = "Int",     [ANY_DOUBLE] = "Double", [ANY_ARRAY] = "Slice",
		[ANY_KVLIST] = "Map",  [ANY_BYTES] = "Bytes",
	};

	return names[kind];
}

/* A value as text, made fit for a terminal where that is asked for. */
static void append_value(struct text_renderer *t, struct buf *b, const struct any_value *v)
{
	struct any_strip strip;
	size_t start = b->len;

	if (t->options.layout == TEXT_2026 && any_has_reference(v)) {
		t->hid_references = true;
		any_value_append_text(b, any_strip_references(&strip, v));
		any_strip_release(&strip);
	} else {
		any_value_append_text(b, v);
	}
	if (t->options.printable && b->len > start) {
		struct buf shown;

		buf_init(&shown, 0);
		t->names.put(&shown, str_from(b->ptr + start, b->len - start));
		b->len = start;
		buf_str(b, buf_view(&shown));
		buf_release(&shown);
	}
	if (t->options.layout == TEXT_TYPED)
		buf_printf(b, " (%s)", kind_name(v->kind));
}

/* A bad index of a reference inside the attributes of a resource is noted for the resource: it is
 * shown where a key or value came out empty. */
static bool append_bad_reference(struct text_renderer *t, struct buf *b, uint32_t resource,
				 const char *field, bool empty)
{
	const struct bad_index *bad =
		empty ? names_bad(&t->names, MESSAGE_RESOURCE, resource, field, 0) : NULL;

	if (bad)
		names_append_bad(b, bad);
	return bad != NULL;
}

static void append_key(struct text_renderer *t, struct buf *b, const struct key_value *kv,
		       uint32_t resource)
{
	if (t->options.layout == TEXT_2026 && kv->key_strindex.v)
		t->hid_references = true;
	else if (!append_bad_reference(t, b, resource, "key_strindex", kv->key.len == 0))
		t->names.put(b, kv->key);
}

static void append_key_values(struct text_renderer *t, struct buf *b, struct key_values list,
			      uint32_t resource)
{
	for (uint32_t i = 0; i < list.count; i++) {
		const struct key_value *kv = &list.ptr[i];
		bool empty = kv->value.kind == ANY_STRING && kv->value.string.len == 0;

		buf_lit(b, "  ");
		append_key(t, b, kv, resource);
		buf_lit(b, ": ");
		if (!append_bad_reference(t, b, resource, "string_value_strindex", empty))
			append_value(t, b, &kv->value);
		buf_char(b, '\n');
	}
}

static void append_attribute_line(struct text_renderer *t, struct buf *b, struct attribute_index i)
{
	const struct attribute *a = &t->names.profiles->dict.attributes[i.v];

	buf_lit(b, "  ");
	names_append(&t->names, b, a->key, MESSAGE_ATTRIBUTE, i.v, "key_strindex");
	buf_lit(b, ": ");
	append_value(t, b, &a->value);
	buf_char(b, '\n');
}

static void append_attribute(struct text_renderer *t, struct buf *b, struct attribute_index i)
{
	struct str line;
	size_t start;

	if (!line_cache_get(&t->attributes, i.v, &line)) {
		append_attribute_line(t, line_cache_make(&t->attributes, &start), i);
		if (!line_cache_made(&t->attributes, i.v, start, &line)) {
			append_attribute_line(t, b, i);
			return;
		}
	}
	buf_str(b, line);
}

static bool append_attributes(struct text_renderer *t, struct render_out *out, struct range list,
			      enum message_kind message, uint32_t index, struct err *err)
{
	for (uint32_t i = 0; i < list.count; i++) {
		struct attribute_index a = names_attribute_ref(t->names.profiles, list, i);
		const struct bad_index *bad =
			a.v ? NULL : names_bad(&t->names, message, index, "attribute_indices", i);

		if (bad) {
			buf_lit(out->buf, "  ");
			names_append_bad(out->buf, bad);
			buf_lit(out->buf, ": \n");
		} else {
			append_attribute(t, out->buf, a);
		}
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

/* "Instrumentation: go", in the hue of the runtime */
static void append_instrumentation(struct text_renderer *t, struct buf *b, struct str type)
{
	buf_lit(b, "Instrumentation: ");
	buf_str(b, text_style_frame_type(&t->style, type));
	t->names.put(b, type);
	buf_str(b, t->style.off);
}

static bool shows_file(const struct text_renderer *t)
{
	return t->options.layout != TEXT_TYPED || t->options.function_file;
}

static void append_line(struct text_renderer *t, struct buf *b, struct str type,
			const struct line *line)
{
	append_instrumentation(t, b, type);
	buf_lit(b, ", Function: ");
	buf_str(b, t->style.bold);
	names_append_function(&t->names, b, line);
	buf_str(b, t->style.off);
	if (shows_file(t)) {
		buf_lit(b, ", File: ");
		names_append_file(&t->names, b, line);
		buf_lit(b, ", Line: ");
		buf_i64(b, line->line);
		buf_lit(b, ", Column: ");
		buf_i64(b, line->column);
	}
	buf_char(b, '\n');
}

/* Go's %#04x: four digits at least, and 0x before them. */
static void append_unsymbolized(struct text_renderer *t, struct buf *b, struct str type,
				const struct location *l)
{
	append_instrumentation(t, b, type);
	buf_lit(b, ": Function: ");
	names_append_hex(b, l->address, 4);
	buf_lit(b, ", File: ");
	if (names_has_mapping(&t->names, l))
		names_append_mapping(&t->names, b, l);
	else
		buf_lit(b, "<unknown>");
	buf_char(b, '\n');
}

static void append_bad_frame(struct text_renderer *t, struct buf *b, const struct bad_index *bad)
{
	append_instrumentation(t, b, STR("unknown"));
	buf_lit(b, ", Function: ");
	names_append_bad(b, bad);
	if (shows_file(t))
		buf_lit(b, ", File: , Line: 0, Column: 0");
	buf_char(b, '\n');
}

static bool append_lines(struct text_renderer *t, struct render_out *out, const struct location *l,
			 struct str type, struct err *err)
{
	if (!names_wanted(&t->options.stack_frame_types, type))
		return true;
	if (l->lines.count == 0)
		append_unsymbolized(t, out->buf, type, l);
	for (uint32_t i = 0; i < l->lines.count; i++) {
		append_line(t, out->buf, type, &t->names.profiles->dict.lines[l->lines.first + i]);
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

static bool append_typed_lines(struct text_renderer *t, struct render_out *out,
			       const struct location *l, struct err *err)
{
	struct buf text;
	bool ok;

	buf_init(&text, 0);
	ok = append_lines(t, out, l, names_frame_type(&t->names, l, &text), err);
	buf_release(&text);
	return ok;
}

static bool append_location(struct text_renderer *t, struct render_out *out, uint32_t index,
			    struct err *err)
{
	const struct location *l = &t->names.profiles->dict.locations[index];
	struct render_out cached = { 0 };
	struct str lines;
	size_t start;

	if (!line_cache_get(&t->frames, index, &lines)) {
		cached.buf = line_cache_make(&t->frames, &start);
		if (!append_typed_lines(t, &cached, l, err) ||
		    !line_cache_made(&t->frames, index, start, &lines))
			return append_typed_lines(t, out, l, err);
	}
	buf_str(out->buf, lines);
	return true;
}

static bool append_stack(struct text_renderer *t, struct render_out *out, struct stack_index stack,
			 struct err *err)
{
	const struct dictionary *d = &t->names.profiles->dict;
	struct range list = d->stacks[stack.v].locations;

	for (uint32_t i = 0; i < list.count; i++) {
		uint32_t index = d->stack_locations[list.first + i].v;
		const struct bad_index *bad =
			index ? NULL
			      : names_bad(&t->names, MESSAGE_STACK, stack.v, "location_indices", i);

		if (bad)
			append_bad_frame(t, out->buf, bad);
		else if (!append_location(t, out, index, err))
			return false;
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

static bool append_timestamps(struct text_renderer *t, struct render_out *out, struct range list,
			      struct err *err)
{
	for (uint32_t i = 0; i < list.count; i++) {
		uint64_t ns = t->names.profiles->timestamps[list.first + i];
		struct buf *b = out->buf;

		if (t->options.layout == TEXT_SEED_000)
			buf_lit(b, "  timestamp[");
		else
			buf_lit(b, "  Timestamp[");
		buf_u64(b, i);
		buf_lit(b, "]: ");
		buf_u64(b, ns);
		buf_lit(b, " (");
		clock_append_go_time(b, ns, true, &t->local_zone);
		buf_lit(b, ")\n");
		if (!render_out_check(out, err))
			return false;
	}
	return true;
}

static bool append_sample(struct text_renderer *t, struct render_out *out, uint32_t index,
			  struct err *err)
{
	const struct sample *s = &t->names.profiles->samples[index];
	const struct bad_index *bad;

	heading(t, out->buf, STR("------------------- New Sample --------------------"));
	if (t->options.layout != TEXT_TYPED && !append_timestamps(t, out, s->timestamps, err))
		return false;
	if (t->options.sample_attributes) {
		if (!append_attributes(t, out, s->attributes, MESSAGE_SAMPLE, index, err))
			return false;
		heading(t, out->buf, STR("---------------------------------------------------"));
	}
	if (t->options.stack_frames) {
		bad = s->stack.v ? NULL
				 : names_bad(&t->names, MESSAGE_SAMPLE, index, "stack_index", 0);
		if (bad)
			append_bad_frame(t, out->buf, bad);
		else if (!append_stack(t, out, s->stack, err))
			return false;
	}
	heading(t, out->buf, STR("------------------- End Sample --------------------"));
	return render_out_check(out, err);
}

/* pdata's AggregationTemporality.String() */
static const char *temporality_name(const struct profiles *p, uint32_t profile)
{
	const struct extra *e =
		profiles_extra(p, MESSAGE_PROFILE, profile, EXTRA_PERIOD_TEMPORALITY);

	if (!e || e->value.kind != ANY_INT || e->value.integer == 0)
		return "Unspecified";
	return e->value.integer == 1 ? "Delta" : e->value.integer == 2 ? "Cumulative" : "";
}

static void append_times(struct text_renderer *t, struct buf *b, const struct profile *profile,
			 uint32_t index)
{
	bool seed_001 = t->options.layout == TEXT_SEED_001;

	buf_lit(b, "  Time: ");
	clock_append_go_time(b, profile->time_unix_nano, false, &t->utc_zone);
	buf_lit(b, "\n  Duration: ");
	if (seed_001)
		clock_append_go_time(b, profile->duration_nano, false, &t->utc_zone);
	else
		buf_u64(b, profile->duration_nano);
	buf_lit(b, "\n  PeriodType: [");
	names_append(&t->names, b, profile->period_type.type, MESSAGE_PROFILE, index,
		     "period_type.type_strindex");
	buf_lit(b, ", ");
	names_append(&t->names, b, profile->period_type.unit, MESSAGE_PROFILE, index,
		     "period_type.unit_strindex");
	if (seed_001) {
		buf_lit(b, ", ");
		buf_str(b, str_cstr(temporality_name(t->names.profiles, index)));
	}
	buf_lit(b, "]\n  Period: ");
	buf_i64(b, profile->period);
	buf_char(b, '\n');
}

static void append_profile_head(struct text_renderer *t, struct buf *b,
				const struct profile *profile, uint32_t index)
{
	heading(t, b, STR("------------------- New Profile -------------------"));
	buf_lit(b, "  ProfileID: ");
	buf_hex(b, profile->profile_id, sizeof(profile->profile_id));
	buf_char(b, '\n');
	if (t->options.layout == TEXT_2026 || t->options.layout == TEXT_SEED_001)
		append_times(t, b, profile, index);
	buf_lit(b, "  Dropped attributes count: ");
	buf_u64(b, profile->dropped_attributes_count);
	buf_lit(b, "\n  SampleType: ");
	names_append(&t->names, b, profile->sample_type.type, MESSAGE_PROFILE, index,
		     "sample_type.type_strindex");
	buf_char(b, '\n');
}

static bool append_profile(struct text_renderer *t, struct render_out *out, uint32_t index,
			   struct err *err)
{
	const struct profile *profile = &t->names.profiles->profiles[index];

	append_profile_head(t, out->buf, profile, index);
	if (t->options.profile_attributes && profile->attributes.count) {
		if (!append_attributes(t, out, profile->attributes, MESSAGE_PROFILE, index, err))
			return false;
		heading(t, out->buf, STR("~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~"));
	}
	for (uint32_t i = 0; i < profile->samples.count; i++) {
		if (!append_sample(t, out, profile->samples.first + i, err))
			return false;
	}
	heading(t, out->buf, STR("------------------- End Profile -------------------"));
	return render_out_check(out, err);
}

static bool append_scopes(struct text_renderer *t, struct render_out *out, struct range scopes,
			  struct err *err)
{
	const struct profiles *p = t->names.profiles;

	for (uint32_t i = scopes.first; i < scopes.first + scopes.count; i++) {
		struct range list = p->scopes[i].profiles;

		for (uint32_t k = list.first; k < list.first + list.count; k++) {
			if (names_profile_wanted(p, &p->profiles[k], &t->options.sample_types) &&
			    !append_profile(t, out, k, err))
				return false;
		}
	}
	return true;
}

static bool has_container_id(const struct resource_profiles *r)
{
	const struct any_value *v = key_values_find(r->attributes, STR("container.id"));
	struct buf text;
	bool found;

	if (!v)
		return false;
	buf_init(&text, 0);
	any_value_append_text(&text, v);
	found = text.len > 0;
	buf_release(&text);
	return found;
}

static bool append_resource(struct text_renderer *t, struct render_out *out,
			    const struct resource_profiles *r, struct err *err)
{
	heading(t, out->buf, STR("--------------- New Resource Profile --------------"));
	if (t->options.ignore_profiles_without_container_id && !has_container_id(r)) {
		buf_lit(out->buf, "              SKIPPED (no container.id)\n");
	} else {
		if (t->options.resource_attributes)
			append_key_values(t, out->buf, r->attributes,
					  NAMES_INDEX(t->names.profiles->resources, r));
		if (!append_scopes(t, out, r->scopes, err))
			return false;
	}
	heading(t, out->buf, STR("-------------- End Resource Profile ---------------"));
	buf_char(out->buf, '\n');
	return render_out_check(out, err);
}

bool text_classic_render(struct text_renderer *t, const struct profiles *p, struct render_out *out,
			 struct err *err)
{
	for (uint32_t i = 0; i < p->resource_count; i++) {
		if (!append_resource(t, out, &p->resources[i], err))
			return false;
	}
	return true;
}
