#include "components/ottl/lexer.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "base/hex.h"

static char peek(const struct lexer *l, uint32_t ahead)
{
	return l->at + ahead < l->text.len ? l->text.ptr[l->at + ahead] : 0;
}

static struct str slice(const struct lexer *l, uint32_t from)
{
	return str_from(l->text.ptr + from, l->at - from);
}

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool unescape(char c, char *out)
{
	static const char from[] = "\"\\ntr'", to[] = "\"\\\n\t\r'";
	const char *at = c ? strchr(from, c) : NULL;

	if (at)
		*out = to[at - from];
	return at != NULL;
}

/* As in Go: "…" with \" \\ \n \t \r. */
static bool read_string(struct lexer *l, struct token *t, struct err *err)
{
	char *to = arena_alloc(l->arena, l->text.len - l->at + 1);
	size_t n = 0;

	if (!to)
		return err_set(err, ERR_LIMIT, "too long");
	for (l->at++; l->at < l->text.len && peek(l, 0) != '"'; l->at++) {
		char c = peek(l, 0);

		if (c == '\\') {
			l->at++;
			if (!unescape(peek(l, 0), &c)) {
				t->at = l->at - 1;
				return err_set(
					err, ERR_INVALID,
					"bad escape in a string: write \\\\ for a backslash");
			}
		}
		to[n++] = c;
	}
	if (l->at >= l->text.len)
		return err_set(err, ERR_INVALID, "the string has no closing \"");
	l->at++;
	to[n] = 0;
	t->kind = TOKEN_STRING;
	t->string = str_from(to, n);
	return true;
}

static bool read_bytes(struct lexer *l, struct token *t, struct err *err)
{
	uint32_t from = l->at + 2;
	uint8_t *to;
	size_t n;

	for (l->at = from; isxdigit((unsigned char)peek(l, 0));)
		l->at++;
	n = l->at - from;
	to = arena_alloc(l->arena, n / 2 + 1);
	if (n == 0 || n % 2 || is_name(peek(l, 0)) || !to)
		return err_set(err, ERR_INVALID,
			       "bytes are an even number of hex digits behind 0x");
	for (size_t i = 0; i < n / 2; i++) {
		const char *pair = l->text.ptr + from + 2 * i;

		to[i] = (uint8_t)(hex_value(pair[0]) << 4 | hex_value(pair[1]));
	}
	t->kind = TOKEN_BYTES;
	t->string = str_from(to, n / 2);
	return true;
}

static bool read_number(struct lexer *l, struct token *t, struct err *err)
{
	uint32_t from = l->at;
	char text[64], *end;
	bool real = false;
	struct str all;

	while (isdigit((unsigned char)peek(l, 0)) || (peek(l, 0) == '.' && !real)) {
		real |= peek(l, 0) == '.';
		l->at++;
	}
	all = slice(l, from);
	t->kind = real ? TOKEN_FLOAT : TOKEN_INT;
	if (is_name(peek(l, 0)) || all.len >= sizeof(text))
		return err_set(err, ERR_INVALID, "\"%.*s%c\" is not a number", STR_ARG(all),
			       peek(l, 0) ? peek(l, 0) : ' ');
	if (!real)
		return str_to_i64(all, &t->integer) ||
		       err_set(err, ERR_INVALID, "%.*s does not fit 64 bits", STR_ARG(all));
	memcpy(text, all.ptr, all.len);
	text[all.len] = 0;
	t->real = strtod(text, &end);
	return (!*end && isfinite(t->real)) ||
	       err_set(err, ERR_INVALID, "\"%s\" is not a number", text);
}

static bool read_sign(struct lexer *l, struct token *t, struct err *err)
{
	static const struct {
		char text[3];
		int sign;
	} pairs[] = { { "==", SIGN_EQUAL },
		      { "!=", SIGN_NOT_EQUAL },
		      { "<=", SIGN_LESS_EQUAL },
		      { ">=", SIGN_GREATER_EQUAL } };
	char c = peek(l, 0);

	t->kind = TOKEN_SIGN;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (c == pairs[i].text[0] && peek(l, 1) == pairs[i].text[1]) {
			t->sign = pairs[i].sign;
			l->at += 2;
			return true;
		}
	if (!c || !strchr("()[]{},.:=+-*/<>", c))
		return err_set(err, ERR_INVALID, "unexpected \"%c\"",
			       isprint((unsigned char)c) ? c : '?');
	t->sign = (unsigned char)c;
	l->at++;
	return true;
}

static bool read_token(struct lexer *l, struct token *t, struct err *err)
{
	char c = peek(l, 0);

	if (isalpha((unsigned char)c) || c == '_') {
		while (is_name(peek(l, 0)))
			l->at++;
		t->kind = TOKEN_NAME;
		return true;
	}
	if (c == '"')
		return read_string(l, t, err);
	if (c == '0' && peek(l, 1) == 'x')
		return read_bytes(l, t, err);
	if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)peek(l, 1))))
		return read_number(l, t, err);
	return read_sign(l, t, err);
}

bool lexer_next(struct lexer *l, struct token *t, struct err *err)
{
	while (l->at < l->text.len && isspace((unsigned char)l->text.ptr[l->at]))
		l->at++;
	*t = (struct token){ .kind = TOKEN_END, .at = l->at };
	if (l->at >= l->text.len)
		return true;
	if (!read_token(l, t, err))
		return false;
	t->text = str_from(l->text.ptr + t->at, l->at - t->at);
	return true;
}
