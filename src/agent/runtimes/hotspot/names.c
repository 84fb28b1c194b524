#include "agent/runtimes/hotspot/names.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runtimes/hotspot/methods.h"
#include "agent/runtimes/hotspot/scopes.h"
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/report/frame_cache.h"
#include "base/buf.h"

enum {
	MACHINES_MOST = 64,
	BYTES_PER_FRAME = 1024, /* of a name with its lines, on average less */
	STUB_NAME_MOST = 80,
	ANSWER_MOST = 1 << 20,
};

/* One Java virtual machine. */
struct machine {
	uint32_t pid;
	uint64_t start_unix_nano, used;
	struct executable *libjvm; /* a reference: its facts are the layout */
	const struct hotspot_layout *layout;
	struct methods *methods;
	struct scopes *scopes;
};

struct hotspot_names {
	struct runtime_memory memory;
	size_t memory_bytes;
	pthread_mutex_t lock; /* of all that follows */
	struct machine *machines[MACHINES_MOST];
	uint32_t machine_count;
	uint64_t clock;
	struct frame_cache *cache;
	struct hotspot_names_stats stats;
	char stub[STUB_NAME_MOST + 8];

	/* What name() has given out: for its one thread. */
	struct name_line lines[SCOPES_MOST];
	struct buf text;
};

struct hotspot_names *hotspot_names_new(const struct runtime_memory *memory, size_t memory_bytes)
{
	struct hotspot_names *n = calloc(1, sizeof(*n));

	assert(n);
	n->memory = *memory;
	n->memory_bytes = memory_bytes;
	pthread_mutex_init(&n->lock, NULL);
	n->cache =
		frame_cache_new((uint32_t)(memory_bytes / 2 / BYTES_PER_FRAME) + FRAME_CACHE_LEAST);
	buf_init(&n->text, ANSWER_MOST);
	return n;
}

static void machine_free(struct machine *m)
{
	methods_free(m->methods);
	scopes_free(m->scopes);
	executable_unref(m->libjvm);
	free(m);
}

void hotspot_names_free(struct hotspot_names *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->machine_count; i++)
		machine_free(n->machines[i]);
	frame_cache_free(n->cache);
	buf_release(&n->text);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

/* ---- machines ---- */

static size_t machine_bytes(const struct machine *m)
{
	return sizeof(*m) + methods_bytes(m->methods) + scopes_bytes(m->scopes);
}

static size_t all_bytes(const struct hotspot_names *n)
{
	size_t bytes = sizeof(*n) + (size_t)frame_cache_count(n->cache) * BYTES_PER_FRAME / 2;

	for (uint32_t i = 0; i < n->machine_count; i++)
		bytes += machine_bytes(n->machines[i]);
	return bytes;
}

static void drop_oldest(struct hotspot_names *n)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < n->machine_count; i++)
		if (n->machines[i]->used < n->machines[oldest]->used)
			oldest = i;
	machine_free(n->machines[oldest]);
	n->machines[oldest] = n->machines[--n->machine_count];
}

static struct machine *machine_new(struct hotspot_names *n, const struct process_info *process,
				   struct executable *libjvm)
{
	struct machine *m = calloc(1, sizeof(*m));

	assert(m);
	while (n->machine_count &&
	       (n->machine_count == MACHINES_MOST || all_bytes(n) > n->memory_bytes))
		drop_oldest(n);
	m->pid = process->pid;
	m->start_unix_nano = process->start_unix_nano;
	m->libjvm = executable_ref(libjvm);
	m->layout = libjvm->runtime;
	m->methods = methods_new(m->layout, n->memory_bytes / 4);
	m->scopes = scopes_new(m->layout, n->memory_bytes / 8);
	n->machines[n->machine_count++] = m;
	return m;
}

static struct machine *machine_of(struct hotspot_names *n, const struct process_info *process,
				  struct executable *libjvm)
{
	const struct hotspot_layout *layout;

