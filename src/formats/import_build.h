/*
 * import_build.h - the few steps that all readers of foreign formats share: a builder with one
 * resource and scope, frames by name, attributes. Only src/formats includes this.
 */
#pragma once
#include "model/builder.h"

struct import_frame {
	struct str function, system_name, file, binary, type;
	int64_t line, column, start_line;
	uint64_t address;
	const struct str *inlined; /* into it, innermost first */
	uint32_t inlined_count;
};
enum { IMPORT_INLINED_MOST = 64 };

struct import {
	struct builder *b;
	struct scope_profiles *scope;
	struct location_index *stack; /* the one being gathered, leaf first */
	uint32_t stack_count, stack_cap;
	double cut;       /* what import_whole() has cut off so far of the profile at hand */
	uint64_t rounded; /* values that it changed */
};

/* What is read may grow by much (a stack repeated in few bytes); the model may not. */
enum { IMPORT_MEMORY_MOST = 1 << 30, IMPORT_STACK_MOST = 1 << 16 };
enum { IMPORT_SCOPE_ATTRIBUTES = 16 }; /* that a reader sets, at most */

struct import_hints;
void import_begin_with(struct import *im, struct blob *bytes, const struct import_hints *hints);
void import_begin(struct import *im,
		  struct blob *bytes); /* bytes: what strings are borrowed from */
/* Hands over or, where ok is false, drops what was built. */
bool import_end(struct import *im, bool ok, struct profiles **out, struct err *err) MUST_CHECK;

/* A text as long as the message: the reader's buffer is used again. */
static inline struct str import_keep(struct import *im, struct str s)
{
	return str_dup(builder_arena(im->b), s);
}
struct attribute_index import_text(struct import *im, const char *key, struct str value);
struct attribute_index import_int(struct import *im, const char *key, int64_t value);
struct location_index import_location(struct import *im, const struct import_frame *f);
/* A profile of one value type under the one resource and scope. */
struct profile *import_profile(struct import *im, struct str type, struct str unit,
			       struct str period_type, struct str period_unit, int64_t period);

/*
 * A value as the whole number that the model has. What a fraction loses goes to the next value of
 * the profile, so that a sum stays within one half; the scope's attribute IMPORT_ROUNDED says of
 * how many values that is true.
 */
#define IMPORT_ROUNDED "flametap.import.rounded_values"
int64_t import_whole(struct import *im, double value);

/* The nearest whole number of 64 bits; 0 where there is none. */
int64_t import_rounded(double v);

void import_stack_clear(struct import *im);
bool import_stack_push(struct import *im, struct location_index l, struct err *err) MUST_CHECK;
void import_stack_drop(struct import *im, uint32_t count); /* from the leaf, gathered leaf first */
void import_stack_reverse(struct import *im);              /* gathered root first */
struct stack_index import_stack(struct import *im);

/* Of a line: what is behind its last space or tab. */
struct str import_last_word(struct str line);
bool import_decimal(struct str word, double *out); /* "2.5": digits around a point */
bool import_is_comment(struct str line);           /* of folded stacks; trimmed */
/* The bytes look like no format; always false. */
bool import_unknown(struct err *err);
