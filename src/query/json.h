/*
 * json.h - answers of the engine as JSON: for `--json` and for the HTTP API (docs/api.md).
 *
 * Frames are columns of one table that nodes and rows name by index; trees are columns of numbers
 * in pre-order with depths. 64-bit numbers that may pass 2^53 (times, keys) are strings. Threads:
 * no state.
 */
#pragma once
#include "base/buf.h"
#include "query/query.h"

/* "facts": type, unit, range, asof, covered, partial. Without braces: a member list. */
void query_json_facts(struct buf *b, const struct query *q);
void query_json_frames(struct buf *b, struct query_frames frames, enum query_by by);
void query_json_tree(struct buf *b, const struct query_tree *t, enum query_by by, unsigned sides);
void query_json_top(struct buf *b, const struct query_top *t, enum query_by by, unsigned sides,
		    uint32_t rows_most);
