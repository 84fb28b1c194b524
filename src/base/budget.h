/*
 * budget.h - one total of bytes that many parts draw from (-max-inflight-mib).
 *
 * budget_take() is all or nothing and never waits; when it says no, the caller stops reading or
 * refuses with a retry hint. Threads: any.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct budget {
	atomic_size_t used_bytes;
	atomic_size_t peak_bytes;
	size_t limit_bytes; /* 0 = no limit, still counted */
};

void budget_init(struct budget *b, size_t limit_bytes);
bool budget_take(struct budget *b, size_t bytes) __attribute__((warn_unused_result));
void budget_give(struct budget *b, size_t bytes);
size_t budget_used(struct budget *b);
