#include "components/exporters/safe_name.h"

#include "base/hash.h"
#include "base/text.h"

enum { NAME_MOST = 255, HASHED_TAIL = 2 + 32, CHARACTER_MOST = 4 };

/* Bytes of the character at the head of s that may stand as it is; 0 when its first byte has to be
 * escaped. */
static size_t plain_len(struct str s)
{
	unsigned char c = (unsigned char)s.ptr[0];
	size_t n;

	if (c < 0x80)
		return c >= 0x20 && c != 0x7f && c != '/' && c != '%';
	n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	if (n > s.len || !utf8_valid(str_head(s, n)))
		return 0;
	return c == 0xc2 && (unsigned char)s.ptr[1] < 0xa0 ? 0 : n;
}

static void append_hash(struct buf *b, struct str text)
{
	struct hash128 h = hash128(text);

	buf_printf(b, "%%~%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

void safe_name_append(struct buf *b, struct str text)
{
	size_t start = b->len, cut = start;
	struct str rest = text;

	if (text.len == 0)
		buf_char(b, '%');
	while (rest.len && b->len - start <= NAME_MOST) {
		size_t n = b->len == start && rest.ptr[0] == '.' ? 0 : plain_len(rest);

		if (n) {
			buf_append(b, rest.ptr, n);
		} else {
			n = 1;
			buf_printf(b, "%%%02X", (unsigned char)rest.ptr[0]);
		}
		rest = str_skip(rest, n);
		if (b->len - start <= NAME_MOST - HASHED_TAIL)
			cut = b->len;
	}
	if (b->len - start > NAME_MOST) {
		b->len = cut;
		append_hash(b, text);
	}
}
