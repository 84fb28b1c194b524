#include "base/text.h"
#include "wire/check_walk.h"

/* ---- scalars ---- */

static void check_timestamp(struct check *c, uint64_t t)
{
	const struct check_profile *p = &c->profile;
	unsigned long long end;
	bool past;

	if (!p->has_window || (t >= p->time && t - p->time < p->duration))
		return;
	past = __builtin_add_overflow(p->time, p->duration, &end);
	/* A rule of the newest schema only; older senders let the window end with the last
	 * timestamp. */
	check_find(c, c->version == WIRE_NEWEST ? CHECK_ERROR : CHECK_WARNING, "timestamp-window",
		   past ? "is %llu, outside of [%llu, 2^64 + %llu)"
			: "is %llu, outside of [%llu, %llu)",
		   (unsigned long long)t, (unsigned long long)p->time, end);
}

static void check_scalar(struct check *c, const struct schema_field *f, uint64_t value)
{
	int64_t v = check_signed(f, value);

	switch (f->role) {
	case ROLE_STACK_INDEX:
	case ROLE_LINK_INDEX:
	case ROLE_LOCATION_INDICES:
	case ROLE_ATTRIBUTE_INDICES:
	case ROLE_MAPPING_INDEX:
	case ROLE_FUNCTION_INDEX:
	case ROLE_STRING_INDEX:
	case ROLE_KEY_STRINDEX:
	case ROLE_UNIT_STRINDEX:
		check_index(c, f, value);
		break;
	case ROLE_DEFAULT_SAMPLE_TYPE_INDEX:
		if (v < 0 || v >= (int64_t)c->profile.sample_types)
			check_find(c, CHECK_ERROR, "sample-type-index-range",
				   "is %lld, sample_type has %u entries", (long long)v,
				   c->profile.sample_types);
		break;
	case ROLE_LINE_NUMBER:
		if (v < 0)
			check_find(c, CHECK_ERROR, "line-negative", "is %lld", (long long)v);
		break;
	case ROLE_TIME:
	case ROLE_DURATION:
		if (f->type == SCHEMA_INT64 && v < 0)
			check_find(c, CHECK_ERROR, "time-negative", "is %lld", (long long)v);
		break;
	case ROLE_TEMPORALITY:
		if (value > 2)
			check_find(c, CHECK_ERROR, "temporality-range", "is %lld, there are 0 to 2",
				   (long long)v);
		break;
	case ROLE_TIMESTAMPS:
		check_timestamp(c, value);
		break;
	default:
		break;
	}
}

/* A scalar field may come packed, unpacked or in both forms. */
static void check_scalars(struct check *c, struct check_walk *w, const struct check_step *step,
			  struct check_fields *fields)
{
	const struct schema_field *f = step->field;
	struct pb_reader r = pb_reader_of(step->bytes);
	uint32_t *seen = &w->seen[f - w->message->fields];
	size_t mark;

	if (step->type != PB_LEN) {
		mark = check_path_push(c, f, step->element);
		check_scalar(c, f, step->value);
		check_path_pop(c, mark);
		fields->count[f->role]++;
		fields->value[f->role] = step->value;
		return;
	}
	while (pb_more(&r)) {
		uint64_t v = schema_wire_type(f->type) == PB_I64 ? pb_fixed64(&r) : pb_varint(&r);

		if (r.fault)
			break;
		mark = check_path_push(c, f, (*seen)++);
		check_scalar(c, f, v);
		check_path_pop(c, mark);
		fields->count[f->role]++;
		fields->value[f->role] = v;
	}
	if (r.fault)
		check_find_at(c, CHECK_ERROR, "broken", f->name, "%s at byte %zu",
			      pb_fault_text(r.fault),
			      (size_t)((const char *)r.fault_at - c->body.ptr));
}

/* ---- strings, ids ---- */

