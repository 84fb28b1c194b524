/* components.c - flametap components: what pipelines can be made of, as the Collector prints it
 * (YAML). */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "command.h"
#include "flags.h"
#include "pipeline/component.h"

static void print_kind(const char *heading, enum component_kind kind)
{
	printf("%s:\n", heading);
	for (const struct component_ops *const *ops = components_all; *ops; ops++) {
		if ((*ops)->kind != kind)
			continue;
		printf("  - name: %s\n    summary: \"%s\"\n", (*ops)->type, (*ops)->summary);
		for (size_t i = 0; i < 4 && (*ops)->aliases[i]; i++)
			printf("%s%s", i ? ", " : "    also: [",
			       (*ops)->aliases[i] + ((*ops)->aliases[i][0] == '!'));
		if ((*ops)->aliases[0])
			puts("]");
	}
}

/* The options of every component of a name: "otlp" is a receiver, and an exporter's other name. */
static bool print_options(const char *name)
{
	bool known = false;
	struct buf out;

	buf_init(&out, 0);
	for (const struct component_ops *const *ops = components_all; *ops; ops++) {
		struct str type = str_cstr(name);

		if (component_find(components_all, (*ops)->kind, type, NULL) != *ops)
			continue;
		buf_printf(&out, "%s %s: %s\n", component_kind_name((*ops)->kind), (*ops)->type,
			   (*ops)->summary);
		options_help((*ops)->fields, &out);
		known = true;
	}
	fwrite(out.ptr, 1, out.len, stdout);
	buf_release(&out);
	if (!known)
		fprintf(stderr, "flametap components: no component is called \"%s\"\n", name);
	return known;
}

static const struct flag flags[] = { { 0 } };

static const char *const examples[] = { "flametap components", "flametap components filter batch",
					NULL };

static const struct command command = {
	.name = "components",
	.words = "[NAME...]",
	.words_max = 64,
	.summary =
		"List receivers, processors, exporters and extensions, as YAML, or the options of "
		"those named.",
	.examples = examples,
	.flags = flags,
};

int components_run(int argc, char **argv)
{
	struct words words;
	int status = EXIT_OK;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	for (unsigned i = 0; i < words.count; i++)
		if (!print_options(words.items[i]))
			status = EXIT_USAGE;
	free(words.items);
	if (words.count)
		return status;
	puts("buildinfo:\n  command: flametap\n  description: OpenTelemetry profiling in one "
	     "program\n  version: " FLAMETAP_VERSION);
	print_kind("receivers", COMPONENT_RECEIVER);
	print_kind("processors", COMPONENT_PROCESSOR);
	print_kind("exporters", COMPONENT_EXPORTER);
	print_kind("extensions", COMPONENT_EXTENSION);
	return EXIT_OK;
}
