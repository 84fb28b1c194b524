#include "query/select/selector.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hex.h"
#include "base/regex.h"

/* ---- the text, token by token ---- */

struct lexer {
	struct str text;
	size_t at;
	struct arena *arena;
	struct err *err;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_space(struct lexer *l)
{
	while (l->at < l->text.len && is_space(l->text.ptr[l->at]))
		l->at++;
}

static char peek(struct lexer *l)
{
	skip_space(l);
	return l->at < l->text.len ? l->text.ptr[l->at] : '\0';
}

static bool at_end(struct lexer *l)
{
	skip_space(l);
	return l->at >= l->text.len;
}

static bool expected(struct lexer *l, const char *what)
{
	if (at_end(l))
		return err_set(l->err, ERR_INVALID, "selector: %s is missing at its end", what);
	return err_set(l->err, ERR_INVALID,
		       "selector: %s is missing at byte %zu, there is \"%.20s\"", what, l->at,
		       str_dup_cstr(l->arena, str_head(str_skip(l->text, l->at), 20)));
}

static bool is_key_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_.:-/", c)) || (unsigned char)c >= 0x80;
}

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* \xHH, \uHHHH, \UHHHHHHHH, one-letter escapes. Gives the bytes written, 0 when it is none. */
static size_t unescape(struct lexer *l, char *out)
{
	static const char letters[] = "abfnrtv\\\"'`", meant[] = "\a\b\f\n\r\t\v\\\"'`";
	char c = l->at < l->text.len ? l->text.ptr[l->at++] : '\0';
	const char *letter = c ? strchr(letters, c) : NULL;
	unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	uint32_t code = 0;

	if (letter) {
		out[0] = meant[letter - letters];
		return 1;
	}
	if (!digits)
		return 0;
	for (unsigned i = 0; i < digits; i++) {
		int d = l->at < l->text.len ? hex_value(l->text.ptr[l->at++]) : -1;

		if (d < 0)
			return 0;
		code = code << 4 | (uint32_t)d;
	}
	if (c == 'x') {
		out[0] = (char)code;
		return 1;
	}
	return code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : put_utf8(out, code);
}

static bool quoted(struct lexer *l, struct str *out)
{
	char quote = peek(l);
	char *text = arena_alloc(l->arena, l->text.len + 4), *p = text;
	size_t start = l->at++;

	while (l->at < l->text.len && l->text.ptr[l->at] != quote) {
		char c = l->text.ptr[l->at++];
		size_t n = 1;

		if (c == '\\' && quote != '`') {
			n = unescape(l, p);
			if (!n)
				return err_set(l->err, ERR_INVALID,
					       "selector: bad escape before byte %zu", l->at);
		} else {
			*p = c;
		}
		p += n;
	}
	if (l->at >= l->text.len)
		return err_set(l->err, ERR_INVALID, "selector: the quote at byte %zu never closes",
			       start);
	l->at++;
	*out = str_from(text, (size_t)(p - text));
	return true;
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'' || c == '`';
}

static bool key(struct lexer *l, struct str *out)
{
	size_t start;

	if (is_quote(peek(l)))
		return quoted(l, out);
	start = l->at;
	while (l->at < l->text.len && is_key_char(l->text.ptr[l->at]))
		l->at++;
	if (l->at == start)
		return expected(l, "an attribute's name");
	*out = str_dup(l->arena, str_from(l->text.ptr + start, l->at - start));
	return true;
}

static bool operator(struct lexer *l, enum matcher_op *out)
{
	struct str rest;

	skip_space(l);
	rest = str_skip(l->text, l->at);
	if (str_has_prefix(rest, STR("=~")))
		*out = MATCH_REGEX;
	else if (str_has_prefix(rest, STR("!~")))
		*out = MATCH_NOT_REGEX;
	else if (str_has_prefix(rest, STR("!=")))
		*out = MATCH_NOT_EQUAL;
	else if (str_has_prefix(rest, STR("=")))
		*out = MATCH_EQUAL;
	else
		return expected(l, "one of = != =~ !~");
	l->at += *out == MATCH_EQUAL ? 1 : 2;
	return true;
}

/* ---- matchers ---- */

static bool is_type_key(struct str k)
{
	return str_is(k, "__profile_type__") || str_is(k, "__name__");
}

