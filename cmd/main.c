/*
 * main.c - flametap: picks the command, by its word or by the name it was called through.
 *
 * Called as ebpf-profiler, otel-profiling-agent, opentelemetry-lazybackend,
 * opentelemetry-profiles-lazybackend or otelcol-ebpf-profiler, the program is what that name
 * promises.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "command.h"
#include "flags.h"

static const char INTAKE[] = "Take in and move on";
static const char LOOK[] = "Look into files";
static const char ABOUT[] = "About this program";

static const struct command_entry commands[] = {
	{ "up", INTAKE, "profile this machine, keep every sample, show it in the browser", up_run },
	{ "backend", INTAKE, "receive OTLP profiles and show them: stdout, files, metrics, onward",
	  backend_run },
	{ "agent", INTAKE, "profile every process of this machine and send it on", agent_run },
	{ "collector", INTAKE, "run the pipelines of a Collector configuration", collector_run },
	{ "record", LOOK, "profile a process, a command or the machine into a file", record_run },
	{ "decode", LOOK, "print OTLP profiles files with every stack resolved", decode_run },
	{ "view", LOOK, "show OTLP profiles files in the browser: flame graph, time, raw samples",
	  view_run },
	{ "check", LOOK, "find errors in OTLP profiles files", check_run },
	{ "export", LOOK, "give back what a store keeps, as the OTLP requests that came in",
	  export_run },
	{ "top", LOOK, "the most expensive functions of files or a store", top_run },
	{ "diff", LOOK, "what costs more and what costs less between two profiles", diff_run },
	{ "store", LOOK, "check a store, salvage a damaged one, print its tables", store_run },
	{ "symbolize", LOOK, "find names for native code that a store has none for",
	  symbolize_run },
	{ "components", ABOUT, "list receivers, processors, exporters and extensions",
	  components_run },
	{ "doctor", ABOUT, "can this machine be profiled, and if not, why", doctor_run },
};

/* Programs that this one stands in for. */
static const struct {
	const char *link;
	int (*run)(int argc, char **argv);
} links[] = {
	{ "opentelemetry-lazybackend", backend_run },
	{ "opentelemetry-profiles-lazybackend", backend_run },
	{ "otelcol-ebpf-profiler", collector_run },
	{ "ebpf-profiler", agent_run },
	{ "otel-profiling-agent", agent_run },
};

int command_usage_error(const char *command, const struct err *err)
{
	fprintf(stderr, "flametap %s: %s\nTry: flametap %s --help\n", command, err->msg, command);
	return EXIT_USAGE;
}

bool command_begin(const struct command *c, int argc, char **argv, struct words *words, int *status)
{
	struct err err;

	switch (flags_parse(c, argc, argv, words, &err)) {
	case FLAGS_HELP_SHOWN:
		*status = EXIT_OK;
		return false;
	case FLAGS_ERROR:
		*status = command_usage_error(c->name, &err);
		return false;
	case FLAGS_GO:
		break;
	}
	return true;
}

static void print_help(FILE *out)
{
	fputs("flametap - OpenTelemetry profiling in one program\n\n"
	      "Usage: flametap COMMAND [flags] [words]\n",
	      out);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (i == 0 || commands[i].group != commands[i - 1].group)
			fprintf(out, "\n%s\n", commands[i].group);
		fprintf(out, "  %-12s%s\n", commands[i].name, commands[i].summary);
	}
	fputs("  help        this page; 'flametap COMMAND --help' has each command's flags\n"
	      "  version     print the version\n"
	      "\nStart here\n"
	      "  flametap backend                        listen on 127.0.0.1:4317 and :4318, print "
	      "every stack\n"
	      "  flametap decode --layout full FILE.pb   see all that one profiles body holds\n"
	      "  flametap --config FILE                  the same as 'flametap collector --config "
	      "FILE'\n",
	      out);
}

static void print_help_all(void)
{
	char all[] = "--help-all", *help[] = { all };

	print_help(stdout);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		printf("\n----- flametap %s -----\n\n", commands[i].name);
		commands[i].run(1, help);
	}
}

static int unknown_command(const char *word)
{
	const char *names[ARRAY_LEN(commands) + 2] = { "help", "version" };
	const char *near;

	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		names[i + 2] = commands[i].name;
	near = text_suggest(str_cstr(word), names, ARRAY_LEN(names));
	fprintf(stderr, "flametap: unknown command \"%s\"", word);
	if (near)
		fprintf(stderr, "; did you mean \"%s\"?\n", near);
	else
		fputs("; 'flametap --help' lists them\n", stderr);
	return EXIT_USAGE;
}

static const struct flag no_flags[] = { { 0 } };

static const struct command version_command = {
	.name = "version",
	.words = "",
	.summary = "Print the version.",
	.flags = no_flags,
};

