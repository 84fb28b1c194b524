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
#include "base/str.h"

enum flag_kind {
	FLAG_BOOL,   /* bool *target */
	FLAG_STRING, /* const char **target, as all below */
	FLAG_LIST,   /* may be given several times: struct flag_list *target */
	FLAG_STEP,   /* one of several flags whose order counts: struct flag_steps *target of all */
	FLAG_UINT,
	FLAG_SIZE, /* bytes: 64MiB, 10GB */
	FLAG_DURATION,
	FLAG_CHOICE,       /* one of `choices` */
	FLAG_WIRE_VERSION, /* one of `choices`, which are minors; v1.9.0 is given as "1.9" */
	FLAG_OPTION,       /* kind, choices, range, default and help of the option `option` */
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
	const char *group; /* a heading of the help; equal texts are one group */
	const char *name;  /* without dashes */
	enum flag_kind kind;
	void *target;
	const char *value;    /* what the help calls its value: "ADDRESS" */
	const char *fallback; /* the default's text, for the help; the caller sets target to it */
	const char *help;     /* one line, rarely two */
	const char *const *choices; /* FLAG_CHOICE: NULL-terminated */
	uint64_t least, most;       /* FLAG_UINT, where most > 0: the range, ends included */
	bool advanced;              /* only in --help-all */
	bool secret;                /* warns when given on the command line */
	/*
	 * "exporters/sqlite/max_size": the flag sets this option of the configuration; '*' stands
	 * for any name. It has no target: flags_value() has what was given, graph_put_options()
	 * writes it. A fallback is then the command's own default, else the option's holds.
	 */
	const char *option;
};

/* A row of a command's table; `choices`, `advanced` and the like follow as .name = value. */
#define FLAG(group_, name_, kind_, target_, value_, fallback_, help_, ...)                 \
	{                                                                                  \
		.group = (group_), .name = (name_), .kind = (kind_), .target = (target_),  \
		.value = (value_), .fallback = (fallback_), .help = (help_), ##__VA_ARGS__ \
	}

/* A row for an option; its help is the option's unless .help = says something else. */
#define OPTION(group_, name_, value_, option_, ...)                                         \
	{                                                                                   \
		.group = (group_), .name = (name_), .kind = FLAG_OPTION, .value = (value_), \
		.option = (option_), ##__VA_ARGS__                                          \
	}

struct command {
	const char *name;
	const char *words;           /* "FILE..." for the usage line; "" = takes no words */
	const char *summary;         /* one line */
	const char *const *examples; /* NULL-terminated lines */
	const struct flag *flags;    /* ends with name NULL */
	unsigned words_max;
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
/* By its name; NULL: there is none. */
const struct flag *flags_find(const struct flag *flags, struct str name);
/* True when the flag, or another one of its target or option, was given (after flags_parse). */
bool flags_given(const struct flag *f);
/* The flag as the help and the checks see it: with what its option says. */
struct flag flag_complete(const struct flag *f);
/* What was given for a flag with `option`, the last of several; else its fallback, NULL without
 * one. A bool is "true" or "false". */
const char *flags_value(const struct flag *flags, const char *name);
bool flags_is_true(const struct flag *flags, const char *name);
/* The values of a flag that was given several times, in their order: *at begins at 0; NULL is the
 * end. */
const char *flags_next_value(const struct flag *f, unsigned *at);
/* As if it had been given once more. value NULL: a bool that stands alone. False: it is not a
 * value of the flag. */
bool flags_set(const struct flag *f, const char *value, struct err *err) MUST_CHECK;
/* The same, unless it was given; `value` stays the caller's. */
bool flags_assume(const struct flag *flags, const char *name, const char *value,
		  struct err *err) MUST_CHECK;
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
