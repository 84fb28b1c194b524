#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/vec.h"
#include "wire/check_walk.h"

/* ---- gathering ---- */

static void table_add(struct check_table *t, const struct schema_field *f, struct str entry)
{
	t->field = f;
	VEC_ROOM(t->entries, t->count, t->cap);
	t->entries[t->count++] = entry;
}

/* The attribute's key: its own text (up to v1.7), or the string it refers to. */
static struct str attribute_key(struct check *c, const struct check_tables *t, uint32_t index)
{
	const struct check_table *attributes = &t->t[TABLE_ATTRIBUTE],
				 *strings = &t->t[TABLE_STRING];
	struct check_fields f;

	check_collect(c, attributes->field->message, attributes->entries[index], &f);
	if (f.value[ROLE_KEY_STRINDEX] && f.value[ROLE_KEY_STRINDEX] < strings->count)
		return strings->entries[f.value[ROLE_KEY_STRINDEX]];
	return f.bytes[ROLE_KEY];
}

void check_tables_gather(struct check *c, struct check_tables *t, const struct schema_message *m,
			 struct str bytes)
{
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;

	for (uint8_t i = 0; i < m->field_count; i++)
		if (m->fields[i].role >= ROLE_MAPPING_TABLE &&
		    m->fields[i].role <= ROLE_ATTRIBUTE_UNITS)
			t->t[m->fields[i].role - ROLE_MAPPING_TABLE].field = &m->fields[i];
	while (check_next(c, &w, &step, false))
		if (step.field->role >= ROLE_MAPPING_TABLE &&
		    step.field->role <= ROLE_ATTRIBUTE_UNITS)
			table_add(&t->t[step.field->role - ROLE_MAPPING_TABLE], step.field,
				  step.bytes);
	t->present = true;
	for (uint32_t i = 0; i < TABLE_COUNT; i++) {
		free(t->t[i].used);
		t->t[i].used = calloc(t->t[i].count + 1, sizeof(*t->t[i].used));
		assert(t->t[i].used);
	}
	free(t->attribute_keys);
	t->attribute_keys = calloc(t->t[TABLE_ATTRIBUTE].count + 1, sizeof(*t->attribute_keys));
	assert(t->attribute_keys);
	for (uint32_t i = 0; i < t->t[TABLE_ATTRIBUTE].count; i++)
		t->attribute_keys[i] = hash64(attribute_key(c, t, i));
}

void check_tables_release(struct check_tables *t)
{
	for (uint32_t i = 0; i < TABLE_COUNT; i++) {
		free(t->t[i].entries);
		free(t->t[i].used);
	}
	free(t->attribute_keys);
}

/* ---- references ---- */

static const struct {
	enum schema_role role;
	enum check_table_kind table;
	const char *rule;
} references[] = {
	{ ROLE_STACK_INDEX, TABLE_STACK, "stack-index-range" },
	{ ROLE_LINK_INDEX, TABLE_LINK, "link-index-range" },
	{ ROLE_LOCATION_INDICES, TABLE_LOCATION, "location-index-range" },
	{ ROLE_ATTRIBUTE_INDICES, TABLE_ATTRIBUTE, "attribute-index-range" },
	{ ROLE_MAPPING_INDEX, TABLE_MAPPING, "mapping-index-range" },
	{ ROLE_FUNCTION_INDEX, TABLE_FUNCTION, "function-index-range" },
	{ ROLE_STRING_INDEX, TABLE_STRING, "string-index-range" },
	{ ROLE_KEY_STRINDEX, TABLE_STRING, "string-index-range" },
	{ ROLE_UNIT_STRINDEX, TABLE_STRING, "string-index-range" },
};

static const char *table_name(const struct check_table *t)
{
	return t->field ? t->field->name : "the table";
}

/* Since v1.8 index 0 means "not set", so that it needs no entry; an empty table has a finding of
 * its own. */
