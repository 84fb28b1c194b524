/*
 * table.h - aligned columns for a terminal: what top and diff print.
 *
 * Cells are gathered, then printed with each column as wide as its widest cell; the last column
 * takes what is left of the terminal and is cut with an ellipsis there. Colours only on a terminal.
 * Widths count characters (UTF-8), control characters are escaped. Memory: own heap.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"

enum { TABLE_COLUMNS_MOST = 8 };

enum table_tone { TONE_PLAIN, TONE_DIM, TONE_BOLD, TONE_RED, TONE_GREEN, TONE_YELLOW, TONE_CYAN };

struct table {
	unsigned columns;
	bool left[TABLE_COLUMNS_MOST]; /* else numbers: to the right */
	bool colour;
	unsigned width; /* of the terminal; 0: nothing is cut */
	struct buf text;
	struct table_cell *cells;
	uint32_t cell_count, cell_cap;
};

/* left: "rrl": one letter a column. Colour and width as standard output has them. */
void table_init(struct table *t, const char *alignment);
void table_cell(struct table *t, enum table_tone tone, struct str text);
void table_print(struct table *t, struct buf *out);
void table_release(struct table *t);

/* Standard output is a terminal that wants colours (NO_COLOR, TERM=dumb). */
bool table_colours_wanted(void);
/* Starts and ends a tone; nothing without colour. */
void tone_begin(struct buf *b, bool colour, enum table_tone tone);
void tone_end(struct buf *b, bool colour, enum table_tone tone);
