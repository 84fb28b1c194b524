#include "agent/process/executable.h"
#include "agent/runtimes/ruby/ruby.h"

enum { MODULES_MOST = 4096 };

static void set_offsets(const struct ruby_offsets *o, struct ruby_runtime *out)
{
	out->context_stack = (uint16_t)o->ec_stack;
	out->context_stack_words = (uint16_t)o->ec_stack_words;
	out->context_frame = (uint16_t)o->ec_frame;
	out->frame_bytes = (uint16_t)o->frame_bytes;
	out->frame_pc = (uint16_t)o->frame_pc;
	out->frame_iseq = (uint16_t)o->frame_iseq;
	out->frame_ep = (uint16_t)o->frame_ep;
	out->iseq_body = (uint16_t)o->iseq_body;
	out->body_code = (uint16_t)o->body_code;
}

/* The loader has written which module this file is, once it is loaded. */
static enum runtime_attached find_dynamic(const struct runtime_target *t,
					  const struct ruby_facts *facts, struct ruby_runtime *out)
{
	uint64_t words[2]; /* tls_index of the x86-64 psABI: module, offset */

	if (!t->memory->read(t->memory->ctx, t->pid, t->load_bias + facts->context, words,
			     sizeof(words)) ||
	    !words[0])
		return RUNTIME_LATER;
	if (words[0] > MODULES_MOST || words[1] > INT32_MAX)
		return RUNTIME_REFUSED;
	out->tls_module = (uint32_t)words[0];
	out->tls_offset = (int32_t)((int64_t)words[1] + facts->context_offset);
	return RUNTIME_ATTACHED;
}

static enum runtime_attached attach(const struct runtime_target *t, const struct executable *e,
				    struct runtime_attachment *out)
{
	const struct ruby_facts *facts = ruby_facts(e);
	struct ruby_runtime *data = &out->data.ruby;

	if (!facts)
		return RUNTIME_REFUSED;
	set_offsets(&facts->offsets, data);
	data->loop_start = t->load_bias + facts->loop[0];
	data->loop_bytes = facts->loop[1] - facts->loop[0];
	data->executable = executable_bpf_id(e);
	switch ((enum ruby_context_kind)facts->context_kind) {
	case RUBY_CONTEXT_GLOBAL:
		data->context = t->load_bias + facts->context;
		return RUNTIME_ATTACHED;
	case RUBY_CONTEXT_STATIC:
		data->tls_offset = (int32_t)facts->context_offset;
		return RUNTIME_ATTACHED;
	case RUBY_CONTEXT_DYNAMIC:
		return find_dynamic(t, facts, data);
	}
	return RUNTIME_REFUSED;
}

static const char *const file_names[] = { "ruby", "libruby", NULL };

const struct runtime_ops ruby_runtime = {
	.name = "ruby",
	.step = UNWIND_STEP_RUBY,
	.file_names = file_names,
	.recognise = ruby_recognise,
	.attach = attach,
};
