/* flag_option.c - what an option of the configuration says about the flag that sets it. */
#include "flag_option.h"

#include <string.h>

#include "pipeline/component.h"
#include "pipeline/config_service.h"

static const enum flag_kind kinds[] = {
	[CONFIG_BOOL] = FLAG_BOOL,         [CONFIG_UINT32] = FLAG_UINT,
	[CONFIG_UINT64] = FLAG_UINT,       [CONFIG_SIZE_MIB] = FLAG_UINT,
	[CONFIG_DOUBLE] = FLAG_STRING,     [CONFIG_SIZE] = FLAG_SIZE,
	[CONFIG_DURATION] = FLAG_DURATION, [CONFIG_ENUM] = FLAG_CHOICE,
	[CONFIG_STRING] = FLAG_STRING,     [CONFIG_SECRET] = FLAG_STRING,
	[CONFIG_STRINGS] = FLAG_STRING,    [CONFIG_MAP] = FLAG_STRING,
};

static bool take_name(struct str *path, struct str *name)
{
	return str_split(path, '/', name);
}

static bool names(struct str pattern, const char *name)
{
	return str_is(pattern, "*") || str_is(pattern, name);
}

static const struct config_field *find_field(const struct config_field *fields, struct str path)
{
	const struct config_field *found = NULL;
	struct str name;

	take_name(&path, &name);
	for (const struct config_field *f = fields; !found && f && f->name; f++)
		if (names(name, f->name))
			found = path.len ? find_field(f->fields, path) : f;
	return found;
}

static const struct config_field *find_in_components(enum component_kind kind, struct str path)
{
	const struct config_field *found = NULL;
	struct str type;

	take_name(&path, &type);
	for (const struct component_ops *const *ops = components_all; !found && *ops; ops++)
		if ((*ops)->kind == kind && names(type, (*ops)->type))
			found = find_field((*ops)->fields, path);
	return found;
}

static const struct config_field *find_in_service(struct str path)
{
	struct str part;

	take_name(&path, &part);
	return find_field(str_is(part, "telemetry") ? telemetry_fields : engine_fields, path);
}

const struct config_field *flag_option_field(const char *option)
{
	struct str path = str_cstr(option), part;

	take_name(&path, &part);
	if (str_is(part, "receivers"))
		return find_in_components(COMPONENT_RECEIVER, path);
	if (str_is(part, "exporters"))
		return find_in_components(COMPONENT_EXPORTER, path);
	if (str_is(part, "extensions"))
		return find_in_components(COMPONENT_EXTENSION, path);
	return find_in_service(path);
}

static const char *shown_default(const struct config_field *field)
{
	const char *text = field->default_text;

	return text && strcmp(text, "false") == 0 ? NULL : text;
}

struct flag flag_complete(const struct flag *f)
{
	const struct config_field *field =
		f->kind == FLAG_OPTION ? flag_option_field(f->option) : NULL;
	struct flag whole = *f;

	if (!field)
		return whole;
	whole.kind = kinds[field->kind];
	if (!whole.help)
		whole.help = field->help;
	if (!whole.fallback)
		whole.fallback = shown_default(field);
	whole.choices = field->choices;
	if (whole.kind == FLAG_UINT && field->max > field->min) {
		whole.least = (uint64_t)field->min;
		whole.most = (uint64_t)field->max;
	}
	whole.secret = field->kind == CONFIG_SECRET || field->secret_values;
	return whole;
}
