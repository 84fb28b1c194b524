/*
 * process_code.h - the code that one process made for itself: its perf map and jitdump, found in
 * its own root under its own pid.
 *
 * Threads: the symbolizer's.
 */
#pragma once
#include "agent/symbolize/code_map.h"
#include "agent/symbolize/symbolizer.h"

struct process_code;

struct process_code *process_code_new(uint32_t pid, uint64_t start_unix_nano, size_t limit_bytes);
void process_code_free(struct process_code *p);
bool process_code_is(const struct process_code *p, uint32_t pid, uint64_t start_unix_nano);
size_t process_code_bytes(const struct process_code *p);
/* Looks for the files, and reads what they have gained; once a report is enough. False: the budget
 * is spent. */
bool process_code_update(struct process_code *p, const struct symbol_access *access,
			 struct work_budget *budget);
bool process_code_find(const struct process_code *p, uint64_t pc, struct buf *text,
		       struct code_hit *out);
