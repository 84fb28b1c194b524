#include "table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/terminal.h"
#include "base/text.h"
#include "base/vec.h"

struct table_cell {
	size_t first, len;
	uint32_t width;
	enum table_tone tone;
};

bool table_colours_wanted(void)
{
	return terminal_wants_colour(STDOUT_FILENO);
}

static unsigned terminal_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
		return 0;
	return size.ws_col;
}

void table_init(struct table *t, const char *alignment)
{
	*t = (struct table){ .columns = (unsigned)strlen(alignment),
			     .colour = table_colours_wanted(),
			     .width = terminal_width() };
	assert(t->columns && t->columns <= TABLE_COLUMNS_MOST);
	for (unsigned i = 0; i < t->columns; i++)
		t->left[i] = alignment[i] == 'l';
	buf_init(&t->text, 0);
}

void table_release(struct table *t)
{
	buf_release(&t->text);
	free(t->cells);
	*t = (struct table){ 0 };
}

static uint32_t width_of(struct str s)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s.len; i++)
		n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
	return n;
}

void table_cell(struct table *t, enum table_tone tone, struct str text)
{
	struct table_cell c = { .first = t->text.len, .tone = tone };

	text_append_printable(&t->text, text);
	c.len = t->text.len - c.first;
	c.width = width_of(str_from(t->text.ptr + c.first, c.len));
	VEC_ROOM(t->cells, t->cell_count, t->cell_cap);
	t->cells[t->cell_count++] = c;
}

void tone_begin(struct buf *b, bool colour, enum table_tone tone)
{
	static const char *const codes[] = {
		[TONE_DIM] = "\x1b[2m",    [TONE_BOLD] = "\x1b[1m",    [TONE_RED] = "\x1b[31m",
		[TONE_GREEN] = "\x1b[32m", [TONE_YELLOW] = "\x1b[33m", [TONE_CYAN] = "\x1b[36m",
	};

	if (colour && tone != TONE_PLAIN)
		buf_str(b, str_cstr(codes[tone]));
}

void tone_end(struct buf *b, bool colour, enum table_tone tone)
{
	if (colour && tone != TONE_PLAIN)
		buf_lit(b, "\x1b[0m");
}

static void pad(struct buf *b, uint32_t n)
{
	while (n--)
		buf_char(b, ' ');
}

/* The first `width` characters, the last of them an ellipsis. */
static struct str cut(struct str s, uint32_t width)
{
	size_t end = 0;

	for (uint32_t n = 0; end < s.len && n < width; n++)
		for (end++; end < s.len && ((unsigned char)s.ptr[end] & 0xc0) == 0x80;)
			end++;
	return str_head(s, end);
}

static void print_cell(struct table *t, struct buf *out, const struct table_cell *c, uint32_t width,
		       bool left, bool last)
{
	struct str text = str_from(t->text.ptr + c->first, c->len);
	bool too_wide = last && width && c->width > width;

	if (!left)
		pad(out, width - c->width);
	tone_begin(out, t->colour, c->tone);
	buf_str(out, too_wide ? cut(text, width - 1) : text);
	if (too_wide)
		buf_lit(out, "\xe2\x80\xa6");
	tone_end(out, t->colour, c->tone);
	if (left && !last)
		pad(out, width - c->width);
}

void table_print(struct table *t, struct buf *out)
{
	uint32_t widths[TABLE_COLUMNS_MOST] = { 0 }, used = 0;
	unsigned last = t->columns - 1;

	for (uint32_t i = 0; i < t->cell_count; i++)
		if (t->cells[i].width > widths[i % t->columns])
			widths[i % t->columns] = t->cells[i].width;
	for (unsigned c = 0; c < last; c++)
		used += widths[c] + 2;
	if (t->left[last])
		widths[last] = t->width > used + 10 ? t->width - used : 0; /* 0: as it is */
	for (uint32_t i = 0; i < t->cell_count; i++) {
		unsigned c = i % t->columns;

		print_cell(t, out, &t->cells[i], widths[c], t->left[c], c == last);
		buf_str(out, c == last ? STR("\n") : STR("  "));
	}
}