static bool add_matcher(struct selector *s, const struct matcher *m, struct err *err)
{
	if (m->op == MATCH_EQUAL && is_type_key(m->key)) {
		s->profile_type = m->value;
		return true;
	}
	if (s->count == SELECTOR_MATCHERS_MOST)
		return err_set(err, ERR_LIMIT, "selector: more than %d matchers",
			       SELECTOR_MATCHERS_MOST);
	s->matchers[s->count] = *m;
	if (m->op >= MATCH_REGEX) {
		s->matchers[s->count].regex = regex_new(m->value, REGEX_WHOLE, err);
		if (!s->matchers[s->count].regex)
			return err_prefix(err, "selector");
	}
	s->count++;
	return true;
}

static bool matcher(struct lexer *l, struct selector *s)
{
	struct matcher m = { 0 };
	bool alone = is_quote(peek(l));

	if (!key(l, &m.key))
		return false;
	if (alone && (at_end(l) || peek(l) == ',' || peek(l) == '}')) { /* {"type", ...} */
		s->profile_type = m.key;
		return true;
	}
	if (!operator(l, &m.op))
		return false;
	if (!is_quote(peek(l)))
		return expected(l, "a quoted value");
	return quoted(l, &m.value) && add_matcher(s, &m, l->err);
}

static bool matchers(struct lexer *l, struct selector *s, char close)
{
	while (!at_end(l) && peek(l) != close) {
		if (!matcher(l, s))
			return false;
		if (peek(l) == ',')
			l->at++;
		else if (!at_end(l) && peek(l) != close)
			return expected(l, close ? "',' or '}'" : "','");
	}
	return true;
}

/* A name that a brace or the end follows is the profile type. */
static void leading_type(struct lexer *l, struct selector *s)
{
	size_t start, end;

	skip_space(l);
	start = l->at;
	while (l->at < l->text.len && is_key_char(l->text.ptr[l->at]))
		l->at++;
	end = l->at;
	if (end > start && (at_end(l) || peek(l) == '{'))
		s->profile_type = str_dup(l->arena, str_from(l->text.ptr + start, end - start));
	else
		l->at = start;
}

static bool parse(struct lexer *l, struct selector *s)
{
	leading_type(l, s);
	if (peek(l) != '{')
		return matchers(l, s, '\0');
	l->at++;
	if (!matchers(l, s, '}'))
		return false;
	if (peek(l) != '}')
		return expected(l, "'}'");
	l->at++;
	return at_end(l) || expected(l, "the end");
}

struct selector *selector_parse(struct str text, struct err *err)
{
	struct selector *s;
	struct lexer l = { .text = text, .err = err };

	if (text.len > SELECTOR_TEXT_MOST) {
		err_set(err, ERR_LIMIT, "a selector of %zu bytes; at most %d are taken", text.len,
			SELECTOR_TEXT_MOST);
		return NULL;
	}
	if (text.len && memchr(text.ptr, '\0', text.len)) {
		err_set(err, ERR_INVALID, "selector: holds a NUL byte");
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	assert(s);
	arena_init(&s->arena, 1024, 0);
	l.arena = &s->arena;
	if (!parse(&l, s)) {
		selector_free(s);
		return NULL;
	}
	return s;
}

void selector_free(struct selector *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->count; i++)
		regex_free(s->matchers[i].regex);
	arena_release(&s->arena);
	free(s);
}

bool matcher_match(const struct matcher *m, struct str value, bool *matches, struct err *err)
{
	bool found;

	switch (m->op) {
	case MATCH_EQUAL:
		*matches = str_equal(value, m->value);
		return true;
	case MATCH_NOT_EQUAL:
		*matches = !str_equal(value, m->value);
		return true;
	case MATCH_REGEX:
	case MATCH_NOT_REGEX:
		break;
	}
	if (!regex_match(m->regex, value, &found, err))
		return err_prefix(err, "%.*s", (int)(m->key.len < 60 ? m->key.len : 60),
				  m->key.ptr);
	*matches = found == (m->op == MATCH_REGEX);
	return true;
}

static char plain(char c)
{
	return c == '.' || c == '-' || c == '/' || c == ' ' ? '_' : c;
}

bool label_key_is(struct str label, struct str wanted)
{
	if (label.len != wanted.len)
		return false;
	for (size_t i = 0; i < label.len; i++)
		if (label.ptr[i] != wanted.ptr[i] && plain(label.ptr[i]) != wanted.ptr[i])
			return false;
	return true;
}
