/*
 * code_map.h - names of code that a runtime made, from the file in which it tells of it.
 *
 *   perf map   lines "START SIZE name", hexadecimal; /tmp/perf-PID.map
 *   jitdump    u32 "JiTD", version, header bytes, machine, padding, pid, u64 time, flags; records
 *              { u32 kind, bytes, u64 time, ... }: 0 load { u32 pid, tid, u64 vma, address, size,
 *              index, name, NUL, code }, 1 move { u32 pid, tid, u64 vma, from, to, size, index },
 *              2 lines { u64 address, count, { u64 address, u32 line, discriminator, file, NUL } },
 *              3 close. tools/perf/Documentation/jitdump-specification.txt
 *
 * The file grows while the process runs: each code_map_update() reads what came since. Where
 * entries overlap the newest wins. 24 bytes an entry; names and lines stay in the file, which is
 * kept open.
 *
 * Memory: own heap within the limit. Threads: one.
 */
#pragma once
#include "agent/symbolize/work_budget.h"
#include "base/buf.h"
#include "base/err.h"

enum code_map_kind { CODE_MAP_PERF, CODE_MAP_JITDUMP };

struct code_map;

struct code_hit {
	struct str name; /* in the caller's buffer */
	struct str file; /* jitdump with lines; else "" */
	uint32_t line;
	uint64_t start;
};

/* Takes the fd over. Nothing is read yet. */
struct code_map *code_map_new(int fd, enum code_map_kind kind, size_t limit_bytes);
void code_map_free(struct code_map *m);
/* Reads on, as far as the budget goes; true: up to the end as it is now. */
bool code_map_update(struct code_map *m, struct work_budget *budget);
/* Names go into `text`, which is not reset. */
bool code_map_find(const struct code_map *m, uint64_t pc, struct buf *text, struct code_hit *out);
uint32_t code_map_count(const struct code_map *m);
size_t code_map_bytes(const struct code_map *m);
/* Lines or records that made no sense, and entries past the limit. */
uint64_t code_map_refused(const struct code_map *m);
