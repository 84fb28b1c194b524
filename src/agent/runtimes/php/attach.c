#include "agent/process/executable.h"
#include "agent/runtimes/php/php.h"

static void set_offsets(const struct php_offsets *o, struct php_runtime *out)
{
	out->frame_instruction = (uint16_t)o->frame_instruction;
	out->frame_function = (uint16_t)o->frame_function;
	out->frame_object = (uint16_t)o->frame_object;
	out->frame_info = (uint16_t)o->frame_info;
	out->frame_previous = (uint16_t)o->frame_previous;
	out->frame_top = (uint32_t)o->frame_top;
	out->frame_code = (uint32_t)o->frame_code;
	out->flag_passing = (uint32_t)o->flag_passing;
	out->flag_copy = (uint32_t)o->flag_copy;
	out->function_type = (uint16_t)o->function_type;
	out->function_flags = (uint16_t)o->function_flags;
	out->function_name = (uint16_t)o->function_name;
	out->function_class = (uint16_t)o->function_class;
	out->function_code = (uint16_t)o->function_code;
	out->function_count = (uint16_t)o->function_count;
	out->function_file = (uint16_t)o->function_file;
	out->instruction_line = (uint16_t)o->instruction_line;
	out->instruction_bytes = (uint16_t)o->instruction_bytes;
	out->generator_frame = (uint16_t)o->generator_frame;
	out->generator_parent = (uint16_t)o->generator_parent;
	out->generator_stand_in = (uint16_t)o->generator_stand_in;
}

static enum runtime_attached attach(const struct runtime_target *t, const struct executable *e,
				    struct runtime_attachment *out)
{
	const struct php_facts *facts = php_facts(e);
	struct php_runtime *data = &out->data.php;

	if (!facts)
		return RUNTIME_REFUSED;
	set_offsets(&facts->offsets, data);
	data->globals = t->load_bias + facts->globals + (uint64_t)facts->offsets.globals_current;
	data->body = t->load_bias + facts->body;
	data->executable = executable_bpf_id(e);
	/* opcache compiles into the memory that it shares with other processes. */
	out->code[out->code_count++] =
		(struct runtime_code){ .end = UINT64_MAX, .step = UNWIND_STEP_PHP, .shared = true };
	return RUNTIME_ATTACHED;
}

const struct runtime_ops php_runtime = {
	.name = "php",
	.step = UNWIND_STEP_PHP,
	.recognise = php_recognise,
	.attach = attach,
};
