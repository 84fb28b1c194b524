#include "model/equal.h"

#include "base/buf.h"

struct pair {
	const struct profiles *a, *b;
	unsigned flags;
	struct err *why;
	enum message_kind message; /* the place that a difference is reported for */
	uint32_t index;
};

static bool differ(struct pair *x, const char *what, struct str a, struct str b)
{
	struct buf path;

	buf_init(&path, 0);
	profiles_append_path(&path, x->a, x->message, x->index);
	err_set(x->why, ERR_INVALID, "%.*s: %s is \"%.*s\" and \"%.*s\"", STR_ARG(buf_view(&path)),
		what, STR_ARG(str_head(a, 40)), STR_ARG(str_head(b, 40)));
	buf_release(&path);
	return false;
}

static bool same_number(struct pair *x, const char *what, uint64_t a, uint64_t b)
{
	char text_a[24], text_b[24];

	if (a == b)
		return true;
	snprintf(text_a, sizeof(text_a), "%lld", (long long)a);
	snprintf(text_b, sizeof(text_b), "%lld", (long long)b);
	return differ(x, what, str_cstr(text_a), str_cstr(text_b));
}

static bool same_string(struct pair *x, const char *what, struct str a, struct str b)
{
	return str_equal(a, b) || differ(x, what, a, b);
}

static bool same_strindex(struct pair *x, const char *what, struct strindex a, struct strindex b)
{
	return same_string(x, what, profiles_string(x->a, a), profiles_string(x->b, b));
}

static bool same_any(struct pair *x, const char *what, const struct any_value *a,
		     const struct any_value *b)
{
	struct buf text_a, text_b;

	if (any_value_equal(a, b) && ((x->flags & EQUAL_IGNORE_REFERENCES) ||
				      a->kind != ANY_STRING || !a->strindex.v == !b->strindex.v))
		return true;
	buf_init(&text_a, 0);
	buf_init(&text_b, 0);
	any_value_append_text(&text_a, a);
	any_value_append_text(&text_b, b);
	differ(x, what, buf_view(&text_a), buf_view(&text_b));
	buf_release(&text_a);
	buf_release(&text_b);
	return false;
}

static bool same_key_values(struct pair *x, struct key_values a, struct key_values b)
{
	if (!same_number(x, "the number of attributes", a.count, b.count))
		return false;
	for (uint32_t i = 0; i < a.count; i++) {
		if (!same_string(x, "an attribute's key", a.ptr[i].key, b.ptr[i].key) ||
		    !same_any(x, "an attribute's value", &a.ptr[i].value, &b.ptr[i].value))
			return false;
		if (!(x->flags & EQUAL_IGNORE_REFERENCES) &&
		    !a.ptr[i].key_strindex.v != !b.ptr[i].key_strindex.v)
			return differ(x, "how a key is written", a.ptr[i].key, b.ptr[i].key);
	}
	return true;
}

/* ---- extras and bad indices of one message ---- */

static struct range bad_indices_of(const struct profiles *p, enum message_kind message,
				   uint32_t index)
{
	struct range r = { 0 };

	for (uint32_t i = 0; i < p->bad_index_count; i++)
		if (p->bad_indices[i].message == message && p->bad_indices[i].index == index) {
			if (!r.count)
				r.first = i;
			r.count++;
		}
	return r;
}

