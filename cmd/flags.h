/*
 * flags.h - command line flags as a table: parser, checks, help and suggestions in one.
 *
 * Go's spelling: -name value, -name=value, --name=value; a bool is -name or -name=false. Words and
 * flags may be mixed;
 * "--" ends the flags. A flag's value is kept as text (checked by its kind) at `target`.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

enum flag_kind {
	FLAG_BOOL,   /* bool *target */
	FLAG_STRING, /* const char **target, as all below */
	FLAG_LIST,   /* may be given several times: struct flag_list *target */
	FLAG_STEP,   /* one of several flags whose order counts: struct flag_steps *target of all */
	FLAG_UINT,   /* within its struct flag_range, where it has one */
	FLAG_SIZE,   /* bytes: 64MiB, 10GB */
	FLAG_DURATION,
	FLAG_CHOICE,       /* one of `choices` */
	FLAG_WIRE_VERSION, /* one of `choices`, which are minors; v1.9.0 is given as "1.9" */
};

struct flag_list {
	const char *items[64];
	unsigned count;
};

/* In the order in which they were given. */
struct flag_steps {
	struct {
		const char *flag, *value;
	} items[64];
	unsigned count;
};

struct flag {
	const char
		*group;   /* a heading of the help, static; equal pointers or texts are one group */
	const char *name; /* without dashes */
	enum flag_kind kind;
	void *target;
	const char *value;    /* how the value is called in the help: "ADDRESS" */
	const char *fallback; /* the default's text, for the help; the caller sets target to it */
	const char *help;     /* one line, rarely two */
	const char *const *choices; /* FLAG_CHOICE: NULL-terminated */
	bool advanced;              /* only in --help-all */
	bool secret;                /* warns when given on the command line */
};

/* What a FLAG_UINT takes, ends included. What the option behind it takes, but said before anything
 * is made of it, and in the user's words. */
struct flag_range {
	const char *name; /* of the flag */
	uint64_t least, most;
};

struct command {
	const char *name;
	const char *words;           /* "FILE..." for the usage line; "" = takes no words */
	const char *summary;         /* one line */
	const char *const *examples; /* NULL-terminated lines */
	const struct flag *flags;    /* ends with name NULL */
	unsigned words_max;
	const struct flag_range *ranges; /* ends with name NULL; NULL = none */
};

struct words {
	char **items;
	unsigned count;
};

/* The outcome of parsing: go on, or --help / --help-all / --version was asked for and printed. */
enum flags_outcome { FLAGS_GO, FLAGS_HELP_SHOWN, FLAGS_ERROR };

/* words->items is for the caller to free after FLAGS_GO; argv's strings stay where they are. */
enum flags_outcome flags_parse(const struct command *c, int argc, char **argv, struct words *words,
			       struct err *err);
void flags_print_help(const struct command *c, bool all);
/* True when the flag was given on the command line (call after flags_parse, with the flag's
 * target). */
bool flags_given(const void *target);
/*
 * For flags that were not given: from the environment (prefix and name in capitals, '-' as '_': an
 * empty variable is none), and from a file of lines "name value", "name=value" or "name", with '#'
 * in front of comments. Names that are no flags are ignored in both; a file that is not there is
 * no error. Call them in the order of precedence; what one sets, the next leaves alone. Values
 * point into *text, the file's, which is the caller's to free (NULL when there is no file).
 */
bool flags_read_environment(const struct command *c, const char *prefix,
			    struct err *err) MUST_CHECK;
bool flags_read_file(const struct command *c, const char *path, char **text,
		     struct err *err) MUST_CHECK;
/* What was remembered as given is forgotten from `mark` on: for reading a file again. */
unsigned flags_mark(void);
void flags_forget(unsigned mark);
