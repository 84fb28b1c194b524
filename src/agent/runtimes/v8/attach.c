#include "agent/process/executable.h"
#include "agent/runtimes/v8/v8.h"

static enum runtime_attached attach(const struct runtime_target *t, const struct executable *e,
				    struct runtime_attachment *out)
{
	const struct v8_facts *facts = v8_facts(e);
	struct v8_runtime *data = &out->data.v8;

	(void)t;
	if (!facts)
		return RUNTIME_REFUSED;
	data->executable = executable_bpf_id(e);
	data->map_type = (uint16_t)facts->offsets.map_type;
	data->function_shared = (uint16_t)facts->offsets.function_shared;
	data->first_function = (uint16_t)facts->offsets.first_function;
	data->last_function = (uint16_t)facts->offsets.last_function;
	data->bytecode_type = (uint16_t)facts->offsets.bytecode_type;
	data->script_type = (uint16_t)facts->offsets.script_type;
	data->shared_script = (uint16_t)facts->offsets.shared_script;
	data->frame_array = (uint16_t)facts->offsets.frame_array;
	/* What it compiles lies in anonymous memory. The step looks whether a frame is V8's. */
	out->code[out->code_count++] =
		(struct runtime_code){ .end = UINT64_MAX, .step = UNWIND_STEP_V8 };
	return RUNTIME_ATTACHED;
}

static const char *const file_names[] = { "node", "libnode", NULL };

const struct runtime_ops v8_runtime = {
	.name = "v8",
	.step = UNWIND_STEP_V8,
	.file_names = file_names,
	.recognise = v8_recognise,
	.attach = attach,
};
