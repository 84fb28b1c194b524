/*
 * scopes.h - which methods a place in compiled code belongs to: the innermost inlined one first.
 *
 * An nmethod has PcDescs, sorted by pc, each with the offset of a scope in its scopes data; a scope
 * is {offset of the scope that called it or 0, method, byte code index + 1, ...} in compressed
 * integers, and a method an index (from 1) of its array of metadata. Only calls and other
 * safepoints have PcDescs: elsewhere the next one counts, as in HotSpot itself. Source: HotSpot,
 * code/nmethod.hpp, code/scopeDesc.cpp.
 *
 * Memory: the tables of the nmethods asked for last, at most limit_bytes. Threads: one.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/runtimes/hotspot/layout.h"

enum { SCOPES_MOST = 128 };

struct java_scope {
	uint64_t method; /* Method * */
	uint32_t bci;    /* 0 where the code belongs to the method as a whole */
};

struct scopes;

struct scopes *scopes_new(const struct hotspot_layout *layout, size_t limit_bytes);
void scopes_free(struct scopes *s); /* NULL is fine */
size_t scopes_bytes(const struct scopes *s);
/*
 * `pc_offset` from the begin of the code. Returns how many scopes; 0: that nmethod is gone (another
 * compile id), or cannot be read. Wrappers of native methods have the method alone.
 */
uint32_t scopes_get(struct scopes *s, const struct hotspot_memory *memory, uint64_t nmethod,
		    uint32_t compile_id, uint32_t pc_offset, struct java_scope out[SCOPES_MOST]);
