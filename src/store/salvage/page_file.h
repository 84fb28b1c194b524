/*
 * page_file.h - the pages of an SQLite file that cannot be opened any more, read without SQLite:
 * rows of tables from their leaf pages, whatever became of the pages above these.
 *
 * https://www.sqlite.org/fileformat2.html: sections 1.3 (header), 1.5 (freelist), 1.6 (b-tree
 * pages), 1.7 (overflow pages), 1.8 (pointer map, which our files have), 2.1 (records). Nothing of
 * a page is believed: one that does not hold together is none.
 *
 * Memory: the file is mapped; what is given points into it, or into the caller's arena where a row
 * goes on in overflow pages. Threads: none of its own.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { PAGE_BYTES_KNOWN = 8192, PAGE_COLUMNS_MOST = 32 };

struct page_file {
	const uint8_t *bytes;
	size_t size;
	bool mapped;
	uint32_t page_bytes, page_count;
	uint32_t *owner; /* of each page of a tree: its tree's first page; 0: none, or it is not
			    known */
	uint8_t *kind;   /* of each page: enum page_kind */
};

enum page_kind {
	PAGE_OTHER, /* overflow, free, pointer map */
	PAGE_TABLE_LEAF,
	PAGE_INDEX, /* either kind of an index's pages: both hold entries */
	PAGE_TABLE_INNER,
	PAGE_UNREADABLE, /* a tree's page by what others say, and none by what it holds */
};

/* ERR_NOT_FOUND, ERR_PERMISSION, ERR_IO. A file without a readable first page is taken for one of
 * pages of PAGE_BYTES_KNOWN. */
bool page_file_open(const char *path, struct page_file *out, struct err *err) MUST_CHECK;
/* Of a file's bytes, which are the caller's and stay until the close. */
void page_file_of(struct str bytes, struct page_file *out);
void page_file_close(struct page_file *f);

enum page_value_type { PAGE_NULL, PAGE_INTEGER, PAGE_REAL, PAGE_BLOB, PAGE_TEXT };
struct page_value {
	enum page_value_type type;
	int64_t integer;
	double real;
	struct str bytes;
};
struct page_row {
	int64_t rowid; /* of a table */
	uint32_t count;
	struct page_value values[PAGE_COLUMNS_MOST];
};

uint32_t page_cells(const struct page_file *f, uint32_t page);
/* The row of a cell of a leaf, or of an index's page. False: it cannot be read. */
bool page_row(const struct page_file *f, uint32_t page, uint32_t cell, struct arena *arena,
	      struct page_row *out) MUST_CHECK;
