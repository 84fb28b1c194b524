#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "components/ottl/expr.h"
#include "components/ottl/lexer.h"

/* ---- words ---- */

const char *any_kind_word(enum any_kind k)
{
	static const char *const words[] = {
		[ANY_EMPTY] = "nil",  [ANY_STRING] = "string", [ANY_BOOL] = "bool",
		[ANY_INT] = "int",    [ANY_DOUBLE] = "float",  [ANY_ARRAY] = "list",
		[ANY_KVLIST] = "map", [ANY_BYTES] = "bytes",
	};

	return words[k];
}

void types_append(struct buf *out, unsigned types)
{
	if (types == TYPE_ANY) {
		buf_lit(out, "any value");
		return;
	}
	for (unsigned k = 0; k <= ANY_BYTES; k++) {
		if (!(types & 1u << k))
			continue;
		types &= ~(1u << k);
		buf_str(out, str_cstr(any_kind_word((enum any_kind)k)));
		if (types)
			buf_str(out, types & (types - 1) ? STR(", ") : STR(" or "));
	}
}

/* ---- runs ---- */

static uint8_t **slots(uint32_t count)
{
	uint8_t **p = calloc(count ? count : 1, sizeof(*p));

	assert(p);
	return p;
}

static void slots_free(uint8_t **p, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		free(p[i]);
	free(p);
}

uint8_t *ottl_memo(uint8_t **slot, uint32_t count)
{
	if (!*slot) {
		*slot = calloc(count ? count : 1, 1);
		assert(*slot);
	}
	return *slot;
}

enum { SCRATCH_BYTES_MOST = 8 << 20 };

struct ottl_run *ottl_run_new(const struct ottl *o, struct profiles *p, struct edit *edit)
{
	struct ottl_run *r = calloc(1, sizeof(*r));

	assert(r);
	r->o = o;
	r->p = p;
	r->edit = edit;
	arena_init(&r->scratch, 1024, SCRATCH_BYTES_MOST);
	buf_init(&r->text, REGEX_REPLACED_MOST);
	r->string_count = p->dict.string_count;
	r->attribute_count = p->dict.attribute_count;
	r->location_count = p->dict.location_count;
	r->stack_count = p->dict.stack_count;
	r->regex_memo = slots(o->regex_count);
	r->key_memo = slots(o->key_count);
	r->location_memo = slots(o->matcher_count);
	r->stack_memo = slots(o->matcher_count);
	return r;
}

void ottl_run_free(struct ottl_run *r)
{
	if (!r)
		return;
	arena_release(&r->scratch);
	buf_release(&r->text);
	edit_list_release(&r->list);
	slots_free(r->regex_memo, r->o->regex_count);
	slots_free(r->key_memo, r->o->key_count);
	slots_free(r->location_memo, r->o->matcher_count);
	slots_free(r->stack_memo, r->o->matcher_count);
	free(r);
}

/* ---- regexes, once for each string of the dictionary ---- */

static bool match_now(struct ottl_regex *x, struct str s, bool *matches, struct err *err)
{
	bool ok;

	pthread_mutex_lock(&x->lock);
	ok = regex_match(x->regex, s, matches, err);
	pthread_mutex_unlock(&x->lock);
	return ok;
}

bool ottl_regex_matches(struct ottl_run *r, struct ottl_regex *x, struct str s, uint32_t memo,
			bool *matches, struct err *err)
{
	uint8_t *known;

	if (memo == MEMO_NONE)
		return match_now(x, s, matches, err);
	known = ottl_memo(&r->regex_memo[x->number], r->string_count + r->attribute_count) + memo;
	if (*known == MEMO_UNKNOWN) {
		if (!match_now(x, s, matches, err))
			return false;
		*known = *matches ? MEMO_YES : MEMO_NO;
	}
	*matches = *known == MEMO_YES;
	return true;
}

bool ottl_text(struct ottl_run *r, const struct any_value *v, struct str *out, struct err *err)
{
	if (v->kind == ANY_STRING) {
		*out = v->string;
		return true;
	}
	buf_reset(&r->text);
	any_value_append_text(&r->text, v);
	*out = str_dup(&r->scratch, buf_view(&r->text));
	return (!r->text.failed && out->ptr) || err_set(err, ERR_LIMIT, "a value is too long");
}

