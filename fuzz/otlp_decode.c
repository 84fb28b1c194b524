/*
 * Every version's protobuf decoder. The first byte chooses: its low four bits the wire version (0:
 * from the bytes), then strict, then the general decoders alone; both ways must agree. What comes
 * out, whole or partial, is walked as consumers walk it.
 */
#include <stdlib.h>
#include "fuzz/fuzz.h"
#include "wire/otlp.h"

static void need(bool holds)
{
	if (!holds)
		abort();
}

static void range_check(struct range r, uint32_t count)
{
	need(r.count <= count && r.first <= count - r.count);
}

static uint64_t walk_dictionary(const struct profiles *p)
{
	const struct dictionary *d = &p->dict;
	uint64_t sum = 0;

	need(d->string_count && d->mapping_count && d->location_count && d->function_count &&
	     d->link_count && d->attribute_count && d->stack_count && d->strings[0].len == 0);
	for (uint32_t i = 0; i < d->location_count; i++) {
		range_check(d->locations[i].lines, d->line_count);
		range_check(d->locations[i].attributes, p->attribute_ref_count);
		sum += d->mappings[d->locations[i].mapping.v].file_offset +
		       location_frame_type(p, &d->locations[i]).len;
	}
	for (uint32_t i = 0; i < d->line_count; i++)
		sum += profiles_string(p, d->functions[d->lines[i].function.v].name).len;
	for (uint32_t i = 0; i < d->stack_count; i++)
		range_check(d->stacks[i].locations, d->stack_location_count);
	for (uint32_t i = 0; i < d->stack_location_count; i++)
		sum += d->locations[d->stack_locations[i].v].address;
	for (uint32_t i = 0; i < p->attribute_ref_count; i++)
		sum += profiles_string(p, d->attributes[p->attribute_refs[i].v].key).len;
	return sum;
}

static uint64_t walk_messages(const struct profiles *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->resource_count; i++)
		range_check(p->resources[i].scopes, p->scope_count);
	for (uint32_t i = 0; i < p->scope_count; i++)
		range_check(p->scopes[i].profiles, p->profile_count);
	for (uint32_t i = 0; i < p->profile_count; i++) {
		const struct profile *profile = &p->profiles[i];

		range_check(profile->samples, p->sample_count);
		range_check(profile->attributes, p->attribute_ref_count);
		for (uint32_t k = 0; k < profile->samples.count; k++)
			sum += sample_total(p, profile, &p->samples[profile->samples.first + k])
				       .events;
	}
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];

		range_check(s->attributes, p->attribute_ref_count);
		range_check(s->values, p->value_count);
		range_check(s->timestamps, p->timestamp_count);
		sum += p->dict.stacks[s->stack.v].locations.count +
		       p->dict.links[s->link.v].span_id[0];
	}
	return sum;
}

static void walk_notes(const struct profiles *p)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	for (uint32_t i = 0; i < p->bad_index_count; i++)
		bad_index_append_text(&b, p, &p->bad_indices[i]);
	for (uint32_t i = 0; i < p->extra_count; i++) {
		need(profiles_extra(p, p->extras[i].message, p->extras[i].index,
				    p->extras[i].key) != NULL);
		any_value_append_text(&b, &p->extras[i].value);
	}
	buf_release(&b);
}

/* The fast paths may know less than the general decoders, never something else. */
static void compare_with_general(struct blob *body, struct otlp_decode_options options,
				 const struct profiles *p)
{
	struct profiles *general = NULL, *partial = NULL;
	struct err err;

	options.no_fast_path = true;
	if (!otlp_decode(body, &options, &general, NULL, &partial, &err))
		general = partial;
	need(!general == !p);
	if (p)
		need(p->sample_count == general->sample_count &&
		     p->timestamp_count == general->timestamp_count &&
		     p->dict.location_count == general->dict.location_count &&
		     p->dict.function_count == general->dict.function_count &&
		     p->dict.line_count == general->dict.line_count &&
		     p->dict.stack_location_count == general->dict.stack_location_count &&
		     p->unknown_field_count == general->unknown_field_count &&
		     p->bad_index_count == general->bad_index_count);
	profiles_free(general);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct otlp_decode_options options = { .memory_limit_bytes = 64 << 20 };
	struct otlp_decode_report report;
	struct profiles *p = NULL, *partial = NULL;
	struct blob *body;
	struct err err = { 0 };

	if (size == 0)
		return 0;
	options.version = (data[0] & 15) % (WIRE_V1_10 + 1);
	options.strict = data[0] & 16;
	options.no_fast_path = data[0] & 32;
	body = blob_copy(str_from(data + 1, size - 1));
	if (!otlp_decode(body, &options, &p, &report, &partial, &err)) {
		need(!p && err.msg[0]);
		p = partial;
	}
	if (err.kind != ERR_LIMIT) /* memory is spent in another order there */
		compare_with_general(body, options, p);
	blob_unref(body);
	if (p) {
		need(p->sealed);
		need(walk_dictionary(p) + walk_messages(p) !=
		     UINT64_MAX); /* every look is wanted */
		walk_notes(p);
	}
	profiles_free(p);
	return 0;
}
