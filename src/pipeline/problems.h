/*
 * problems.h - all that is wrong with a configuration, found in one go, each with its place.
 *
 * Text: "config.yaml:12:5: receivers::otlp: unknown key \"protcols\" (did you mean \"protocols\"?);
 * ...". Errors make the configuration unusable, warnings do not. Threads: one.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/buf.h"

struct config_pos {
	const char *file; /* "config.yaml", "env:CONFIG", "--set"; NULL = nowhere in particular */
	uint32_t line, column; /* from 1; 0 = unknown */
};

struct problem {
	bool warning;
	struct config_pos pos;
	const char *text; /* with its place in front */
};

enum { PROBLEMS_MOST = 200 };

struct problems {
	struct arena arena;
	struct problem *items;
	uint32_t count, cap;
	uint32_t error_count; /* suppressed ones included */
	uint32_t suppressed;  /* past PROBLEMS_MOST */
};

void problems_init(struct problems *p);
void problems_release(struct problems *p);
/* pos may be NULL. */
void problem_error(struct problems *p, const struct config_pos *pos, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void problem_warn(struct problems *p, const struct config_pos *pos, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Errors, one a line, in the order of their places; with_warnings puts those in too, as "warning:
 * ...". */
void problems_write(const struct problems *p, bool with_warnings, struct buf *out);
/* The warnings through the log. */
void problems_log_warnings(const struct problems *p);
