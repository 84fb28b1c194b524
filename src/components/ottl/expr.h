/*
 * expr.h - what a condition or statement is compiled into, and the tables of paths and functions
 * that it is compiled by. Inside src/components/ottl only.
 */
#pragma once
#include <pthread.h>
#include "base/buf.h"
#include "base/regex.h"
#include "components/ottl/ottl.h"

/* What an expression may give, as a set: checked at compile time where it is known. */
enum ottl_type {
	TYPE_NIL = 1 << ANY_EMPTY,
	TYPE_STRING = 1 << ANY_STRING,
	TYPE_BOOL = 1 << ANY_BOOL,
	TYPE_INT = 1 << ANY_INT,
	TYPE_FLOAT = 1 << ANY_DOUBLE,
	TYPE_LIST = 1 << ANY_ARRAY,
	TYPE_MAP = 1 << ANY_KVLIST,
	TYPE_BYTES = 1 << ANY_BYTES,
	TYPE_NUMBER = TYPE_INT | TYPE_FLOAT,
	TYPE_ANY = 0xff,
};
/* "a string or an int" */
void types_append(struct buf *out, unsigned types);

/* A value on its way. `memo` names the dictionary's string or attribute that a text is, so that
 * what a regex says of it is asked once: MEMO_NONE, a string's index, or string_count + an
 * attribute's. */
struct ottl_value {
	struct any_value any;
	uint32_t memo;
};
#define MEMO_NONE UINT32_MAX

struct ottl_regex {
	struct ottl_regex *next;
	pthread_mutex_t lock; /* a struct regex is used by one thread at a time */
	struct regex *regex;
	struct str pattern;
	enum regex_mode mode;
	uint32_t number; /* of its memo */
};

/* ---- paths ---- */

enum path_id {
	PATH_ATTRIBUTES,
	PATH_SCHEMA_URL,
	PATH_DROPPED_ATTRIBUTES,
	PATH_SCOPE_NAME,
	PATH_SCOPE_VERSION,
	PATH_PROFILE_ID,
	PATH_PROFILE_ID_TEXT,
	PATH_TIME,
	PATH_DURATION,
	PATH_PERIOD,
	PATH_PERIOD_TYPE,
	PATH_PERIOD_UNIT,
	PATH_SAMPLE_TYPE,
	PATH_SAMPLE_UNIT,
	PATH_PAYLOAD_FORMAT,
	PATH_PAYLOAD,
	PATH_VALUE,
	PATH_EVENTS,
	PATH_TRACE_ID,
	PATH_TRACE_ID_TEXT,
	PATH_SPAN_ID,
	PATH_SPAN_ID_TEXT,
	PATH_DEPTH,
	PATH_LEAF_FUNCTION,
	PATH_LEAF_FILE,
	PATH_LEAF_BINARY,
	PATH_LEAF_KIND,
	PATH_ROOT_FUNCTION,
	PATH_ROOT_FILE,
	PATH_ROOT_BINARY,
	PATH_ROOT_KIND,
};

struct ottl_path {
	enum ottl_context context;
	const char *name; /* behind the context's */
	enum path_id id;
	unsigned types;
	bool settable;
};
extern const struct ottl_path ottl_paths[]; /* ends with a NULL name */

/* ---- functions ---- */

enum parameter_kind {
	PARAMETER_VALUE,        /* any expression of `types` */
	PARAMETER_TARGET,       /* a path that can be set, of `types` */
	PARAMETER_REGEX,        /* a string written out: compiled once */
	PARAMETER_REGEX_GROUPS, /* the same, for replacing */
	PARAMETER_LITERAL,      /* a value of `types` written out */
	PARAMETER_STRINGS,      /* a list of strings written out */
};

enum { PARAMETERS_MOST = 4 };
struct ottl_parameter {
	const char *name;
	enum parameter_kind kind;
	unsigned types;
	bool optional;
	const char *choices[3]; /* LITERAL: the strings that it may be; none: all */
};

