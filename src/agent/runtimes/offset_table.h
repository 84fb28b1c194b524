/*
 * offset_table.h - where things lie in a runtime's structures: numbers by version, read from a text
 * that has a column for each version, a line for each field, and comments behind '#':
 *
 *   version           8.2    8.4
 *   frame_function     24     24
 *   frame_shim          -     56      "-": this version has no such thing
 *
 * A runtime's row is a struct of int32_t, one for each field in the same order. Memory: values.
 * Threads: any.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

enum {
	OFFSET_VERSIONS_MOST = 24,
	OFFSET_FIELDS_MOST = 64,
	OFFSET_MOST = 1 << 30,
	OFFSET_TABLE_BYTES_MOST = 64 << 10,
};

struct offset_table {
	uint32_t version_count, field_count;
	uint32_t versions[OFFSET_VERSIONS_MOST];                  /* OFFSET_VERSION() */
	int32_t values[OFFSET_VERSIONS_MOST][OFFSET_FIELDS_MOST]; /* -1: "-" */
};
#define OFFSET_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))

/* False: a line that makes no sense, or a field that is missing; err names it. */
bool offset_table_parse(struct offset_table *t, const char *const *fields, uint32_t field_count,
			struct str text, struct err *err) MUST_CHECK;
/* The row of a version; NULL: the table does not have it. */
const int32_t *offset_table_find(const struct offset_table *t, uint32_t version);
/* "8.2" at the begin of a text, whatever follows. */
bool offset_version_parse(struct str text, uint32_t *version);
