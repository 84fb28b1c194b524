/*
 * expand.h - ${...} in the scalars of a configuration, as the Collector's confmap does it.
 *
 *   ${env:X} ${X}       the variable; unset: null where it is the whole value, else nothing, and a
 * warning
 *   ${env:X:-default}   the default when X is unset
 *   ${file:path}        a file's content, without line ends at its end
 *   ${yaml:text}        the text
 *   $$                  a dollar sign; $ before anything else is one too
 *
 * Nested references are resolved inside out, and what comes of one is expanded again. A scalar that
 * is one whole reference takes the type of what it names: a number, a map, a list. Keys are not
 * expanded.
 */
#pragma once
#include "pipeline/node.h"

enum { EXPAND_ROUNDS_MOST = 1000, EXPAND_BYTES_MOST = 1 << 20 };

struct expand {
	struct arena *arena;
	struct problems *problems;
	const char *(*getenv)(const char *name); /* NULL = the process's */
	bool no_files;                           /* refuse ${file:...}: for fuzzing */
	uint32_t nodes_left;
	uint64_t bytes_left; /* of all that expansion makes; 0 at first = 64 x EXPAND_BYTES_MOST */
};

/* The tree with all references resolved; the original is left as it was. NULL when problems got an
 * error. */
struct config_node *expand_tree(struct expand *x, const struct config_node *root) MUST_CHECK;

/* Reads a whole file of at most NODE_SOURCE_BYTES_MOST into the arena. err: "open nope.yaml: No
 * such file or directory". */
bool expand_read_file(struct arena *a, const char *path, struct str *out,
		      struct err *err) MUST_CHECK;
