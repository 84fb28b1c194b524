/*
 * filter: drops the resources, scopes, profiles and samples for which a condition holds.
 *
 * Options are the Collector's; sample conditions are ours. What nothing matches goes on as it came,
 * body and all. What is left of a message gets a dictionary of its own, without what only dropped
 * samples used; a profile whose samples are all dropped goes, and so do scopes and resources
 * without profiles.
 */
#include <stdio.h>

#include "components/processors/ottl_rules.h"
#include "components/processors/processors.h"
#include "components/processors/selected.h"

struct filter {
	int error_mode;
	const struct config_node *conditions;
	struct old_form {
		bool given;
		const struct config_node *lists[OTTL_INFER]; /* by context */
	} profiles;
	const struct config_node *other_signals;

	struct ottl_rules rules;
	const struct component_host *host;
	struct metric *dropped[OTTL_INFER];
};

#define OFF(member) .offset = offsetof(struct filter, member)
#define OTHER_SIGNAL(text)                                              \
	{                                                               \
		.name = (text), .kind = CONFIG_ANY, OFF(other_signals), \
		.help = "accepted: of another signal"                   \
	}

/* clang-format off */
static const struct config_field old_form_fields[] = {
	{ .name = "resource", .kind = CONFIG_ANY, .offset = offsetof(struct old_form, lists[OTTL_RESOURCE]), .help = "conditions" },
	{ .name = "scope", .kind = CONFIG_ANY, .offset = offsetof(struct old_form, lists[OTTL_SCOPE]), .help = "conditions" },
	{ .name = "profile", .kind = CONFIG_ANY, .offset = offsetof(struct old_form, lists[OTTL_PROFILE]), .help = "conditions" },
	{ .name = "sample", .kind = CONFIG_ANY, .offset = offsetof(struct old_form, lists[OTTL_SAMPLE]), .help = "conditions" },
	{ 0 },
};
static const struct config_field filter_fields[] = {
	{ .name = "error_mode", .kind = CONFIG_ENUM, OFF(error_mode), .default_text = "ignore", .choices = ottl_error_modes,
	  .help = "a condition that fails: ignore (logged; it does not hold), silent, or propagate (the request is refused)" },
	{ .name = "profile_conditions", .kind = CONFIG_ANY, OFF(conditions),
	  .help = "list of conditions, or of {context, conditions, error_mode}; what one holds for is dropped" },
	{ .name = "profiles", .kind = CONFIG_OPTIONAL, OFF(profiles), .offset_enabled = offsetof(struct filter, profiles.given),
	  .fields = old_form_fields, .help = "the same, a list for each context; not beside profile_conditions" },
	OTHER_SIGNAL("trace_conditions"), OTHER_SIGNAL("metric_conditions"), OTHER_SIGNAL("log_conditions"),
	OTHER_SIGNAL("traces"), OTHER_SIGNAL("metrics"), OTHER_SIGNAL("logs"), OTHER_SIGNAL("spans"),
	{ 0 },
};
/* clang-format on */

static const char *const context_reasons[OTTL_INFER] = { "resource", "scope", "profile", "sample" };

static void filter_read(void *state, const struct config_node *node, const char *path,
			struct arena *arena, struct problems *problems)
{
	struct filter *f = state;
	char at[160];

	(void)node;
	ottl_rules_init(&f->rules, false, arena);
	snprintf(at, sizeof(at), "%s::profile_conditions", path);
	ottl_rules_read(&f->rules, f->conditions, at, OTTL_INFER, f->error_mode, problems);
	for (uint32_t i = 0; i < OTTL_INFER; i++) {
		snprintf(at, sizeof(at), "%s::profiles::%s", path, context_reasons[i]);
		ottl_rules_read(&f->rules, f->profiles.lists[i], at, (enum ottl_context)i,
				f->error_mode, problems);
	}
}

static bool filter_check(void *state, struct err *err)
{
	const struct filter *f = state;

	if (f->conditions && f->profiles.given)
		return err_set(err, ERR_INVALID,
			       "\"profile_conditions\" and \"profiles\" cannot be used together");
	return true;
}

static struct metric *dropped(const struct component_host *h, const char *reason)
{
	static const char *const labels[] = { "processor", "reason", NULL };
	struct str values[] = { str_cstr(h->id), str_cstr(reason) };

	return metric_get(metrics_family(h->metrics, METRIC_COUNTER,
					 "flametap_filter_dropped_samples_total",
					 "Samples dropped by a condition of the filter processor, "
					 "by what it is about.",
					 labels, 0),
			  values);
}

static bool filter_start(void *state, const struct component_host *host, struct err *err)
{
	struct filter *f = state;

	(void)err;
	f->host = host;
	ottl_rules_start(&f->rules, host);
	for (uint32_t i = 0; i < OTTL_INFER; i++)
		f->dropped[i] = dropped(host, context_reasons[i]);
	return true;
}

