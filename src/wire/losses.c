#include "wire/losses.h"

#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "model/value_unknown.h"
#include "wire/pb_reader.h"

const char *otlp_loss_name(enum otlp_loss l)
{
	static const char *const loss_names[] = {
		[LOSS_UNKNOWN_FIELDS] = "unknown_fields",
		[LOSS_OLD_FIELDS] = "old_fields",
		[LOSS_UNITS] = "units",
		[LOSS_EVENT_VALUES] = "event_values",
		[LOSS_CLAMPED_SUMS] = "clamped_sums",
		[LOSS_BAD_TEXT] = "bad_text",
	};

	return loss_names[l];
}

static uint64_t fields_of(struct str raw)
{
	struct pb_reader r = pb_reader_of(raw);
	uint64_t n = 0;

	while (pb_more(&r)) {
		pb_skip(&r, pb_tag(&r));
		n++;
	}
	return n;
}

/* Is there a field for it in a version that is written? */
static bool has_field(const struct extra *x, enum wire_version version)
{
	switch (x->key) {
	case EXTRA_SAMPLE_TEMPORALITY:
	case EXTRA_PERIOD_TEMPORALITY:
	case EXTRA_COMMENTS:
		return version <= WIRE_V1_8;
	case EXTRA_DEFAULT_SAMPLE_TYPE:
		return version <= WIRE_V1_7 && x->value.kind == ANY_INT;
	case EXTRA_IS_FOLDED:
	case EXTRA_HAS_FUNCTIONS:
	case EXTRA_HAS_FILENAMES:
	case EXTRA_HAS_LINE_NUMBERS:
	case EXTRA_HAS_INLINE_FRAMES:
		return version <= WIRE_V1_7;
	case EXTRA_DROP_FRAMES:
	case EXTRA_KEEP_FRAMES:
	case EXTRA_START_TIME:
	case EXTRA_END_TIME:
	case EXTRA_LABELS:
	case EXTRA_STACKTRACE_ID:
	case EXTRA_BUILD_ID_KIND:
	case EXTRA_ID:
	case EXTRA_LOCATION_INDEX:
		return false;
	case EXTRA_UNKNOWN_FIELDS:
	case EXTRA_NESTED_UNKNOWN_FIELDS: /* not of any version */
	case EXTRA_SAMPLE_TYPE_UNKNOWN:
	case EXTRA_PERIOD_TYPE_UNKNOWN:
	case EXTRA_UNIT_UNKNOWN:
	case EXTRA_ENTITY_REFS:
	case EXTRA_ATTRIBUTE_UNITS:     /* counted as units */
	case EXTRA_SAMPLE_TYPE_ORDINAL: /* no field of a message */
	case EXTRA_PROFILE_ATTRIBUTES:  /* these three are attributes, too */
	case EXTRA_LOCATION_TYPE:
	case EXTRA_BUILD_ID:
	case EXTRA_ODD_TRACE_ID:
	case EXTRA_ODD_SPAN_ID:
	case EXTRA_ODD_PROFILE_ID:
		return true;
	}
	return true;
}

static void count_fields(void *arg, struct str place, struct str fields)
{
	struct otlp_losses *out = arg;

	(void)place;
	out->count[LOSS_UNKNOWN_FIELDS] += fields_of(fields);
}

static void count_pairs(struct key_values kv, struct otlp_losses *out)
{
	for (uint32_t i = 0; i < kv.count; i++)
		value_unknown_each(&kv.ptr[i].value, count_fields, out);
}

/* Unknown fields inside attributes. */
static void count_unknown_of_values(const struct profiles *p, struct otlp_losses *out)
{
	for (uint32_t i = 0; i < p->resource_count; i++)
		count_pairs(p->resources[i].attributes, out);
	for (uint32_t i = 0; i < p->scope_count; i++)
		count_pairs(p->scopes[i].attributes, out);
	for (uint32_t i = 0; i < p->dict.attribute_count; i++)
		value_unknown_each(&p->dict.attributes[i].value, count_fields, out);
}

static void count_unit_fields(const struct any_value *list, struct otlp_losses *out)
{
	for (uint32_t i = 0; i < list->array.count; i++) {
		struct key_values pairs = { list->array.values[i].kvlist.pairs,
					    list->array.values[i].kvlist.count };
		const struct any_value *fields = key_values_find(pairs, STR("fields"));

		if (fields)
			out->count[LOSS_UNKNOWN_FIELDS] += fields_of(fields->string);
	}
}

static void count_extras(const struct profiles *p, enum wire_version version, bool json,
			 struct otlp_losses *out)
{
	bool same = !json && p->source_version == version;

	for (uint32_t i = 0; i < p->extra_count; i++) {
		const struct extra *x = &p->extras[i];
		bool raw = x->value.kind == ANY_BYTES && extra_is_raw(x->key) &&
			   x->key != EXTRA_ENTITY_REFS;

		if (raw && (x->key == EXTRA_NESTED_UNKNOWN_FIELDS || !same))
			out->count[LOSS_UNKNOWN_FIELDS] += fields_of(x->value.string);
		else if (x->key == EXTRA_UNIT_UNKNOWN && !same)
			count_unit_fields(&x->value, out);
		else if (x->key == EXTRA_ATTRIBUTE_UNITS && (json || version > WIRE_V1_7))
			out->count[LOSS_UNITS] += x->value.array.count;
		else if (!has_field(x, version))
			out->count[LOSS_OLD_FIELDS]++;
	}
}

