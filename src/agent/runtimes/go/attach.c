#include "agent/process/executable.h"
#include "agent/runtimes/go/go.h"

enum { TLS_OFFSET_MOST = 1 << 20 };

static enum runtime_attached attach(const struct runtime_target *t, const struct executable *e,
				    struct runtime_attachment *out)
{
	const struct go_facts *facts = e->runtime;
	int64_t offset;

	if (e->runtime_bytes != sizeof(*facts))
		return RUNTIME_REFUSED;
	out->data.go = facts->offsets;
	if (!facts->tls_in_memory)
		return RUNTIME_ATTACHED;
	if (!t->memory->read(t->memory->ctx, t->pid, t->load_bias + facts->tls_vaddr, &offset,
			     sizeof(offset)))
		return RUNTIME_LATER;
	if (!offset) /* before the dynamic linker has put it there */
		return RUNTIME_LATER;
	if (offset > TLS_OFFSET_MOST || offset < -TLS_OFFSET_MOST)
		return RUNTIME_REFUSED;
	out->data.go.tls_offset = (int32_t)offset;
	return RUNTIME_ATTACHED;
}

const struct runtime_ops go_runtime = {
	.name = "labels",
	.step = UNWIND_STEP_GO,
	.no_loop = true,
	.recognise = go_recognise,
	.attach = attach,
};