	for (uint32_t i = 0; i < n->machine_count; i++) {
		struct machine *m = n->machines[i];

		if (m->pid == process->pid && m->start_unix_nano == process->start_unix_nano)
			return m;
	}
	if (!libjvm || libjvm->runtime_step != UNWIND_STEP_HOTSPOT)
		return NULL;
	layout = libjvm->runtime;
	if (!atomic_load_explicit(&layout->complete, memory_order_acquire))
		return NULL;
	return machine_new(n, process, libjvm);
}

/* ---- reading names ---- */

struct reading {
	struct hotspot_names *names;
	struct machine *machine;
	struct hotspot_memory memory;
	const struct trace_frame *frame;
	struct name_line lines[SCOPES_MOST];
	uint32_t line_count, bci;
	bool unloaded;
};

static bool read_target(void *ctx, uint64_t address, void *to, size_t bytes)
{
	const struct reading *r = ctx;
	const struct runtime_memory *m = &r->names->memory;

	return m->read(m->ctx, r->machine->pid, address, to, bytes);
}

static void put_method(struct reading *r, const struct java_method *m, uint32_t bci)
{
	r->lines[r->line_count++] = (struct name_line){ .function = m->function,
							.system_name = m->system_name,
							.file = m->file,
							.line = java_method_line(m, bci) };
}

static bool read_interpreted(struct reading *r)
{
	uint32_t cookie = 0;
	const struct java_method *m =
		methods_get(r->machine->methods, &r->memory, r->frame->address, &cookie);

	if (!m)
		return false;
	r->unloaded = cookie != HOTSPOT_FRAME_COOKIE(r->frame->extra);
	r->bci = HOTSPOT_FRAME_AT(r->frame->extra);
	if (!r->unloaded)
		put_method(r, m, r->bci);
	return true;
}

static bool read_compiled(struct reading *r)
{
	const struct hotspot_layout *l = r->machine->layout;
	struct java_scope scopes[SCOPES_MOST];
	uint32_t cookie = HOTSPOT_FRAME_COOKIE(r->frame->extra), count;
	uint64_t compile_id;

	count = scopes_get(r->machine->scopes, &r->memory, r->frame->address, cookie,
			   HOTSPOT_FRAME_AT(r->frame->extra), scopes);
	for (uint32_t i = 0; i < count; i++) {
		const struct java_method *m =
			methods_get(r->machine->methods, &r->memory, scopes[i].method, NULL);

		if (m)
			put_method(r, m, scopes[i].bci);
	}
	if (count)
		r->bci = scopes[0].bci;
	if (r->line_count)
		return true;
	r->unloaded =
		vm_slot_read(l->nmethod_compile_id, &r->memory, r->frame->address, &compile_id) &&
		(uint32_t)compile_id != cookie;
	return r->unloaded;
}

/* What the machine itself calls the blob; the interpreter is one, too. */
static bool read_stub(struct reading *r)
{
	struct str interpreter = STR("[Interpreter]");
	uint32_t cookie = HOTSPOT_FRAME_COOKIE(r->frame->extra);
	char *text = r->names->stub;
	uint64_t name;
	size_t len = 1;

	if (!cookie) {
		r->lines[r->line_count++] = (struct name_line){ .function = interpreter };
		return true;
	}
	if (!vm_slot_read(r->machine->layout->blob_name, &r->memory, r->frame->address, &name))
		return false;
	r->unloaded = (uint32_t)name != cookie;
	if (r->unloaded)
		return true;
	text[0] = '[';
	while (len < STUB_NAME_MOST && hotspot_read(&r->memory, name + len - 1, text + len, 1) &&
	       text[len])
		len++;
	text[len++] = ']';
	r->lines[r->line_count++] = (struct name_line){ .function = str_from(text, len) };
	return true;
}