static bool same_notes(struct pair *x, enum message_kind message, uint32_t index_a,
		       uint32_t index_b)
{
	struct range a, b;

	if ((x->flags & EQUAL_IGNORE_EXTRAS))
		return true;
	a = profiles_extras(x->a, message, index_a);
	b = profiles_extras(x->b, message, index_b);
	if (!same_number(x, "the number of extras", a.count, b.count))
		return false;
	for (uint32_t i = 0; i < a.count; i++) {
		const struct extra *ea = &x->a->extras[a.first + i];
		const struct extra *eb = profiles_extra(x->b, message, index_b, ea->key);

		if (!eb)
			return differ(x, extra_key_name(ea->key), STR("there"), STR("not there"));
		if (!same_any(x, extra_key_name(ea->key), &ea->value, &eb->value))
			return false;
	}
	a = bad_indices_of(x->a, message, index_a);
	b = bad_indices_of(x->b, message, index_b);
	if (!same_number(x, "the number of bad indices", a.count, b.count))
		return false;
	for (uint32_t i = 0; i < a.count; i++) {
		const struct bad_index *ba = &x->a->bad_indices[a.first + i],
				       *bb = &x->b->bad_indices[b.first + i];

		if (strcmp(ba->field, bb->field) != 0 || ba->element != bb->element)
			return differ(x, "a bad index", str_cstr(ba->field), str_cstr(bb->field));
		if (!same_number(x, ba->field, (uint64_t)ba->value, (uint64_t)bb->value))
			return false;
	}
	return true;
}

/* ---- dictionary entries ---- */

static bool same_refs(struct pair *x, struct range a, struct range b)
{
	if (!same_number(x, "the number of attribute_indices", a.count, b.count))
		return false;
	for (uint32_t i = 0; i < a.count; i++) {
		struct attribute_index ia = x->a->attribute_refs[a.first + i],
				       ib = x->b->attribute_refs[b.first + i];
		const struct attribute *aa = &x->a->dict.attributes[ia.v],
				       *ab = &x->b->dict.attributes[ib.v];

		if (!same_strindex(x, "an attribute's key", aa->key, ab->key) ||
		    !same_strindex(x, "an attribute's unit", aa->unit, ab->unit) ||
		    !same_any(x, "an attribute's value", &aa->value, &ab->value) ||
		    !same_notes(x, MESSAGE_ATTRIBUTE, ia.v, ib.v))
			return false;
	}
	return true;
}

static bool same_mapping(struct pair *x, struct mapping_index a, struct mapping_index b)
{
	const struct mapping *ma = &x->a->dict.mappings[a.v], *mb = &x->b->dict.mappings[b.v];

	return same_number(x, "memory_start", ma->memory_start, mb->memory_start) &&
	       same_number(x, "memory_limit", ma->memory_limit, mb->memory_limit) &&
	       same_number(x, "file_offset", ma->file_offset, mb->file_offset) &&
	       same_strindex(x, "a mapping's filename", ma->filename, mb->filename) &&
	       same_refs(x, ma->attributes, mb->attributes) &&
	       same_notes(x, MESSAGE_MAPPING, a.v, b.v);
}

static bool same_line(struct pair *x, uint32_t a, uint32_t b)
{
	const struct line *la = &x->a->dict.lines[a], *lb = &x->b->dict.lines[b];
	const struct function *fa = &x->a->dict.functions[la->function.v];
	const struct function *fb = &x->b->dict.functions[lb->function.v];

	return same_number(x, "line", (uint64_t)la->line, (uint64_t)lb->line) &&
	       same_number(x, "column", (uint64_t)la->column, (uint64_t)lb->column) &&
	       same_strindex(x, "a function's name", fa->name, fb->name) &&
	       same_strindex(x, "a function's system_name", fa->system_name, fb->system_name) &&
	       same_strindex(x, "a function's filename", fa->filename, fb->filename) &&
	       same_number(x, "start_line", (uint64_t)fa->start_line, (uint64_t)fb->start_line) &&
	       same_notes(x, MESSAGE_LINE, a, b) &&
	       same_notes(x, MESSAGE_FUNCTION, la->function.v, lb->function.v);
}

