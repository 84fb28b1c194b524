/* components.c - flametap components: what pipelines can be made of, as the Collector prints it
 * (YAML). */
#include <stdio.h>
#include <stdlib.h>

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

static const struct flag flags[] = { { 0 } };

static const char *const examples[] = { "flametap components", NULL };

static const struct command command = {
	.name = "components",
	.words = "",
	.summary = "List receivers, processors, exporters and extensions, as YAML.",
	.examples = examples,
	.flags = flags,
};

int components_run(int argc, char **argv)
{
	struct words words;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	free(words.items);
	puts("buildinfo:\n  command: flametap\n  description: OpenTelemetry profiling in one "
	     "program\n  version: " FLAMETAP_VERSION);
	print_kind("receivers", COMPONENT_RECEIVER);
	print_kind("processors", COMPONENT_PROCESSOR);
	print_kind("exporters", COMPONENT_EXPORTER);
	print_kind("extensions", COMPONENT_EXTENSION);
	return EXIT_OK;
}
