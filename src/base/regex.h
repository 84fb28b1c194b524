/*
 * regex.h - a regular expression from a person or a URL, matched in bounded time.
 *
 * PCRE2 (the syntax of RE2 and more of it) with limits on backtracking, depth and memory. A match
 * that would pass them is made without backtracking, which bounds it by the text's length; one that
 * this cannot do either ends with ERR_INVALID: it is the pattern that is to be changed; less memory
 * or shorter texts would not help. Patterns are UTF-8; each bad byte of
 * a subject is U+FFFD, as it is shown. Memory: own heap. Threads: a regex is used by one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

enum { REGEX_PATTERN_MOST = 4096 };

struct regex;

enum regex_mode {
	REGEX_WHOLE,  /* the pattern must match all of the subject: Prometheus' =~ */
	REGEX_WITHIN, /* somewhere */
	REGEX_GROUPS, /* somewhere; what its groups matched is wanted */
};

struct regex *regex_new(struct str pattern, enum regex_mode mode, struct err *err) MUST_CHECK;
void regex_free(struct regex *r); /* NULL is fine */
bool regex_match(struct regex *r, struct str subject, bool *matches, struct err *err) MUST_CHECK;

struct buf;
enum { REGEX_GROUPS_MOST = 32, REGEX_REPLACED_MOST = 1 << 20 };

/* For REGEX_GROUPS: every match replaced; $1, ${1} and ${name} in the replacement stand for groups.
 * `out` gets the whole text; without a match it stays empty and *matches is false. */
bool regex_replace(struct regex *r, struct str subject, struct str replacement, struct buf *out,
		   bool *matches, struct err *err) MUST_CHECK;
/* For REGEX_GROUPS: the names of groups, by number from 1; NULL: it has none. */
uint32_t regex_group_count(const struct regex *r);
const char *regex_group_name(const struct regex *r, uint32_t group);
/* For REGEX_GROUPS: the first match; groups[0] is all of it, groups that took no part are empty.
 * They point into the subject (or into the regex, until its next match). */
bool regex_groups(struct regex *r, struct str subject, struct str groups[REGEX_GROUPS_MOST + 1],
		  bool *matches, struct err *err) MUST_CHECK;
