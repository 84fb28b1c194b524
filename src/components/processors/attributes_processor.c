/*
 * attributes: inserts, changes and deletes attributes of profiles and samples.
 *
 * Options are the Collector's, where the processor has no profiles; `apply_to` is ours. A list none
 * of whose attributes an action concerns is left as it is without a look at its values: which
 * entries of the dictionary an action concerns is asked once for each.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "components/processors/attribute_actions.h"
#include "components/processors/attribute_match.h"
#include "components/processors/changed.h"
#include "components/processors/processors.h"

enum apply_to { APPLY_BOTH, APPLY_PROFILES, APPLY_SAMPLES };
static const char *const apply_choices[] = { "both", "profiles", "samples", NULL };

struct attributes {
	const struct config_node *list;
	struct attribute_match include, exclude;
	int apply_to;

	struct attribute_actions actions;
	const struct component_host *host;
};

#define OFF(member) .offset = offsetof(struct attributes, member)

/* clang-format off */
static const struct config_field attributes_fields[] = {
	{ .name = "actions", .kind = CONFIG_ANY, OFF(list), .required = true,
	  .help = "list of {key, action, value | from_attribute | from_context, default_value, pattern, converted_type}" },
	{ .name = "include", .kind = CONFIG_OPTIONAL, OFF(include), .fields = attribute_match_fields,
	  .offset_enabled = offsetof(struct attributes, include.given), .help = "to what the actions apply" },
	{ .name = "exclude", .kind = CONFIG_OPTIONAL, OFF(exclude), .fields = attribute_match_fields,
	  .offset_enabled = offsetof(struct attributes, exclude.given), .help = "to what of it they do not" },
	{ .name = "apply_to", .kind = CONFIG_ENUM, OFF(apply_to), .default_text = "both", .choices = apply_choices,
	  .help = "attributes of profiles, of samples, or of both" },
	{ 0 },
};
/* clang-format on */

static void attributes_read(void *state, const struct config_node *node, const char *path,
			    struct arena *arena, struct problems *problems)
{
	struct attributes *a = state;
	char at[160];

	snprintf(at, sizeof(at), "%s::actions", path);
	attribute_actions_read(&a->actions, a->list, at, arena, problems);
	snprintf(at, sizeof(at), "%s::include", path);
	attribute_match_read(&a->include, node_get(node, "include"), &a->actions.lock, at, arena,
			     problems);
	snprintf(at, sizeof(at), "%s::exclude", path);
	attribute_match_read(&a->exclude, node_get(node, "exclude"), &a->actions.lock, at, arena,
			     problems);
}

static bool attributes_check(void *state, struct err *err)
{
	const struct attributes *a = state;

	return a->actions.count || err_set(err, ERR_INVALID, "\"actions\" must hold an action");
}

static bool attributes_start(void *state, const struct component_host *host, struct err *err)
{
	struct attributes *a = state;

	(void)err;
	a->host = host;
	return true;
}

static void attributes_release(void *state)
{
	struct attributes *a = state;

	attribute_match_release(&a->include);
	attribute_match_release(&a->exclude);
	attribute_actions_release(&a->actions);
}

/* ---- one message ---- */

struct pass {
	struct attributes *a;
	struct batch *batch;
	struct profiles *p;
	struct edit *edit;
	struct edit_list list;
	struct arena scratch;
	bool *touched; /* by attribute of the dictionary as it came */
	uint32_t touched_count;
	bool included, excluded; /* by resource and scope */
	struct err *err;
};

static void mark_touched(struct pass *x)
{
	const struct dictionary *d = &x->p->dict;

	x->touched_count = d->attribute_count;
	x->touched = calloc(d->attribute_count, sizeof(bool));
	assert(x->touched);
	for (uint32_t i = 0; i < d->attribute_count; i++)
		x->touched[i] = attribute_actions_touch(
			&x->a->actions, profiles_string(x->p, d->attributes[i].key));
}

