/* lexer.h - the text of a condition or statement as tokens, each with its place. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum token_kind {
	TOKEN_END,
	TOKEN_NAME,
	TOKEN_STRING,
	TOKEN_INT,
	TOKEN_FLOAT,
	TOKEN_BYTES, /* 0x0badcafe */
	TOKEN_SIGN,  /* one of the characters ()[]{},.:=+-*'/'<> or an enum below */
};
enum { SIGN_EQUAL = 256, SIGN_NOT_EQUAL, SIGN_LESS_EQUAL, SIGN_GREATER_EQUAL };

struct token {
	enum token_kind kind;
	uint32_t at;       /* offset in the text */
	struct str text;   /* as it stands there */
	struct str string; /* STRING without quotes and escapes; BYTES */
	int64_t integer;
	double real;
	int sign;
};

struct lexer {
	struct arena *arena;
	struct str text;
	uint32_t at;
};

/* False with what is wrong at out->at. */
bool lexer_next(struct lexer *l, struct token *out, struct err *err) MUST_CHECK;
