/*
 * work_budget.h - how much CPU time naming may still take before it has to stop and go on later.
 *
 * The clock is a system call: ask it once in a few thousand small steps (work_budget_step) or
 * before a large one. Threads: values; the thread that set it.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct work_budget {
	uint64_t until_ns; /* of this thread's CPU clock; 0: no limit */
	uint32_t steps;
	bool spent;
};

static inline uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline struct work_budget work_budget_of(uint64_t budget_ns)
{
	return (struct work_budget){ .until_ns = thread_cpu_ns() + budget_ns };
}

static inline bool work_budget_spent(struct work_budget *b)
{
	if (b->until_ns && !b->spent)
		b->spent = thread_cpu_ns() >= b->until_ns;
	return b->spent;
}

/* One small step of work; looks at the clock every 2,048th. */
static inline bool work_budget_step(struct work_budget *b)
{
	return (++b->steps & 2047) == 0 ? work_budget_spent(b) : b->spent;
}
