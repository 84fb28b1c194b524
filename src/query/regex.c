#include "query/regex.h"

#include <assert.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct regex {
	pcre2_code *code;
	pcre2_match_context *context;
	pcre2_match_data *match;
};

/*
 * A name of 1 kB and a usual pattern need some hundred steps; a hostile pattern reaches the limit
 * in about a millisecond, and the query ends with it.
 */
enum { MATCH_STEPS_MOST = 20000, MATCH_DEPTH_MOST = 2000, MATCH_HEAP_MOST_KIB = 2048 };

struct regex *regex_new(struct str pattern, enum regex_mode mode, struct err *err)
{
	uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C |
			   PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE | PCRE2_DOTALL;
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
	context = pcre2_compile_context_create(NULL);
	assert(r && context);
	pcre2_set_parens_nest_limit(context, 100);
	if (mode == REGEX_WHOLE)
		options |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
	r->code = pcre2_compile((PCRE2_SPTR)(pattern.ptr ? pattern.ptr : ""), pattern.len, options,
				&code, &at, context);
	pcre2_compile_context_free(context);
	if (!r->code) {
		pcre2_get_error_message(code, text, sizeof(text));
		err_set(err, ERR_INVALID, "bad regex \"%.*s\": %s at offset %zu",
			(int)(pattern.len < 80 ? pattern.len : 80), pattern.ptr ? pattern.ptr : "",
			(const char *)text, at);
		regex_free(r);
		return NULL;
	}
	r->context = pcre2_match_context_create(NULL);
	r->match = pcre2_match_data_create(1, NULL);
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
	pcre2_match_context_free(r->context);
	pcre2_match_data_free(r->match);
	free(r);
}

bool regex_match(struct regex *r, struct str subject, bool *matches, struct err *err)
{
	PCRE2_UCHAR text[160];
	int n = pcre2_match(r->code, (PCRE2_SPTR)(subject.ptr ? subject.ptr : ""), subject.len, 0,
			    0, r->match, r->context);

	if (n >= 0 || n == PCRE2_ERROR_NOMATCH) {
		*matches = n >= 0;
		return true;
	}
	if (n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_DEPTHLIMIT ||
	    n == PCRE2_ERROR_HEAPLIMIT)
		return err_set(err, ERR_LIMIT,
			       "the regex needs more than %d steps on a text of %zu bytes",
			       MATCH_STEPS_MOST, subject.len);
	pcre2_get_error_message(n, text, sizeof(text));
	return err_set(err, ERR_INVALID, "regex: %s", (const char *)text);
}
