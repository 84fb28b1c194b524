#include "base/text.h"

#include "base/buf.h"

enum { SUGGEST_WORD_MOST = 64 };

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Restricted Damerau-Levenshtein: insert, delete, replace, swap neighbours; case costs nothing.
 * Words are short. */
static size_t edit_distance(struct str a, struct str b)
{
	size_t rows[3][SUGGEST_WORD_MOST + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];

	for (size_t j = 0; j <= b.len; j++)
		last[j] = before[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t *oldest = before;

		now[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			unsigned char ca = lower(a.ptr[i - 1]), cb = lower(b.ptr[j - 1]);

			now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (ca != cb));
			if (i > 1 && j > 1 && ca == lower(b.ptr[j - 2]) &&
			    cb == lower(a.ptr[i - 2]))
				now[j] = least(now[j], before[j - 2] + 1);
		}
		before = last;
		last = now;
		now = oldest;
	}
	return last[b.len];
}

const char *text_suggest(struct str word, const char *const *candidates, size_t count)
{
	size_t nearest = word.len / 3 + 1; /* one past what is near enough */
	const char *found = NULL;

	if (word.len == 0 || word.len > SUGGEST_WORD_MOST)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		struct str c = str_cstr(candidates[i]);
		size_t distance;

		if (c.len == 0 || c.len > SUGGEST_WORD_MOST)
			continue;
		distance = edit_distance(word, c);
		if (distance < nearest) {
			nearest = distance;
			found = candidates[i];
		}
	}
	return found;
}

/* As coreutils has it: K, KiB are 1024, KB is 1000. */
static bool unit_bytes(struct str unit, uint64_t *out)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} units[] = {
		{ "", 1 },
		{ "b", 1 },
		{ "k", UINT64_C(1) << 10 },
		{ "m", UINT64_C(1) << 20 },
		{ "g", UINT64_C(1) << 30 },
		{ "t", UINT64_C(1) << 40 },
		{ "kib", UINT64_C(1) << 10 },
		{ "mib", UINT64_C(1) << 20 },
		{ "gib", UINT64_C(1) << 30 },
		{ "tib", UINT64_C(1) << 40 },
		{ "kb", UINT64_C(1000) },
		{ "mb", UINT64_C(1000000) },
		{ "gb", UINT64_C(1000000000) },
		{ "tb", UINT64_C(1000000000000) },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (str_equal_nocase(unit, str_cstr(units[i].name))) {
			*out = units[i].bytes;
			return true;
		}
	return false;
}

bool text_parse_size(struct str text, uint64_t *out_bytes, struct err *err)
{
	struct str all = text = str_trim(text);
	uint64_t number, unit;
	size_t digits = 0;

	while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
		digits++;
	if (digits == 0)
		return err_set(err, ERR_INVALID, "size \"%.*s\" does not start with a number",
			       STR_ARG(all));
	text = str_trim(str_skip(text, digits));
	if (!unit_bytes(text, &unit))
		return err_set(
			err, ERR_INVALID,
			"size \"%.*s\" has the unknown unit \"%.*s\"; use B, KiB, MiB, GiB or TiB",
			STR_ARG(all), STR_ARG(text));
	if (!str_to_u64(str_head(all, digits), &number) ||
	    __builtin_mul_overflow(number, unit, &number))
		return err_set(err, ERR_INVALID, "size \"%.*s\" is more bytes than 64 bits hold",
			       STR_ARG(all));
	*out_bytes = number;
	return true;
}

/*
 * Length of the character at s (1 to 4 bytes), 0 when its first byte is bad. RFC 3629, section 4:
 * no overlong forms, no surrogates, nothing past U+10FFFF.
 */
