#include "agent/runtimes/attach.h"

#include "agent/process/executable.h"
#include "agent/process/modules.h"
#include "base/clock.h"

enum { TRIES_MOST = 64, REFUSED = UINT8_MAX, PAGES_BUILT_MOST = 512 };
#define RETRY_FIRST_NS (20 * MILLI_NS)
#define RETRY_MOST_NS  (30 * SECOND_NS)

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
	for (int i = p->runtimes_guessed; i < UNWIND_PROCESS_RUNTIMES; i++)
		if (p->runtimes[i] && t->store->runtimes[p->runtimes[i]].step == step)
			return true;
	return false;
}

static enum runtime_attached attach(struct process_table *t, struct process *p,
				    const struct mapping *m)
{
	struct module *module = m->module->same;
	const struct executable *e = module->facts;
	const struct runtime_ops *ops = ops_of(e->runtime_step);
	const struct runtime_memory memory = { read_target, t->seam };
	struct runtime_attachment found = { .data.step = e->runtime_step };
	struct runtime_target target = { .pid = p->pid, .set = p->set, .memory = &memory };
	enum runtime_attached result;

	if (!ops || !module_bias(m, &target.load_bias))
		return RUNTIME_REFUSED;
	result = ops->attach(&target, e, &found);
	if (result == RUNTIME_ATTACHED) {
		if (!process_add_runtime(t, p, &found))
			return RUNTIME_REFUSED;
		module->usual = found.data;
	} else if (result == RUNTIME_LATER && module->usual.step) {
		process_guess_runtime(t, p, &module->usual);
	}
	return result;
}

/* When to ask again. */
static void put_off(struct process *p, uint64_t now_ns)
{
	uint64_t pause = RETRY_FIRST_NS << (p->runtime_tries < 16 ? p->runtime_tries : 16);

	if (p->runtime_tries < TRIES_MOST) /* an interpreter may be there long before its use */
		p->runtime_tries++;
	p->runtime_retry_ns = now_ns + (pause < RETRY_MOST_NS ? pause : RETRY_MOST_NS);
}

/* All stacks of the process will go through this file: better all its rows now than some of them
 * with each of the first samples. */
static void build_all(struct module *m)
{
	const struct unwind_executable *e = &m->owner->store->executables[m->id];

	for (uint32_t i = 0; i < e->page_count && i < PAGES_BUILT_MOST; i++)
		module_build(m, (e->first_page + i) << UNWIND_PAGE_SHIFT);
}

/* A file that is called as a runtime's is opened before a walk comes through it. */
static bool is_candidate(const struct module *m)
{
	const char *slash = strrchr(m->path, '/');
	struct str name = str_cstr(slash ? slash + 1 : m->path);

	return m->state == MODULE_NEW &&
	       (str_has_prefix(name, STR("python3")) || str_has_prefix(name, STR("libpython3")) ||
		str_is(name, "libjvm.so"));
}

static void attach_one(struct process_table *t, struct process *p, const struct mapping *m,
		       uint64_t now_ns)
{
	struct module *module = m->module->same;

	switch (attach(t, p, m)) {
	case RUNTIME_ATTACHED:
		t->attach.attached++;
		if (!ops_of(module->facts->runtime_step)->no_loop)
			build_all(module);
		break;
	case RUNTIME_LATER:
		t->attach.later++;
		put_off(p, now_ns);
		break;
	case RUNTIME_REFUSED:
		t->attach.refused++;
		p->runtime_tries = REFUSED;
		break;
	}
}

void runtimes_attach(struct process_table *t, struct process *p, uint64_t now_ns)
{
	if (p->kernel_thread || !t->modules->steps || p->runtime_tries == REFUSED)
		return;
	if (p->runtime_retry_ns
		    ? now_ns < p->runtime_retry_ns
		    : p->runtimes_set == p->set && p->runtimes_opened == t->modules->opened)
		return;
	p->runtime_retry_ns = 0;
	for (uint32_t i = 0; i < p->set->count; i++) {
		const struct mapping *m = &p->set->list[i];

		if (!m->module)
			continue;
		if (is_candidate(m->module))
			module_load(m->module, p->pid, m);
		if (m->module->state != MODULE_READY || !m->module->same->facts->runtime_step ||
		    has(t, p, m->module->same->facts->runtime_step))
			continue;
		attach_one(t, p, m, now_ns);
		p->runtimes_set = NULL; /* there may be more, in what may be another set by now */
		return;
	}
	p->runtimes_set = p->set;
	p->runtimes_opened = t->modules->opened;
}
