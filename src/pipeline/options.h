/*
 * options.h - a component's options as a table: parser, defaults, checks, documentation and
 * --print-config in one.
 *
 * Values live in the component's state at `offset`. Strings and lists are owned by the graph and
 * live as long as the component. Old names are `aliases`; keys match without regard to case, as in
 * the Collector.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

enum config_kind {
	CONFIG_BOOL,     /* bool */
	CONFIG_UINT32,   /* uint32_t */
	CONFIG_UINT64,   /* uint64_t */
	CONFIG_DOUBLE,   /* double */
	CONFIG_DURATION, /* uint64_t, ns; a bare number is nanoseconds with a warning, as the
			    Collector has it */
	CONFIG_SIZE_MIB, /* uint64_t, bytes; the key's value counts MiB */
	CONFIG_SIZE,     /* uint64_t, bytes; "64MiB" or a number of bytes */
	CONFIG_STRING,   /* const char *, NULL when absent and without default */
	CONFIG_SECRET,   /* const char *; printed as its ${env:...} reference or [REDACTED] */
	CONFIG_ENUM,     /* int: position in `choices` */
	CONFIG_STRINGS,  /* struct config_strings; a comma list in one string is read too */
	CONFIG_MAP, /* struct config_pairs: name -> string, values secret when `secret_values` */
	CONFIG_SECTION,  /* nested fields at offset */
	CONFIG_OPTIONAL, /* nested fields at offset; a bool at offset_enabled (of the same struct as
			    offset) is true when the key is there, null included */
	CONFIG_ANY,      /* struct config_node *: the component reads it itself */
};

struct config_strings {
	const char **items;
	uint32_t count;
	bool given; /* the key was there, maybe empty */
};

struct config_pair {
	const char *name, *value;
};
struct config_pairs {
	struct config_pair *items;
	uint32_t count;
};

struct config_field {
	const char *name; /* "max_recv_msg_size_mib" */
	enum config_kind kind;
	size_t offset; /* in the state; nested fields: in the struct at the section's offset */
	const char *default_text;          /* parsed like input; NULL = zero */
	const char *help;                  /* one line */
	const struct config_field *fields; /* SECTION, OPTIONAL */
	size_t offset_enabled;             /* OPTIONAL */
	const char *const *choices;        /* ENUM: NULL-terminated */
	const char *aliases[4]; /* other spellings: "SamplesPerSecond"; a '!' in front: deprecated,
				   warns */
	double min, max; /* of numbers, durations (ns) and sizes (bytes; SIZE_MIB: MiB); checked
			    when max > min */
	bool required;
	bool secret_values; /* MAP: headers */
};

struct arena;
struct buf;
struct config_node;
struct problems;
struct yaml_out;

/*
 * Fills `state` from a node (NULL or a null node: all defaults) by the table, strings into `arena`.
 * Everything that is wrong goes to problems, with its place and below `path` ("receivers::otlp"):
 * unknown keys, types, ranges, required keys.
 */
void options_fill(const struct config_field *fields, void *state, const struct config_node *node,
		  const char *path, struct arena *arena, struct problems *problems);
/* What options_print() writes for a secret that is no ${...} reference. */
#define OPTIONS_HIDDEN "[REDACTED]"
/* To be used, a printed configuration needs its secrets back: each that is still hidden is a
 * problem. */
void options_check_hidden(const struct config_field *fields, const void *state,
			  const struct config_node *node, const char *path,
			  struct problems *problems);
/* Writes the filled state as the entries of a map that is open in `out`: every option with its
 * value; ${...} as in `node`, other secrets as [REDACTED]; strings and sections that are absent are
 * left out. */
void options_print(const struct config_field *fields, const void *state,
		   const struct config_node *node, struct yaml_out *out);
/* One line per option: name, type, default, help; nested ones indented. */
void options_help(const struct config_field *fields, struct buf *out);
/* The entry's value by the field's name or aliases; NULL when it is not there. */
const struct config_node *options_node(const struct config_field *field,
				       const struct config_node *map);
