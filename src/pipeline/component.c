#include "pipeline/component.h"

static bool type_matches(const struct component_ops *ops, struct str type, bool *deprecated)
{
	*deprecated = false;
	if (str_is(type, ops->type))
		return true;
	for (size_t i = 0; i < 4 && ops->aliases[i]; i++) {
		bool old = ops->aliases[i][0] == '!';

		if (str_is(type, ops->aliases[i] + old)) {
			*deprecated = old;
			return true;
		}
	}
	return false;
}

const struct component_ops *component_find(const struct component_ops *const *components,
					   enum component_kind kind, struct str type,
					   bool *deprecated)
{
	bool old;

	for (size_t i = 0; components[i]; i++) {
		const struct component_ops *ops = components[i];

		if (ops->kind == kind && type_matches(ops, type, &old)) {
			if (deprecated)
				*deprecated = old;
			return ops;
		}
	}
	return NULL;
}

const char *component_kind_name(enum component_kind kind)
{
	static const char *const names[] = { "receiver", "processor", "exporter", "extension" };

	return names[kind];
}

struct outcome outcome_of(const struct err *err)
{
	return (struct outcome){
		.kind = err_retryable(err->kind) ? OUTCOME_RETRY : OUTCOME_PERMANENT,
		.err = *err,
	};
}