/* ---- comparing ---- */

static int order(double a, double b)
{
	return (a > b) - (a < b);
}

/* -1, 0, 1; false: these have no order. */
static bool compare_values(const struct any_value *a, const struct any_value *b, int *out)
{
	if (a->kind == ANY_INT && b->kind == ANY_INT) {
		*out = (a->integer > b->integer) - (a->integer < b->integer);
		return true;
	}
	if ((a->kind == ANY_INT || a->kind == ANY_DOUBLE) &&
	    (b->kind == ANY_INT || b->kind == ANY_DOUBLE)) {
		*out = order(a->kind == ANY_INT ? (double)a->integer : a->real,
			     b->kind == ANY_INT ? (double)b->integer : b->real);
		return true;
	}
	if (a->kind != b->kind || (a->kind != ANY_STRING && a->kind != ANY_BYTES))
		return false;
	*out = str_compare(a->string, b->string);
	return true;
}

static bool compare_signs(const struct any_value *a, const struct any_value *b, int sign)
{
	bool equal, ordered;
	int n = 0;

	ordered = compare_values(a, b, &n);
	equal = ordered ? n == 0 : any_value_equal(a, b);
	switch (sign) {
	case SIGN_EQUAL:
		return equal;
	case SIGN_NOT_EQUAL:
		return !equal;
	case SIGN_LESS_EQUAL:
		return ordered && n <= 0;
	case SIGN_GREATER_EQUAL:
		return ordered && n >= 0;
	case '<':
		return ordered && n < 0;
	default:
		return ordered && n > 0;
	}
}

/* ---- calculating ---- */

static bool int_math(int sign, int64_t a, int64_t b, int64_t *out)
{
	switch (sign) {
	case '+':
		return !__builtin_add_overflow(a, b, out);
	case '-':
		return !__builtin_sub_overflow(a, b, out);
	case '*':
		return !__builtin_mul_overflow(a, b, out);
	default:
		if (b == 0 || (a == INT64_MIN && b == -1))
			return false;
		*out = a / b;
		return true;
	}
}

static double float_math(int sign, double a, double b)
{
	return sign == '+' ? a + b : sign == '-' ? a - b : sign == '*' ? a * b : a / b;
}

static bool is_number(const struct any_value *v)
{
	return v->kind == ANY_INT || v->kind == ANY_DOUBLE;
}

static bool calculate(int sign, const struct any_value *a, const struct any_value *b,
		      struct any_value *out, struct err *err)
{
	if (!is_number(a) || !is_number(b))
		return err_set(err, ERR_INVALID, "cannot calculate with %s and %s",
			       any_kind_word(a->kind), any_kind_word(b->kind));
	if (a->kind == ANY_INT && b->kind == ANY_INT) {
		out->kind = ANY_INT;
		return int_math(sign, a->integer, b->integer, &out->integer) ||
		       err_set(err, ERR_INVALID,
			       "%" PRId64 " %c %" PRId64 " has no result in 64 bits", a->integer,
			       sign, b->integer);
	}
	out->kind = ANY_DOUBLE;
	out->real = float_math(sign, a->kind == ANY_INT ? (double)a->integer : a->real,
			       b->kind == ANY_INT ? (double)b->integer : b->real);
	return true;
}

/* ---- the tree ---- */

static bool both(struct ottl_run *r, const struct ottl_expr *e, struct ottl_value *left,
		 struct ottl_value *right, struct err *err)
{
	return ottl_eval(r, e->left, left, err) && ottl_eval(r, e->right, right, err);
}

static bool eval_bool(struct ottl_run *r, const struct ottl_expr *e, bool *out, struct err *err)
{
	struct ottl_value v;

	if (!ottl_eval(r, e, &v, err))
		return false;
	if (v.any.kind != ANY_BOOL)
		return err_set(err, ERR_INVALID, "a condition is %s, not true or false",
			       any_kind_word(v.any.kind));
	*out = v.any.boolean;
	return true;
}

static bool eval_index(struct ottl_run *r, const struct ottl_expr *e, struct ottl_value *out,
		       struct err *err)
{
	struct ottl_value of, index;
	const struct any_value *found = NULL;