static bool concerned(const struct pass *x, struct range refs)
{
	if (x->a->actions.adds)
		return true;
	for (uint32_t i = 0; i < refs.count; i++) {
		uint32_t at = x->p->attribute_refs[refs.first + i].v;

		if (at >= x->touched_count || x->touched[at])
			return true;
	}
	return false;
}

static bool chosen(struct pass *x, struct range refs, bool *out)
{
	bool excluded = false;

	*out = x->included;
	if (*out && x->a->include.given &&
	    !attribute_match_refs(&x->a->include, x->p, refs, out, x->err))
		return false;
	if (*out && x->excluded &&
	    !attribute_match_refs(&x->a->exclude, x->p, refs, &excluded, x->err))
		return false;
	*out &= !excluded;
	return true;
}

static bool change(struct pass *x, enum message_kind owner, uint32_t index, struct range refs)
{
	bool changed, yes;

	if (!concerned(x, refs))
		return true;
	if (!chosen(x, refs, &yes))
		return false;
	if (!yes)
		return true;
	if (x->scratch.blocks)
		arena_reset(&x->scratch);
	edit_load(x->p, owner, index, &x->list);
	return attribute_actions_apply(&x->a->actions, &x->list, &x->scratch, x->batch->peer,
				       &changed, x->err) &&
	       (!changed || edit_store(x->edit, &x->list, x->err));
}

static bool change_profile(struct pass *x, uint32_t index)
{
	struct range samples = x->p->profiles[index].samples;

	if (x->a->apply_to != APPLY_SAMPLES &&
	    !change(x, MESSAGE_PROFILE, index, x->p->profiles[index].attributes))
		return false;
	for (uint32_t i = samples.first;
	     x->a->apply_to != APPLY_PROFILES && i < samples.first + samples.count; i++)
		if (!change(x, MESSAGE_SAMPLE, i, x->p->samples[i].attributes))
			return false;
	return true;
}

static bool change_scope(struct pass *x, const struct resource_profiles *resource, uint32_t index)
{
	const struct scope_profiles *scope = &x->p->scopes[index];

	x->included = true;
	x->excluded = x->a->exclude.given;
	if (x->a->include.given &&
	    !attribute_match_outer(&x->a->include, resource, scope, &x->included, x->err))
		return false;
	if (x->excluded &&
	    !attribute_match_outer(&x->a->exclude, resource, scope, &x->excluded, x->err))
		return false;
	for (uint32_t i = 0; x->included && i < scope->profiles.count; i++)
		if (!change_profile(x, scope->profiles.first + i))
			return false;
	return true;
}

static bool change_all(struct pass *x)
{
	for (uint32_t r = 0; r < x->p->resource_count; r++) {
		struct range scopes = x->p->resources[r].scopes;

		for (uint32_t i = 0; i < scopes.count; i++)
			if (!change_scope(x, &x->p->resources[r], scopes.first + i))
				return false;
	}
	return true;
}

static void attributes_consume(void *state, struct batch *batch, struct completion *done)
{
	struct attributes *a = state;
	struct err err = { 0 };
	struct pass x = { .a = a,
			  .batch = batch,
			  .p = batch->profiles,
			  .edit = edit_new(batch->profiles),
			  .err = &err };
	bool ok;

	arena_init(&x.scratch, 1024, 0);
	mark_touched(&x);
	ok = change_all(&x);
	free(x.touched);
	arena_release(&x.scratch);
	edit_list_release(&x.list);
	changed_hand_on(a->host, batch, x.edit, ok, &err, done);
	edit_free(x.edit);
}

const struct component_ops attributes_processor = {
	.type = "attributes",
	.summary = "inserts, changes and deletes attributes of profiles and samples",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct attributes),
	.fields = attributes_fields,
	.mutates = true,
	.read = attributes_read,
	.check = attributes_check,
	.start = attributes_start,
	.consume = attributes_consume,
	.release = attributes_release,
};
