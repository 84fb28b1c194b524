/*
 * ottl_rules.h - the conditions or statements of a processor's configuration, in their order: what
 * `filter` and `transform` share.
 *
 * An entry of the list is a text, or a map: {context, conditions, statements, error_mode}.
 */
#pragma once
#include "base/log.h"
#include "components/ottl/ottl.h"
#include "pipeline/component.h"

enum ottl_error_mode { OTTL_IGNORE, OTTL_SILENT, OTTL_PROPAGATE };
extern const char *const ottl_error_modes[]; /* for CONFIG_ENUM */

struct ottl_rule {
	struct ottl_code *code;
	struct ottl_code **conditions; /* of statements: one must hold, where there are any */
	uint32_t condition_count;
	int error_mode;
};

struct ottl_rules {
	struct ottl ottl;
	struct ottl_rule *items;
	uint32_t count, cap;
	bool statements;
	struct metric *errors;
	const char *id; /* of the processor, once started */
};

void ottl_rules_init(struct ottl_rules *rules, bool statements, struct arena *arena);
void ottl_rules_release(struct ottl_rules *rules);
/* Appends the entries of a list (NULL: none). */
void ottl_rules_read(struct ottl_rules *rules, const struct config_node *list, const char *path,
		     enum ottl_context given, int error_mode, struct problems *problems);
void ottl_rules_start(struct ottl_rules *rules, const struct component_host *host);
/* What an error at run time means: false when it ends the batch, else it was counted (and logged)
 * and the rule does not apply. */
bool ottl_rule_failed(struct ottl_rules *rules, const struct ottl_rule *rule, struct err *err);
