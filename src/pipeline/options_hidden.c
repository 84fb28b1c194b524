/* Secrets that --print-config has hidden and that nobody has written again. */
#include "pipeline/options.h"

#include <string.h>

#include "pipeline/problems.h"
#include "pipeline/node.h"

static void report(const struct config_node *at, const char *path, const char *name,
		   struct problems *problems)
{
	problem_error(problems, at ? &at->pos : NULL,
		      "%s: \"%s\" is " OPTIONS_HIDDEN ", which stands where --print-config hid a "
		      "secret; write it again, best as ${env:NAME} or ${file:PATH}",
		      path, name);
}

static bool is_hidden(const char *value)
{
	return value && strcmp(value, OPTIONS_HIDDEN) == 0;
}

static void check_map(const struct config_pairs *pairs, const struct config_node *node,
		      const char *path, struct problems *problems)
{
	for (uint32_t i = 0; i < pairs->count; i++)
		if (is_hidden(pairs->items[i].value))
			report(node_get(node, pairs->items[i].name), path, pairs->items[i].name,
			       problems);
}

void options_check_hidden(const struct config_field *fields, const void *state,
			  const struct config_node *node, const char *path,
			  struct problems *problems)
{
	for (; fields && fields->name; fields++) {
		const struct config_node *at = options_node(fields, node);
		const void *value = (const char *)state + fields->offset;

		if (fields->kind == CONFIG_SECRET && is_hidden(*(const char *const *)value))
			report(at, path, fields->name, problems);
		else if (fields->kind == CONFIG_MAP && fields->secret_values)
			check_map(value, at, path, problems);
		else if (fields->kind == CONFIG_SECTION || fields->kind == CONFIG_OPTIONAL)
			options_check_hidden(fields->fields, value, at, path, problems);
	}
}
