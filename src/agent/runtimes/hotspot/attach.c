#include "agent/process/executable.h"
#include "agent/runtimes/hotspot/code_cache.h"
#include "agent/runtimes/hotspot/hotspot.h"
#include "agent/runtimes/hotspot/layout.h"

struct target_memory {
	const struct runtime_memory *memory;
	uint32_t pid;
};

static bool read_target(void *ctx, uint64_t address, void *to, size_t bytes)
{
	const struct target_memory *t = ctx;

	return t->memory->read(t->memory->ctx, t->pid, address, to, bytes);
}

static enum runtime_attached attach(const struct runtime_target *t, const struct executable *e,
				    struct runtime_attachment *out)
{
	struct target_memory target = { t->memory, t->pid };
	const struct hotspot_memory memory = { read_target, &target };
	struct unwind_hotspot *h = &out->data.hotspot;
	/* The one thing of an executable that is written later: once, and never changed again. */
	struct hotspot_layout *layout = (void *)(uintptr_t)e->runtime;
	struct err err;

	if (!hotspot_layout_complete(layout, t->load_bias, &memory, &err) ||
	    !hotspot_code_cache_read(layout, t->load_bias, &memory, h, &err))
		return err.kind == ERR_UNAVAILABLE ? RUNTIME_LATER : RUNTIME_REFUSED;
	h->executable = executable_bpf_id(e);
	for (int i = 0; i < HOTSPOT_HEAPS_MOST && h->heaps[i].segments; i++)
		out->code[out->code_count++] = (struct runtime_code){ .start = h->heaps[i].start,
								      .end = h->heaps[i].end,
								      .step = UNWIND_STEP_HOTSPOT };
	return RUNTIME_ATTACHED;
}

static const char *const file_names[] = { "libjvm.so", NULL };

const struct runtime_ops hotspot_runtime = {
	.name = "hotspot",
	.step = UNWIND_STEP_HOTSPOT,
	.file_names = file_names,
	.recognise = hotspot_recognise,
	.attach = attach,
};
