/* collector.c - flametap collector: the pipelines of a Collector configuration, with the
 * Collector's command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "command.h"
#include "flags.h"
#include "service.h"

static struct flag_list configs, sets, gates;
static bool print_config;

static const struct flag flags[] = {
	FLAG("Flags", "config", FLAG_LIST, &configs, "URI", NULL,
	     "file, file:PATH, env:NAME, yaml:a::b: c; several are merged"),
	FLAG("Flags", "set", FLAG_LIST, &sets, "KEY=VALUE", NULL,
	     "set one option, after all files: receivers.otlp.wire_version=1.9"),
	FLAG("Flags", "feature-gates", FLAG_LIST, &gates, "LIST", NULL,
	     "accepted; service.profilesSupport is always on"),
	FLAG("Flags", "print-config", FLAG_BOOL, &print_config, NULL, NULL,
	     "print the configuration with every default and leave"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap collector --config collector.yaml",
	"flametap collector validate --config collector.yaml",
	"flametap --config collector.yaml",
	NULL,
};

static const struct command command = {
	.name = "collector",
	.words = "[validate|components|print-config|featuregate]",
	.summary =
		"Run the profiles pipelines of a Collector configuration; SIGHUP reads it again.",
	.examples = examples,
	.flags = flags,
	.words_max = 2,
};

static const char *const known_gates[] = { "service.profilesSupport" };

static bool check_gate(struct str gate, struct err *err)
{
	struct str name = str_trim(gate);

	if (str_has_prefix(name, STR("+")) || str_has_prefix(name, STR("-")))
		name = str_skip(name, 1);
	for (size_t i = 0; i < ARRAY_LEN(known_gates); i++)
		if (str_is(name, known_gates[i]))
			return true;
	return err_set(err, ERR_INVALID,
		       "invalid argument \"%.*s\" for \"--feature-gates\" flag: no such feature "
		       "gate \"%.*s\". valid gates: [%s]",
		       STR_ARG(gate), STR_ARG(name), known_gates[0]);
}

static bool check_gates(struct err *err)
{
	for (unsigned i = 0; i < gates.count; i++) {
		struct str rest = str_cstr(gates.items[i]), gate;

		while (str_split(&rest, ',', &gate))
			if (str_trim(gate).len && !check_gate(gate, err))
				return false;
	}
	return true;
}

static int print_gates(void)
{
	puts("ID                        Enabled  Stage  Description\n"
	     "service.profilesSupport   true     alpha  profiles pipelines; always on in flametap");
	return EXIT_OK;
}

static int run_service(bool validate_only)
{
	struct config_source sources[ARRAY_LEN(configs.items) + ARRAY_LEN(sets.items)];
	struct service_options options = { .command = "collector",
					   .sources = sources,
					   .print_config = print_config,
					   .validate_only = validate_only };

	if (configs.count == 0) {
		fputs("Error: at least one config flag must be provided\n", stderr);
		return EXIT_FAILED;
	}
	for (unsigned i = 0; i < configs.count; i++)
		sources[options.source_count++] =
			(struct config_source){ CONFIG_FROM_URI, configs.items[i], NULL };
	for (unsigned i = 0; i < sets.count; i++)
		sources[options.source_count++] =
			(struct config_source){ CONFIG_FROM_SET, sets.items[i], NULL };
	return service_run(&options);
}

static int run_word(const char *word)
{
	static const char *const words[] = { "validate", "components", "print-config",
					     "print-initial-config", "featuregate" };
	const char *near;

	if (strcmp(word, "validate") == 0)
		return run_service(true);
	if (strcmp(word, "components") == 0)
		return components_run(0, NULL);
	if (strcmp(word, "featuregate") == 0)
		return print_gates();
	if (strcmp(word, "print-config") == 0 || strcmp(word, "print-initial-config") == 0) {
		print_config = true;
		return run_service(false);
	}
	near = text_suggest(str_cstr(word), words, ARRAY_LEN(words));
	fprintf(stderr, "flametap collector: unknown word \"%s\"%s%s%s\n", word,
		near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
	return EXIT_USAGE;
}

int collector_run(int argc, char **argv)
{
	struct words words;
	struct err err;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	if (!check_gates(&err)) {
		fprintf(stderr, "Error: %s\n", err.msg);
		return EXIT_FAILED;
	}
	status = words.count ? run_word(words.items[0]) : run_service(false);
	free(words.items);
	return status;
}