	if (!both(r, e, &of, &index, err))
		return false;
	if (of.any.kind == ANY_ARRAY && index.any.kind == ANY_INT) {
		if (index.any.integer < 0 || index.any.integer >= of.any.array.count)
			return err_set(err, ERR_INVALID, "index %" PRId64 " of a list of %u",
				       index.any.integer, of.any.array.count);
		found = &of.any.array.values[index.any.integer];
	} else if (of.any.kind == ANY_KVLIST && index.any.kind == ANY_STRING) {
		found = key_values_find(
			(struct key_values){ of.any.kvlist.pairs, of.any.kvlist.count },
			index.any.string);
	} else if (of.any.kind != ANY_EMPTY) {
		return err_set(err, ERR_INVALID, "%s has no [%s]", any_kind_word(of.any.kind),
			       any_kind_word(index.any.kind));
	}
	if (found)
		out->any = *found;
	return true;
}

static bool eval_list(struct ottl_run *r, const struct ottl_expr *e, struct ottl_value *out,
		      struct err *err)
{
	struct any_value *values = arena_alloc_array(&r->scratch, e->count, sizeof(*values));
	struct ottl_value v;

	if (!values)
		return err_set(err, ERR_LIMIT, "a value is too long");
	for (uint32_t i = 0; i < e->count; i++) {
		if (!ottl_eval(r, e->items[i], &v, err))
			return false;
		values[i] = v.any;
	}
	out->any = (struct any_value){ .kind = ANY_ARRAY, .array = { values, e->count } };
	return true;
}

static bool eval_logic(struct ottl_run *r, const struct ottl_expr *e, bool *out, struct err *err)
{
	if (!eval_bool(r, e->left, out, err))
		return false;
	if (e->kind == EXPR_NOT) {
		*out = !*out;
		return true;
	}
	if (*out == (e->kind == EXPR_OR))
		return true;
	return eval_bool(r, e->right, out, err);
}

bool ottl_eval(struct ottl_run *r, const struct ottl_expr *e, struct ottl_value *out,
	       struct err *err)
{
	struct ottl_value left, right;

	*out = (struct ottl_value){ .memo = MEMO_NONE };
	switch (e->kind) {
	case EXPR_LITERAL:
		out->any = e->literal;
		return true;
	case EXPR_PATH:
		return ottl_eval_path(r, e, out, err);
	case EXPR_INDEX:
		return eval_index(r, e, out, err);
	case EXPR_CALL:
		return e->function->eval(r, e, out, err);
	case EXPR_LIST:
		return eval_list(r, e, out, err);
	case EXPR_MATH:
		return both(r, e, &left, &right, err) &&
		       calculate(e->sign, &left.any, &right.any, &out->any, err);
	case EXPR_COMPARE:
		out->any.kind = ANY_BOOL;
		if (!both(r, e, &left, &right, err))
			return false;
		out->any.boolean = compare_signs(&left.any, &right.any, e->sign);
		return true;
	case EXPR_AND:
	case EXPR_OR:
	case EXPR_NOT:
		out->any.kind = ANY_BOOL;
		return eval_logic(r, e, &out->any.boolean, err);
	}
	return false;
}

static void begin(struct ottl_run *r, const struct ottl_at *at)
{
	r->at = *at;
	if (r->scratch.blocks)
		arena_reset(&r->scratch);
}

static bool holds(struct ottl_run *r, const struct ottl_code *c, bool *out, struct err *err)
{
	*out = true;
	return !c->condition || eval_bool(r, c->condition, out, err);
}

bool ottl_holds(struct ottl_run *r, const struct ottl_code *c, const struct ottl_at *at, bool *out,
		struct err *err)
{
	begin(r, at);
	return holds(r, c, out, err);
}

bool ottl_apply(struct ottl_run *r, const struct ottl_code *c, const struct ottl_at *at,
		struct err *err)
{
	struct ottl_value ignored;
	bool yes;

	assert(r->edit);
	begin(r, at);
	if (!holds(r, c, &yes, err))
		return false;
	return !yes || ottl_eval(r, c->editor, &ignored, err);
}
