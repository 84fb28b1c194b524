#include "components/processors/ottl_rules.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"

const char *const ottl_error_modes[] = { "ignore", "silent", "propagate", NULL };
static const char *const context_choices[] = { "resource", "scope", "profile",
					       "sample",   "infer", NULL };

/* One entry that is a map. */
struct group {
	int context, error_mode;
	const struct config_node *conditions, *statements;
};

#define OFF(member) .offset = offsetof(struct group, member)

/* clang-format off */
static const struct config_field filter_group[] = {
	{ .name = "context", .kind = CONFIG_ENUM, OFF(context), .default_text = "infer", .choices = context_choices,
	  .help = "what paths without a context mean" },
	{ .name = "conditions", .kind = CONFIG_ANY, OFF(conditions), .help = "what is dropped" },
	{ .name = "error_mode", .kind = CONFIG_ENUM, OFF(error_mode), .default_text = "ignore", .choices = ottl_error_modes,
	  .help = "instead of the processor's" },
	{ 0 },
};
static const struct config_field transform_group[] = {
	{ .name = "context", .kind = CONFIG_ENUM, OFF(context), .default_text = "infer", .choices = context_choices,
	  .help = "what paths without a context mean" },
	{ .name = "conditions", .kind = CONFIG_ANY, OFF(conditions), .help = "the statements run where one of these holds" },
	{ .name = "statements", .kind = CONFIG_ANY, OFF(statements), .help = "what is done" },
	{ .name = "error_mode", .kind = CONFIG_ENUM, OFF(error_mode), .default_text = "propagate", .choices = ottl_error_modes,
	  .help = "instead of the processor's" },
	{ 0 },
};
/* clang-format on */

void ottl_rules_init(struct ottl_rules *rules, bool statements, struct arena *arena)
{
	*rules = (struct ottl_rules){ .statements = statements };
	ottl_init(&rules->ottl, arena);
}

void ottl_rules_release(struct ottl_rules *rules)
{
	ottl_release(&rules->ottl);
}

static struct ottl_rule *add_rule(struct ottl_rules *rules, struct ottl_code *code, int error_mode)
{
	if (rules->count == rules->cap) {
		uint32_t cap = rules->cap ? rules->cap * 2 : 8;

		rules->items =
			arena_grow(rules->ottl.arena, rules->items,
				   rules->cap * sizeof(*rules->items), cap * sizeof(*rules->items));
		assert(rules->items);
		rules->cap = cap;
	}
	rules->items[rules->count] = (struct ottl_rule){ .code = code, .error_mode = error_mode };
	return &rules->items[rules->count++];
}

static bool is_list(const struct config_node *n, const char *path, struct problems *problems)
{
	if (!n || n->kind == NODE_NULL)
		return false;
	if (n->kind == NODE_LIST)
		return true;
	problem_error(problems, &n->pos, "%s must be a list, not '%s'", path, node_kind_name(n));
	return false;
}

static struct ottl_code *compile(struct ottl_rules *rules, const struct config_node *n,
				 const char *path, enum ottl_context given, bool statement,
				 struct problems *problems)
{
	struct ottl_source source = { n, path, given, problems };

	return statement ? ottl_compile_statement(&rules->ottl, &source)
			 : ottl_compile_condition(&rules->ottl, &source);
}

/* What must hold for the statements of a group: all in one context with them. */
static struct ottl_code **group_conditions(struct ottl_rules *rules, const struct group *g,
					   enum ottl_context given, const char *path,
					   struct problems *problems)
{
	struct ottl_code **out;

	if (!is_list(g->conditions, path, problems))
		return NULL;
	out = arena_alloc_array(rules->ottl.arena, g->conditions->count,
				sizeof(struct ottl_code *));
	assert(out);
	for (uint32_t i = 0; i < g->conditions->count; i++)
		out[i] = compile(rules, g->conditions->items[i], path, given, false, problems);
	return out;
}

/* The conditions run where the statement runs: in the inner context of both. */
static void widen(struct ottl_rule *rule)
{
	for (uint32_t i = 0; i < rule->condition_count; i++)
		if (rule->conditions[i] && rule->conditions[i]->context > rule->code->context)
			rule->code->context = rule->conditions[i]->context;
}

static void read_statements(struct ottl_rules *rules, const struct group *g,
			    enum ottl_context given, const char *path, struct problems *problems)
{
	struct ottl_code **conditions = group_conditions(rules, g, given, path, problems);

	if (!is_list(g->statements, path, problems))
		return;
	for (uint32_t i = 0; i < g->statements->count; i++) {
		struct ottl_code *code =
			compile(rules, g->statements->items[i], path, given, true, problems);
		struct ottl_rule *rule;

		if (!code)
			continue;
		rule = add_rule(rules, code, g->error_mode);
		rule->conditions = conditions;
		rule->condition_count = conditions ? g->conditions->count : 0;
		widen(rule);
	}
}

static void read_group(struct ottl_rules *rules, const struct config_node *n, const char *path,
		       int error_mode, struct problems *problems)
{
	const struct config_field *fields = rules->statements ? transform_group : filter_group;
	uint32_t errors = problems->error_count;
	struct group g = { 0 };

	options_fill(fields, &g, n, path, rules->ottl.arena, problems);
	if (problems->error_count != errors)
		return;
	if (!node_get(n, "error_mode"))
		g.error_mode = error_mode;
	if (rules->statements)
		read_statements(rules, &g, (enum ottl_context)g.context, path, problems);
	else
		ottl_rules_read(rules, g.conditions, path, (enum ottl_context)g.context,
				g.error_mode, problems);
}

void ottl_rules_read(struct ottl_rules *rules, const struct config_node *list, const char *path,
		     enum ottl_context given, int error_mode, struct problems *problems)
{
	char at[256];

	if (!is_list(list, path, problems))
		return;
	for (uint32_t i = 0; i < list->count; i++) {
		const struct config_node *n = list->items[i];
		struct ottl_code *code;

		snprintf(at, sizeof(at), "%s[%u]", path, i);
		if (n->kind == NODE_MAP && given == OTTL_INFER) {
			read_group(rules, n, at, error_mode, problems);
			continue;
		}
		code = compile(rules, n, at, given, rules->statements, problems);
		if (code)
			add_rule(rules, code, error_mode);
	}
}

void ottl_rules_start(struct ottl_rules *rules, const struct component_host *host)
{
	static const char *const labels[] = { "processor", NULL };
	struct str id = str_cstr(host->id);

	rules->id = host->id;
	rules->errors = metric_get(
		metrics_family(host->metrics, METRIC_COUNTER, "flametap_ottl_errors_total",
			       "Conditions and statements that failed on what they met: they "
			       "did not apply, or (error_mode propagate) the request was refused.",
			       labels, 0),
		&id);
}

bool ottl_rule_failed(struct ottl_rules *rules, const struct ottl_rule *rule, struct err *err)
{
	static struct log_gate gate;
	uint64_t skipped;

	metric_add(rules->errors, 1);
	if (rule->error_mode == OTTL_PROPAGATE)
		return err_prefix(err, "processor %s: %.*s", rules->id,
				  (int)(rule->code->text.len < 80 ? rule->code->text.len : 80),
				  rule->code->text.ptr);
	if (rule->error_mode == OTTL_IGNORE && log_gate_open(&gate, 10 * SECOND_NS, &skipped))
		LOG(LOG_WARN, "Condition or statement failed", LOG_S("processor", rules->id),
		    LOG_STR("text", rule->code->text), LOG_S("error", err->msg),
		    LOG_U("like_lines_skipped", skipped));
	return true;
}
