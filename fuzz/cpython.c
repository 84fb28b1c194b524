/* A Python process whose memory says anything: tables of lines, texts, code objects; and a table of
 * offsets. The first byte says which. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/runtimes/cpython/cpython.h"
#include "agent/runtimes/cpython/lines.h"
#include "agent/runtimes/cpython/names.h"

static bool read_memory(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	const struct bytes *b = ctx;

	(void)pid;
	if (address > b->len || bytes > b->len - address)
		return false;
	memcpy(to, b->ptr + address, bytes);
	return true;
}

/* The input is all of the process's memory, from address 0 on. */
static void name_code(struct bytes memory)
{
	static struct offset_table table;
	struct runtime_memory access = { .read = read_memory, .ctx = &memory };
	struct cpython_facts facts = { .minor = memory.len & 1 ? 13 : 9 };
	struct executable e = { .runtime_step = UNWIND_STEP_CPYTHON,
				.runtime = &facts,
				.runtime_bytes = sizeof(facts) };
	struct process_info process = { .pid = 1 };
	struct runtime_attachment found = { .code_count = 0 };
	const struct runtime_target target = { .pid = 1, .memory = &access };
	struct cpython_names *names = cpython_names_new(&access, 1 << 16);
	const struct namer namer = cpython_names_namer(names);
	struct frame_name name;
	struct err err;

	if (!table.version_count && !cpython_table_parse(&table, cpython_table_built_in(), &err))
		__builtin_trap();
	if (!cpython_table_find(&table, facts.minor, &facts.offsets))
		__builtin_trap();
	for (uint32_t i = 0; i < 8; i++) {
		struct trace_frame f = { .kind = FRAME_CPYTHON,
					 .executable = &e,
					 .address = i * 8,
					 .extra = (uint64_t)i << 33 };

		if (!namer.name(namer.ctx, &f, &process, &name) || name.line_count != 1)
			__builtin_trap();
	}
	cpython_runtime.attach(&target, &e, &found);
	cpython_names_free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct offset_table table;
	struct cpython_offsets o;
	struct bytes rest;
	struct err err;

	if (size < 4)
		return 0;
	rest = (struct bytes){ data + 4, size - 4 };
	if (data[0] < 3) {
		for (int32_t at = -2; at < 64; at++)
			cpython_line((enum cpython_lines)data[0], rest, data[1] * 257u,
				     at * (1 + data[2]));
	} else if (data[0] == 'v' || data[0] == '#') {
		if (cpython_table_parse(&table, str_from(data, size), &err))
			for (uint32_t minor = 6; minor < 20; minor++)
				if (cpython_table_find(&table, minor, &o) &&
				    !cpython_offsets_usable(&o, &err) && !err.msg[0])
					__builtin_trap();
	} else {
		name_code(rest);
	}
	return 0;
}
