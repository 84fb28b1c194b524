/* A PHP process whose memory says anything: functions, strings, frames and generators, walked by
 * the step and named; and a table of offsets. The first byte says which. */
#include "fuzz/fuzz.h"

#include <string.h>
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/runtimes/php/names.h"
#include "agent/runtimes/php/php.h"
#include "agent/unwind/store.h"
#include "agent/unwind/twin.h"

enum {
	BASE = 0x1000,    /* where the input lies in the process */
	CODE = 0x1000000, /* execute_ex; behind it JIT code, and compiled expressions */
	CODE_BYTES = 0x1000,
	CODES = 3,
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

/* One file, half of which is execute_ex, without unwind rows; and two kinds of JIT code. */
static void set_up(void)
{
	struct machine *m = &machine;
	static const uint32_t steps[CODES] = { 0, UNWIND_STEP_PHP, UNWIND_STEP_PCRE };
	struct err err;

	if (m->twin)
		return;
	m->twin = twin_new();
	if (!unwind_store_open_local(&m->store, 1 << 20, &err) ||
	    !unwind_store_take_executable(&m->store, &m->executable) ||
	    !unwind_store_set_pages(&m->store, m->executable, 0, 0) ||
	    !extents_take(&m->store.mapping_runs, CODES, &m->run) ||
	    !php_table_parse(&m->table, php_table_built_in(), &err))
		__builtin_trap();
	for (uint32_t i = 0; i < CODES; i++)
		m->store.mappings[m->run + i] =
			(struct unwind_mapping){ .start = CODE + i * CODE_BYTES,
						 .end = CODE + (i + 1) * CODE_BYTES,
						 .executable = i ? 0 : m->executable,
						 .step = steps[i] };
	unwind_store_set_interpreter(&m->store, m->executable, UNWIND_STEP_PHP,
				     (const uint64_t[]){ CODE, CODE + CODE_BYTES / 2 },
				     (const uint64_t[]){ 0, 0 });
	m->store.executables[m->executable].flags |= EXECUTABLE_LOADED;
}

static void name_all(struct executable *e, const struct runtime_memory *memory,
		     const uint64_t *words, uint32_t count)
{
	struct process_info process = { .pid = PID };
	struct frame_names *names = frame_names_new(&php_names, memory, 1 << 12);
	const struct namer namer = frame_names_namer(names);
	struct frame_names_stats stats;
	struct frame_name name;

	for (uint32_t i = 0; i < count; i += 1 + (words[i] >> 16 & 0xff)) {
		const struct trace_frame f = { .kind = FRAME_PHP,
					       .executable = e,
					       .address = words[i + 1],
					       .extra = words[i + 2] };

		if ((words[i] & 0xff) != FRAME_TAG_PHP)
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

/* The input is the process's memory: the word that leads to the newest frame, then its stack. */
static void walk(struct bytes memory, uint32_t version, uint32_t code)
{
	struct machine *m = &machine;
	struct runtime_memory access = { .read = read_memory, .ctx = &memory };
	const struct twin_memory stack = { read_stack, &memory };
	struct php_facts facts = { .version = version, .body = CODE + CODE_BYTES / 2 };
	struct executable e = { .runtime_step = UNWIND_STEP_PHP,
				.runtime = &facts,
				.runtime_bytes = sizeof(facts) };
	struct runtime_attachment found = { .data.step = UNWIND_STEP_PHP };
	const struct runtime_target target = { .pid = PID, .memory = &access };
	struct unwind_cursor c = { .pc = CODE + code * CODE_BYTES + 64,
				   .sp = BASE + 8,
				   .fp = BASE + 8,
				   .return_address = 1 };
	uint16_t slots[UNWIND_PROCESS_RUNTIMES] = { 0 };
	const uint64_t *words;
	uint32_t count;

	if (!php_table_find(&m->table, version, &facts.offsets))
		__builtin_trap();
	facts.globals = BASE - (uint64_t)facts.offsets.globals_current;
	if (php_runtime.attach(&target, &e, &found) != RUNTIME_ATTACHED)
		__builtin_trap();
	found.data.php.executable = m->executable;
	found.data.php.pcre_start = BASE;
	found.data.php.pcre_end = BASE + memory.len;
	slots[0] = unwind_store_take_runtime(&m->store, &found.data);
	twin_start(m->twin, &m->store, &stack, &c, NULL);
	twin_run(m->twin, m->run, CODES);
	twin_runtimes(m->twin, 1u << UNWIND_STEP_PHP | 1u << UNWIND_STEP_PCRE, slots);
	twin_walk(m->twin);
	words = twin_words(m->twin, &count);
	name_all(&e, &access, words, count);
	unwind_store_unref_runtime(&m->store, slots[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct offset_table table;
	struct php_offsets o;
	struct err err;

	if (size < 8)
		return 0;
	set_up();
	if (data[0] == TABLE_TEXT) {
		if (php_table_parse(&table, str_from(data, size), &err))
			for (uint32_t i = 0; i < table.version_count; i++)
				if (php_table_find(&table, table.versions[i], &o))
					(void)!php_offsets_usable(&o, &err);
	} else {
		walk((struct bytes){ data + 8, size - 8 },
		     data[0] & 1 ? OFFSET_VERSION(8, 4) : OFFSET_VERSION(7, 4),
		     (data[0] >> 1 & 3) % CODES);
	}
	return 0;
}