/* v1.7 has one unit for a key: the one of its last attribute that has any. */
static void count_units(const struct profiles *p, struct otlp_losses *out)
{
	const struct dictionary *d = &p->dict;
	uint32_t *unit = calloc(d->string_count + 1, sizeof(*unit));

	assert(unit);
	for (uint32_t i = 0; i < d->attribute_count; i++)
		if (d->attributes[i].unit.v)
			unit[d->attributes[i].key.v] = d->attributes[i].unit.v;
	for (uint32_t i = 1; i < d->attribute_count; i++)
		out->count[LOSS_UNITS] += unit[d->attributes[i].key.v] != d->attributes[i].unit.v;
	free(unit);
}

static bool sum_fits(const struct profiles *p, struct range values)
{
	__int128 sum = 0;

	for (uint32_t i = 0; i < values.count; i++)
		sum += p->values[values.first + i];
	return sum >= INT64_MIN && sum <= INT64_MAX;
}

/* Across v1.7 and v1.8 lists of values are written as one sum, or as its shares. */
static void count_values(const struct profiles *p, bool to_old, struct otlp_losses *out)
{
	for (uint32_t i = 0; i < p->sample_count; i++) {
		struct range values = p->samples[i].values;
		bool kept = !to_old && values.count == p->samples[i].timestamps.count;

		if (values.count < 2 || kept)
			continue;
		out->count[LOSS_EVENT_VALUES]++;
		out->count[LOSS_CLAMPED_SUMS] += !sum_fits(p, values);
	}
}

/* ---- texts ---- */

static void count_text(struct str s, struct otlp_losses *out)
{
	out->count[LOSS_BAD_TEXT] += !utf8_valid(s);
}

static void count_texts_of_pair(const struct key_value *kv, struct otlp_losses *out);

/* References are counted in the string table. */
static void count_texts_of_value(const struct any_value *v, struct otlp_losses *out)
{
	if (v->kind == ANY_STRING && !any_value_is_reference(v))
		count_text(v->string, out);
	for (uint32_t i = 0; v->kind == ANY_ARRAY && i < v->array.count; i++)
		count_texts_of_value(&v->array.values[i], out);
	for (uint32_t i = 0; v->kind == ANY_KVLIST && i < v->kvlist.count; i++)
		count_texts_of_pair(&v->kvlist.pairs[i], out);
}

static void count_texts_of_pair(const struct key_value *kv, struct otlp_losses *out)
{
	if (!kv->key_strindex.v)
		count_text(kv->key, out);
	count_texts_of_value(&kv->value, out);
}

static void count_texts_of_list(struct key_values list, struct otlp_losses *out)
{
	for (uint32_t i = 0; i < list.count; i++)
		count_texts_of_pair(&list.ptr[i], out);
}

static void count_texts(const struct profiles *p, struct otlp_losses *out)
{
	for (uint32_t i = 0; i < p->resource_count; i++) {
		count_text(p->resources[i].schema_url, out);
		count_texts_of_list(p->resources[i].attributes, out);
	}
	for (uint32_t i = 0; i < p->scope_count; i++) {
		count_text(p->scopes[i].name, out);
		count_text(p->scopes[i].version, out);
		count_text(p->scopes[i].schema_url, out);
		count_texts_of_list(p->scopes[i].attributes, out);
	}
	for (uint32_t i = 0; i < p->dict.attribute_count; i++)
		count_texts_of_value(&p->dict.attributes[i].value, out);
	for (uint32_t i = 0; i < p->dict.string_count; i++)
		count_text(p->dict.strings[i], out);
}

bool otlp_losses(const struct profiles *p, enum wire_version version, bool json,
		 struct otlp_losses *out)
{
	bool from_old = p->source_version && p->source_version <= WIRE_V1_7;
	bool to_old = !json && version <= WIRE_V1_7;

	*out = (struct otlp_losses){ .count = { 0 } };
	if (json || p->source_version != version)
		count_unknown_of_values(p, out);
	if (p->extra_count)
		count_extras(p, json ? WIRE_NEWEST : version, json, out);
	if (to_old)
		count_units(p, out);
	if (from_old != to_old)
		count_values(p, to_old, out);
	count_texts(p, out);
	for (unsigned i = 0; i < OTLP_LOSSES; i++)
		if (out->count[i])
			return true;
	return false;
}

void otlp_losses_append_text(struct buf *b, const struct otlp_losses *l)
{
	static const char *const texts[] = {
		[LOSS_UNKNOWN_FIELDS] = "unknown fields",
		[LOSS_OLD_FIELDS] = "fields of older versions",
		[LOSS_UNITS] = "attributes' units",
		[LOSS_EVENT_VALUES] = "samples' single values (their sum stays)",
		[LOSS_CLAMPED_SUMS] = "sums past 64 bits (cut to the largest number)",
		[LOSS_BAD_TEXT] = "texts that are no UTF-8 (bad bytes become U+FFFD)",
	};
	const char *comma = "";

	for (unsigned i = 0; i < OTLP_LOSSES; i++) {
		if (!l->count[i])
			continue;
		buf_printf(b, "%s%llu %s", comma, (unsigned long long)l->count[i], texts[i]);
		comma = ", ";
	}
}
