#include "agent/process/walkers.h"

#include "base/log.h"

/* The steps that walk frames of their own: goroutines' labels are read before any walk. */
static uint32_t steps_of(const struct process_table *t, const uint16_t *runtimes)
{
	uint32_t steps = 0;

	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++)
		if (runtimes[i])
			steps |= 1u << t->store->runtimes[runtimes[i]].step;
	return steps & ~(1u << UNWIND_STEP_GO);
}

static bool load(struct process_table *t, uint32_t walker, uint32_t steps)
{
	struct err err;

	/* Regular expressions that PHP compiled have a step of their own. */
	if (steps >> UNWIND_STEP_PHP & 1)
		steps |= 1u << UNWIND_STEP_PCRE;
	if (t->walkers_refused >> walker & 1)
		return false;
	if (t->walkers_asked >> walker & 1 || !t->seam->ops->load_walker)
		return true;
	if (!t->seam->ops->load_walker(t->seam, walker, steps, &err)) {
		t->walkers_refused |= 1u << walker;
		LOG(LOG_WARN, "frames of a language runtime are shown as native code",
		    LOG_S("error", err.msg));
		return false;
	}
	t->walkers_asked |= 1u << walker;
	/* Frames of CPython can be read from a process that nothing is known of yet. */
	if (steps >> UNWIND_STEP_CPYTHON & 1)
		unwind_store_set_unknown_walker(t->store, walker);
	return true;
}

uint8_t walkers_for(struct process_table *t, const uint16_t *runtimes)
{
	uint32_t steps = steps_of(t, runtimes), walker = UNWIND_WALKER_ALL;

	if (!steps)
		return UNWIND_WALKER_NATIVE;
	if (steps & (steps - 1))
		steps = UINT32_MAX;
	else
		walker = (uint32_t)__builtin_ctz(steps);
	return (uint8_t)(load(t, walker, steps) ? walker : UNWIND_WALKER_NATIVE);
}
