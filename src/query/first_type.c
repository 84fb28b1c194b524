/*
 * first_type.c - which of its types the maker of a profile wants to be seen first.
 *
 * pprof says it in default_sample_type, and where that is not set, it is the last sample type
 * (profile.proto). Scopes keep both (OpenTelemetry's conventions for pprof); the types are the
 * series of one owner, one after another.
 */
#include "formats/pprof_said.h"
#include "query/select.h"

static const struct any_value *said(const struct source_series *s, const char *key)
{
	for (uint32_t i = 0; i < s->scope.count; i++)
		if (str_is(s->scope.ptr[i].key, key))
			return &s->scope.ptr[i].value;
	return NULL;
}

/* A type by itself is the last of nothing. */
static void note_last(struct query *q, struct first_type *before, uint64_t owner, uint32_t type)
{
	if (owner != before->owner) {
		*before = (struct first_type){ .owner = owner, .type = type };
		return;
	}
	if (type == before->type)
		return;
	if (before->counted)
		q->selected.types[before->type].last_of--;
	q->selected.types[type].last_of++;
	before->type = type;
	before->counted = true;
}

void first_type_note(struct query *q, struct first_type *before, const struct source_series *s,
		     uint32_t type)
{
	const struct any_value *first = said(s, PPROF_DEFAULT_SAMPLE_TYPE);

	if (first && first->kind == ANY_STRING && first->string.len)
		q->selected.types[type].preferred |= str_equal(first->string, s->sample_type);
	else if (said(s, PPROF_SAMPLE_TYPE_ORDER))
		note_last(q, before, s->owner, type);
	else
		before->owner = 0;
}
