/* Text -> expressions with types. The grammar is in docs/ottl.md. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "components/ottl/expr.h"
#include "components/ottl/lexer.h"

struct parser {
	struct ottl *o;
	struct lexer lexer;
	struct token token;
	enum ottl_context given, used;
	uint32_t depth;
	bool any_path, failed;
	struct err err;
	uint32_t err_at;
};

static const char *const context_names[] = { "resource", "scope", "profile", "sample" };

enum ottl_context ottl_context_named(struct str name)
{
	for (int i = 0; i < OTTL_INFER; i++)
		if (str_is(name, context_names[i]))
			return (enum ottl_context)i;
	if (str_is(name, "instrumentation_scope"))
		return OTTL_SCOPE;
	return str_is(name, "profilesample") ? OTTL_SAMPLE : OTTL_INFER;
}

/* ---- failing ---- */

static struct ottl_expr *fail(struct parser *p, uint32_t at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The first failure counts; everything after it yields NULL. */
static struct ottl_expr *fail(struct parser *p, uint32_t at, const char *format, ...)
{
	va_list ap;

	if (p->failed)
		return NULL;
	p->failed = true;
	p->err_at = at;
	p->err.kind = ERR_INVALID;
	va_start(ap, format);
	vsnprintf(p->err.msg, sizeof(p->err.msg), format, ap);
	va_end(ap);
	return NULL;
}

static void advance(struct parser *p)
{
	struct token next;
	struct err err;

	if (p->failed)
		return;
	if (lexer_next(&p->lexer, &next, &err))
		p->token = next;
	else
		fail(p, next.at, "%s", err.msg);
}

static bool at_sign(const struct parser *p, int sign)
{
	return !p->failed && p->token.kind == TOKEN_SIGN && p->token.sign == sign;
}

static bool at_name(const struct parser *p, const char *name)
{
	return !p->failed && p->token.kind == TOKEN_NAME && str_is(p->token.text, name);
}

static bool take_sign(struct parser *p, int sign)
{
	bool there = at_sign(p, sign);

	if (there)
		advance(p);
	return there;
}

static bool take_name(struct parser *p, const char *name)
{
	bool there = at_name(p, name);

	if (there)
		advance(p);
	return there;
}

static void expect_sign(struct parser *p, char sign, const char *where)
{
	struct str got = p->token.kind == TOKEN_END ? STR("the end") : p->token.text;

	if (!take_sign(p, sign))
		fail(p, p->token.at, "expected \"%c\" %s, got %.*s", sign, where,
		     (int)(got.len < 40 ? got.len : 40), got.ptr);
}

static bool enter(struct parser *p)
{
	if (++p->depth <= OTTL_DEPTH_MOST)
		return !p->failed;
	fail(p, p->token.at, "nested more than %d deep", OTTL_DEPTH_MOST);
	return false;
}

/* ---- making ---- */

static struct ottl_expr *new_expr(struct parser *p, enum expr_kind kind, unsigned types,
				  uint32_t at)
{
	struct ottl_expr *e = arena_zalloc(p->o->arena, sizeof(*e));

	assert(e);
	e->kind = kind;
	e->types = types;
	e->at = at;
	return e;
}

static struct ottl_expr *literal(struct parser *p, struct any_value v)
{
	struct ottl_expr *e = new_expr(p, EXPR_LITERAL, 1u << v.kind, p->token.at);

	e->literal = v;
	advance(p);
	return e;
}

static uint32_t key_number(struct ottl *o, struct str key)
{
	for (uint32_t i = 0; i < o->key_count; i++)
		if (str_equal(o->keys[i], key))
			return i;
	if (o->key_count == o->key_cap) {
		uint32_t cap = o->key_cap ? o->key_cap * 2 : 8;

		o->keys = arena_grow(o->arena, o->keys, o->key_cap * sizeof(*o->keys),
				     cap * sizeof(*o->keys));
		assert(o->keys);
		o->key_cap = cap;
	}
	o->keys[o->key_count] = key;
	return o->key_count++;
}

static struct str types_text(struct parser *p, unsigned types)
{
	struct buf b;
	struct str s;

	buf_init(&b, 0);
	types_append(&b, types);
	s = str_dup(p->o->arena, buf_view(&b));
	buf_release(&b);
	return s;
}

static struct ottl_expr *want_types(struct parser *p, struct ottl_expr *e, unsigned types,
				    const char *what)
{
	if (!e || e->types & types)
		return e;
	return fail(p, e->at, "%s must be %.*s, not %.*s", what, STR_ARG(types_text(p, types)),
		    STR_ARG(types_text(p, e->types)));
}

/* ---- paths ---- */

static const struct ottl_path *find_path(enum ottl_context context, struct str name)
{
	for (const struct ottl_path *path = ottl_paths; path->name; path++)
		if (path->context == context && str_is(name, path->name))
			return path;
	return NULL;
}

static struct ottl_expr *unknown_path(struct parser *p, uint32_t at, enum ottl_context context,
				      struct str name)
{
	const char *names[64], *near;
	size_t count = 0;

	for (const struct ottl_path *path = ottl_paths; path->name; path++)
		if (path->context == context && count < ARRAY_LEN(names))
			names[count++] = path->name;
	near = text_suggest(name, names, count);
	return fail(p, at, "%s has no \"%.*s\"%s%s%s", context_names[context], STR_ARG(name),
		    near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

static struct ottl_expr *no_context(struct parser *p, uint32_t at, struct str first)
{
	const char *near = text_suggest(first, context_names, ARRAY_LEN(context_names));

	if (near)
		return fail(p, at, "unknown name \"%.*s\" (did you mean \"%s\"?)", STR_ARG(first),
			    near);
	return fail(p, at,
		    "\"%.*s\" does not begin with its context: write resource., scope., profile. "
		    "or sample. in front",
		    STR_ARG(first));
}

/* name ("." name)*, as one text without spaces. */
static struct str dotted(struct parser *p)
{
	struct buf b;
	struct str s;

	buf_init(&b, 0);
	buf_str(&b, p->token.text);
	advance(p);
	while (take_sign(p, '.')) {
		if (p->token.kind != TOKEN_NAME) {
			fail(p, p->token.at, "expected a name behind \".\"");
			break;
		}
		buf_char(&b, '.');
		buf_str(&b, p->token.text);
		advance(p);
	}
	s = str_dup(p->o->arena, buf_view(&b));
	buf_release(&b);
	return s;
}

static void use_context(struct parser *p, enum ottl_context context, uint32_t at)
{
	if (p->given != OTTL_INFER && context > p->given)
		fail(p, at, "a %s cannot be seen from its %s", context_names[context],
		     context_names[p->given]);
	if (!p->any_path || context > p->used)
		p->used = context;
	p->any_path = true;
}

static struct ottl_expr *parse_value(struct parser *p);
static struct ottl_expr *parse_or(struct parser *p);

/* ["key"] behind attributes; further ones reach into the value. */
static struct ottl_expr *parse_keys(struct parser *p, struct ottl_expr *e)
{
	if (e->path && e->path->id == PATH_ATTRIBUTES && take_sign(p, '[')) {
		if (p->token.kind != TOKEN_STRING)
			return fail(p, p->token.at, "expected a key such as \"service.name\"");
		e->keyed = true;
		e->types = TYPE_ANY;
		e->key = key_number(p->o, p->token.string);
		advance(p);
		expect_sign(p, ']', "behind the key");
	}
	while (at_sign(p, '[')) {
		struct ottl_expr *index = new_expr(p, EXPR_INDEX, TYPE_ANY, p->token.at);

		advance(p);
		index->left = want_types(p, e, TYPE_LIST | TYPE_MAP, "what has [...] behind it");
		index->right = want_types(p, parse_value(p), TYPE_INT | TYPE_STRING, "an index");
		expect_sign(p, ']', "behind the index");
		e = index;
		if (p->failed || !enter(p)) /* each is one more level to evaluate */
			return NULL;
	}
	return p->failed ? NULL : e;
}

static struct ottl_expr *parse_path(struct parser *p, uint32_t at, struct str name)
{
	struct str rest = name, first;
	enum ottl_context context;
	struct ottl_expr *e;

	str_split(&rest, '.', &first);
	context = ottl_context_named(first);
	if (context == OTTL_INFER) {
		if (p->given == OTTL_INFER)
			return no_context(p, at, first);
		context = p->given;
		rest = name;
	}
	e = new_expr(p, EXPR_PATH, 0, at);
	e->path = find_path(context, rest);
	if (!e->path)
		return unknown_path(p, at, context, rest);
	e->types = e->path->types;
	use_context(p, context, at);
	return parse_keys(p, e);
}

/* ---- calls ---- */

static const struct ottl_function *find_function(const struct ottl_function *list, struct str name)
{
	for (; list->name; list++)
		if (str_is(name, list->name))
			return list;
	return NULL;
}

static const struct ottl_function *unknown_function(struct parser *p,
						    const struct ottl_function *list, uint32_t at,
						    struct str name)
{
	const char *names[64], *near;
	size_t count = 0;

	for (; list->name && count < ARRAY_LEN(names); list++)
		names[count++] = list->name;
	near = text_suggest(name, names, count);
	fail(p, at, "unknown function \"%.*s\"%s%s%s", STR_ARG(name),
	     near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
	return NULL;
}

static struct ottl_regex *add_regex(struct parser *p, const struct ottl_expr *e,
				    enum regex_mode mode)
{
	struct ottl *o = p->o;
	struct ottl_regex *x;
	struct err err;

	for (x = o->regexes; x; x = x->next)
		if (x->mode == mode && str_equal(x->pattern, e->literal.string))
			return x;
	x = arena_zalloc(o->arena, sizeof(*x));
	assert(x);
	x->regex = regex_new(e->literal.string, mode, &err);
	if (!x->regex) {
		fail(p, e->at, "%s", err.msg);
		return NULL;
	}
	pthread_mutex_init(&x->lock, NULL);
	x->pattern = e->literal.string;
	x->mode = mode;
	x->number = o->regex_count++;
	x->next = o->regexes;
	o->regexes = x;
	return x;
}

static void check_target(struct parser *p, const struct ottl_expr *e, const char *what)
{
	if (e->kind != EXPR_PATH)
		fail(p, e->at, "%s must be a path%s", what,
		     e->kind == EXPR_INDEX ? ": what is inside a value cannot be set" : "");
	else if (!e->path->settable)
		fail(p, e->at, "%s cannot be changed", e->path->name);
}

static void check_choice(struct parser *p, const struct ottl_parameter *parameter,
			 const struct ottl_expr *e, const char *what)
{
	const char *const *c = parameter->choices;

	for (size_t i = 0; i < ARRAY_LEN(parameter->choices) && c[i]; i++)
		if (str_is(e->literal.string, c[i]))
			return;
	if (c[0] && c[2])
		fail(p, e->at, "%s must be \"%s\", \"%s\" or \"%s\"", what, c[0], c[1], c[2]);
	else if (c[0])
		fail(p, e->at, "%s must be \"%s\" or \"%s\"", what, c[0], c[1]);
}

static void check_strings(struct parser *p, const struct ottl_expr *e, const char *what)
{
	bool all = e->kind == EXPR_LIST;

	for (uint32_t i = 0; all && i < e->count; i++)
		all = e->items[i]->kind == EXPR_LITERAL && e->items[i]->types == TYPE_STRING;
	if (!all)
		fail(p, e->at, "%s must be a list of strings, written out", what);
}

static void set_argument(struct parser *p, struct ottl_expr *call, uint32_t i, struct ottl_expr *e)
{
	const struct ottl_parameter *parameter = &call->function->parameters[i];
	bool regex =
		parameter->kind == PARAMETER_REGEX || parameter->kind == PARAMETER_REGEX_GROUPS;
	char what[80];

	if (!e)
		return;
	snprintf(what, sizeof(what), "%s of %s()", parameter->name, call->function->name);
	if (call->args[i])
		fail(p, e->at, "%s is given twice", what);
	want_types(p, e, parameter->types, what);
	if (parameter->kind == PARAMETER_TARGET)
		check_target(p, e, what);
	if ((regex || parameter->kind == PARAMETER_LITERAL) && e->kind != EXPR_LITERAL)
		fail(p, e->at, "%s must be written out: it is read once, at the start", what);
	if (p->failed)
		return;
	if (parameter->kind == PARAMETER_LITERAL)
		check_choice(p, parameter, e, what);
	if (parameter->kind == PARAMETER_STRINGS)
		check_strings(p, e, what);
	if (regex)
		call->regexes[i] = add_regex(
			p, e, parameter->kind == PARAMETER_REGEX ? REGEX_WITHIN : REGEX_GROUPS);
	call->args[i] = e;
}

static uint32_t parameter_count(const struct ottl_function *f)
{
	uint32_t n = 0;

	while (n < PARAMETERS_MOST && f->parameters[n].name)
		n++;
	return n;
}

static int parameter_named(const struct ottl_function *f, struct str name)
{
	for (uint32_t i = 0; i < parameter_count(f); i++)
		if (str_is(name, f->parameters[i].name))
			return (int)i;
	return -1;
}

/* name = value, or a value in its place. */
static void parse_argument(struct parser *p, struct ottl_expr *call, uint32_t place)
{
	struct lexer behind = p->lexer;
	struct token next;
	struct err ignored;
	uint32_t at = p->token.at;
	int named;

	if (p->token.kind == TOKEN_NAME && lexer_next(&behind, &next, &ignored) &&
	    next.kind == TOKEN_SIGN && next.sign == '=') {
		named = parameter_named(call->function, p->token.text);
		if (named < 0) {
			fail(p, at, "%s() has no parameter \"%.*s\"", call->function->name,
			     STR_ARG(p->token.text));
			return;
		}
		place = (uint32_t)named;
		advance(p);
		advance(p);
	}
	if (place >= parameter_count(call->function)) {
		fail(p, at, "%s() has %u parameters", call->function->name,
		     parameter_count(call->function));
		return;
	}
	set_argument(p, call, place, parse_value(p));
}

static void check_call(struct parser *p, struct ottl_expr *call)
{
	const struct ottl_function *f = call->function;
	bool any = false;

	for (uint32_t i = 0; i < parameter_count(f); i++) {
		any |= call->args[i] != NULL;
		if (!call->args[i] && !f->parameters[i].optional)
			fail(p, call->at, "%s() lacks its parameter \"%s\"", f->name,
			     f->parameters[i].name);
	}
	if (!any)
		fail(p, call->at, "%s() needs a parameter", f->name);
	if (!p->failed && str_is(str_cstr(f->name), "set"))
		want_types(p, call->args[1], call->args[0]->types | TYPE_NIL, "value of set()");
	if (f->context)
		use_context(p, f->context, call->at);
}

static struct ottl_expr *parse_call(struct parser *p, const struct ottl_function *list, uint32_t at,
				    struct str name)
{
	struct ottl_expr *call = new_expr(p, EXPR_CALL, 0, at);

	call->function = find_function(list, name);
	if (!call->function && !unknown_function(p, list, at, name))
		return NULL;
	call->types = call->function->result;
	call->matcher = p->o->matcher_count++;
	advance(p); /* the parenthesis */
	for (uint32_t i = 0; !p->failed && !at_sign(p, ')'); i++) {
		if (i)
			expect_sign(p, ',', "between parameters");
		parse_argument(p, call, i);
	}
	expect_sign(p, ')', "behind the parameters");
	if (!p->failed)
		check_call(p, call);
	return p->failed ? NULL : parse_keys(p, call);
}

/* ---- values ---- */

enum { LIST_MOST = 256 };

static struct ottl_expr *parse_list(struct parser *p)
{
	struct ottl_expr *e = new_expr(p, EXPR_LIST, TYPE_LIST, p->token.at);
	struct ottl_expr *items[LIST_MOST];

	advance(p);
	while (!p->failed && !at_sign(p, ']')) {
		if (e->count == LIST_MOST)
			return fail(p, p->token.at, "a list has at most %d values", LIST_MOST);
		if (e->count)
			expect_sign(p, ',', "between values");
		items[e->count++] = parse_value(p);
	}
	expect_sign(p, ']', "behind the list");
	e->items = arena_alloc_array(p->o->arena, e->count, sizeof(*items));
	assert(e->items);
	memcpy(e->items, items, e->count * sizeof(*items));
	return p->failed ? NULL : e;
}

static struct ottl_expr *parse_name(struct parser *p)
{
	uint32_t at = p->token.at;
	struct str name;

	if (at_name(p, "true") || at_name(p, "false"))
		return literal(
			p, (struct any_value){ .kind = ANY_BOOL, .boolean = at_name(p, "true") });
	if (at_name(p, "nil"))
		return literal(p, (struct any_value){ .kind = ANY_EMPTY });
	name = dotted(p);
	if (p->failed)
		return NULL;
	if (at_sign(p, '('))
		return parse_call(p, ottl_converters, at, name);
	return parse_path(p, at, name);
}

static struct ottl_expr *parse_primary(struct parser *p)
{
	struct token t = p->token;
	struct ottl_expr *e;

	switch (t.kind) {
	case TOKEN_STRING:
		return literal(p, (struct any_value){ .kind = ANY_STRING, .string = t.string });
	case TOKEN_BYTES:
		return literal(p, (struct any_value){ .kind = ANY_BYTES, .string = t.string });
	case TOKEN_INT:
		return literal(p, (struct any_value){ .kind = ANY_INT, .integer = t.integer });
	case TOKEN_FLOAT:
		return literal(p, (struct any_value){ .kind = ANY_DOUBLE, .real = t.real });
	case TOKEN_NAME:
		return parse_name(p);
	case TOKEN_SIGN:
		if (t.sign == '[')
			return parse_list(p);
		if (take_sign(p, '(')) {
			e = parse_or(p);
			expect_sign(p, ')', "behind the expression");
			return p->failed ? NULL : e;
		}
		return fail(p, t.at, "expected a value, got \"%.*s\"", STR_ARG(t.text));
	case TOKEN_END:
		break;
	}
	return fail(p, t.at, "expected a value, got the end");
}

static struct ottl_expr *math(struct parser *p, int sign, uint32_t at, struct ottl_expr *left,
			      struct ottl_expr *right)
{
	struct ottl_expr *e = new_expr(p, EXPR_MATH, TYPE_NUMBER, at);

	e->sign = sign;
	e->left = want_types(p, left, TYPE_NUMBER, "what is calculated with");
	e->right = want_types(p, right, TYPE_NUMBER, "what is calculated with");
	if (p->failed)
		return NULL;
	if (e->left->types == TYPE_INT && e->right->types == TYPE_INT)
		e->types = TYPE_INT;
	return e;
}

static struct ottl_expr *parse_signed(struct parser *p)
{
	uint32_t at = p->token.at;
	struct ottl_expr *zero, *e;

	if (!enter(p))
		return NULL;
	if (take_sign(p, '-')) {
		zero = new_expr(p, EXPR_LITERAL, TYPE_INT, at);
		zero->literal = (struct any_value){ .kind = ANY_INT };
		e = math(p, '-', at, zero, parse_signed(p));
	} else {
		e = parse_primary(p);
	}
	p->depth--;
	return e;
}

static struct ottl_expr *parse_product(struct parser *p)
{
	struct ottl_expr *e = parse_signed(p);
	uint32_t before = p->depth;

	while (e && (at_sign(p, '*') || at_sign(p, '/')) && enter(p)) {
		struct token t = p->token;

		advance(p);
		e = math(p, t.sign, t.at, e, parse_signed(p));
	}
	p->depth = before;
	return p->failed ? NULL : e;
}

static struct ottl_expr *parse_value(struct parser *p)
{
	struct ottl_expr *e = parse_product(p);
	uint32_t before = p->depth;

	while (e && (at_sign(p, '+') || at_sign(p, '-')) && enter(p)) {
		struct token t = p->token;

		advance(p);
		e = math(p, t.sign, t.at, e, parse_product(p));
	}
	p->depth = before;
	return p->failed ? NULL : e;
}

/* ---- conditions ---- */

static bool take_comparison(struct parser *p, int *sign)
{
	static const int signs[] = {
		SIGN_EQUAL, SIGN_NOT_EQUAL, SIGN_LESS_EQUAL, SIGN_GREATER_EQUAL, '<', '>'
	};

	for (size_t i = 0; i < ARRAY_LEN(signs); i++)
		if (take_sign(p, signs[i])) {
			*sign = signs[i];
			return true;
		}
	return false;
}

/* Can a value of these types ever compare with one of those? */
static bool comparable(unsigned a, unsigned b, int sign)
{
	unsigned ordered = TYPE_NUMBER | TYPE_STRING | TYPE_BYTES;

	if (sign != SIGN_EQUAL && sign != SIGN_NOT_EQUAL) {
		a &= ordered;
		b &= ordered;
	}
	if (a & TYPE_NUMBER)
		a |= TYPE_NUMBER;
	return a & b;
}

static struct ottl_expr *compare(struct parser *p, struct ottl_expr *left, int sign,
				 struct ottl_expr *right)
{
	struct ottl_expr *e;

	if (!left || !right)
		return NULL;
	if (!comparable(left->types, right->types, sign))
		return fail(p, left->at, "%.*s cannot be compared with %.*s",
			    STR_ARG(types_text(p, left->types)),
			    STR_ARG(types_text(p, right->types)));
	e = new_expr(p, EXPR_COMPARE, TYPE_BOOL, left->at);
	e->left = left;
	e->right = right;
	e->sign = sign;
	return e;
}

/* Without a comparison it is the value: what wants a condition checks its type. */
static struct ottl_expr *parse_comparison(struct parser *p)
{
	struct ottl_expr *e = parse_value(p);
	int sign;

	if (e && at_sign(p, '='))
		return fail(p, p->token.at, "write \"==\" to compare");
	if (e && take_comparison(p, &sign))
		return compare(p, e, sign, parse_value(p));
	return e;
}

static struct ottl_expr *want_condition(struct parser *p, struct ottl_expr *e)
{
	return want_types(p, e, TYPE_BOOL, "a condition");
}

static struct ottl_expr *parse_not(struct parser *p)
{
	struct ottl_expr *e;
	uint32_t at = p->token.at;

	if (!enter(p))
		return NULL;
	if (take_name(p, "not")) {
		e = new_expr(p, EXPR_NOT, TYPE_BOOL, at);
		e->left = want_condition(p, parse_not(p));
	} else {
		e = parse_comparison(p);
	}
	p->depth--;
	return p->failed ? NULL : e;
}

static struct ottl_expr *join(struct parser *p, enum expr_kind kind, struct ottl_expr *left,
			      struct ottl_expr *right)
{
	struct ottl_expr *e = new_expr(p, kind, TYPE_BOOL, p->token.at);

	e->left = want_condition(p, left);
	e->right = want_condition(p, right);
	return p->failed ? NULL : e;
}

static struct ottl_expr *parse_and(struct parser *p)
{
	struct ottl_expr *e = parse_not(p);
	uint32_t before = p->depth;

	while (e && at_name(p, "and") && enter(p)) {
		advance(p);
		e = join(p, EXPR_AND, e, parse_not(p));
	}
	p->depth = before;
	return p->failed ? NULL : e;
}

static struct ottl_expr *parse_or(struct parser *p)
{
	struct ottl_expr *e = parse_and(p);
	uint32_t before = p->depth;

	while (e && at_name(p, "or") && enter(p)) {
		advance(p);
		e = join(p, EXPR_OR, e, parse_and(p));
	}
	p->depth = before;
	return p->failed ? NULL : e;
}

/* ---- the whole ---- */

static void parse_editor(struct parser *p, struct ottl_code *code)
{
	uint32_t at = p->token.at;
	struct str name = p->token.text;

	if (p->token.kind != TOKEN_NAME) {
		fail(p, at, "a statement begins with an editor such as set(...)");
		return;
	}
	advance(p);
	if (!at_sign(p, '(')) {
		fail(p, p->token.at, "expected \"(\" behind %.*s", STR_ARG(name));
		return;
	}
	code->editor = parse_call(p, ottl_editors, at, name);
	if (take_name(p, "where"))
		code->condition = want_condition(p, parse_or(p));
}

static void report(const struct parser *p, const struct ottl_source *s)
{
	struct config_pos pos = node_pos_within(s->node, p->err_at);

	problem_error(s->problems, &pos, "%s: %s, at character %u of \"%.*s%s\"", s->path,
		      p->err.msg, p->err_at + 1,
		      (int)(s->node->text.len < 120 ? s->node->text.len : 120), s->node->text.ptr,
		      s->node->text.len < 120 ? "" : "...");
}

static struct ottl_code *compile(struct ottl *o, const struct ottl_source *s, bool statement)
{
	struct parser p = { .o = o, .given = s->given };
	struct ottl_code *code = arena_zalloc(o->arena, sizeof(*code));

	assert(code);
	if (s->node->kind != NODE_SCALAR) {
		problem_error(s->problems, &s->node->pos, "%s must be a string, not '%s'", s->path,
			      node_kind_name(s->node));
		return NULL;
	}
	if (s->node->text.len > OTTL_TEXT_MOST)
		fail(&p, 0, "longer than %d bytes", OTTL_TEXT_MOST);
	code->text = str_dup(o->arena, s->node->text);
	p.lexer = (struct lexer){ .arena = o->arena, .text = code->text };
	advance(&p);
	if (statement)
		parse_editor(&p, code);
	else
		code->condition = want_condition(&p, parse_or(&p));
	if (!p.failed && p.token.kind != TOKEN_END)
		fail(&p, p.token.at, "unexpected \"%.*s\"", STR_ARG(p.token.text));
	if (!p.failed && s->given == OTTL_INFER && !p.any_path)
		fail(&p, 0, "no path in it says what it is about");
	if (p.failed) {
		report(&p, s);
		return NULL;
	}
	code->context = s->given != OTTL_INFER ? s->given : p.used;
	return code;
}

struct ottl_code *ottl_compile_condition(struct ottl *o, const struct ottl_source *source)
{
	return compile(o, source, false);
}

struct ottl_code *ottl_compile_statement(struct ottl *o, const struct ottl_source *source)
{
	return compile(o, source, true);
}

void ottl_init(struct ottl *o, struct arena *arena)
{
	*o = (struct ottl){ .arena = arena };
}

void ottl_release(struct ottl *o)
{
	for (struct ottl_regex *x = o->regexes; x; x = x->next) {
		regex_free(x->regex);
		pthread_mutex_destroy(&x->lock);
	}
	o->regexes = NULL;
}
