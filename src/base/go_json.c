#include "base/go_json.h"

#include "base/text.h"

static size_t character_len(struct str s)
{
	unsigned char c = (unsigned char)s.ptr[0];
	size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

	return n <= s.len && utf8_valid(str_head(s, n)) ? n : 0;
}

static void append_ascii(struct buf *b, char c, bool html)
{
	static const char names[128] = {
		['"'] = '"',  ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r',
		['\t'] = 't', ['\b'] = 'b',  ['\f'] = 'f',
	};

	if (names[(unsigned char)c]) {
		buf_char(b, '\\');
		buf_char(b, names[(unsigned char)c]);
	} else if ((unsigned char)c < 0x20 || (html && (c == '<' || c == '>' || c == '&'))) {
		buf_lit(b, "\\u00");
		buf_hex(b, &c, 1);
	} else {
		buf_char(b, c);
	}
}

static void append_string(struct buf *b, struct str s, bool html)
{
	buf_char(b, '"');
	while (s.len) {
		size_t n = character_len(s);

		if (n == 0)
			buf_lit(b, "\\ufffd");
		else if (n == 1)
			append_ascii(b, s.ptr[0], html);
		else if (n == 3 && memcmp(s.ptr, "\xe2\x80\xa8", 3) == 0)
			buf_lit(b, "\\u2028");
		else if (n == 3 && memcmp(s.ptr, "\xe2\x80\xa9", 3) == 0)
			buf_lit(b, "\\u2029");
		else
			buf_append(b, s.ptr, n);
		s = str_skip(s, n ? n : 1);
	}
	buf_char(b, '"');
}

void go_json_string(struct buf *b, struct str s)
{
	append_string(b, s, true);
}

void go_json_string_plain(struct buf *b, struct str s)
{
	append_string(b, s, false);
}
