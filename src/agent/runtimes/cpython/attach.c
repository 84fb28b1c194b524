#include "agent/process/executable.h"
#include "agent/runtimes/cpython/cpython.h"

enum {
	CONTROL_BYTES =
		0x900,      /* of a thread: glibc's struct pthread up to its keys, musl's whole */
	INNER_BYTES = 1024, /* a second level of keys: glibc 32 of 16 bytes, musl 128 of 8 */
	INNER_TRIES = 96,
	VARIABLE_MINOR = 15,
	VARIABLES_BYTES = 8192, /* below it */
	VARIABLES_BYTES_LEAST = 64,
	THREADS_LOOKED_AT = 16,
	INTERPRETERS_LOOKED_AT = 64,
	FIRST_KEY = 0x318, /* from the thread pointer */
};
#define ADDRESSES_END (UINT64_C(1) << 47)

struct search {
	const struct runtime_target *target;
	const struct cpython_offsets *o;
	bool in_variable; /* a thread has its state in a thread variable, not behind a key */
};

static bool read_word(const struct search *s, uint64_t address, uint64_t *word)
{
	return s->target->memory->read(s->target->memory->ctx, s->target->pid, address, word,
				       sizeof(*word));
}

/* From an interpreter to the main one: each leads to the one that was made before it. */
static bool oldest(const struct search *s, uint64_t *interpreter)
{
	uint64_t next = *interpreter;

	for (int i = 0; next && i < INTERPRETERS_LOOKED_AT; i++) {
		*interpreter = next;
		if (!read_word(s, next + (uint64_t)s->o->interpreter_next, &next))
			return false;
	}
	return true;
}

/* The first thread's state of an interpreter; 0: there is none yet. `main`: of the main
 * interpreter, else of the newest. In _PyRuntime the main one stands behind the head of the list.
 */
static uint64_t first_thread(const struct search *s, const struct cpython_facts *facts, bool main)
{
	uint64_t entry = facts->entry + s->target->load_bias, at = 0;

	if (facts->thread_first) {
		/* Who runs just now has it: not every time there is somebody. */
		if (!read_word(s, entry, &at) || !at ||
		    !read_word(s, at + (uint64_t)s->o->thread_interpreter, &at) ||
		    (main && !oldest(s, &at)))
			return 0;
	} else if (!read_word(s, entry + (uint64_t)s->o->runtime_interpreters + (main ? 8 : 0),
			      &at)) {
		return 0;
	}
	if (!at || !read_word(s, at + (uint64_t)s->o->interpreter_threads, &at))
		return 0;
	return at;
}

/* A word of `bytes` that is `state`; -1: there is none. */
static int32_t find_word(const uint64_t *words, uint32_t bytes, uint64_t state, uint32_t first)
{
	for (uint32_t i = first; i < bytes / 8; i++)
		if (words[i] == state)
			return (int32_t)(i * 8);
	return -1;
}

/* Thread variables of the files that were there at the start lie below the control block. */
static bool find_below(const struct search *s, uint64_t tp, uint64_t state,
		       struct cpython_runtime *out)
{
	const struct runtime_memory *m = s->target->memory;
	uint64_t block[VARIABLES_BYTES / 8];
	int32_t at;

	for (uint32_t bytes = VARIABLES_BYTES; bytes >= VARIABLES_BYTES_LEAST; bytes /= 2) {
		if (!m->read(m->ctx, s->target->pid, tp - bytes, block, bytes))
			continue;
		at = find_word(block, bytes, state, 0);
		out->tls_offset = at - (int32_t)bytes;
		out->tls_inner = -1;
		return at >= 0;
	}
	return false;
}

/* The word of the control block that is the state, or leads to it. */
static bool find_slot(const struct search *s, uint64_t tp, uint64_t state,
		      struct cpython_runtime *out)
{
	const struct runtime_memory *m = s->target->memory;
	uint64_t block[CONTROL_BYTES / 8], inner[INNER_BYTES / 8];
	uint32_t tries = 0;

	/* The first word of a control block is its own address (x86-64 psABI, TLS variant II). */
	if (!m->read(m->ctx, s->target->pid, tp, block, sizeof(block)) || block[0] != tp)
		return false;
	out->tls_offset = find_word(block, CONTROL_BYTES, state, 2);
	out->tls_inner = -1;
	if (out->tls_offset >= 0)
		return true;
	for (uint32_t i = 2; i < CONTROL_BYTES / 8; i++) {
		if (block[i] < 4096 || block[i] & 7 || block[i] - tp < CONTROL_BYTES ||
		    tries++ == INNER_TRIES)
			continue;
		if (!m->read(m->ctx, s->target->pid, block[i], inner, sizeof(inner)))
			continue;
		out->tls_offset = (int32_t)(i * 8);
		out->tls_inner = find_word(inner, INNER_BYTES, state, 0);
		if (out->tls_inner >= 0)
			return true;
	}
	return s->in_variable && find_below(s, tp, state, out);
}

