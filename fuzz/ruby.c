/* A Ruby process whose memory says anything: control frames, environments, iseqs, methods, classes
 * and strings, walked by the step and named; and a table of offsets. The first byte says which. */
#include "fuzz/fuzz.h"

#include <string.h>
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/runtimes/ruby/names.h"
#include "agent/runtimes/ruby/ruby.h"
#include "agent/unwind/store.h"
#include "agent/unwind/twin.h"

enum {
	BASE = 0x1000,    /* where the input lies in the process: first the word that leads to the
			   * execution context, then the native stack */
	CODE = 0x1000000, /* the loop, then vm_exec(), then other code */
	CODE_BYTES = 0x1000,
	PID = 1,
	STACK = BASE + 8,
	SYMBOLS = BASE + 64,
	TABLE_TEXT = 'v',
};

static bool read_memory(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	const struct bytes *b = ctx;

	(void)pid;
	address -= BASE;
	if (address > b->len || bytes > b->len - address)
		return false;
	memcpy(to, b->ptr + address, bytes);
	return true;
}

static bool load_bias(void *ctx, uint32_t pid, const struct executable *e, uint64_t *bias)
{
	(void)ctx;
	(void)pid;
	(void)e;
	*bias = 0;
	return true;
}

static bool read_stack(void *ctx, uint64_t address, void *to, uint32_t bytes)
{
	return read_memory(ctx, PID, address, to, bytes);
}

static struct machine {
	struct unwind_store store;
	struct twin *twin;
	struct offset_table table;
	uint32_t executable, run;
} machine;

/* One file without unwind rows. */
static void set_up(void)
{
	struct machine *m = &machine;
	struct err err;

	if (m->twin)
		return;
	m->twin = twin_new();
	if (!unwind_store_open_local(&m->store, 1 << 20, &err) ||
	    !unwind_store_take_executable(&m->store, &m->executable) ||
	    !unwind_store_set_pages(&m->store, m->executable, 0, 0) ||
	    !extents_take(&m->store.mapping_runs, 1, &m->run) ||
	    !ruby_table_parse(&m->table, ruby_table_built_in(), &err))
		__builtin_trap();
	m->store.mappings[m->run] = (struct unwind_mapping){ .start = CODE,
							     .end = CODE + 3 * CODE_BYTES,
							     .executable = m->executable };
	unwind_store_set_interpreter(
		&m->store, m->executable, UNWIND_STEP_RUBY,
		(const uint64_t[]){ CODE, CODE + CODE_BYTES },
		(const uint64_t[]){ CODE + CODE_BYTES, CODE + 2 * CODE_BYTES });
	m->store.executables[m->executable].flags |= EXECUTABLE_LOADED;
}

static void name_all(struct executable *e, const struct runtime_memory *memory,
		     const uint64_t *words, uint32_t count)
{
	struct process_info process = { .pid = PID };
	struct frame_names *names = frame_names_new(&ruby_names, memory, 1 << 12);
	const struct namer namer = frame_names_namer(names);
	struct frame_names_stats stats;
	struct frame_name name;

	for (uint32_t i = 0; i < count; i += 1 + (words[i] >> 16 & 0xff)) {
		const struct trace_frame f = { .kind = FRAME_RUBY,
					       .executable = e,
					       .address = words[i + 1],
					       .extra = words[i + 2] };

		if ((words[i] & 0xff) != FRAME_TAG_RUBY)
			continue;
		if (!namer.name(namer.ctx, &f, &process, &name) || name.line_count != 1 ||
		    !name.lines[0].function.len)
			__builtin_trap();
	}
	frame_names_stats(names, &stats);
	if (stats.bytes > 1 << 16)
		__builtin_trap();
	frame_names_free(names);
}

static void walk(struct bytes memory, uint32_t version, uint32_t code)
{
	struct machine *m = &machine;
	struct runtime_memory access = { read_memory, &memory, load_bias };
	const struct twin_memory stack = { read_stack, &memory };
	struct ruby_facts facts = { .version = version,
				    .context_kind = RUBY_CONTEXT_GLOBAL,
				    .context = BASE,
				    .loop = { CODE, CODE + CODE_BYTES },
				    .symbols = SYMBOLS };
	struct executable e = { .runtime_step = UNWIND_STEP_RUBY,
				.runtime = &facts,
				.runtime_bytes = sizeof(facts) };
	struct runtime_attachment found = { .data.step = UNWIND_STEP_RUBY };
	const struct runtime_target target = { .pid = PID, .memory = &access };
	struct unwind_cursor c = {
		.pc = CODE + code * CODE_BYTES + 64, .sp = STACK, .fp = STACK, .return_address = 1
	};
	uint16_t slots[UNWIND_PROCESS_RUNTIMES] = { 0 };
	const uint64_t *words;
	uint32_t count;

	if (!ruby_table_find(&m->table, version, &facts.offsets) ||
	    ruby_runtime.attach(&target, &e, &found) != RUNTIME_ATTACHED)
		__builtin_trap();
	found.data.ruby.executable = m->executable;
	slots[0] = unwind_store_take_runtime(&m->store, &found.data);
	twin_start(m->twin, &m->store, &stack, &c, NULL);
	twin_run(m->twin, m->run, 1);
	twin_runtimes(m->twin, 1u << UNWIND_STEP_RUBY, slots);
	twin_walk(m->twin);
	words = twin_words(m->twin, &count);
	name_all(&e, &access, words, count);
	unwind_store_unref_runtime(&m->store, slots[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t versions[] = { OFFSET_VERSION(2, 7), OFFSET_VERSION(3, 1),
					     OFFSET_VERSION(3, 3) };
	struct offset_table table;
	struct ruby_offsets o;
	struct err err;

	if (size < 8)
		return 0;
	set_up();
	if (data[0] == TABLE_TEXT) {
		if (ruby_table_parse(&table, str_from(data, size), &err))
			for (uint32_t i = 0; i < table.version_count; i++)
				if (ruby_table_find(&table, table.versions[i], &o))
					(void)!ruby_offsets_usable(&o, &err);
	} else {
		walk((struct bytes){ data + 8, size - 8 }, versions[(data[0] & 3) % 3],
		     (data[0] >> 2 & 3) % 3);
	}
	return 0;
}
