#include "net/proto_text.h"

static bool take_varint(struct str *s, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < 10 && i < s->len; i++) {
		unsigned char c = (unsigned char)s->ptr[i];

		v |= (uint64_t)(c & 0x7f) << 7 * i;
		if (c & 0x80)
			continue;
		*s = str_skip(*s, i + 1);
		*out = v;
		return true;
	}
	return false;
}

static bool take_fixed(struct str *s, unsigned bytes, uint64_t *out)
{
	*out = 0;
	if (s->len < bytes)
		return false;
	for (unsigned i = 0; i < bytes; i++)
		*out |= (uint64_t)(unsigned char)s->ptr[i] << 8 * i;
	*s = str_skip(*s, bytes);
	return true;
}

bool proto_next(struct str *message, struct proto_field *out)
{
	struct str rest = *message;
	struct proto_field f = { 0 };
	uint64_t tag, len;
	bool ok;

	if (!rest.len || !take_varint(&rest, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
		return false;
	f.number = (uint32_t)(tag >> 3);
	switch (tag & 7) {
	case 0:
		ok = take_varint(&rest, &f.value);
		break;
	case 1:
		ok = take_fixed(&rest, 8, &f.value);
		break;
	case 2:
		ok = take_varint(&rest, &len) && len <= rest.len;
		if (ok) {
			f.is_bytes = true;
			f.bytes = str_head(rest, (size_t)len);
			rest = str_skip(rest, (size_t)len);
		}
		break;
	case 5:
		ok = take_fixed(&rest, 4, &f.value);
		break;
	default:
		ok = false;
	}
	if (!ok)
		return false;
	*message = rest;
	*out = f;
	return true;
}

struct str proto_find(struct str message, uint32_t number)
{
	struct proto_field f;

	while (proto_next(&message, &f))
		if (f.number == number && f.is_bytes)
			return f.bytes;
	return STR("");
}

void proto_put_number(struct buf *out, uint32_t field, uint64_t value)
{
	if (!value)
		return;
	buf_varint(out, (uint64_t)field << 3);
	buf_varint(out, value);
}

void proto_put_bytes(struct buf *out, uint32_t field, struct str bytes)
{
	buf_varint(out, (uint64_t)field << 3 | 2);
	buf_varint(out, bytes.len);
	buf_str(out, bytes);
}
