/* A V8 process whose memory says anything: frames, functions, byte code, compiled code, positions
 * and strings, walked by the step and named; and a table of offsets. The first byte says which. */
#include "fuzz/fuzz.h"

#include <string.h>
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/runtimes/v8/names.h"
#include "agent/runtimes/v8/v8.h"
#include "agent/unwind/store.h"
#include "agent/unwind/twin.h"

enum {
	BASE = 0x100000,  /* where the input lies in the process: it begins with the stack */
	CODE = 0x1000000, /* the builtins, then other code of the file */
	CODE_BYTES = 0x1000,
	COMPILED = 0x2000000, /* anonymous code */
	PID = 1,
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
	    !extents_take(&m->store.mapping_runs, 2, &m->run) ||
	    !v8_table_parse(&m->table, v8_table_built_in(), &err))
		__builtin_trap();
	m->store.mappings[m->run] = (struct unwind_mapping){ .start = CODE,
							     .end = CODE + 2 * CODE_BYTES,
							     .executable = m->executable };
	m->store.mappings[m->run + 1] = (struct unwind_mapping){ .start = COMPILED,
								 .end = COMPILED + CODE_BYTES,
								 .load_bias = UNWIND_BIAS_UNKNOWN,
								 .step = UNWIND_STEP_V8 };
	unwind_store_set_interpreter(&m->store, m->executable, UNWIND_STEP_V8,
				     (const uint64_t[]){ CODE, CODE + CODE_BYTES },
				     (const uint64_t[]){ 0, 0 });
	m->store.executables[m->executable].flags |= EXECUTABLE_LOADED;
}

static void name_all(struct executable *e, const struct runtime_memory *memory,
		     const uint64_t *words, uint32_t count)
{
	struct process_info process = { .pid = PID };
	struct frame_names *names = frame_names_new(&v8_names, memory, 1 << 12);
	const struct namer namer = frame_names_namer(names);
	struct frame_names_stats stats;
	struct frame_name name;

	for (uint32_t i = 0; i < count; i += 1 + (words[i] >> 16 & 0xff)) {
		const struct trace_frame f = { .kind = FRAME_V8,
					       .executable = e,
					       .address = words[i + 1],
					       .extra = words[i + 2] };

		if ((words[i] & 0xff) != FRAME_TAG_V8)
			continue;
		if (!namer.name(namer.ctx, &f, &process, &name) || !name.line_count ||
		    !name.lines[0].function.len)
			__builtin_trap();
	}
	frame_names_stats(names, &stats);
	if (stats.bytes > 1 << 16)
		__builtin_trap();
	frame_names_free(names);
}

static void walk(struct bytes memory, uint32_t version, uint64_t pc, bool interrupted)
{
	struct machine *m = &machine;
	struct runtime_memory access = { read_memory, &memory, NULL };
	const struct twin_memory stack = { read_stack, &memory };
	struct v8_facts facts = { .version = version };
	struct executable e = { .runtime_step = UNWIND_STEP_V8,
				.runtime = &facts,
				.runtime_bytes = sizeof(facts) };
	struct runtime_attachment found = { .data.step = UNWIND_STEP_V8 };
	const struct runtime_target target = { .pid = PID, .memory = &access };
	struct unwind_cursor c = {
		.pc = pc, .sp = BASE, .fp = BASE + 48, .return_address = !interrupted
	};
	uint16_t slots[UNWIND_PROCESS_RUNTIMES] = { 0 };
	const uint64_t *words;
	uint32_t count;

	memset(facts.bytecode_bytes, 2, sizeof(facts.bytecode_bytes));
	if (!v8_table_find(&m->table, version, &facts.offsets) ||
	    v8_runtime.attach(&target, &e, &found) != RUNTIME_ATTACHED)
		__builtin_trap();
	found.data.v8.executable = m->executable;
	slots[0] = unwind_store_take_runtime(&m->store, &found.data);
	twin_start(m->twin, &m->store, &stack, &c, NULL);
	twin_run(m->twin, m->run, 2);
	twin_runtimes(m->twin, 1u << UNWIND_STEP_V8, slots);
	twin_walk(m->twin);
	words = twin_words(m->twin, &count);
	name_all(&e, &access, words, count);
	unwind_store_unref_runtime(&m->store, slots[0]);
}

/* Byte 1: the version; byte 2: where the walk begins; bytes 4 to 7: a pc to be named as compiled
 * code, which may lie in the memory. */
static void walk_and_name(const uint8_t *data, size_t size)
{
	static const uint32_t versions[] = { OFFSET_VERSION(7, 8),  OFFSET_VERSION(9, 4),
					     OFFSET_VERSION(11, 3), OFFSET_VERSION(13, 6),
					     OFFSET_VERSION(14, 6), OFFSET_VERSION(10, 2) };
	uint32_t version = versions[data[1] % 6], at;
	struct bytes memory = { data + 8, size - 8 };
	struct runtime_memory access = { read_memory, &memory, NULL };
	struct v8_facts facts = { .version = version };
	struct executable e = { .runtime_step = UNWIND_STEP_V8,
				.runtime = &facts,
				.runtime_bytes = sizeof(facts) };
	uint64_t words[3] = { FRAME_HEADER(FRAME_TAG_V8, 0, 2, 0) };

	walk(memory, version, data[2] & 1 ? CODE + 64 : COMPILED + 64, data[2] & 2);
	memcpy(&at, data + 4, sizeof(at));
	memset(facts.bytecode_bytes, 2, sizeof(facts.bytecode_bytes));
	if (!v8_table_find(&machine.table, version, &facts.offsets))
		__builtin_trap();
	words[1] = V8_FIRST(V8_KIND_COMPILED, BASE + data[3] * 8);
	words[2] = BASE + at % (1 << 16);
	name_all(&e, &access, words, 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct offset_table table;
	struct v8_offsets o;
	struct err err;

	if (size < 8)
		return 0;
	set_up();
	if (data[0] == TABLE_TEXT) {
		if (v8_table_parse(&table, str_from(data, size), &err))
			for (uint32_t i = 0; i < table.version_count; i++)
				if (v8_table_find(&table, table.versions[i], &o))
					(void)!v8_offsets_usable(&o, &err);
	} else {
		walk_and_name(data, size);
	}
	return 0;
}
