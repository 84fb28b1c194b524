#include "base/hex.h"

#include "base/buf.h"

bool hex_decode(struct str text, uint8_t *out, size_t len)
{
	if (text.len / 2 != len || text.len % 2)
		return false;
	for (size_t i = 0; i < len; i++) {
		int high = hex_value(text.ptr[2 * i]), low = hex_value(text.ptr[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

void percent_decode(struct buf *out, struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		int byte = percent_escape_at(text, i);

		buf_char(out, byte < 0 ? text.ptr[i] : (char)byte);
		i += byte < 0 ? 0 : 2;
	}
}

void percent_append(struct buf *out, unsigned char byte)
{
	static const char digits[] = "0123456789ABCDEF";
	const char escape[3] = { '%', digits[byte >> 4], digits[byte & 15] };

	buf_append(out, escape, sizeof(escape));
}
