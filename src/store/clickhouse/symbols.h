/*
 * clickhouse/symbols.h - names found later in a store in ClickHouse, behind store/symbols.h: rows
 * of the dictionary, kind CH_KIND_SYMBOL. hash_hi is when they were put: the newest one counts.
 *
 *   numbers   address, then for each line, innermost first: line, column, start line
 *   texts     build id, then for each line: function, system name, file
 *
 * They go as other rows of the dictionary do, the ttl after they were put. Threads: one.
 */
#pragma once
#include "store/symbols.h"

struct ch_symbols;

bool ch_symbols_open(const char *url, struct ch_symbols **out, struct err *err) MUST_CHECK;
void ch_symbols_close(struct ch_symbols *s); /* NULL is fine */
bool ch_symbols_list(struct ch_symbols *s, bool again, const struct store_nameless **out,
		     size_t *count, struct err *err) MUST_CHECK;
bool ch_symbols_put(struct ch_symbols *s, const struct store_symbol *symbols, size_t count,
		    struct err *err) MUST_CHECK;

/* The id of the row for an address of a file. */
uint64_t ch_symbol_id(struct str build_id, uint64_t address);
