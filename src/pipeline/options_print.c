/* A filled state back into YAML, and a table as text for people. */
#include "pipeline/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pipeline/yaml_out.h"

static void print_double(struct yaml_out *out, double v)
{
	char text[40];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	yaml_bare(out, str_cstr(text));
}

static void print_u64(struct yaml_out *out, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	yaml_bare(out, str_cstr(text));
}

static void print_duration(struct yaml_out *out, uint64_t ns)
{
	struct buf text;

	buf_init(&text, 0);
	duration_append(&text, ns);
	yaml_bare(out, buf_view(&text));
	buf_release(&text);
}

static void print_size(struct yaml_out *out, uint64_t bytes)
{
	char text[32];

	if (bytes && bytes % (1 << 20) == 0)
		snprintf(text, sizeof(text), "%lluMiB", (unsigned long long)(bytes >> 20));
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	yaml_bare(out, str_cstr(text));
}

/* From the nodes where they are: an item may be a reference. */
static void print_strings(struct yaml_out *out, const struct config_strings *list,
			  const struct config_node *node)
{
	bool nodes = node && node->kind == NODE_LIST && node->count == list->count;

	yaml_list_begin(out, list->count == 0);
	for (uint32_t i = 0; i < list->count; i++) {
		if (nodes && node->items[i]->reference.len)
			yaml_reference(out, node->items[i]->reference);
		else
			yaml_string(out, str_cstr(list->items[i]));
	}
	yaml_list_end(out);
}

static void print_map(struct yaml_out *out, const struct config_pairs *pairs,
		      const struct config_node *node, bool secret)
{
	yaml_map_begin(out);
	for (uint32_t i = 0; i < pairs->count; i++) {
		const struct config_node *value = node_get(node, pairs->items[i].name);

		yaml_key(out, str_cstr(pairs->items[i].name));
		if (value && value->reference.len)
			yaml_reference(out, value->reference);
		else if (secret)
			yaml_string(out, STR(OPTIONS_HIDDEN));
		else
			yaml_string(out, str_cstr(pairs->items[i].value));
	}
	yaml_map_end(out);
}

/* Is there something to say about the option at all? */
static bool field_present(const struct config_field *f, const char *base)
{
	const void *at = base + f->offset;

	switch (f->kind) {
	case CONFIG_STRING:
	case CONFIG_SECRET:
		return *(const char *const *)at != NULL;
	case CONFIG_STRINGS:
		return ((const struct config_strings *)at)->given ||
		       ((const struct config_strings *)at)->count;
	case CONFIG_MAP:
		return ((const struct config_pairs *)at)->count > 0;
	case CONFIG_OPTIONAL:
		return *(const bool *)(base + f->offset_enabled);
	case CONFIG_ANY:
		return *(const struct config_node *const *)at != NULL;
	default:
		return true;
	}
}

static void print_value(struct yaml_out *out, const struct config_field *f, const char *base,
			const struct config_node *node)
{
	const void *at = base + f->offset;

	switch (f->kind) {
	case CONFIG_BOOL:
		yaml_bare(out, *(const bool *)at ? STR("true") : STR("false"));
		break;
	case CONFIG_UINT32:
		print_u64(out, *(const uint32_t *)at);
		break;
	case CONFIG_UINT64:
		print_u64(out, *(const uint64_t *)at);
		break;
	case CONFIG_SIZE_MIB:
		print_u64(out, *(const uint64_t *)at >> 20);
		break;
	case CONFIG_DOUBLE:
		print_double(out, *(const double *)at);
		break;
	case CONFIG_DURATION:
		print_duration(out, *(const uint64_t *)at);
		break;
	case CONFIG_SIZE:
		print_size(out, *(const uint64_t *)at);
		break;
	case CONFIG_STRING:
		yaml_string(out, str_cstr(*(const char *const *)at));
		break;
	case CONFIG_SECRET:
		yaml_string(out, STR(OPTIONS_HIDDEN));
		break;
	case CONFIG_ENUM:
		yaml_string(out, str_cstr(f->choices[*(const int *)at]));
		break;
	case CONFIG_STRINGS:
		print_strings(out, at, node);
		break;
	case CONFIG_MAP:
		print_map(out, at, node, f->secret_values);
		break;
	case CONFIG_SECTION:
	case CONFIG_OPTIONAL:
		yaml_map_begin(out);
		options_print(f->fields, at, node, out);
		yaml_map_end(out);
		break;
	case CONFIG_ANY:
		yaml_node(out, *(const struct config_node *const *)at);
		break;
	}
}

void options_print(const struct config_field *fields, const void *state,
		   const struct config_node *node, struct yaml_out *out)
{
	for (; fields && fields->name; fields++) {
		const struct config_node *value = options_node(fields, node);
		bool section = fields->kind == CONFIG_SECTION || fields->kind == CONFIG_OPTIONAL;

		if (!field_present(fields, state))
			continue;
		yaml_key(out, str_cstr(fields->name));
		if (value && value->reference.len && !section)
			yaml_reference(out, value->reference);
		else
			print_value(out, fields, state, value);
	}
}

static const char *kind_word(enum config_kind kind)
{
	static const char *const words[] = {
		[CONFIG_BOOL] = "bool",         [CONFIG_UINT32] = "number",
		[CONFIG_UINT64] = "number",     [CONFIG_DOUBLE] = "number",
		[CONFIG_DURATION] = "duration", [CONFIG_SIZE_MIB] = "MiB",
		[CONFIG_SIZE] = "size",         [CONFIG_STRING] = "text",
		[CONFIG_SECRET] = "secret",     [CONFIG_ENUM] = "choice",
		[CONFIG_STRINGS] = "list",      [CONFIG_MAP] = "map",
		[CONFIG_SECTION] = "section",   [CONFIG_OPTIONAL] = "optional section",
		[CONFIG_ANY] = "list or map",
	};

	return words[kind];
}

static void help_field(const struct config_field *f, unsigned depth, struct buf *out)
{
	size_t from = out->len;

	buf_printf(out, "%*s%s", (int)depth * 2 + 2, "", f->name);
	buf_printf(out, "%*s", out->len - from < 34 ? (int)(34 - (out->len - from)) : 1, "");
	buf_str(out, str_cstr(f->help ? f->help : ""));
	buf_printf(out, " (%s", kind_word(f->kind));
	for (size_t i = 0; f->kind == CONFIG_ENUM && f->choices[i]; i++)
		buf_printf(out, "%s%s", i ? "|" : ": ", f->choices[i]);
	if (f->default_text)
		buf_printf(out, ", default %s", *f->default_text ? f->default_text : "\"\"");
	if (f->required)
		buf_lit(out, ", required");
	buf_lit(out, ")\n");
}

static void help_fields(const struct config_field *fields, unsigned depth, struct buf *out)
{
	for (; fields && fields->name; fields++) {
		help_field(fields, depth, out);
		help_fields(fields->fields, depth + 1, out);
	}
}

void options_help(const struct config_field *fields, struct buf *out)
{
	help_fields(fields, 0, out);
}
