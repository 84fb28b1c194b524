#include "query/profiles_source.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "query/profiles_numbers.h"
#include "store/id_list.h"

static struct profiles_source *source_of(struct source *s)
{
	return CONTAINER_OF(s, struct profiles_source, base);
}

static struct source_attribute source_attribute_of(const struct profiles *p,
						   struct attribute_index i)
{
	const struct attribute *a = &p->dict.attributes[i.v];

	return (struct source_attribute){ .key = profiles_string(p, a->key),
					  .unit = profiles_string(p, a->unit),
					  .value = a->value };
}

static void attributes_of_list(struct key_values list, struct source_attributes *out)
{
	struct source_attribute *a = must(calloc(list.count + 1u, sizeof(*a))); /* one to spare */

	for (uint32_t i = 0; i < list.count; i++)
		a[i] = (struct source_attribute){ .key = list.ptr[i].key,
						  .value = list.ptr[i].value };
	*out = (struct source_attributes){ a, list.count };
}

static void lifted_list(const struct profiles_source *m, struct range r,
			struct source_attributes *out)
{
	struct source_attribute *a = must(calloc(r.count + 1u, sizeof(*a)));

	for (uint32_t i = 0; i < r.count; i++)
		a[i] = source_attribute_of(m->p, m->lifted[r.first + i]);
	*out = (struct source_attributes){ a, r.count };
}

static bool asked_for(const struct source_series_ask *ask, uint64_t id)
{
	return !ask->ids || id_list_has(ask->ids, ask->id_count, id);
}

/* A message is one window's worth: the scan looks at times. */
static bool walk_series(struct source *s, const struct source_series_ask *ask, source_series_fn *fn,
			void *ctx, struct err *err)
{
	struct profiles_source *m = source_of(s);
	bool ok = true;

	for (uint32_t i = 0; i < m->series_count && ok; i++) {
		const struct profile *profile = &m->p->profiles[m->series[i].profile];
		const struct scope_profiles *scope = &m->p->scopes[m->series[i].scope];
		const struct resource_profiles *resource =
			&m->p->resources[m->resource_of_scope[m->series[i].scope]];
		struct source_series q = {
			.id = i + 1,
			.owner = m->owner_of_scope[m->series[i].scope],
			.sample_type = profiles_string(m->p, profile->sample_type.type),
			.sample_unit = profiles_string(m->p, profile->sample_type.unit),
			.period_type = profiles_string(m->p, profile->period_type.type),
			.period_unit = profiles_string(m->p, profile->period_type.unit),
			.period = profile->period,
			.scope_name = scope->name,
			.scope_version = scope->version,
			.process = m->series[i].process,
		};

		if (!asked_for(ask, q.id))
			continue;
		lifted_list(m, m->series[i].lifted, &q.lifted);
		attributes_of_list(resource->attributes, &q.resource);
		attributes_of_list(scope->attributes, &q.scope);
		if (m->options.key.len)
			((struct source_attribute *)q.resource.ptr)[q.resource.count++] =
				(struct source_attribute){ .key = m->options.key,
							   .value = m->extra };
		ok = fn(ctx, &q, err);
		free((void *)q.lifted.ptr);
		free((void *)q.resource.ptr);
		free((void *)q.scope.ptr);
	}
	return ok;
}

static bool in_range(const struct source_row *row, struct source_range range)
{
	if (row->timestamp_count == 0)
		return row->time >= range.from && row->time < range.to;
	for (uint32_t i = 0; i < row->timestamp_count; i++)
		if (row->timestamps[i] >= range.from && row->timestamps[i] < range.to)
			return true;
	return false;
}

static void fill_row(const struct profiles_source *m, uint32_t profile_index, uint32_t index,
		     struct source_row *row)
{
	const struct profiles *p = m->p;
	const struct profile *profile = &p->profiles[profile_index];
	const struct sample *sample = &p->samples[index];
	/* A lone value 1 beside n timestamps means n events in old versions: then none is given. */
	struct range values = sample_values_to_write(p, profile, sample).count
				      ? sample->values
				      : (struct range){ 0 };

	*row = (struct source_row){
		.series = m->series_of_sample[index],
		.sample = index + 1,
		.stack = sample->stack.v,
		.attributes = m->set_of_sample[index],
		.link = sample->link.v,
		.time = profile->time_unix_nano,
		.timestamps = p->timestamps + sample->timestamps.first,
		.timestamp_count = sample->timestamps.count,
		.values = p->values + values.first,
		.value_count = values.count,
	};
}

/* One of the scan's series that the profile is of; 0: it is of none. */
static uint32_t one_of_series(const struct profiles_source *m, uint32_t profile,
			      const struct source_scan *scan)
{
	struct range r = m->series_of_profile[profile];

	for (uint32_t i = r.first; i < r.first + r.count; i++)
		if (!scan->series ||
		    id_list_has(scan->series, scan->series_count, m->profile_series[i]))
			return m->profile_series[i];
	return 0;
}

