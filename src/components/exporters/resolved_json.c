#include "components/exporters/resolved_json.h"

#include <assert.h>
#include <stdlib.h>

#include "components/exporters/json_parts.h"
#include "components/exporters/profile_lines.h"

enum {
	PREFIX_KEPT_BYTES = 64 << 10,
	PICKED_KEPT = 1 << 14,
	PREFIX_MOST_BYTES = 256 << 20, /* attributes of a resource, a scope and a profile */
};

struct json_renderer {
	enum json_lines lines;
	struct config_strings sample_types;
	json_sample_wanted_fn *wanted; /* NULL: all */
	void *wanted_ctx;
	uint32_t *picked; /* with `wanted`: the samples of the profile at hand that are */
	uint32_t picked_count, picked_cap;
	struct json_parts parts;
	struct profile_lines profile_lines;
	struct buf prefix; /* what the samples of the profile at hand have in common */
};

struct json_renderer *json_renderer_new(enum json_lines lines,
					const struct config_strings *sample_types)
{
	struct json_renderer *j = calloc(1, sizeof(*j));

	assert(j);
	j->lines = lines;
	j->sample_types = *sample_types;
	json_parts_init(&j->parts);
	profile_lines_init(&j->profile_lines, &j->parts);
	buf_init(&j->prefix, PREFIX_MOST_BYTES);
	return j;
}

void json_renderer_filter(struct json_renderer *j, json_sample_wanted_fn *wanted, void *ctx)
{
	j->wanted = wanted;
	j->wanted_ctx = ctx;
}

void json_renderer_free(struct json_renderer *j)
{
	if (!j)
		return;
	json_parts_release(&j->parts);
	profile_lines_release(&j->profile_lines);
	buf_release(&j->prefix);
	free(j->picked);
	free(j);
}

static bool append_frames(struct json_parts *parts, struct render_out *out, uint32_t sample,
			  struct err *err)
{
	const struct profiles *p = parts->names.profiles;
	const struct dictionary *d = &p->dict;
	uint32_t stack = p->samples[sample].stack.v;
	struct range list = d->stacks[stack].locations;
	const struct bad_index *bad =
		stack ? NULL : names_bad(&parts->names, MESSAGE_SAMPLE, sample, "stack_index", 0);

	parts->used_count = 0;
	buf_lit(out->buf, ",\"frames\":[");
	if (bad)
		json_bad_frame_append(out->buf, bad, true);
	for (uint32_t k = 0; k < list.count; k++) {
		uint32_t index = d->stack_locations[list.first + k].v;

		bad = index ? NULL
			    : names_bad(&parts->names, MESSAGE_STACK, stack, "location_indices", k);
		if (bad)
			json_bad_frame_append(out->buf, bad, k == 0);
		else if (!json_location_append(parts, out, index, k == 0, err))
			return false;
		json_mapping_use(parts, sample, d->locations[index].mapping.v);
		if (!render_out_check(out, err))
			return false;
	}
	buf_char(out->buf, ']');
	return json_build_ids_append(parts, out, err);
}

static bool append_sample(struct json_renderer *j, struct render_out *out, uint32_t profile,
			  uint32_t index, bool first, struct err *err)
{
	struct json_parts *parts = &j->parts;
	const struct profiles *p = parts->names.profiles;
	const struct sample *s = &p->samples[index];
	struct sample_total total = sample_total(p, &p->profiles[profile], s);
	struct buf *b = out->buf;

	buf_str(b, buf_view(&j->prefix));
	if (first)
		json_payload_append(parts, b, profile);
	buf_lit(b, ",\"value\":");
	buf_i64(b, total.value);
	buf_lit(b, ",\"events\":");
	buf_u64(b, total.events);
	if (!json_numbers_append(parts, out, s, err))
		return false;
	json_link_append(parts, b, index);
	buf_lit(b, ",\"attributes\":");
	if (!json_attributes_append(parts, out, s->attributes, MESSAGE_SAMPLE, index, err) ||
	    !json_units_append(parts, out, s->attributes, err))
		return false;
	json_extras_append(parts, b, MESSAGE_SAMPLE, index);
	if (!append_frames(parts, out, index, err))
		return false;
	buf_lit(b, "}\n");
	return render_out_check(out, err);
}

/* False when nothing of the profile is wanted. */
static bool pick_samples(struct json_renderer *j, const struct resource_profiles *r,
			 struct range samples)
{
	const struct profiles *p = j->parts.names.profiles;

	j->picked_count = 0;
	if (!samples.count)
		return j->wanted(j->wanted_ctx, p, r, NULL);
	if (samples.count > j->picked_cap || j->picked_cap > PICKED_KEPT) {
		free(j->picked);
		j->picked_cap = samples.count < 256 ? 256 : samples.count;
		j->picked = malloc(j->picked_cap * sizeof(*j->picked));
		assert(j->picked);
	}
	for (uint32_t i = samples.first; i < samples.first + samples.count; i++)
		if (j->wanted(j->wanted_ctx, p, r, &p->samples[i]))
			j->picked[j->picked_count++] = i;
	return j->picked_count > 0;
}

static bool append_profile(struct json_renderer *j, struct render_out *out,
			   const struct resource_profiles *r, const struct scope_profiles *s,
			   uint32_t index, struct err *err)
{
	const struct profile *profile = &j->parts.names.profiles->profiles[index];
	struct sample_list list = { .first = profile->samples.first,
				    .count = profile->samples.count };

	if (j->wanted) {
		if (!pick_samples(j, r, profile->samples))
			return true;
		list = (struct sample_list){ .picked = j->picked, .count = j->picked_count };
	}
	buf_reset(&j->prefix);
	if (!json_profile_head(&j->parts, &j->prefix, r, s, index, err))
		return false;
	if (j->lines == JSON_LINE_A_PROFILE) {
		json_payload_append(&j->parts, &j->prefix, index);
		return profile_line_append(&j->profile_lines, out, buf_view(&j->prefix), index,
					   &list, err);
	}
	for (uint32_t i = 0; i < list.count; i++) {
		if (!append_sample(j, out, index, sample_list_at(&list, i), i == 0, err))
			return false;
	}
	return true;
}

static bool append_resource(struct json_renderer *j, struct render_out *out,
			    const struct resource_profiles *r, struct err *err)
{
	const struct profiles *p = j->parts.names.profiles;

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
	json_parts_begin(&j->parts, p);
	if (j->lines == JSON_LINE_A_PROFILE)
		profile_lines_begin(&j->profile_lines, p);
	buf_reset(&j->prefix);
	buf_trim(&j->prefix, PREFIX_KEPT_BYTES);
	for (uint32_t i = 0; i < p->resource_count; i++) {
		if (!append_resource(j, out, &p->resources[i], err))
			return false;
	}
	return true;
}
