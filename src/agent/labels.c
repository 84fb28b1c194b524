#include "agent/labels.h"

#include <string.h>

enum { THERE_MOST = 1 << 16, HEAD = 4 };

struct label {
	struct str key, value;
};

/* A key or value that was cut may end inside of a character: that much less of it. */
static struct str whole_characters(struct str s)
{
	size_t tail = 0;
	uint8_t first;

	while (tail < s.len && tail < 3 && ((uint8_t)s.ptr[s.len - 1 - tail] & 0xc0) == 0x80)
		tail++;
	if (tail == s.len)
		return s;
	first = (uint8_t)s.ptr[s.len - 1 - tail];
	if ((first >= 0xc0 && tail < 1) || (first >= 0xe0 && tail < 2) ||
	    (first >= 0xf0 && tail < 3))
		return str_head(s, s.len - 1 - tail);
	return s;
}

/* By key, then by value: a map's order is another one in each process. */
static void insert(struct label *all, uint32_t count, struct label one)
{
	while (count && (str_compare(all[count - 1].key, one.key) > 0 ||
			 (str_equal(all[count - 1].key, one.key) &&
			  str_compare(all[count - 1].value, one.value) > 0))) {
		all[count] = all[count - 1];
		count--;
	}
	all[count] = one;
}

static bool parse(struct labels *l, const struct labels_record *r, struct str rest,
		  struct label *out)
{
	for (uint32_t i = 0; i < r->taken; i++) {
		struct label_head head;
		struct label one;
		size_t bytes;

		if (rest.len < sizeof(head))
			return false;
		memcpy(&head, rest.ptr, sizeof(head));
		bytes = sizeof(head) + head.key_bytes + head.value_bytes;
		if (bytes > rest.len)
			return false;
		one.key = str_from(rest.ptr + sizeof(head), head.key_bytes);
		one.value = str_from(one.key.ptr + head.key_bytes, head.value_bytes);
		if (head.cut) {
			one.key = whole_characters(one.key);
			one.value = whole_characters(one.value);
			l->lost[LABEL_LOST_CUT]++;
		}
		insert(out, i, one);
		bytes = (bytes + 7) & ~(size_t)7;
		rest = str_skip(rest, bytes < rest.len ? bytes : rest.len);
	}
	return true;
}

static size_t put(uint8_t *to, struct str key, struct str value)
{
	const uint16_t bytes[2] = { (uint16_t)key.len, (uint16_t)value.len };

	memcpy(to, bytes, HEAD);
	if (key.len)
		memcpy(to + HEAD, key.ptr, key.len);
	if (value.len)
		memcpy(to + HEAD + key.len, value.ptr, value.len);
	return HEAD + key.len + value.len;
}

bool labels_take(struct labels *l, struct str record, struct str *text)
{
	struct label all[LABELS_MOST];
	struct labels_record r;
	size_t at = 0;

	if (record.len < sizeof(r))
		return false;
	memcpy(&r, record.ptr, sizeof(r));
	if (r.bytes > record.len - sizeof(r) || r.bytes > LABELS_ROOM || r.taken > LABELS_MOST)
		return false;
	if (!parse(l, &r, str_from(record.ptr + sizeof(r), r.bytes), all))
		return false;
	if (r.there > THERE_MOST) /* that was no set of labels */
		l->lost[LABEL_LOST_UNREADABLE]++;
	else if (r.there > (uint32_t)r.taken + r.unreadable)
		l->lost[LABEL_LOST_MANY] += r.there - r.taken - r.unreadable;
	l->lost[LABEL_LOST_UNREADABLE] += r.unreadable;
	for (uint32_t i = 0; i < r.taken; i++)
		at += put(l->text + at, all[i].key, all[i].value);
	*text = str_from(l->text, at);
	return true;
}

bool labels_next(struct str *text, struct str *key, struct str *value)
{
	uint16_t bytes[2];

	if (text->len < HEAD)
		return false;
	memcpy(bytes, text->ptr, HEAD);
	*key = str_head(str_skip(*text, HEAD), bytes[0]);
	*value = str_head(str_skip(*text, HEAD + (size_t)bytes[0]), bytes[1]);
	*text = str_skip(*text, HEAD + (size_t)bytes[0] + bytes[1]);
	return true;
}
