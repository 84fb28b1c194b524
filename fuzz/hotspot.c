/* A Java virtual machine whose memory says anything: the code cache, methods, compiled code and
 * what is inlined there, tables of lines, names. The first byte says which generation. */
#include "fuzz/fuzz.h"

#include <string.h>
#include "agent/runtimes/hotspot/code_cache.h"
#include "agent/runtimes/hotspot/fake_vm_test.h"
#include "agent/runtimes/hotspot/names.h"
#include "agent/process/executable.h"
#include "agent/process/process_info.h"
#include "agent/elf/byte_reader.h"
#include "bpf/records.h"

static bool read_flat(void *ctx, uint64_t address, void *to, size_t bytes)
{
	const struct bytes *b = ctx;

	if (address > b->len || bytes > b->len - address)
		return false;
	memcpy(to, b->ptr + address, bytes);
	return true;
}

static bool read_memory(void *ctx, uint32_t pid, uint64_t address, void *to, size_t bytes)
{
	(void)pid;
	return read_flat(ctx, address, to, bytes);
}

static void check_code_cache(const struct hotspot_layout *layout, struct bytes *memory)
{
	struct unwind_hotspot found = { 0 };
	struct err err;

	if (!hotspot_code_cache_read(layout, 0, &(struct hotspot_memory){ read_flat, memory },
				     &found, &err))
		return;
	if (found.code_start >= found.code_end || found.interpreter_start < found.code_start ||
	    found.interpreter_end > found.code_end)
		__builtin_trap();
}

static void name_one(const struct namer *namer, struct executable *libjvm,
		     struct process_info *process, uint64_t address, uint64_t extra)
{
	const struct trace_frame frame = {
		.kind = FRAME_HOTSPOT, .executable = libjvm, .address = address, .extra = extra
	};
	struct frame_name name;
	size_t sum = 0;

	if (!namer->name(namer->ctx, &frame, process, &name))
		return;
	for (uint32_t i = 0; i < name.line_count; i++) /* reads all that is promised */
		for (size_t k = 0; k < name.lines[i].function.len; k++)
			sum += (uint8_t)name.lines[i].function.ptr[k];
	if (sum == SIZE_MAX)
		__builtin_trap();
}

/* Which frames are asked for is in the input, too: from byte 8 on, up to 8 of 16 bytes; and the
 * whole input is the machine's memory. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes memory = { data, size };
	struct hotspot_layout layout;
	struct process_info process = { .pid = 1, .start_unix_nano = 1 };
	struct executable facts = { .id = 1,
				    .runtime_step = UNWIND_STEP_HOTSPOT,
				    .runtime = &layout,
				    .runtime_bytes = sizeof(layout) };
	const struct runtime_memory access = { .read = read_memory, .ctx = &memory };
	struct executable *libjvm;
	struct hotspot_names *names;
	struct namer namer;

	if (size < 32)
		return 0;
	fake_vm_layout(&layout, data[0] & 1);
	check_code_cache(&layout, &memory);
	libjvm = executable_new(&facts);
	names = hotspot_names_new(&access, 1 << 16);
	namer = hotspot_names_namer(names);
	for (size_t at = 32; at + 16 <= size && at < 32 + 8 * 16; at += 16) {
		uint64_t words[2];

		memcpy(words, data + at, sizeof(words));
		for (uint32_t kind = HOTSPOT_INTERPRETED; kind <= HOTSPOT_STUB; kind++)
			name_one(&namer, libjvm, &process, words[0],
				 (words[1] & ~(UINT64_C(15) << 28)) | (uint64_t)kind << 28);
	}
	hotspot_names_free(names);
	executable_unref(libjvm);
	return 0;
}
