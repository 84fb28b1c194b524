#include <stdlib.h>

#include "base/hash.h"
#include "wire/check_walk.h"

/* Which of its two lists a sample has (profiles.proto since v1.8, Sample). */
enum sample_shape { SHAPE_UNKNOWN, SHAPE_VALUES, SHAPE_TIMESTAMPS, SHAPE_BOTH };

static const char *const shape_names[] = { "", "values only", "timestamps only",
					   "values and timestamps" };

/* ---- samples ---- */

static void check_shape(struct check *c, uint32_t values, uint32_t timestamps)
{
	int shape = values ? timestamps ? SHAPE_BOTH : SHAPE_VALUES : SHAPE_TIMESTAMPS;

	if (!values && !timestamps) {
		check_find(c, CHECK_ERROR, "sample-empty",
			   "has neither values nor timestamps_unix_nano");
		return;
	}
	if (shape == SHAPE_BOTH && values != timestamps)
		check_find(c, CHECK_ERROR, "sample-lengths",
			   "has %u values and %u timestamps_unix_nano", values, timestamps);
	if (shape == SHAPE_VALUES && values != 1)
		check_find(c, CHECK_ERROR, "sample-values",
			   "has %u values without timestamps; one is allowed", values);
	if (c->profile.shape == SHAPE_UNKNOWN)
		c->profile.shape = shape;
	else if (c->profile.shape != shape)
		check_find(c, CHECK_WARNING, "sample-shape",
			   "has %s, the profile's first sample has %s", shape_names[shape],
			   shape_names[c->profile.shape]);
}