static bool same_location(struct pair *x, struct location_index a, struct location_index b)
{
	const struct location *la = &x->a->dict.locations[a.v], *lb = &x->b->dict.locations[b.v];

	if (!same_number(x, "address", la->address, lb->address) ||
	    !same_mapping(x, la->mapping, lb->mapping) ||
	    !same_refs(x, la->attributes, lb->attributes) ||
	    !same_number(x, "the number of lines", la->lines.count, lb->lines.count) ||
	    !same_notes(x, MESSAGE_LOCATION, a.v, b.v))
		return false;
	for (uint32_t i = 0; i < la->lines.count; i++)
		if (!same_line(x, la->lines.first + i, lb->lines.first + i))
			return false;
	return true;
}

static bool same_stack(struct pair *x, struct stack_index a, struct stack_index b)
{
	struct range la = x->a->dict.stacks[a.v].locations, lb = x->b->dict.stacks[b.v].locations;

	if (!same_number(x, "the number of frames", la.count, lb.count) ||
	    !same_notes(x, MESSAGE_STACK, a.v, b.v))
		return false;
	for (uint32_t i = 0; i < la.count; i++)
		if (!same_location(x, x->a->dict.stack_locations[la.first + i],
				   x->b->dict.stack_locations[lb.first + i]))
			return false;
	return true;
}

static bool same_link(struct pair *x, struct link_index a, struct link_index b)
{
	const struct link *la = &x->a->dict.links[a.v], *lb = &x->b->dict.links[b.v];

	return same_string(x, "trace_id", str_from(la->trace_id, 16), str_from(lb->trace_id, 16)) &&
	       same_string(x, "span_id", str_from(la->span_id, 8), str_from(lb->span_id, 8)) &&
	       same_notes(x, MESSAGE_LINK, a.v, b.v);
}

/* ---- samples, profiles, scopes, resources ---- */

static bool same_values(struct pair *x, const struct profile *pa, const struct profile *pb,
			const struct sample *a, const struct sample *b)
{
	if (x->flags & EQUAL_TOTALS) {
		struct sample_total ta = sample_total(x->a, pa, a), tb = sample_total(x->b, pb, b);

		return same_number(x, "the total value", (uint64_t)ta.value, (uint64_t)tb.value) &&
		       same_number(x, "the number of events", ta.events, tb.events);
	}
	if (!same_number(x, "the number of values", a->values.count, b->values.count))
		return false;
	for (uint32_t i = 0; i < a->values.count; i++)
		if (!same_number(x, "a value", (uint64_t)x->a->values[a->values.first + i],
				 (uint64_t)x->b->values[b->values.first + i]))
			return false;
	return true;
}

static bool same_sample(struct pair *x, const struct profile *pa, const struct profile *pb,
			uint32_t ia, uint32_t ib)
{
	const struct sample *a = &x->a->samples[ia], *b = &x->b->samples[ib];

	x->message = MESSAGE_SAMPLE;
	x->index = ia;
	if (!same_stack(x, a->stack, b->stack) || !same_link(x, a->link, b->link) ||
	    !same_refs(x, a->attributes, b->attributes) || !same_values(x, pa, pb, a, b) ||
	    !same_number(x, "the number of timestamps", a->timestamps.count, b->timestamps.count) ||
	    !same_notes(x, MESSAGE_SAMPLE, ia, ib))
		return false;
	for (uint32_t i = 0; i < a->timestamps.count; i++)
		if (!same_number(x, "a timestamp", x->a->timestamps[a->timestamps.first + i],
				 x->b->timestamps[b->timestamps.first + i]))
			return false;
	return true;
}

