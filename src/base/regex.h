/*
 * regex.h - a regular expression from a person or a URL, matched in bounded time.
 *
 * PCRE2 (the syntax of RE2 and more of it) with limits on backtracking, depth and memory. A match
 * that would pass them is made without backtracking, which bounds it by the text's length; one that
 * this cannot do either ends with ERR_INVALID, and so the query: it is the pattern that is to be
 * changed, less memory or fewer stacks would not help. Patterns are UTF-8; each bad byte of
 * a subject is U+FFFD, as it is shown. Memory: own heap. Threads: a regex is used by one at a time.
 */
#pragma once
#include <stdbool.h>
#include "base/err.h"
#include "base/str.h"

enum { REGEX_PATTERN_MOST = 4096 };

struct regex;

enum regex_mode {
	REGEX_WHOLE,  /* the pattern must match all of the subject: Prometheus' =~ */
	REGEX_WITHIN, /* somewhere */
};

struct regex *regex_new(struct str pattern, enum regex_mode mode, struct err *err) MUST_CHECK;
void regex_free(struct regex *r); /* NULL is fine */
bool regex_match(struct regex *r, struct str subject, bool *matches, struct err *err) MUST_CHECK;