static bool scan_profile(struct profiles_source *m, uint32_t index, const struct source_scan *scan,
			 source_row_fn *fn, void *ctx, struct err *err)
{
	struct range samples = m->p->profiles[index].samples;

	for (uint32_t k = samples.first; k < samples.first + samples.count; k++) {
		struct source_row row;

		fill_row(m, index, k, &row);
		if ((scan->links && !id_list_has(scan->links, scan->link_count, row.link)) ||
		    (scan->series && !id_list_has(scan->series, scan->series_count, row.series)))
			continue;
		if (in_range(&row, scan->range) && !fn(ctx, &row, err))
			return false;
	}
	return true;
}

static bool walk_samples(struct source *s, const struct source_scan *scan, source_row_fn *fn,
			 void *ctx, struct err *err)
{
	struct profiles_source *m = source_of(s);

	if (scan->after)
		return true; /* a message does not change */
	for (uint32_t i = 0; i < m->p->profile_count; i++)
		if (one_of_series(m, i, scan) && !scan_profile(m, i, scan, fn, ctx, err))
			return false;
	return true;
}

static struct source_attributes attributes_of_range(struct profiles_source *m, struct range r)
{
	const struct profiles *p = m->p;

	for (uint32_t k = 0; k < r.count; k++)
		m->scratch[k] = source_attribute_of(p, p->attribute_refs[r.first + k]);
	return (struct source_attributes){ m->scratch, r.count };
}

static bool walk_profiles(struct source *s, const struct source_scan *scan, source_profile_fn *fn,
			  void *ctx, struct err *err)
{
	struct profiles_source *m = source_of(s);

	for (uint32_t i = 0; i < m->p->profile_count; i++) {
		const struct profile *profile = &m->p->profiles[i];
		struct source_profile q = {
			.series = one_of_series(m, i, scan),
			.first_sample = profile->samples.first + 1,
			.sample_count = profile->samples.count,
			.time = profile->time_unix_nano,
			.duration = profile->duration_nano,
		};

		if (!q.series)
			continue;
		memcpy(q.id, profile->profile_id, sizeof(q.id));
		q.attributes = attributes_of_range(m, profile->attributes);
		if (!fn(ctx, &q, err))
			return false;
	}
	return true;
}

static bool walk_stacks(struct source *s, const uint64_t *ids, uint32_t count, source_stack_fn *fn,
			void *ctx, struct err *err)
{
	const struct dictionary *d = &source_of(s)->p->dict;
	uint64_t *locations = NULL;
	uint32_t cap = 0;
	bool ok = true;

	for (uint32_t i = 0; i < count && ok; i++) {
		struct range r = d->stacks[ids[i]].locations;

		if (r.count > cap) {
			free(locations);
			cap = r.count;
			locations = must(calloc(cap, sizeof(*locations)));
		}
		for (uint32_t k = 0; k < r.count; k++)
			locations[k] = d->stack_locations[r.first + k].v;
		ok = fn(ctx, ids[i], locations, r.count, err);
	}
	free(locations);
	return ok;
}

static struct str build_id_of(const struct profiles *p, const struct mapping *mapping)
{
	static const char *const keys[] = { "process.executable.build_id.gnu",
					    "process.executable.build_id.go",
					    "process.executable.build_id.htlhash" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct any_value *v =
			profiles_attribute(p, mapping->attributes, str_cstr(keys[i]));

		if (v && v->kind == ANY_STRING && v->string.len)
			return v->string;
	}
	return (struct str){ 0 };
}

static void fill_line(const struct profiles *p, const struct line *line, struct source_line *out)
{
	const struct function *f = &p->dict.functions[line->function.v];

	*out = (struct source_line){
		.function = profiles_string(p, f->name),
		.system_name = profiles_string(p, f->system_name),
		.file = profiles_string(p, f->filename),
		.line = line->line,
		.column = line->column,
		.start_line = f->start_line,
	};
}