static bool same_profile(struct pair *x, uint32_t ia, uint32_t ib)
{
	const struct profile *a = &x->a->profiles[ia], *b = &x->b->profiles[ib];

	x->message = MESSAGE_PROFILE;
	x->index = ia;
	if (!same_strindex(x, "sample_type.type", a->sample_type.type, b->sample_type.type) ||
	    !same_strindex(x, "sample_type.unit", a->sample_type.unit, b->sample_type.unit) ||
	    !same_strindex(x, "period_type.type", a->period_type.type, b->period_type.type) ||
	    !same_strindex(x, "period_type.unit", a->period_type.unit, b->period_type.unit) ||
	    !same_number(x, "time_unix_nano", a->time_unix_nano, b->time_unix_nano) ||
	    !same_number(x, "duration_nano", a->duration_nano, b->duration_nano) ||
	    !same_number(x, "period", (uint64_t)a->period, (uint64_t)b->period) ||
	    !same_refs(x, a->attributes, b->attributes) ||
	    !same_string(x, "profile_id", str_from(a->profile_id, 16),
			 str_from(b->profile_id, 16)) ||
	    !same_number(x, "dropped_attributes_count", a->dropped_attributes_count,
			 b->dropped_attributes_count) ||
	    !same_string(x, "original_payload_format", a->original_payload_format,
			 b->original_payload_format) ||
	    !same_string(x, "original_payload", a->original_payload, b->original_payload) ||
	    !same_number(x, "refused", a->refused, b->refused) ||
	    !same_number(x, "the number of samples", a->samples.count, b->samples.count) ||
	    !same_notes(x, MESSAGE_PROFILE, ia, ib))
		return false;
	for (uint32_t i = 0; i < a->samples.count; i++)
		if (!same_sample(x, a, b, a->samples.first + i, b->samples.first + i))
			return false;
	return true;
}

static bool same_scope(struct pair *x, uint32_t ia, uint32_t ib)
{
	const struct scope_profiles *a = &x->a->scopes[ia], *b = &x->b->scopes[ib];

	x->message = MESSAGE_SCOPE_PROFILES;
	x->index = ia;
	if (!same_string(x, "name", a->name, b->name) ||
	    !same_string(x, "version", a->version, b->version) ||
	    !same_string(x, "schema_url", a->schema_url, b->schema_url) ||
	    !same_key_values(x, a->attributes, b->attributes) ||
	    !same_number(x, "dropped_attributes_count", a->dropped_attributes_count,
			 b->dropped_attributes_count) ||
	    !same_number(x, "the number of profiles", a->profiles.count, b->profiles.count) ||
	    !same_notes(x, MESSAGE_SCOPE_PROFILES, ia, ib) || !same_notes(x, MESSAGE_SCOPE, ia, ib))
		return false;
	for (uint32_t i = 0; i < a->profiles.count; i++)
		if (!same_profile(x, a->profiles.first + i, b->profiles.first + i))
			return false;
	return true;
}

static bool same_resource(struct pair *x, uint32_t index)
{
	const struct resource_profiles *a = &x->a->resources[index], *b = &x->b->resources[index];

	x->message = MESSAGE_RESOURCE_PROFILES;
	x->index = index;
	if (!same_string(x, "schema_url", a->schema_url, b->schema_url) ||
	    !same_key_values(x, a->attributes, b->attributes) ||
	    !same_number(x, "dropped_attributes_count", a->dropped_attributes_count,
			 b->dropped_attributes_count) ||
	    !same_number(x, "the number of scopes", a->scopes.count, b->scopes.count) ||
	    !same_notes(x, MESSAGE_RESOURCE_PROFILES, index, index) ||
	    !same_notes(x, MESSAGE_RESOURCE, index, index))
		return false;
	for (uint32_t i = 0; i < a->scopes.count; i++)
		if (!same_scope(x, a->scopes.first + i, b->scopes.first + i))
			return false;
	return true;
}

bool profiles_equal(const struct profiles *a, const struct profiles *b, unsigned flags,
		    struct err *why)
{
	struct pair x = { .a = a, .b = b, .flags = flags, .why = why, .message = MESSAGE_REQUEST };

	if (!same_number(&x, "the number of resources", a->resource_count, b->resource_count) ||
	    !same_notes(&x, MESSAGE_REQUEST, 0, 0) || !same_notes(&x, MESSAGE_DICTIONARY, 0, 0))
		return false;
	for (uint32_t i = 0; i < a->resource_count; i++)
		if (!same_resource(&x, i))
			return false;
	return true;
}
