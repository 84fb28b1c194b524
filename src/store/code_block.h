/*
 * code_block.h - a row of the table `code_block`: what the locations of a range of ids mean, in one
 * piece, so that a question need not ask SQLite for each location, function and text by itself.
 *
 * Nothing stands in it that the rows of location, function and string do not say: it can be deleted
 * and made again. A block covers every location with first <= id <= last, n of them. Blocks do not
 * overlap. One is dropped in the transaction that deletes one of its locations.
 *
 *   bytes     texts, functions, locations; numbers are varints (codec.h)
 *   texts     count; of each its str
 *   functions count; of each name, system name, file (places of texts), zigzag start line
 *   locations of each in the order of ids: id - the one before (first - 1), row of mapping,
 * address, row of attrset, frame type (a text), lines; of each line function (a place), zigzag
 *             line, zigzag column
 *
 * Places count from 1 in the order of first use, 0 is none: the same rows always give the same
 * bytes. checksum is hash64() over first, last, n and hash64(bytes), 8 bytes each.
 * Memory: a few hundred kB at most (CODE_BLOCK_MOST locations). Threads: none of its own.
 */
#pragma once
#include "base/buf.h"
#include "store/codec.h"
#include "store/db.h"
#include "store/source.h"

enum { CODE_BLOCK_MOST = 16384 };

struct code_block_row {
	uint64_t first, last;
	uint32_t n;
	struct buf bytes;
};

/* From the rows of the locations first to last, at most CODE_BLOCK_MOST of them: out->last says how
 * far. out->bytes is the caller's, appended to when it is empty. ERR_INVALID: a row that one of
 * them names is not there. */
bool code_block_build(sqlite3 *db, uint64_t first, uint64_t last, struct code_block_row *out,
		      struct err *err) MUST_CHECK;
uint64_t code_block_checksum(uint64_t first, uint64_t last, uint64_t n, struct str bytes);

/* A block that is read; its texts lie in `bytes`, which must last as long. */
struct code_block {
	struct str *texts; /* by place; [0] is empty */
	struct source_line *functions;
	uint64_t text_count, function_count;
	struct source_line *lines; /* of the newest location */
	uint32_t line_cap;
	struct codec rest;
	uint64_t id;
};
struct code_location {
	uint64_t mapping, attributes; /* rows */
	struct source_location said;  /* without what its mapping says */
};

/* False: damaged. code_block_close() in any case. */
bool code_block_open(struct code_block *b, uint64_t first, struct str bytes) MUST_CHECK;
void code_block_close(struct code_block *b);
/* The next location; its lines hold until the one after. False at the end; *ok false: damaged. */
bool code_block_next(struct code_block *b, struct code_location *out, bool *ok);