static bool walk_locations(struct source *s, const uint64_t *ids, uint32_t count,
			   source_location_fn *fn, void *ctx, struct err *err)
{
	const struct profiles *p = source_of(s)->p;
	struct source_line *lines = NULL;
	uint32_t cap = 0;
	bool ok = true;

	for (uint32_t i = 0; i < count && ok; i++) {
		const struct location *l = &p->dict.locations[ids[i]];
		const struct mapping *mapping = &p->dict.mappings[l->mapping.v];
		struct source_location q = {
			.id = ids[i],
			.address = l->address,
			.frame_type = location_frame_type(p, l),
			.mapping = profiles_string(p, mapping->filename),
			.build_id = build_id_of(p, mapping),
			.mapping_start = mapping->memory_start,
			.mapping_limit = mapping->memory_limit,
			.mapping_offset = mapping->file_offset,
			.line_count = l->lines.count,
		};

		if (l->lines.count > cap) {
			free(lines);
			cap = l->lines.count;
			lines = must(calloc(cap, sizeof(*lines)));
		}
		for (uint32_t k = 0; k < l->lines.count; k++)
			fill_line(p, &p->dict.lines[l->lines.first + k], &lines[k]);
		q.lines = lines;
		ok = fn(ctx, &q, err);
	}
	free(lines);
	return ok;
}

static bool walk_attributes(struct source *s, const uint64_t *ids, uint32_t count,
			    source_attributes_fn *fn, void *ctx, struct err *err)
{
	struct profiles_source *m = source_of(s);

	for (uint32_t i = 0; i < count; i++) {
		struct range r = ids[i] ? m->sets[ids[i] - 1] : (struct range){ 0 };

		if (!fn(ctx, ids[i], attributes_of_range(m, r), err))
			return false;
	}
	return true;
}

static void fill_link(const struct profiles *p, uint64_t id, struct source_link *out)
{
	out->id = id;
	memcpy(out->trace_id, p->dict.links[id].trace_id, sizeof(out->trace_id));
	memcpy(out->span_id, p->dict.links[id].span_id, sizeof(out->span_id));
}

static bool walk_links(struct source *s, const uint64_t *ids, uint32_t count, source_link_fn *fn,
		       void *ctx, struct err *err)
{
	for (uint32_t i = 0; i < count; i++) {
		struct source_link link;

		fill_link(source_of(s)->p, ids[i], &link);
		if (!fn(ctx, &link, err))
			return false;
	}
	return true;
}

static bool find_links(struct source *s, const uint8_t *trace_id, const uint8_t *span_id,
		       source_link_fn *fn, void *ctx, struct err *err)
{
	const struct profiles *p = source_of(s)->p;

	for (uint32_t i = 1; i < p->dict.link_count; i++) {
		const struct link *l = &p->dict.links[i];
		struct source_link link;

		if ((trace_id && memcmp(trace_id, l->trace_id, sizeof(l->trace_id)) != 0) ||
		    (span_id && memcmp(span_id, l->span_id, sizeof(l->span_id)) != 0))
			continue;
		fill_link(p, i, &link);
		if (!fn(ctx, &link, err))
			return false;
	}
	return true;
}

/* Agents report in attributes of their own; only a store gathers them. */
static bool no_coverage(struct source *s, struct source_range range, source_coverage_fn *fn,
			void *ctx, struct err *err)
{
	(void)s, (void)range, (void)fn, (void)ctx, (void)err;
	return true;
}

static bool tell_asof(struct source *s, uint64_t *out, struct err *err)
{
	(void)err;
	*out = source_of(s)->p->profile_count; /* a message does not change */
	return true;
}

static bool tell_extent(struct source *s, struct source_range *out, struct err *err)
{
	const struct profiles_source *m = source_of(s);

	if (m->extent.from > m->extent.to)
		return err_set(err, ERR_NOT_FOUND, "there are no samples");
	*out = (struct source_range){ m->extent.from,
				      m->extent.to + (m->extent.to < UINT64_MAX ? 1 : 0) };
	return true;
}

static void free_source(struct source *s)
{
	struct profiles_source *m = source_of(s);

	free(m->series);
	free(m->lifted);
	free(m->series_of_sample);
	free(m->series_of_profile);
	free(m->profile_series);
	free(m->resource_of_scope);
	free(m->owner_of_scope);
	free(m->sets);
	free(m->set_of_sample);
	free(m->scratch);
	if (m->options.freed)
		m->options.freed(m->options.ctx);
	free(m);
}

static const struct source_ops ops = {
	.series = walk_series,
	.scan = walk_samples,
	.profiles = walk_profiles,
	.stacks = walk_stacks,
	.locations = walk_locations,
	.attributes = walk_attributes,
	.links = walk_links,
	.find_links = find_links,
	.coverage = no_coverage,
	.asof = tell_asof,
	.extent = tell_extent,
	.free = free_source,
};

struct source *profiles_source_new(const struct profiles *p)
{
	return profiles_source_new_with(p, &(struct profiles_source_options){ 0 });
}

struct source *profiles_source_new_with(const struct profiles *p,
					const struct profiles_source_options *options)
{
	struct profiles_source *m = must(calloc(1, sizeof(*m)));

	m->base.ops = &ops;
	m->p = p;
	m->options = *options;
	m->extra = (struct any_value){ .kind = ANY_STRING, .string = options->value };
	profiles_number(m);
	return &m->base;
}