struct ottl_run;
struct ottl_expr;
typedef bool ottl_function_fn(struct ottl_run *r, const struct ottl_expr *call,
			      struct ottl_value *out, struct err *err);

struct ottl_function {
	const char *name;
	ottl_function_fn *eval;
	unsigned result; /* types; 0: an editor */
	struct ottl_parameter parameters[PARAMETERS_MOST];
	enum ottl_context context; /* needs at least this one */
};
extern const struct ottl_function ottl_converters[], ottl_editors[]; /* end with a NULL name */

/* ---- expressions ---- */

enum expr_kind {
	EXPR_LITERAL,
	EXPR_PATH,
	EXPR_INDEX, /* of a list or map that is no path: left[right] */
	EXPR_CALL,
	EXPR_LIST,
	EXPR_MATH,
	EXPR_COMPARE,
	EXPR_AND,
	EXPR_OR,
	EXPR_NOT,
};

struct ottl_expr {
	enum expr_kind kind;
	unsigned types;
	uint32_t at; /* offset in the text */
	struct any_value literal;
	const struct ottl_path *path;
	bool keyed;   /* PATH: attributes["key"] */
	uint32_t key; /* of ottl.keys */
	int sign;     /* MATH, COMPARE */
	struct ottl_expr *left, *right;
	struct ottl_expr **items; /* LIST */
	uint32_t count;
	const struct ottl_function *function;
	struct ottl_expr *args[PARAMETERS_MOST];     /* NULL: left out */
	struct ottl_regex *regexes[PARAMETERS_MOST]; /* of PARAMETER_REGEX* */
	uint32_t matcher;                            /* HasFrame(): number of its memo */
};

/* ---- runs ---- */

/* What was found out about an entry of the dictionary. */
enum memo { MEMO_UNKNOWN, MEMO_NO, MEMO_YES };

struct ottl_run {
	const struct ottl *o;
	struct profiles *p;
	struct edit *edit;
	struct ottl_at at;
	struct arena scratch; /* of one condition or statement */
	struct buf text;
	struct edit_list list;
	/* As the message came: what an edit adds has no memo. */
	uint32_t string_count, attribute_count, location_count, stack_count;
	uint8_t **regex_memo;    /* [regex][memo of a value] */
	uint8_t **key_memo;      /* [key][attribute] */
	uint8_t **location_memo; /* [matcher][location] */
	uint8_t **stack_memo;    /* [matcher][stack] */
};

bool ottl_eval(struct ottl_run *r, const struct ottl_expr *e, struct ottl_value *out,
	       struct err *err) MUST_CHECK;
bool ottl_eval_path(struct ottl_run *r, const struct ottl_expr *e, struct ottl_value *out,
		    struct err *err) MUST_CHECK;
bool ottl_set_path(struct ottl_run *r, const struct ottl_expr *e, const struct any_value *v,
		   struct err *err) MUST_CHECK;
/* The attributes that a path without key names, as r->list. */
void ottl_load_attributes(struct ottl_run *r, const struct ottl_expr *path);
bool ottl_regex_matches(struct ottl_run *r, struct ottl_regex *x, struct str s, uint32_t memo,
			bool *matches, struct err *err) MUST_CHECK;
/* HasFrame(): does one frame of the sample's stack match all of the call's regexes? */
bool ottl_has_frame(struct ottl_run *r, const struct ottl_expr *call, bool *has,
		    struct err *err) MUST_CHECK;
/* A zeroed array that lives as long as the run; *slot keeps it. */
uint8_t *ottl_memo(uint8_t **slot, uint32_t count);
/* The text of a value in the run's scratch: strings as they are, others as text. */
bool ottl_text(struct ottl_run *r, const struct any_value *v, struct str *out,
	       struct err *err) MUST_CHECK;
const char *any_kind_word(enum any_kind k); /* "string", "int", "nil", ... */