void check_index(struct check *c, const struct schema_field *f, uint64_t value)
{
	int64_t v = check_signed(f, value);

	for (size_t i = 0; i < ARRAY_LEN(references); i++) {
		struct check_table *t = &c->tables->t[references[i].table];

		if (references[i].role != f->role)
			continue;
		if (v >= 0 && v < (int64_t)t->count)
			t->used[v] = true;
		else if (v != 0 || (!check_is_new(c) && references[i].table != TABLE_STRING))
			check_find(c, CHECK_ERROR, references[i].rule, "is %lld, %s has %u entries",
				   (long long)v, table_name(t), t->count);
		return;
	}
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* No key twice in one attribute_indices list: by the keys' texts, which equal strings in the table
 * have in common. */
void check_attribute_keys(struct check *c, const struct schema_message *m, struct str bytes)
{
	const struct check_table *t = &c->tables->t[TABLE_ATTRIBUTE];
	uint32_t keys = 0;

	check_list(c, m, bytes, ROLE_ATTRIBUTE_INDICES, &c->list);
	for (uint32_t i = 0; i < c->list.count; i++) {
		uint64_t at = c->list.at[i];

		if (at < t->count && (at || !check_is_new(c)))
			c->list.at[keys++] = c->tables->attribute_keys[at];
	}
	if (keys > 1)
		qsort(c->list.at, keys, sizeof(uint64_t), compare_u64);
	for (uint32_t i = 1; i < keys; i++)
		if (c->list.at[i] == c->list.at[i - 1]) {
			check_find_at(c, CHECK_ERROR, "attribute-key-duplicate",
				      "attribute_indices", "names one key twice");
			return;
		}
}

/* ---- entries ---- */

static void check_mapping(struct check *c, const struct check_fields *f)
{
	uint64_t start = f->value[ROLE_MEMORY_START], limit = f->value[ROLE_MEMORY_LIMIT];

	if (start >= limit && (start || limit))
		check_find(c, CHECK_ERROR, "memory-range",
			   "has memory_start %#llx and memory_limit %#llx",
			   (unsigned long long)start, (unsigned long long)limit);
}

static void check_link(struct check *c, const struct check_fields *f)
{
	struct str trace = f->bytes[ROLE_TRACE_ID], span = f->bytes[ROLE_SPAN_ID];

	/* Wrong lengths were found at the field; here it is about ids that are not there. */
	if (!trace.len)
		check_find_at(c, CHECK_ERROR, "link-id-length", "trace_id", "has 0 bytes, not 16");
	else if (id_is_zero((const uint8_t *)trace.ptr, trace.len))
		check_find_at(c, CHECK_WARNING, "link-id-zero", "trace_id", "is all zero: no link");
	if (!span.len)
		check_find_at(c, CHECK_ERROR, "link-id-length", "span_id", "has 0 bytes, not 8");
	else if (id_is_zero((const uint8_t *)span.ptr, span.len))
		check_find_at(c, CHECK_WARNING, "link-id-zero", "span_id", "is all zero: no link");
}

static bool any_string_index(struct check *c, const struct schema_message *m, struct str bytes)
{
	struct check_walk w = check_walk_of(m, bytes);
	struct check_step step;

	while (check_next(c, &w, &step, false))
		if (step.field->role == ROLE_STRING_INDEX && step.value)
			return true;
	return false;
}

void check_entry(struct check *c, const struct schema_field *f, struct str bytes, uint32_t index)
{
	struct check_fields fields;
	bool zero_entry;

	if (f->role == ROLE_STRING_TABLE) {
		if (!utf8_valid(bytes))
			check_find(c, CHECK_ERROR, "utf8", "is no valid UTF-8");
		return;
	}
	/* Up to v1.7 a sender may begin a table so, too. */
	zero_entry = index == 0 && (check_is_new(c) || check_is_zero(f->message, bytes));
	check_message(c, f->message, bytes, &fields);
	switch (f->role) {
	case ROLE_MAPPING_TABLE:
		check_mapping(c, &fields);
		check_attribute_keys(c, f->message, bytes);
		break;
	case ROLE_LOCATION_TABLE:
		check_attribute_keys(c, f->message, bytes);
		break;
	case ROLE_FUNCTION_TABLE:
		if (!zero_entry && !any_string_index(c, f->message, bytes))
			check_find(c, CHECK_WARNING, "function-empty",
				   "has neither name nor system_name nor filename");
		break;
	case ROLE_LINK_TABLE:
		if (!zero_entry)
			check_link(c, &fields);
		break;
	case ROLE_ATTRIBUTE_TABLE:
		if (!zero_entry && !fields.value[ROLE_KEY_STRINDEX] && !fields.bytes[ROLE_KEY].len)
			check_find(c, CHECK_ERROR, "key-empty", "has no key");
		break;
	default:
		break;
	}
}

/* ---- tables as a whole ---- */

void check_tables_shape(struct check *c)
{
	for (uint32_t i = 0; i < TABLE_COUNT; i++) {
		const struct check_table *t = &c->tables->t[i];
		size_t mark;
		bool zero;

		/* Before v1.8 only the string table had to begin with its zero value. */
		if (!t->field || (!check_is_new(c) && i != TABLE_STRING))
			continue;
		if (!t->count) {
			if (check_is_new(c))
				check_find_at(c, CHECK_ERROR, "table-empty", t->field->name,
					      "is empty; entry 0 has to be the zero value");
			continue;
		}
		zero = t->field->message ? check_is_zero(t->field->message, t->entries[0])
					 : !t->entries[0].len;
		if (zero)
			continue;
		mark = check_path_push(c, t->field, 0);
		check_find(c, CHECK_ERROR, "zero-entry", "is not the zero value");
		check_path_pop(c, mark);
	}
}

struct hashed {
	uint64_t hash;
	uint32_t index;
};

static int compare_hashed(const void *a, const void *b)
{
	const struct hashed *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* Equal bytes are equal entries; what says the same in other bytes goes unnoticed. */
static void find_duplicates(struct check *c, const struct check_table *t)
{
	struct hashed *all = malloc((t->count + 1) * sizeof(*all));

	assert(all);
	for (uint32_t i = 0; i < t->count; i++)
		all[i] = (struct hashed){ hash64(t->entries[i]), i };
	qsort(all, t->count, sizeof(*all), compare_hashed);
	for (uint32_t i = 1, first = 0; i < t->count; i++) {
		size_t mark;

		if (all[i].hash != all[i - 1].hash) {
			first = i;
			continue;
		}
		if (!str_equal(t->entries[all[i].index], t->entries[all[first].index]))
			continue;
		mark = check_path_push(c, t->field, all[i].index);
		check_find(c, CHECK_WARNING, "duplicate-entry", "is equal to %s[%u]",
			   t->field->name, all[first].index);
		check_path_pop(c, mark);
	}
	free(all);
}

static void find_orphans(struct check *c, const struct check_table *t)
{
	for (uint32_t i = 1; i < t->count; i++) {
		size_t mark;

		if (t->used[i])
			continue;
		mark = check_path_push(c, t->field, i);
		check_find(c, CHECK_WARNING, "orphan-entry", "is not referred to");
		check_path_pop(c, mark);
	}
}

void check_tables_use(struct check *c)
{
	if (!check_is_new(c))
		return;
	for (uint32_t i = 0; i < TABLE_COUNT; i++)
		if (c->tables->t[i].field) {
			find_duplicates(c, &c->tables->t[i]);
			find_orphans(c, &c->tables->t[i]);
		}
}
