#include "agent/process/executable.h"
#include "agent/process/modules.h"
#include "agent/runtimes/php/php.h"

enum { GLOBALS_MOST = 1 << 24 }; /* bytes of a thread's resources before its globals */

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
	out->frame_generator = (uint32_t)o->frame_generator;
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
	if (o->globals_fiber < 0)
		return;
	out->fiber = o->globals_fiber - o->globals_current;
	out->fiber_context = (uint16_t)o->fiber_context;
	out->fiber_caller = (uint16_t)o->fiber_caller;
	out->fiber_bottom = (uint16_t)o->fiber_bottom;
	out->context_stack = (uint16_t)o->context_stack;
}

static bool read_at(const struct runtime_target *t, uint64_t address, void *to, size_t bytes)
{
	return t->memory->read(t->memory->ctx, t->pid, address, to, bytes);
}

/* Where threads have their globals; that is known once PHP has started. */
static bool find_thread_globals(const struct runtime_target *t, const struct php_facts *facts,
				struct php_runtime *out)
{
	uint64_t offset = 0, distance = (uint64_t)(int64_t)facts->tls_offset;

	if (!read_at(t, t->load_bias + facts->globals, &offset, sizeof(offset)) || !offset ||
	    offset > GLOBALS_MOST ||
	    (facts->tls_slot &&
	     !read_at(t, t->load_bias + facts->tls_slot, &distance, sizeof(distance))) ||
	    !distance || (int64_t)distance != (int32_t)distance)
		return false;
	out->globals = offset + (uint64_t)facts->offsets.globals_current;
	out->tls_offset = (int32_t)distance;
	return true;
}

static bool find_pcre(const struct runtime_target *t, struct php_runtime *out)
{
	for (uint32_t i = 0; t->set && i < t->set->count; i++) {
		const struct mapping *m = &t->set->list[i];

		if (!m->module || str_search(str_cstr(m->module->path), STR(PHP_PCRE_NAME)) < 0)
			continue;
		out->pcre_start = m->start;
		out->pcre_end = m->end;
		return true;
	}
	return false;
}

static void claim(struct runtime_attachment *out, uint32_t step, bool shared)
{
	out->code[out->code_count++] =
		(struct runtime_code){ .end = UINT64_MAX, .step = step, .shared = shared };
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
	if (facts->threads && !find_thread_globals(t, facts, data))
		return RUNTIME_LATER;
	if (find_pcre(t, data))
		claim(out, UNWIND_STEP_PCRE, false);
	else if (facts->needs_pcre && t->set)
		return RUNTIME_LATER; /* the dynamic linker is at work */
	data->executable = executable_bpf_id(e);
	if (!facts->body)
		return RUNTIME_ATTACHED;
	data->body = t->load_bias + facts->body;
	/* opcache compiles into the memory that it shares with other processes. */
	claim(out, UNWIND_STEP_PHP, true);
	return RUNTIME_ATTACHED;
}

static const char *const file_names[] = { "php", "libphp", NULL };

const struct runtime_ops php_runtime = {
	.name = "php",
	.step = UNWIND_STEP_PHP,
	.file_names = file_names,
	.recognise = php_recognise,
	.attach = attach,
};