static const struct command help_command = {
	.name = "help",
	.words = "[COMMAND]",
	.summary = "The commands, or one command's flags.",
	.flags = no_flags,
	.words_max = 1,
};

static int run_version(int argc, char **argv)
{
	struct words words;
	int status;

	if (!command_begin(&version_command, argc, argv, &words, &status))
		return status;
	free(words.items);
	puts("flametap " FLAMETAP_VERSION);
	return EXIT_OK;
}

static int help_of(const char *name)
{
	char help[] = "--help", *arguments[] = { help };

	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(name, commands[i].name) == 0)
			return commands[i].run(1, arguments);
	if (strcmp(name, "version") == 0)
		return run_version(1, arguments);
	return unknown_command(name);
}

/* flametap help [COMMAND] */
static int run_help(int argc, char **argv)
{
	struct words words;
	int status = EXIT_OK;

	if (!command_begin(&help_command, argc, argv, &words, &status))
		return status;
	if (words.count)
		status = help_of(words.items[0]);
	else
		print_help(stdout);
	free(words.items);
	return status;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
	return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

static bool is_collector_word(const char *word)
{
	return is_one_of(word, "validate", "print-config", "print-initial-config") ||
	       strcmp(word, "featuregate") == 0;
}

/* The flag of the program itself that is meant, or NULL. */
static const char *mistyped_flag(const char *word)
{
	static const char *const names[] = { "help", "help-all", "version" };

	const char *bare = word + strspn(word, "-");
	const char *near = text_suggest(str_cstr(bare), names, ARRAY_LEN(names));

	return near && strcmp(near, bare) != 0 ? near : NULL;
}

static int run_flags_without_command(int argc, char **argv)
{
	const char *near;

	if (is_one_of(argv[1], "-h", "-help", "--help"))
		return run_help(argc - 2, argv + 2);
	if (is_one_of(argv[1], "-help-all", "--help-all", "--help-all") && argc == 2) {
		print_help_all();
		return EXIT_OK;
	}
	if (is_one_of(argv[1], "-v", "-version", "--version"))
		return run_version(argc - 2, argv + 2);
	near = mistyped_flag(argv[1]);
	if (near) {
		fprintf(stderr, "flametap: unknown flag %s; did you mean --%s?\n", argv[1], near);
		return EXIT_USAGE;
	}
	return collector_run(argc - 1, argv + 1); /* flametap --config F */
}

static int run_link(const char *name, int argc, char **argv, bool *found)
{
	*found = true;
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (strcmp(name, links[i].link) == 0)
			return links[i].run(argc - 1, argv + 1);
	*found = false;
	return EXIT_USAGE;
}

/* Many small threads and large short-lived bodies: few arenas, and big blocks go straight back to
 * the system. */
static void tune_allocator(void)
{
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	mallopt(M_TRIM_THRESHOLD, 512 << 10);
}

/* Where the caller closed a standard descriptor (>&-), the next file or socket that we open would
 * get its number, and what we print would go there. Standard output then takes no writes: a sink
 * that nobody can read acknowledges nothing. */
static void keep_standard_descriptors(void)
{
	static const int flags[] = { O_RDONLY, O_RDONLY, O_WRONLY };

	for (int fd = 0; fd < (int)ARRAY_LEN(flags); fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[fd]) != fd)
			_exit(EXIT_FAILED);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

const char *program_name = "flametap";

static int run(int argc, char **argv)
{
	bool is_link;
	int status;

	if (argc < 1)
		return EXIT_USAGE;
	program_name = base_name(argv[0]);
	status = run_link(program_name, argc, argv, &is_link);
	if (is_link)
		return status;
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (argv[1][0] == '-')
		return run_flags_without_command(argc, argv);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 2, argv + 2);
	if (strcmp(argv[1], "help") == 0)
		return run_help(argc - 2, argv + 2);
	if (strcmp(argv[1], "version") == 0)
		return run_version(argc - 2, argv + 2);
	if (is_collector_word(argv[1])) /* otelcol validate --config F */
		return collector_run(argc - 1, argv + 1);
	return unknown_command(argv[1]);
}

/* What a command printed has not come out: the disk is full, say. That the reader has gone (`|
 * head`) is no failure. */
static bool standard_output_failed(void)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return false;
	if (errno == EPIPE)
		return false;
	fprintf(stderr, "flametap: standard output: %s\n",
		errno ? strerror(errno) : "could not be written");
	return true;
}

int main(int argc, char **argv)
{
	int status;

	keep_standard_descriptors();
	tune_allocator();
	status = run(argc, argv);
	if (standard_output_failed() && status == EXIT_OK)
		return EXIT_FAILED;
	return status;
}