static void check_id_length(struct check *c, const struct schema_field *f, struct str id)
{
	size_t want = f->type == SCHEMA_ID16 ? 16 : 8;

	if (id.len && id.len != want)
		check_find(c, CHECK_ERROR,
			   f->role == ROLE_PROFILE_ID ? "profile-id-length" : "link-id-length",
			   "has %zu bytes, not %zu", id.len, want);
}

static void check_bytes(struct check *c, const struct schema_field *f, struct str s)
{
	if (f->type == SCHEMA_STRING && !utf8_valid(s))
		check_find(c, CHECK_ERROR, "utf8", "is no valid UTF-8");
	else if (f->type == SCHEMA_ID16 || f->type == SCHEMA_ID8)
		check_id_length(c, f, s);
}

/* ---- attributes by value ---- */

/* Members of a oneof; the last one counts, so that more than one is a loss. */
static void check_any_value(struct check *c, const struct schema_message *m, struct str bytes)
{
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;
	struct check_fields fields;
	uint32_t members = 0;

	if (c->depth == CHECK_NESTING_MOST) {
		check_find(c, CHECK_ERROR, "nesting", "is nested deeper than %u",
			   (unsigned)CHECK_NESTING_MOST);
		return;
	}
	while (check_next(c, &w, &step, false)) {
		members++;
		if (step.field->role == ROLE_STRING_INDEX && !c->references_allowed)
			check_find_at(
				c, CHECK_ERROR, "reference-place", step.field->name,
				"is set; references are for attributes of resources and scopes");
	}
	if (members > 1)
		check_find(c, CHECK_WARNING, "value-several",
			   "has %u members of the oneof, one is kept", members);
	c->depth++;
	check_message(c, m, bytes, &fields);
	c->depth--;
}

static struct str key_text(const struct check *c, const struct check_fields *f)
{
	const struct check_table *strings = &c->tables->t[TABLE_STRING];
	uint64_t at = f->value[ROLE_KEY_STRINDEX];

	if (f->bytes[ROLE_KEY].len || !f->count[ROLE_KEY_STRINDEX] || at >= strings->count)
		return f->bytes[ROLE_KEY];
	return strings->entries[at];
}

static void check_key_value(struct check *c, const struct schema_message *m, struct str bytes)
{
	struct check_fields f;
	struct str key, referred;

	check_message(c, m, bytes, &f);
	key = f.bytes[ROLE_KEY];
	if (key.len && f.value[ROLE_KEY_STRINDEX]) {
		f.bytes[ROLE_KEY].len = 0;
		referred = key_text(c, &f);
		check_find(c, str_equal(key, referred) ? CHECK_WARNING : CHECK_ERROR, "key-twice",
			   "has both key \"%.*s\" and key_strindex %llu \"%.*s\"",
			   STR_ARG(str_head(key, 60)),
			   (unsigned long long)f.value[ROLE_KEY_STRINDEX],
			   STR_ARG(str_head(referred, 60)));
	} else if (!key.len && !f.value[ROLE_KEY_STRINDEX]) {
		check_find(c, CHECK_ERROR, "key-empty", "has no key");
	}
	if (f.value[ROLE_KEY_STRINDEX] && !c->references_allowed)
		check_find_at(c, CHECK_ERROR, "reference-place", "key_strindex",
			      "is set; references are for attributes of resources and scopes");
}

/* Keys of a resource or a scope are unique. Lists are short: a few dozen at most in practice. */
static void check_unique_keys(struct check *c, const struct schema_message *m, struct str bytes)
{
	enum { COMPARED_MOST = 256 };
	struct str keys[COMPARED_MOST];
	uint32_t count = 0;
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;

	while (check_next(c, &w, &step, false) && count < COMPARED_MOST) {
		struct check_fields f;

		if (step.field->role != ROLE_ATTRIBUTES)
			continue;
		check_collect(c, step.field->message, step.bytes, &f);
		keys[count] = key_text(c, &f);
		for (uint32_t i = 0; i < count && keys[count].len; i++) {
			size_t mark;

			if (!str_equal(keys[i], keys[count]))
				continue;
			mark = check_path_push(c, step.field, step.element);
			check_find(c, CHECK_ERROR, "attribute-key-duplicate",
				   "has the key \"%.*s\" of attributes[%u]",
				   STR_ARG(str_head(keys[i], 60)), i);
			check_path_pop(c, mark);
			break;
		}
		count++;
	}
}