static void set_offsets(const struct cpython_facts *facts, struct cpython_runtime *out)
{
	const struct cpython_offsets *o = &facts->offsets;
	int32_t base = (o->code_line < o->code_file ? o->code_line : o->code_file) & ~7;

	if (facts->thread_first)
		out->current = facts->entry;
	else
		out->interpreters = facts->entry + (uint64_t)o->runtime_interpreters;
	if (!facts->thread_first && o->runtime_current >= 0)
		out->current = facts->entry + (uint64_t)o->runtime_current;
	out->thread_interpreter = (uint16_t)o->thread_interpreter;
	out->thread_next = (uint16_t)o->thread_next;
	out->interpreter_next = (uint16_t)o->interpreter_next;
	out->interpreter_threads = (uint16_t)o->interpreter_threads;
	out->thread_id = (uint16_t)o->thread_id;
	out->thread_frame = (uint16_t)o->thread_frame;
	out->cframe = (int16_t)o->cframe_frame;
	out->frame_previous = (uint16_t)o->frame_previous;
	out->frame_code = (uint16_t)o->frame_code;
	out->frame_instruction = (uint16_t)o->frame_instruction;
	out->frame_owner = (uint16_t)o->frame_owner;
	out->loop = (uint8_t)o->loop;
	out->owner_shim = (uint8_t)o->owner_shim;
	out->instruction_bytes = (uint8_t)o->instruction_bytes;
	out->code_base = (uint16_t)base;
	out->code_file = (uint16_t)(o->code_file - base);
	out->code_line = (uint16_t)(o->code_line - base);
	out->code_instructions = (uint16_t)o->code_instructions;
	if (o->frame_tlbc >= 0) {
		out->frame_tlbc = (uint16_t)o->frame_tlbc;
		out->code_tlbc = (uint16_t)o->code_tlbc;
	}
}

/* Goes through the threads until one leads to its state. Only a thread's first state is in its
 * storage: those of further interpreters are not. */
static bool find_in_threads(const struct search *s, uint64_t state, struct cpython_runtime *out)
{
	uint64_t tp;

	for (int i = 0; state && i < THREADS_LOOKED_AT; i++) {
		if (read_word(s, state + (uint64_t)s->o->thread_id, &tp) && tp &&
		    find_slot(s, tp, state, out))
			return true;
		if (!read_word(s, state + (uint64_t)s->o->thread_next, &state))
			return false;
	}
	return false;
}

/* Does the main interpreter compile code (3.14 and later, PYTHON_JIT)? It keeps each piece in a
 * mapping of its own, and says nowhere where they all are. */
static bool compiles(const struct search *s, const struct cpython_facts *facts)
{
	uint64_t entry = facts->entry + s->target->load_bias, at = 0;
	uint8_t jit = 0;

	return s->o->interpreter_jit >= 0 &&
	       read_word(s, entry + (uint64_t)s->o->runtime_interpreters + 8, &at) && at &&
	       s->target->memory->read(s->target->memory->ctx, s->target->pid,
				       at + (uint64_t)s->o->interpreter_jit, &jit, 1) &&
	       jit;
}

static enum runtime_attached attach(const struct runtime_target *t, const struct executable *e,
				    struct runtime_attachment *out)
{
	const struct cpython_facts *facts = cpython_facts(e);
	const struct search s = { t, facts ? &facts->offsets : NULL,
				  facts && facts->minor >= VARIABLE_MINOR };

	if (!facts)
		return RUNTIME_REFUSED;
	out->data.cpython.executable = executable_bpf_id(e);
	if (!find_in_threads(&s, first_thread(&s, facts, true), &out->data.cpython) &&
	    !find_in_threads(&s, first_thread(&s, facts, false), &out->data.cpython))
		return RUNTIME_LATER;
	set_offsets(facts, &out->data.cpython);
	if (compiles(&s, facts))
		out->code[out->code_count++] =
			(struct runtime_code){ .end = ADDRESSES_END, .step = UNWIND_STEP_CPYTHON };
	return RUNTIME_ATTACHED;
}

/* Up to 3.11 a thread's state is the value of a key, in most processes of the first one that
 * anybody makes (glibc's struct pthread, specific_1stblock[0].data, x86-64). From 3.12 on it is a
 * variable of the thread, which lies elsewhere in each build. */
static bool guess(const struct executable *e, struct unwind_runtime *out)
{
	const struct cpython_facts *facts = cpython_facts(e);

	if (!facts || facts->minor > 11)
		return false;
	out->cpython.tls_offset = FIRST_KEY;
	out->cpython.tls_inner = -1;
	set_offsets(facts, &out->cpython);
	return true;
}

static const char *const file_names[] = { "python3", "libpython3", NULL };

const struct runtime_ops cpython_runtime = {
	.name = "python",
	.step = UNWIND_STEP_CPYTHON,
	.file_names = file_names,
	.recognise = cpython_recognise,
	.guess = guess,
	.attach = attach,
};
