/*
 * lines.h - from the offset of an instruction to its line: the three formats that code
 * objects of CPython have had.
 *
 *   CPYTHON_LNOTAB     up to 3.9, co_lnotab: pairs of bytes {offset +, signed line +}
 *                      (Objects/lnotab_notes.txt of 3.6 to 3.9)
 *   CPYTHON_LINETABLE  3.10, co_linetable: pairs {length of a range, signed line +}, -128: no line
 *                      (Objects/lnotab_notes.txt of 3.10)
 *   CPYTHON_LOCATIONS  from 3.11 on: entries of a first byte {1, kind 4 bits, length - 1 3 bits}
 *                      and what its kind has (Objects/locations.md of 3.11)
 *
 * The tables are another process's memory: nothing in them is trusted.
 */
#pragma once
#include <stdint.h>
#include "agent/elf/byte_reader.h"

enum cpython_lines { CPYTHON_LNOTAB, CPYTHON_LINETABLE, CPYTHON_LOCATIONS };

/* The line of the instruction at `offset` bytes; 0: it has none. Before the first instruction: the
 * first line. */
uint32_t cpython_line(enum cpython_lines kind, struct bytes table, uint32_t first_line,
		      int32_t offset);
