#include "agent/runtimes/attach.h"

#include "agent/process/executable.h"
#include "agent/process/modules.h"
#include "agent/runtimes/runtime.h"
#include "base/clock.h"

enum { TRIES_MOST = 40 };
#define RETRY_FIRST_NS (20 * MILLI_NS)
#define RETRY_MOST_NS  (5 * SECOND_NS)

static bool read_target(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	struct seam *seam = ctx;
	struct err err;
	size_t got;

	return seam->ops->read_memory &&
	       seam->ops->read_memory(seam, pid, address, to, bytes, &got, &err) && got == bytes;
}

static const struct runtime_ops *ops_of(uint32_t step)
{
	for (int i = 0; runtimes_all[i]; i++)
		if (runtimes_all[i]->step == step)
			return runtimes_all[i];
	return NULL;
}

static bool has(const struct process_table *t, const struct process *p, uint32_t step)
{
	for (int i = 0; i < UNWIND_PROCESS_RUNTIMES; i++)
		if (p->runtimes[i] && t->store->runtimes[p->runtimes[i]].step == step)
			return true;
	return false;
}

static enum runtime_attached attach(struct process_table *t, struct process *p,
				    const struct mapping *m)
{
	const struct executable *e = m->module->same->facts;
	const struct runtime_ops *ops = ops_of(e->runtime_step);
	const struct runtime_memory memory = { read_target, t->seam };
	struct runtime_attachment found = { .data.step = e->runtime_step };
	struct runtime_target target = { .pid = p->pid, .set = p->set, .memory = &memory };
	enum runtime_attached result;

	if (!ops || !module_bias(m, &target.load_bias))
		return RUNTIME_REFUSED;
	result = ops->attach(&target, e, &found);
	if (result == RUNTIME_ATTACHED && !process_add_runtime(t, p, &found))
		return RUNTIME_REFUSED;
	return result;
}

/* When to ask again. */
static void put_off(struct process *p, uint64_t now_ns)
{
	uint64_t pause = RETRY_FIRST_NS << (p->runtime_tries < 16 ? p->runtime_tries : 16);

	p->runtime_tries++;
	p->runtime_retry_ns = now_ns + (pause < RETRY_MOST_NS ? pause : RETRY_MOST_NS);
}

void runtimes_attach(struct process_table *t, struct process *p, uint64_t now_ns,
		     struct attach_stats *stats)
{
	bool news = p->runtimes_set != p->set || p->runtimes_opened != t->modules->opened;

	if (p->kernel_thread || !t->modules->steps)
		return;
	if (!news && p->runtimes_set && (!p->runtime_retry_ns || now_ns < p->runtime_retry_ns))
		return;
	p->runtimes_set = p->set;
	p->runtimes_opened = t->modules->opened;
	p->runtime_retry_ns = 0;
	for (uint32_t i = 0; i < p->set->count; i++) {
		const struct mapping *m = &p->set->list[i];

		if (!m->module || m->module->state != MODULE_READY ||
		    !m->module->same->facts->runtime_step ||
		    has(t, p, m->module->same->facts->runtime_step) ||
		    p->runtime_tries >= TRIES_MOST)
			continue;
		switch (attach(t, p, m)) {
		case RUNTIME_ATTACHED:
			stats->attached++;
			break;
		case RUNTIME_LATER:
			stats->later++;
			put_off(p, now_ns);
			break;
		case RUNTIME_REFUSED:
			stats->refused++;
			p->runtime_tries = TRIES_MOST;
			break;
		}
		/* Its code may have become mappings of its own, and p->set another set; a second
		 * runtime has its turn with the next sample. */
		p->runtimes_set = NULL;
		return;
	}
}