static void filter_release(void *state)
{
	struct filter *f = state;

	ottl_rules_release(&f->rules);
}

/* ---- one message ---- */

struct pass {
	struct filter *f;
	const struct profiles *p;
	struct ottl_run *run;
	struct ottl_at at;
	struct selected keep;
	bool used[OTTL_INFER]; /* contexts that have conditions */
	uint64_t dropped[OTTL_INFER];
	bool any_profile; /* one goes */
	struct err *err;
	bool failed;
};

/* Does a condition of this context hold here? */
static bool matched(struct pass *x, enum ottl_context context)
{
	struct ottl_rules *rules = &x->f->rules;
	bool holds;

	for (uint32_t i = 0; x->used[context] && i < rules->count && !x->failed; i++) {
		if (rules->items[i].code->context != context)
			continue;
		if (ottl_holds(x->run, rules->items[i].code, &x->at, &holds, x->err)) {
			if (holds)
				return true;
		} else if (!ottl_rule_failed(rules, &rules->items[i], x->err)) {
			x->failed = true;
		}
	}
	return false;
}

static void drop_profile(struct pass *x, uint32_t index, enum ottl_context why)
{
	struct range samples = x->p->profiles[index].samples;

	x->keep.profiles[index] = false;
	x->any_profile = true;
	memset(x->keep.samples + samples.first, false, samples.count);
	x->dropped[why] += samples.count;
}

static void pass_profile(struct pass *x)
{
	struct range samples = x->p->profiles[x->at.profile].samples;
	uint32_t gone = 0;

	if (matched(x, OTTL_PROFILE)) {
		drop_profile(x, x->at.profile, OTTL_PROFILE);
		return;
	}
	for (uint32_t i = 0; x->used[OTTL_SAMPLE] && i < samples.count; i++) {
		x->at.sample = samples.first + i;
		if (matched(x, OTTL_SAMPLE)) {
			x->keep.samples[x->at.sample] = false;
			gone++;
		}
	}
	x->dropped[OTTL_SAMPLE] += gone;
	x->keep.profiles[x->at.profile] = !gone || gone < samples.count;
}

static void pass_scope(struct pass *x, enum ottl_context why)
{
	struct range profiles = x->p->scopes[x->at.scope].profiles;

	if (why == OTTL_INFER && matched(x, OTTL_SCOPE))
		why = OTTL_SCOPE;
	for (uint32_t i = 0; i < profiles.count; i++) {
		x->at.profile = profiles.first + i;
		if (why != OTTL_INFER)
			drop_profile(x, x->at.profile, why);
		else
			pass_profile(x);
	}
}

static void pass_resource(struct pass *x)
{
	struct range scopes = x->p->resources[x->at.resource].scopes;
	enum ottl_context why = matched(x, OTTL_RESOURCE) ? OTTL_RESOURCE : OTTL_INFER;

	for (uint32_t i = 0; i < scopes.count; i++) {
		x->at.scope = scopes.first + i;
		pass_scope(x, why);
	}
}

static bool nothing_dropped(const struct pass *x)
{
	for (uint32_t i = 0; i < OTTL_INFER; i++)
		if (x->dropped[i])
			return false;
	return !x->any_profile;
}

static void count_dropped(struct pass *x)
{
	for (uint32_t i = 0; i < OTTL_INFER; i++)
		metric_add(x->f->dropped[i], (int64_t)x->dropped[i]);
}

static void hand_on(struct pass *x, struct batch *batch, struct completion *done)
{
	if (nothing_dropped(x))
		consumer_consume(x->f->host->next, batch, done);
	else if (selected_hand_on(x->f->host, batch, &x->keep, done))
		count_dropped(x);
}

static void filter_consume(void *state, struct batch *batch, struct completion *done)
{
	struct profiles *p = batch->profiles;
	struct filter *f = state;
	struct err err = { 0 };
	struct pass x = { .f = f, .p = p, .keep = selected_new(p), .err = &err };

	for (uint32_t i = 0; i < f->rules.count; i++)
		x.used[f->rules.items[i].code->context] = true;
	x.run = ottl_run_new(&f->rules.ottl, p, NULL);
	for (uint32_t i = 0; i < p->resource_count && !x.failed; i++) {
		x.at.resource = i;
		pass_resource(&x);
	}
	ottl_run_free(x.run);
	if (x.failed) {
		struct outcome o = outcome_of(&err);

		batch_unref(batch);
		completion_done(done, &o);
	} else {
		hand_on(&x, batch, done);
	}
	selected_release(&x.keep);
}

const struct component_ops filter_processor = {
	.type = "filter",
	.summary = "drops resources, scopes, profiles and samples by conditions",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct filter),
	.fields = filter_fields,
	.read = filter_read,
	.check = filter_check,
	.start = filter_start,
	.consume = filter_consume,
	.release = filter_release,
};
