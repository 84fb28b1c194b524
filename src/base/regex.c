#include "base/regex.h"

#include <assert.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"
#include "base/text.h"

struct regex {
	pcre2_code *code;
	pcre2_code *by_states; /* the same for match_by_states(), once that is needed */
	pcre2_match_context *context;
	pcre2_match_data *match;
	struct buf clean; /* a subject with U+FFFD for each bad byte */
	char *pattern;
	size_t pattern_len;
	uint32_t options;
};

/*
 * A name of 1 kB and a usual pattern need some hundred steps. Three ".*" over a C++ name of 1 kB
 * need half a million: what passes the limit is matched without going back.
 */
enum { MATCH_STEPS_MOST = 20000, MATCH_DEPTH_MOST = 2000, MATCH_HEAP_MOST_KIB = 2048 };
/* A pattern that passed it once will pass it for the next name, too: not so late then. */
enum { MATCH_STEPS_AGAIN = 1000 };
/* Without going back: length^2 / 2 * states bounds the work (1 to 5 ns each). */
enum { STATES_MOST = 200, STATES_LEAST = 8, INTS_PER_STATE = 6, INTS_MORE = 2 };
static const uint64_t STATE_WORK_MOST = 400000000;

struct regex *regex_new(struct str pattern, enum regex_mode mode, struct err *err)
{
	uint32_t options =
		PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL;
	pcre2_compile_context *context;
	struct regex *r;
	PCRE2_UCHAR text[160];
	PCRE2_SIZE at;
	int code;

