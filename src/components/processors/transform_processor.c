/*
 * transform: changes resources, scopes, profiles and samples by statements, one after another.
 *
 * Options are the Collector's; sample statements are ours. Attributes that a statement removed or
 * changed are in no table of the message any more.
 */
#include <stdio.h>

#include "components/processors/changed.h"
#include "components/processors/ottl_rules.h"
#include "components/processors/processors.h"

struct transform {
	int error_mode;
	bool flatten_data;
	const struct config_node *statements, *other_signals;

	struct ottl_rules rules;
	const struct component_host *host;
};

#define OFF(member) .offset = offsetof(struct transform, member)
#define OTHER_SIGNAL(text)                                              \
	{                                                               \
		.name = (text), .kind = CONFIG_ANY, OFF(other_signals), \
		.help = "accepted: of another signal"                   \
	}

/* clang-format off */
static const struct config_field transform_fields[] = {
	{ .name = "error_mode", .kind = CONFIG_ENUM, OFF(error_mode), .default_text = "propagate", .choices = ottl_error_modes,
	  .help = "a statement that fails: ignore (logged), silent, or propagate (the request is refused)" },
	{ .name = "profile_statements", .kind = CONFIG_ANY, OFF(statements),
	  .help = "list of statements, or of {context, conditions, statements, error_mode}" },
	{ .name = "flatten_data", .kind = CONFIG_BOOL, OFF(flatten_data), .default_text = "false", .help = "accepted: of logs" },
	OTHER_SIGNAL("trace_statements"), OTHER_SIGNAL("metric_statements"), OTHER_SIGNAL("log_statements"),
	{ 0 },
};
/* clang-format on */

static void transform_read(void *state, const struct config_node *node, const char *path,
			   struct arena *arena, struct problems *problems)
{
	struct transform *t = state;
	char at[160];

	(void)node;
	ottl_rules_init(&t->rules, true, arena);
	snprintf(at, sizeof(at), "%s::profile_statements", path);
	ottl_rules_read(&t->rules, t->statements, at, OTTL_INFER, t->error_mode, problems);
}

static bool transform_start(void *state, const struct component_host *host, struct err *err)
{
	struct transform *t = state;

	(void)err;
	t->host = host;
	ottl_rules_start(&t->rules, host);
	return true;
}

static void transform_release(void *state)
{
	struct transform *t = state;

	ottl_rules_release(&t->rules);
}

/* ---- one message ---- */

struct pass {
	struct transform *t;
	const struct ottl_rule *rule;
	struct ottl_run *run;
	struct ottl_at at;
	struct err *err;
};

/* Does one of the group's conditions hold, where there are any? */
static bool wanted(struct pass *x, bool *out)
{
	*out = x->rule->condition_count == 0;
	for (uint32_t i = 0; i < x->rule->condition_count && !*out; i++)
		if (!ottl_holds(x->run, x->rule->conditions[i], &x->at, out, x->err))
			return false;
	return true;
}

static bool apply(struct pass *x)
{
	bool yes;

	if (wanted(x, &yes) && (!yes || ottl_apply(x->run, x->rule->code, &x->at, x->err)))
		return true;
	return ottl_rule_failed(&x->t->rules, x->rule, x->err);
}

static bool apply_profile(struct pass *x, const struct profiles *p)
{
	struct range samples = p->profiles[x->at.profile].samples;

	if (x->rule->code->context == OTTL_PROFILE)
		return apply(x);
	for (uint32_t i = 0; i < samples.count; i++) {
		x->at.sample = samples.first + i;
		if (!apply(x))
			return false;
	}
	return true;
}

static bool apply_scope(struct pass *x, const struct profiles *p)
{
	struct range profiles = p->scopes[x->at.scope].profiles;

	if (x->rule->code->context == OTTL_SCOPE)
		return apply(x);
	for (uint32_t i = 0; i < profiles.count; i++) {
		x->at.profile = profiles.first + i;
		if (!apply_profile(x, p))
			return false;
	}
	return true;
}

static bool apply_resource(struct pass *x, const struct profiles *p)
{
	struct range scopes = p->resources[x->at.resource].scopes;

	if (x->rule->code->context == OTTL_RESOURCE)
		return apply(x);
	for (uint32_t i = 0; i < scopes.count; i++) {
		x->at.scope = scopes.first + i;
		if (!apply_scope(x, p))
			return false;
	}
	return true;
}

static bool transform_message(struct transform *t, struct profiles *p, struct edit *edit,
			      struct err *err)
{
	struct pass x = { .t = t, .err = err, .run = ottl_run_new(&t->rules.ottl, p, edit) };
	bool ok = true;

	for (uint32_t i = 0; i < t->rules.count && ok; i++) {
		x.rule = &t->rules.items[i];
		for (uint32_t r = 0; r < p->resource_count && ok; r++) {
			x.at.resource = r;
			ok = apply_resource(&x, p);
		}
	}
	ottl_run_free(x.run);
	return ok;
}

static void transform_consume(void *state, struct batch *batch, struct completion *done)
{
	struct edit *edit = edit_new(batch->profiles);
	struct transform *t = state;
	struct err err = { 0 };
	bool ok = transform_message(t, batch->profiles, edit, &err);

	changed_hand_on(t->host, batch, edit, ok, &err, done);
	edit_free(edit);
}

const struct component_ops transform_processor = {
	.type = "transform",
	.summary = "changes resources, scopes, profiles and samples by statements",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct transform),
	.fields = transform_fields,
	.mutates = true,
	.read = transform_read,
	.start = transform_start,
	.consume = transform_consume,
	.release = transform_release,
};