/* ---- the descent ---- */

static void check_attribute_holder(struct check *c, const struct schema_message *m,
				   struct str bytes)
{
	struct check_fields fields;

	c->references_allowed = true;
	check_message(c, m, bytes, &fields);
	c->references_allowed = false;
	check_unique_keys(c, m, bytes);
}

static void check_scope_profiles(struct check *c, const struct schema_message *m, struct str bytes)
{
	struct check_fields f;

	check_message(c, m, bytes, &f);
	if (!f.count[ROLE_PROFILES])
		check_find(c, CHECK_ERROR, "profiles-empty", "has no profiles");
}

static void check_resource_profiles(struct check *c, const struct schema_message *m,
				    struct str bytes)
{
	struct check_fields f;

	check_message(c, m, bytes, &f);
	if (!f.count[ROLE_SCOPE_PROFILES])
		check_find(c, CHECK_ERROR, "scope-profiles-empty", "has no scope_profiles");
}

/* The message of a field, path pushed. */
static void descend(struct check *c, const struct schema_field *f, struct str bytes,
		    uint32_t element)
{
	struct check_fields fields;

	switch (f->role) {
	case ROLE_RESOURCE_PROFILES:
		check_resource_profiles(c, f->message, bytes);
		break;
	case ROLE_SCOPE_PROFILES:
		check_scope_profiles(c, f->message, bytes);
		break;
	case ROLE_RESOURCE:
	case ROLE_SCOPE:
		check_attribute_holder(c, f->message, bytes);
		break;
	case ROLE_PROFILES:
		check_profile(c, f->message, bytes);
		break;
	case ROLE_CONTAINED_PROFILE:
		check_contained_profile(c, f->message, bytes);
		break;
	case ROLE_SAMPLES:
		check_sample(c, f->message, bytes, element);
		break;
	case ROLE_ATTRIBUTES:
		check_key_value(c, f->message, bytes);
		break;
	default:
		if (strcmp(f->message->name, "AnyValue") == 0)
			check_any_value(c, f->message, bytes);
		else if (strcmp(f->message->name, "KeyValue") == 0)
			check_key_value(c, f->message, bytes);
		else
			check_message(c, f->message, bytes, &fields);
	}
}

static bool is_table(enum schema_role role)
{
	return role >= ROLE_MAPPING_TABLE && role <= ROLE_ATTRIBUTE_UNITS;
}

void check_message(struct check *c, const struct schema_message *m, struct str bytes,
		   struct check_fields *fields)
{
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;

	memset(fields, 0, sizeof(*fields));
	while (check_next(c, &w, &step, true)) {
		const struct schema_field *f = step.field;
		uint32_t element = step.element;
		size_t mark;

		if (schema_wire_type(f->type) != PB_LEN) {
			check_scalars(c, &w, &step, fields);
			continue;
		}
		fields->count[f->role]++;
		fields->bytes[f->role] = step.bytes;
		if (is_table(f->role))
			element = c->tables->t[f->role - ROLE_MAPPING_TABLE].walked++;
		mark = check_path_push(c, f, element);
		if (is_table(f->role))
			check_entry(c, f, step.bytes, element);
		else if (f->type == SCHEMA_MESSAGE)
			descend(c, f, step.bytes, element);
		else
			check_bytes(c, f, step.bytes);
		check_path_pop(c, mark);
	}
}