	if (pattern.len > REGEX_PATTERN_MOST) {
		err_set(err, ERR_LIMIT, "a regex of %zu bytes; at most %d are taken", pattern.len,
			REGEX_PATTERN_MOST);
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	assert(r);
	buf_init(&r->clean, 0);
	r->pattern = malloc(pattern.len + 1);
	assert(r->pattern);
	if (pattern.len)
		memcpy(r->pattern, pattern.ptr, pattern.len);
	r->pattern_len = pattern.len;
	context = pcre2_compile_context_create(NULL);
	assert(context);
	pcre2_set_parens_nest_limit(context, 100);
	if (mode != REGEX_GROUPS)
		options |= PCRE2_NO_AUTO_CAPTURE;
	if (mode == REGEX_WHOLE)
		options |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
	r->options = options;
	r->code = pcre2_compile((PCRE2_SPTR)r->pattern, pattern.len, options, &code, &at, context);
	pcre2_compile_context_free(context);
	if (!r->code) {
		pcre2_get_error_message(code, text, sizeof(text));
		err_set(err, ERR_INVALID, "bad regex \"%.*s\": %s at offset %zu",
			(int)(pattern.len < 80 ? pattern.len : 80), pattern.ptr ? pattern.ptr : "",
			(const char *)text, at);
		regex_free(r);
		return NULL;
	}
	if (regex_group_count(r) > REGEX_GROUPS_MOST) {
		err_set(err, ERR_LIMIT, "a regex with %u groups; at most %d are taken",
			regex_group_count(r), REGEX_GROUPS_MOST);
		regex_free(r);
		return NULL;
	}
	r->context = pcre2_match_context_create(NULL);
	r->match = pcre2_match_data_create(mode == REGEX_GROUPS ? REGEX_GROUPS_MOST + 1 : 1, NULL);
	assert(r->context && r->match);
	pcre2_set_match_limit(r->context, MATCH_STEPS_MOST);
	pcre2_set_depth_limit(r->context, MATCH_DEPTH_MOST);
	pcre2_set_heap_limit(r->context, MATCH_HEAP_MOST_KIB);
	return r;
}

void regex_free(struct regex *r)
{
	if (!r)
		return;
	pcre2_code_free(r->code);
	pcre2_code_free(r->by_states);
	free(r->pattern);
	buf_release(&r->clean);
	pcre2_match_context_free(r->context);
	pcre2_match_data_free(r->match);
	free(r);
}

/*
 * All ways of matching side by side: never exponential, but length^2 * states, which bounds what is
 * taken. PCRE2's result, or PCRE2_ERROR_MATCHLIMIT where this cannot do it: a long text, back
 * references.
 */
static int match_by_states(struct regex *r, struct str subject)
{
	/* Which PCRE2 does not look at here: the longest match is looked at instead. */
	bool whole = r->options & PCRE2_ENDANCHORED;
	int space[INTS_MORE + STATES_MOST * INTS_PER_STATE], code, n;
	uint64_t states = STATE_WORK_MOST / ((uint64_t)subject.len * subject.len + 1);
	PCRE2_SIZE at;

	if (states > STATES_MOST)
		states = STATES_MOST;
	if (!r->by_states) /* known to compile: it did */
		r->by_states =
			pcre2_compile((PCRE2_SPTR)r->pattern, r->pattern_len,
				      r->options & ~(uint32_t)PCRE2_ENDANCHORED, &code, &at, NULL);
	if (states < STATES_LEAST || !r->by_states)
		return PCRE2_ERROR_MATCHLIMIT;
	n = pcre2_dfa_match(r->by_states, (PCRE2_SPTR)subject.ptr, subject.len, 0,
			    PCRE2_NO_UTF_CHECK | (whole ? 0 : PCRE2_DFA_SHORTEST), r->match,
			    r->context, space, INTS_MORE + states * INTS_PER_STATE);
	if (n >= 0 && whole && pcre2_get_ovector_pointer(r->match)[1] != subject.len)
		return PCRE2_ERROR_NOMATCH;
	return n >= 0 || n == PCRE2_ERROR_NOMATCH ? n : PCRE2_ERROR_MATCHLIMIT;
}

static bool is_limit(int n)
{
	return n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_DEPTHLIMIT ||
	       n == PCRE2_ERROR_HEAPLIMIT;
}

/* What is matched: PCRE2 takes only UTF-8. */
static struct str clean_of(struct regex *r, struct str subject)
{
	if (!subject.len)
		return STR("");
	if (utf8_valid(subject))
		return subject;
	buf_reset(&r->clean);
	utf8_append_clean(&r->clean, subject);
	return buf_view(&r->clean);
}

/* PCRE2's failure in words. */
static bool match_failed(const struct regex *r, int n, size_t len, struct err *err)
{
	PCRE2_UCHAR text[160];

	if (is_limit(n))
		return err_set(err, ERR_INVALID,
			       "the regex \"%.*s\" needs more than %d steps on a text of %zu bytes",
			       (int)(r->pattern_len < 80 ? r->pattern_len : 80), r->pattern,
			       MATCH_STEPS_MOST, len);
	pcre2_get_error_message(n, text, sizeof(text));
	return err_set(err, ERR_INVALID, "regex: %s", (const char *)text);
}

bool regex_match(struct regex *r, struct str bytes, bool *matches, struct err *err)
{
	struct str subject = clean_of(r, bytes);
	int n = pcre2_match(r->code, (PCRE2_SPTR)subject.ptr, subject.len, 0, PCRE2_NO_UTF_CHECK,
			    r->match, r->context);

	if (is_limit(n)) {
		pcre2_set_match_limit(r->context, MATCH_STEPS_AGAIN);
		n = match_by_states(r, subject);
	}
	*matches = n >= 0;
	return n >= 0 || n == PCRE2_ERROR_NOMATCH || match_failed(r, n, subject.len, err);
}

bool regex_replace(struct regex *r, struct str bytes, struct str replacement, struct buf *out,
		   bool *matches, struct err *err)
{
	const uint32_t options = PCRE2_SUBSTITUTE_GLOBAL | PCRE2_SUBSTITUTE_UNSET_EMPTY |
				 PCRE2_SUBSTITUTE_UNKNOWN_UNSET | PCRE2_SUBSTITUTE_OVERFLOW_LENGTH;
	struct str subject = clean_of(r, bytes);
	PCRE2_SIZE room = subject.len + replacement.len + 64;
	int n = PCRE2_ERROR_NOMEMORY;

	*matches = false;
	for (int round = 0; n == PCRE2_ERROR_NOMEMORY && round < 2; round++) {
		char *to = room <= REGEX_REPLACED_MOST ? buf_reserve(out, room) : NULL;

		if (!to)
			return err_set(err, ERR_LIMIT, "the replaced text is longer than %d bytes",
				       REGEX_REPLACED_MOST);
		n = pcre2_substitute(r->code, (PCRE2_SPTR)subject.ptr, subject.len, 0, options,
				     r->match, r->context, (PCRE2_SPTR)replacement.ptr,
				     replacement.len, (PCRE2_UCHAR *)to, &room);
	}
	if (n < 0)
		return match_failed(r, n, subject.len, err);
	*matches = n > 0;
	if (n > 0)
		buf_advance(out, room);
	return true;
}

uint32_t regex_group_count(const struct regex *r)
{
	uint32_t count = 0;

	pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &count);
	return count;
}

const char *regex_group_name(const struct regex *r, uint32_t group)
{
	uint32_t count = 0, size = 0;
	PCRE2_SPTR table = NULL;

	pcre2_pattern_info(r->code, PCRE2_INFO_NAMECOUNT, &count);
	pcre2_pattern_info(r->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
	pcre2_pattern_info(r->code, PCRE2_INFO_NAMETABLE, &table);
	for (uint32_t i = 0; i < count; i++, table += size)
		if (((uint32_t)table[0] << 8 | table[1]) == group)
			return (const char *)table + 2;
	return NULL;
}

bool regex_groups(struct regex *r, struct str bytes, struct str groups[REGEX_GROUPS_MOST + 1],
		  bool *matches, struct err *err)
{
	struct str subject = clean_of(r, bytes);
	int n = pcre2_match(r->code, (PCRE2_SPTR)subject.ptr, subject.len, 0, PCRE2_NO_UTF_CHECK,
			    r->match, r->context);
	const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->match);

	*matches = n >= 0;
	for (int i = 0; i <= REGEX_GROUPS_MOST; i++)
		groups[i] = i < n && at[2 * i] != PCRE2_UNSET
				    ? str_from(subject.ptr + at[2 * i], at[2 * i + 1] - at[2 * i])
				    : (struct str){ 0 };
	return n >= 0 || n == PCRE2_ERROR_NOMATCH || match_failed(r, n, subject.len, err);
}