static size_t utf8_char_len(const unsigned char *s, size_t left)
{
	unsigned char low = 0x80, high = 0xbf; /* range of the second byte */
	size_t len;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		len = 2;
	} else if (s[0] >= 0xe0 && s[0] <= 0xef) {
		len = 3;
		if (s[0] == 0xe0)
			low = 0xa0;
		else if (s[0] == 0xed)
			high = 0x9f;
	} else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		len = 4;
		if (s[0] == 0xf0)
			low = 0x90;
		else if (s[0] == 0xf4)
			high = 0x8f;
	} else {
		return 0;
	}
	if (left < len || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* Number of leading bytes below 0x80, eight at a time. */
static size_t ascii_len(struct str s)
{
	size_t at = 0;
	uint64_t word;

	for (; s.len - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, s.ptr + at, sizeof(word));
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	while (at < s.len && (unsigned char)s.ptr[at] < 0x80)
		at++;
	return at;
}

/* Length of the longest valid beginning. */
static size_t utf8_valid_len(struct str s)
{
	size_t at = 0;

	while (at < s.len) {
		size_t n;

		at += ascii_len(str_skip(s, at));
		if (at == s.len)
			break;
		n = utf8_char_len((const unsigned char *)s.ptr + at, s.len - at);
		if (n == 0)
			break;
		at += n;
	}
	return at;
}

bool utf8_valid(struct str s)
{
	return utf8_valid_len(s) == s.len;
}

void utf8_append(struct buf *b, uint32_t c)
{
	if (c < 0x80) {
		buf_char(b, (char)c);
	} else if (c < 0x800) {
		buf_char(b, (char)(0xc0 | c >> 6));
		buf_char(b, (char)(0x80 | (c & 63)));
	} else if (c >= 0xd800 && c < 0xe000) { /* half of a pair: no character */
		buf_lit(b, "\xef\xbf\xbd");
	} else if (c < 0x10000) {
		buf_char(b, (char)(0xe0 | c >> 12));
		buf_char(b, (char)(0x80 | (c >> 6 & 63)));
		buf_char(b, (char)(0x80 | (c & 63)));
	} else if (c < 0x110000) {
		buf_char(b, (char)(0xf0 | c >> 18));
		buf_char(b, (char)(0x80 | (c >> 12 & 63)));
		buf_char(b, (char)(0x80 | (c >> 6 & 63)));
		buf_char(b, (char)(0x80 | (c & 63)));
	} else {
		buf_lit(b, "\xef\xbf\xbd");
	}
}

void utf8_append_clean(struct buf *b, struct str s)
{
	while (s.len) {
		size_t n = utf8_valid_len(s);

		buf_append(b, s.ptr, n);
		s = str_skip(s, n);
		if (s.len) {
			buf_lit(b, "\xef\xbf\xbd");
			s = str_skip(s, 1);
		}
	}
}

static void append_escaped(struct buf *b, unsigned code)
{
	switch (code) {
	case '\n':
		buf_lit(b, "\\n");
		break;
	case '\r':
		buf_lit(b, "\\r");
		break;
	case '\t':
		buf_lit(b, "\\t");
		break;
	default:
		if (code < 0x80)
			buf_printf(b, "\\x%02x", code);
		else
			buf_printf(b, "\\u%04x", code);
	}
}

/* C1 controls (U+0080 to U+009F) count too: a terminal takes U+009B for ESC [. */
static size_t control_at(const unsigned char *s, size_t left, unsigned *code)
{
	if (s[0] < 0x20 || s[0] == 0x7f) {
		*code = s[0];
		return 1;
	}
	if (s[0] == 0xc2 && left > 1 && s[1] >= 0x80 && s[1] <= 0x9f) {
		*code = s[1];
		return 2;
	}
	return 0;
}

void text_append_printable(struct buf *b, struct str s)
{
	size_t from = 0, at = 0;

	while (at < s.len) {
		unsigned code;
		size_t n = control_at((const unsigned char *)s.ptr + at, s.len - at, &code);

		if (n == 0) {
			at++;
			continue;
		}
		utf8_append_clean(b, str_from(s.ptr + from, at - from));
		append_escaped(b, code);
		from = at += n;
	}
	utf8_append_clean(b, str_from(s.len ? s.ptr + from : NULL, at - from));
}
