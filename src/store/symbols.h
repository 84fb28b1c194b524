/*
 * symbols.h - names found later: the table `symbol` of an SQLite store, rows of the dictionary of
 * one in ClickHouse.
 *
 * A native location is (build id, address) and what was sent with it; names that are found when it
 * lies in the store already go into an overlay that readers apply where none were sent. Stacks keep
 * their hashes, and export gives back what came.
 *
 * Works beside a writer: each put is a short transaction, which waits for its turn. Memory: own
 * heap. Threads: one.
 */
#pragma once
#include "store/source.h"

enum { SYMBOL_ADDRESSES_MOST = 8 << 20 };

struct store_symbols;

/* A store that is there, a file or a URL; anything else is refused, and left as it is. */
bool store_symbols_open(const char *path, struct store_symbols **out, struct err *err) MUST_CHECK;
void store_symbols_close(struct store_symbols *s); /* NULL is fine */

/* A location without lines, in a mapping with a build id (gnu, else go, else htlhash). */
struct store_nameless {
	struct str build_id, file, frame_type; /* file: of the mapping, often its base name only */
	uint64_t address, memory_start, memory_limit, file_offset;
};
/* By build id and address; the list holds until the store is closed. `again`: those that were named
 * later, too. ERR_LIMIT: more than SYMBOL_ADDRESSES_MOST. */
bool store_symbols_list(struct store_symbols *s, bool again, const struct store_nameless **out,
			size_t *count, struct err *err) MUST_CHECK;

struct store_symbol {
	struct str build_id;
	uint64_t address;
	const struct source_line *lines; /* innermost inlined function first */
	uint32_t line_count;
};
/* All or none. What is there for an address is replaced. */
bool store_symbols_put(struct store_symbols *s, const struct store_symbol *symbols, size_t count,
		       struct err *err) MUST_CHECK;
