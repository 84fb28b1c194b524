#include "agent/runtimes/attach.h"

#include "agent/process/executable.h"
#include "agent/process/modules.h"
#include "base/clock.h"

enum {
	TRIES_MOST = 64,
	TRIES_BY_CLOCK = 6, /* these do not wait for a sample: 4 to 128 ms after the first */
	REFUSED = UINT8_MAX,
	PAGES_BUILT_MOST = 512
};
#define RETRY_FIRST_NS (4 * MILLI_NS)
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

bool runtimes_alike(const struct unwind_runtime *a, const struct unwind_runtime *b)
{
	struct unwind_runtime x = *a, y = *b;

	if (x.step != y.step)
		return false;
	if (x.step == UNWIND_STEP_CPYTHON)
		x.cpython.guessed = y.cpython.guessed = 0;
	return memcmp(x.words, y.words, sizeof(x.words)) == 0;
}

/* Until it can be told: what other processes of its file need, or what most of its kind do. */
static void guess(struct process_table *t, struct process *p, struct module *m,
		  const struct runtime_ops *ops)
{
	struct unwind_runtime likely = m->usual;

	if (!likely.step) {
		likely.step = ops->step;
		if (!ops->guess || !ops->guess(m->facts, &likely))
			return;
		unwind_store_make_usual(t->store, unwind_store_take_runtime(t->store, &likely));
	}
	if (likely.step == UNWIND_STEP_CPYTHON)
		likely.cpython.guessed = 1;
	process_guess_runtime(t, p, &likely);
}

static enum runtime_attached attach(struct process_table *t, struct process *p,
				    const struct mapping *m)
{
	struct module *module = m->module->same;
	const struct executable *e = module->facts;
	const struct runtime_ops *ops = ops_of(e->runtime_step);
	const struct runtime_memory memory = { .read = read_target, .ctx = t->seam };
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
		if (ops->guess)
			unwind_store_make_usual(t->store,
						unwind_store_take_runtime(t->store, &found.data));
	} else if (result == RUNTIME_LATER) {
		guess(t, p, module, ops);
	}
	return result;
}

/* When to ask again. */
static void put_off(struct process_table *t, struct process *p, uint64_t now_ns)
{
	struct attach_state *a = &t->attach;
	uint64_t pause = RETRY_FIRST_NS << (p->runtime_tries < 16 ? p->runtime_tries : 16);

	if (p->runtime_tries < TRIES_MOST) /* an interpreter may be there long before its use */
		p->runtime_tries++;
	p->runtime_retry_ns = now_ns + (pause < RETRY_MOST_NS ? pause : RETRY_MOST_NS);
	if (p->runtime_tries > TRIES_BY_CLOCK || p->runtimes[0])
		return;
	for (uint32_t i = 0; i < a->waiting_count; i++)
		if (a->waiting[i] == p->pid)
			return;
	if (a->waiting_count < ATTACH_WAITING_MOST)
		a->waiting[a->waiting_count++] = p->pid;
}

/* It is still to be asked by the clock. */
static bool waits(const struct process *p)
{
	return p && p->runtime_retry_ns && p->runtime_tries <= TRIES_BY_CLOCK && !p->runtimes[0];
}

/* All stacks of the process will go through this file: better all its rows soon than some of them
 * with each of the first samples. Soon, not now: samples wait meanwhile. */
static void build_all(struct process_table *t, struct module *m)
{
	struct attach_state *a = &t->attach;

	if (m->built || a->building_count == ATTACH_BUILDING_MOST)
		return;
	m->built = true;
	module_ref(m);
	a->building[a->building_count++] = (struct attach_building){ .module = m };
}

bool runtimes_build(struct process_table *t, uint64_t budget_ns)
{
	struct attach_state *a = &t->attach;
	uint64_t until = a->building_count ? clock_monotonic_ns() + budget_ns : 0;

	while (a->building_count && clock_monotonic_ns() < until) {
		struct attach_building *b = &a->building[a->building_count - 1];
		const struct unwind_executable *e = &t->store->executables[b->module->id];

		if (b->next < e->page_count && b->next < PAGES_BUILT_MOST) {
			module_build(b->module, (e->first_page + b->next++) << UNWIND_PAGE_SHIFT);
		} else {
			a->building_count--;
			module_unref(b->module);
		}
	}
	return a->building_count;
}

/* A file that is called as a runtime's is opened before a walk comes through it. */
static bool is_candidate(const struct module *m)
{
	const char *slash = strrchr(m->path, '/');
	struct str name = str_cstr(slash ? slash + 1 : m->path);

	if (m->state != MODULE_NEW)
		return false;
	for (int i = 0; runtimes_all[i]; i++)
		for (const char *const *n = runtimes_all[i]->file_names; n && *n; n++)
			if (str_has_prefix(name, str_cstr(*n)))
				return true;
	return false;
}

static void attach_one(struct process_table *t, struct process *p, const struct mapping *m,
		       uint64_t now_ns)
{
	struct module *module = m->module->same;

	switch (attach(t, p, m)) {
	case RUNTIME_ATTACHED:
		t->attach.attached++;
		if (!ops_of(module->facts->runtime_step)->no_loop)
			build_all(t, module);
		break;
	case RUNTIME_LATER:
		t->attach.later++;
		put_off(t, p, now_ns);
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

void runtimes_retry(struct process_table *t, uint64_t now_ns)
{
	struct attach_state *a = &t->attach;

	for (uint32_t i = a->waiting_count; i-- > 0;) {
		struct process *p = process_table_find(t, a->waiting[i]);

		if (waits(p))
			runtimes_attach(t, p, now_ns);
		if (!waits(p))
			a->waiting[i] = a->waiting[--a->waiting_count];
	}
}

uint64_t runtimes_due_ns(const struct process_table *t)
{
	uint64_t due = 0;

	for (uint32_t i = 0; i < t->attach.waiting_count; i++) {
		const struct process *p = process_table_find(t, t->attach.waiting[i]);
		uint64_t at = waits(p) ? p->runtime_retry_ns : 0;

		if (at && (!due || at < due))
			due = at;
	}
	return due;
}
