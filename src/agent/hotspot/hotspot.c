#include "agent/hotspot/hotspot.h"

#include <string.h>

#include "agent/hotspot/code_cache.h"
#include "agent/hotspot/layout.h"
#include "agent/process/executable.h"

_Static_assert(sizeof(struct hotspot_layout) <= RUNTIME_FACTS_MOST, "a layout is a file's facts");

static bool recognise(const struct elf_file *f, struct str path,
		      const struct runtime_tables *tables, struct runtime_binary *out)
{
	struct hotspot_layout layout;
	struct err err;

	(void)tables; /* it says all of it itself */
	(void)path;   /* any name will do: the machine may be linked into its launcher */
	if (!vm_structs_there(f) || !hotspot_layout_read(f, &layout, &err))
		return false;
	memcpy(out->facts, &layout, sizeof(layout));
	out->facts_bytes = sizeof(layout);
	return true;
}

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

const struct runtime_ops hotspot_runtime = {
	.name = "hotspot",
	.step = UNWIND_STEP_HOTSPOT,
	.recognise = recognise,
	.attach = attach,
};