static bool read_frame(struct reading *r)
{
	switch (HOTSPOT_FRAME_KIND(r->frame->extra)) {
	case HOTSPOT_INTERPRETED:
		return read_interpreted(r);
	case HOTSPOT_COMPILED:
		return read_compiled(r);
	case HOTSPOT_STUB:
		return read_stub(r);
	default:
		return false;
	}
}

/* Into the cache; NULL: nothing can be read. */
static const struct frame_name *get(struct hotspot_names *n, const struct trace_frame *frame,
				    const struct process_info *process)
{
	static const struct name_line unloaded = { .function = STR("[unloaded]") };
	const struct frame_name *kept = frame_cache_find(n->cache, frame, process);
	struct reading r = { .names = n, .frame = frame };
	struct frame_name name;

	if (kept)
		return kept;
	r.machine = machine_of(n, process, frame->executable);
	if (!r.machine)
		return NULL;
	r.machine->used = ++n->clock;
	r.memory = (struct hotspot_memory){ read_target, &r };
	methods_trim(r.machine->methods);
	if (!read_frame(&r)) {
		n->stats.unreadable++;
		return NULL;
	}
	name = (struct frame_name){ .lines = r.unloaded ? &unloaded : r.lines,
				    .line_count = r.unloaded ? 1 : r.line_count,
				    .address = r.bci,
				    .fallback = r.unloaded,
				    .final = true };
	if (r.unloaded)
		n->stats.unloaded++;
	else
		n->stats.named++;
	frame_cache_put(n->cache, frame, process, &name);
	return frame_cache_find(n->cache, frame, process);
}

/* ---- the namer ---- */

static void prepare(void *ctx, const struct trace_frame *frame, struct process_info *process)
{
	struct hotspot_names *n = ctx;

	pthread_mutex_lock(&n->lock);
	get(n, frame, process);
	pthread_mutex_unlock(&n->lock);
}

static struct str kept_text(const struct hotspot_names *n, size_t *at, size_t len)
{
	struct str s = str_from(n->text.ptr + *at, len);

	*at += len;
	return s;
}

/* The cache may forget what it has told: prepare() runs on another thread. */
static void copy_answer(struct hotspot_names *n, const struct frame_name *from,
			struct frame_name *out)
{
	size_t at = 0;

	buf_reset(&n->text);
	for (uint32_t i = 0; i < from->line_count; i++) {
		buf_str(&n->text, from->lines[i].function);
		buf_str(&n->text, from->lines[i].system_name);
		buf_str(&n->text, from->lines[i].file);
	}
	*out = *from;
	out->lines = n->lines;
	out->line_count = n->text.failed ? 0 : from->line_count;
	for (uint32_t i = 0; i < out->line_count; i++) {
		const struct name_line *l = &from->lines[i];

		n->lines[i] = *l;
		n->lines[i].function = kept_text(n, &at, l->function.len);
		n->lines[i].system_name = kept_text(n, &at, l->system_name.len);
		n->lines[i].file = kept_text(n, &at, l->file.len);
	}
}

static bool name_frame(void *ctx, const struct trace_frame *frame, struct process_info *process,
		       struct frame_name *out)
{
	struct hotspot_names *n = ctx;
	const struct frame_name *kept;

	*out = (struct frame_name){ 0 };
	if (!process)
		return false;
	pthread_mutex_lock(&n->lock);
	kept = get(n, frame, process);
	if (kept)
		copy_answer(n, kept, out);
	pthread_mutex_unlock(&n->lock);
	return kept;
}

struct namer hotspot_names_namer(struct hotspot_names *n)
{
	return (struct namer){ .name = name_frame, .prepare = prepare, .ctx = n };
}

void hotspot_names_stats(struct hotspot_names *n, struct hotspot_names_stats *out)
{
	pthread_mutex_lock(&n->lock);
	*out = n->stats;
	out->bytes = all_bytes(n);
	pthread_mutex_unlock(&n->lock);
}
