#include "base/base64.h"
#include <stdint.h>
#include "base/buf.h"

static int digit_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

bool base64_decode(struct str text, struct buf *out)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (int padding = 0; padding < 2 && text.len && text.ptr[text.len - 1] == '='; padding++)
		text.len--;
	if (text.len % 4 == 1)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		int digit = digit_value(text.ptr[i]);

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		have += 6;
		if (have >= 8) {
			have -= 8;
			buf_char(out, (char)(bits >> have & 0xff));
		}
	}
	return true;
}
