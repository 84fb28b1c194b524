/*
 * rules.h - the machine's one array of unwind rules, each held once (bpf/unwind_rows.h).
 *
 * Rule 0 is UNWIND_NONE. Rules are only ever added: an index, once given, means the same as long as
 * the array lives. Plain rules are few (700 for a dozen large binaries), runs many (9,000).
 *
 * Memory: the array of rules is the caller's (the memory of a BPF map, or a heap array); the
 * look-up table beside it (4 to 8 bytes a rule) is ours. Threads: one at a time; readers of the
 * array (BPF) may run meanwhile, as a rule is written before any row names it.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/err.h"
#include "bpf/unwind_rows.h"

enum { UNWIND_RULES_MOST = 65536 };

struct unwind_rules {
	struct unwind_rule *array;
	uint32_t count, cap;
	uint16_t *slots; /* open addressing; 0: free, as rule 0 is never looked up */
	uint32_t slot_mask;
};

/* cap is at least 1 and at most UNWIND_RULES_MOST. */
void unwind_rules_init(struct unwind_rules *r, struct unwind_rule *array, uint32_t cap);
void unwind_rules_release(struct unwind_rules *r);
/* The index of an equal rule, added if it is new. False when the array is full: for runs when seven
 * eighths of it are, as the rows that a run stands for can be written one by one. */
bool unwind_rules_intern(struct unwind_rules *r, const struct unwind_rule *rule,
			 uint16_t *index) MUST_CHECK;
static inline bool unwind_rule_equal(const struct unwind_rule *a, const struct unwind_rule *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}
