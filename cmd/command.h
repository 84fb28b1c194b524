/* command.h - the commands of flametap, one file each. A run function gets the words after the
 * command's name. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct command_entry {
	const char *name;
	const char *group; /* heading in --help */
	const char *summary;
	int (*run)(int argc, char **argv); /* the process's exit status */
};

/* Exit statuses, as grep and compilers have them. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

int backend_run(int argc, char **argv);
int collector_run(int argc, char **argv);
int decode_run(int argc, char **argv);
int check_run(int argc, char **argv);
int export_run(int argc, char **argv);
int store_run(int argc, char **argv);
int symbolize_run(int argc, char **argv);
int top_run(int argc, char **argv);
int diff_run(int argc, char **argv);
int up_run(int argc, char **argv);
int view_run(int argc, char **argv);
int components_run(int argc, char **argv);
int doctor_run(int argc, char **argv);
int agent_run(int argc, char **argv);
int record_run(int argc, char **argv);

/* Prints "flametap COMMAND: message" and a hint where to look; returns EXIT_USAGE. */
struct err;
int command_usage_error(const char *command, const struct err *err);

/* Reads the command line. False when that was all there is to do: help was asked for, or a usage
 * error has been told; *status is then the exit status. words->items is the caller's to free. */
struct command;
struct words;
bool command_begin(const struct command *c, int argc, char **argv, struct words *words,
		   int *status);
