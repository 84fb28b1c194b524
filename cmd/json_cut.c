#include "json_cut.h"

#include <string.h>

enum { DEPTH_MOST = 512 };

struct scan {
	char open[DEPTH_MOST]; /* brackets that are due */
	size_t depth;
	/* The last place where an element of a list was whole, and what was open there. */
	size_t whole;
	char whole_open[DEPTH_MOST];
	size_t whole_depth;
};

static void note_whole(struct scan *s, size_t end)
{
	if (!s->depth || s->open[s->depth - 1] != ']')
		return;
	s->whole = end;
	s->whole_depth = s->depth;
	memcpy(s->whole_open, s->open, s->depth);
}

/* The index behind the string that begins at i, or 0 when it has no end. */
static size_t string_end(struct str text, size_t i)
{
	for (i++; i < text.len; i++) {
		if (text.ptr[i] == '\\')
			i++;
		else if (text.ptr[i] == '"')
			return i + 1;
	}
	return 0;
}

static bool push(struct scan *s, char due)
{
	if (s->depth == DEPTH_MOST)
		return false;
	s->open[s->depth++] = due;
	return true;
}

/* False where the text closes or breaks off. */
static bool scan_one(struct scan *s, struct str text, size_t *i)
{
	char c = text.ptr[*i];

	if (c == '"') {
		size_t end = string_end(text, *i);

		if (!end)
			return false;
		note_whole(s, end);
		*i = end;
		return true;
	}
	++*i;
	if (c == '{' || c == '[')
		return push(s, c == '{' ? '}' : ']');
	if (c != '}' && c != ']')
		return true;
	if (!s->depth || s->open[s->depth - 1] != c)
		return false;
	s->depth--;
	if (c == '}')
		note_whole(s, *i);
	return s->depth > 0;
}

bool json_close_cut(struct str text, struct buf *out)
{
	struct scan s = { 0 };
	size_t i = 0;

	while (i < text.len && scan_one(&s, text, &i))
		;
	if (!s.depth || !s.whole)
		return false;
	buf_str(out, str_head(text, s.whole));
	while (s.whole_depth)
		buf_char(out, s.whole_open[--s.whole_depth]);
	return true;
}