/* Up to v1.7: a run of the profile's location_indices. */
static void check_location_run(struct check *c, const struct check_fields *f)
{
	int64_t start = (int64_t)f->value[ROLE_LOCATIONS_START],
		length = (int64_t)f->value[ROLE_LOCATIONS_LENGTH];
	int64_t count = c->profile.location_indices.count;

	if (start < 0 || length < 0 || start > count || length > count - start)
		check_find(c, CHECK_ERROR, "location-run",
			   "has locations_start_index %lld and locations_length %lld, "
			   "location_indices has %lld entries",
			   (long long)start, (long long)length, (long long)count);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Stack, set of attributes and link, as one hash. */
static uint64_t identity_of(struct check *c, const struct schema_message *m, struct str bytes,
			    const struct check_fields *f)
{
	const struct u64_list *all = &c->profile.location_indices;
	uint64_t start = f->value[ROLE_LOCATIONS_START], length = f->value[ROLE_LOCATIONS_LENGTH];
	uint64_t parts[4] = { f->value[ROLE_STACK_INDEX], f->value[ROLE_LINK_INDEX] };

	if (start <= all->count && length <= all->count - start && length)
		parts[0] = hash64(str_from(all->at + start, length * sizeof(*all->at)));
	check_list(c, m, bytes, ROLE_LOCATION_INDICES, &c->list); /* v1.3 */
	parts[2] = hash64(str_from(c->list.at, c->list.count * sizeof(*c->list.at)));
	check_list(c, m, bytes, ROLE_ATTRIBUTE_INDICES, &c->list);
	if (c->list.count)
		qsort(c->list.at, c->list.count, sizeof(*c->list.at), compare_u64);
	parts[3] = hash64(str_from(c->list.at, c->list.count * sizeof(*c->list.at)));
	return hash64(str_from(parts, sizeof(parts)));
}

void check_sample(struct check *c, const struct schema_message *m, struct str bytes, uint32_t index)
{
	struct check_fields f;

	check_message(c, m, bytes, &f);
	check_attribute_keys(c, m, bytes);
	if (check_is_new(c)) {
		check_shape(c, f.count[ROLE_VALUES], f.count[ROLE_TIMESTAMPS]);
	} else {
		check_location_run(c, &f);
		if (f.count[ROLE_VALUES] != c->profile.sample_types)
			check_find(c, CHECK_ERROR, "sample-value-count",
				   "has %u entries in value, sample_type has %u",
				   f.count[ROLE_VALUES], c->profile.sample_types);
	}
	u64_push(&c->identities, identity_of(c, m, bytes, &f));
	u64_push(&c->identities, index);
}

static int compare_identity(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* Equal identities should have been merged into one sample. */
static void check_identities(struct check *c, const struct schema_message *m)
{
	const struct schema_field *samples = NULL;
	uint64_t *at = c->identities.at;
	uint32_t count = c->identities.count / 2;

	for (uint8_t i = 0; i < m->field_count; i++)
		if (m->fields[i].role == ROLE_SAMPLES)
			samples = &m->fields[i];
	if (!samples || count < 2)
		return;
	qsort(at, count, 2 * sizeof(*at), compare_identity);
	for (uint32_t i = 1, first = 0; i < count; i++) {
		size_t mark;

		if (at[2 * i] != at[2 * first]) {
			first = i;
			continue;
		}
		mark = check_path_push(c, samples, (uint32_t)at[2 * i + 1]);
		check_find(c, CHECK_WARNING, "sample-identity",
			   "has stack, attributes and link of %s[%u]", samples->name,
			   (unsigned)at[2 * first + 1]);
		check_path_pop(c, mark);
	}
}

/* ---- profiles ---- */

static bool value_type_is_set(struct check *c, const struct schema_message *m, struct str bytes,
			      enum schema_role role)
{
	struct check_walk w = check_walk_of(m, bytes), inner;
	struct check_step step, f;

	while (check_next(c, &w, &step, false)) {
		if (step.field->role != role)
			continue;
		inner = check_walk_of(step.field->message, step.bytes);
		while (check_next(c, &inner, &f, false))
			if (f.field->number == 1 && f.value)
				return true;
	}
	return false;
}

static void check_payload(struct check *c, const struct check_fields *f)
{
	bool payload = f->bytes[ROLE_PAYLOAD].len > 0,
	     format = f->bytes[ROLE_PAYLOAD_FORMAT].len > 0;

	if (payload != format)
		check_find(c, CHECK_ERROR, "payload-format",
			   "has original_payload%s without original_payload%s",
			   payload ? "" : "_format", payload ? "_format" : "");
	else if (format && !str_is(f->bytes[ROLE_PAYLOAD_FORMAT], "jfr") &&
		 !str_is(f->bytes[ROLE_PAYLOAD_FORMAT], "pprof") &&
		 !str_is(f->bytes[ROLE_PAYLOAD_FORMAT], "linux_perf"))
		check_find(c, CHECK_WARNING, "payload-format",
			   "original_payload_format is \"%.*s\", known are jfr, pprof, linux_perf",
			   STR_ARG(str_head(f->bytes[ROLE_PAYLOAD_FORMAT], 40)));
}

static void check_profile_rules(struct check *c, const struct schema_message *m, struct str bytes,
				const struct check_fields *f)
{
	check_attribute_keys(c, m, bytes);
	check_payload(c, f);
	if (f->value[ROLE_PERIOD] && !value_type_is_set(c, m, bytes, ROLE_PERIOD_TYPE))
		check_find(c, CHECK_WARNING, "period-type", "has period %lld without a period_type",
			   (long long)f->value[ROLE_PERIOD]);
	if (!value_type_is_set(c, m, bytes, ROLE_SAMPLE_TYPE))
		check_find(c, CHECK_WARNING, "sample-type-missing", "has no sample_type");
	check_identities(c, m);
}

/* What samples are checked against has to be known before them, wherever it stands. */
static void profile_begin(struct check *c, const struct schema_message *m, struct str bytes)
{
	struct check_fields f;
	struct u64_list location_indices = c->profile.location_indices;

	check_collect(c, m, bytes, &f);
	c->profile = (struct check_profile){ .time = f.value[ROLE_TIME],
					     .duration = f.value[ROLE_DURATION],
					     .sample_types = f.count[ROLE_SAMPLE_TYPE],
					     .location_indices = location_indices };
	c->profile.has_window = check_is_new(c) ||
				((int64_t)c->profile.time > 0 && (int64_t)c->profile.duration > 0);
	c->profile.location_indices.count = 0;
	c->identities.count = 0;
	if (!check_is_new(c))
		check_list(c, m, bytes, ROLE_LOCATION_INDICES, &c->profile.location_indices);
}

void check_contained_profile(struct check *c, const struct schema_message *m, struct str bytes)
{
	struct check_tables own = { 0 }, *outer = c->tables;
	struct check_fields f;
	bool has_tables = c->version < WIRE_V1_6;

	if (has_tables) {
		check_tables_gather(c, &own, m, bytes);
		c->tables = &own;
		check_tables_shape(c);
	}
	profile_begin(c, m, bytes);
	check_message(c, m, bytes, &f);
	check_profile_rules(c, m, bytes, &f);
	if (has_tables) {
		c->tables = outer;
		check_tables_release(&own);
	}
}

/* v1.3: the profile is in a container, which has the id and the payload. */
static void check_container(struct check *c, const struct schema_message *m, struct str bytes)
{
	struct check_fields f;

	check_message(c, m, bytes, &f);
	check_payload(c, &f);
	if (!f.count[ROLE_CONTAINED_PROFILE])
		check_find(c, CHECK_ERROR, "profile-missing", "has no profile");
}

void check_profile(struct check *c, const struct schema_message *m, struct str bytes)
{
	if (c->version == WIRE_V1_3)
		check_container(c, m, bytes);
	else
		check_contained_profile(c, m, bytes);
}
