/*
 * ottl.h - the OpenTelemetry Transformation Language, for profiles: conditions and statements,
 * compiled once, run over messages.
 *
 *     IsMatch(resource.attributes["service.name"], "^test-") and sample.value < 2
 *     set(profile.attributes["team"], "core") where resource.attributes["team"] == nil
 *
 * Paths, functions and their types are tables (paths.c, converters.c, editors.c). What cannot work
 * is a problem with its line and column when it is compiled. Contexts are resource, scope, profile
 * and sample; a path names its own ("resource.attributes"), or means the one that the configuration
 * gives. The context of a condition or statement is the innermost one that its paths name.
 *
 * Regexes and keys are matched once for each string or attribute of a dictionary, stacks once for
 * each HasFrame(), and not again for each sample.
 *
 * Memory: compiled in the caller's arena; ottl_release() frees the regexes. Threads: a program is
 * shared; a run belongs to one thread and one message.
 */
#pragma once
#include "base/arena.h"
#include "model/edit.h"
#include "pipeline/node.h"

enum ottl_context { OTTL_RESOURCE, OTTL_SCOPE, OTTL_PROFILE, OTTL_SAMPLE, OTTL_INFER };
enum { OTTL_TEXT_MOST = 16384, OTTL_DEPTH_MOST = 200 };

struct ottl_regex;

struct ottl {
	struct arena *arena;
	struct ottl_regex *regexes; /* a list */
	struct str *keys;           /* of attributes["..."] */
	uint32_t key_count, key_cap, regex_count, matcher_count;
};

void ottl_init(struct ottl *o, struct arena *arena);
void ottl_release(struct ottl *o);

struct ottl_expr;

/* A condition, or a statement: editor ["where" condition]. */
struct ottl_code {
	enum ottl_context context;
	struct ottl_expr *editor, *condition; /* either may be NULL */
	struct str text;
};

/* Where the text stands, and what its names may mean. */
struct ottl_source {
	const struct config_node *node; /* a scalar */
	const char *path;               /* in front of messages */
	enum ottl_context given;        /* OTTL_INFER: every path names its context */
	struct problems *problems;
};

/* NULL when the problems got an error. */
struct ottl_code *ottl_compile_condition(struct ottl *o,
					 const struct ottl_source *source) MUST_CHECK;
struct ottl_code *ottl_compile_statement(struct ottl *o,
					 const struct ottl_source *source) MUST_CHECK;
/* "resource", "scope", "profile", "sample" and their other names; OTTL_INFER: no context. */
enum ottl_context ottl_context_named(struct str name);

/* The resource, scope, profile and sample that a run looks at; those inside the code's context are
 * not read. */
struct ottl_at {
	uint32_t resource, scope, profile, sample;
};

struct ottl_run;
/* `edit` is NULL for conditions alone. */
struct ottl_run *ottl_run_new(const struct ottl *o, struct profiles *p, struct edit *edit);
void ottl_run_free(struct ottl_run *r); /* NULL is fine */
bool ottl_holds(struct ottl_run *r, const struct ottl_code *c, const struct ottl_at *at,
		bool *holds, struct err *err) MUST_CHECK;
/* Runs the editor where the condition holds. */
bool ottl_apply(struct ottl_run *r, const struct ottl_code *c, const struct ottl_at *at,
		struct err *err) MUST_CHECK;
