/* HasFrame(function, file, binary, kind): asked once for each location and stack of a dictionary.
 */
#include "components/ottl/expr.h"

enum { FRAME_FUNCTION, FRAME_FILE, FRAME_BINARY, FRAME_KIND };

static bool entry_matches(struct ottl_run *r, struct ottl_regex *x, struct strindex i,
			  bool *matches, struct err *err)
{
	if (x)
		return ottl_regex_matches(r, x, profiles_string(r->p, i),
					  i.v < r->string_count ? i.v : MEMO_NONE, matches, err);
	*matches = true;
	return true;
}

/* Function and file of one line. */
static bool line_matches(struct ottl_run *r, const struct ottl_expr *call,
			 struct function_index function, bool *matches, struct err *err)
{
	const struct function *f = &r->p->dict.functions[function.v];

	if (!entry_matches(r, call->regexes[FRAME_FUNCTION], f->name, matches, err) || !*matches)
		return err->kind == ERR_NONE;
	return entry_matches(r, call->regexes[FRAME_FILE], f->filename, matches, err);
}

/* What is the same for all lines of a location. */
static bool place_matches(struct ottl_run *r, const struct ottl_expr *call,
			  const struct location *l, bool *matches, struct err *err)
{
	struct ottl_regex *kind = call->regexes[FRAME_KIND];

	if (!entry_matches(r, call->regexes[FRAME_BINARY],
			   r->p->dict.mappings[l->mapping.v].filename, matches, err) ||
	    !*matches || !kind)
		return err->kind == ERR_NONE;
	return ottl_regex_matches(r, kind, location_frame_type(r->p, l), MEMO_NONE, matches, err);
}

static bool location_matches(struct ottl_run *r, const struct ottl_expr *call,
			     const struct location *l, bool *matches, struct err *err)
{
	const struct line *lines = r->p->dict.lines + l->lines.first;

	if (!place_matches(r, call, l, matches, err) || !*matches)
		return err->kind == ERR_NONE;
	if (!l->lines.count) /* no names: as the zero function */
		return line_matches(r, call, (struct function_index){ 0 }, matches, err);
	for (uint32_t i = 0; i < l->lines.count; i++)
		if (!line_matches(r, call, lines[i].function, matches, err) || *matches)
			return err->kind == ERR_NONE;
	return true;
}

static bool location_known(struct ottl_run *r, const struct ottl_expr *call, uint32_t location,
			   bool *matches, struct err *err)
{
	uint8_t *memo = ottl_memo(&r->location_memo[call->matcher], r->location_count) + location;

	if (*memo == MEMO_UNKNOWN) {
		if (!location_matches(r, call, &r->p->dict.locations[location], matches, err))
			return false;
		*memo = *matches ? MEMO_YES : MEMO_NO;
	}
	*matches = *memo == MEMO_YES;
	return true;
}

bool ottl_has_frame(struct ottl_run *r, const struct ottl_expr *call, bool *has, struct err *err)
{
	const struct dictionary *d = &r->p->dict;
	uint32_t stack = r->p->samples[r->at.sample].stack.v;
	uint8_t *memo = ottl_memo(&r->stack_memo[call->matcher], r->stack_count) + stack;
	struct range at = d->stacks[stack].locations;

	*has = *memo == MEMO_YES;
	if (*memo != MEMO_UNKNOWN)
		return true;
	err->kind = ERR_NONE;
	for (uint32_t i = 0; i < at.count && !*has; i++)
		if (!location_known(r, call, d->stack_locations[at.first + i].v, has, err))
			return false;
	*memo = *has ? MEMO_YES : MEMO_NO;
	return true;
}
