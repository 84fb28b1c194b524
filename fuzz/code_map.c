/*
 * Perf maps, jitdumps, /proc/kallsyms and mangled names: the first byte says which. A file read in
 * two parts must end like one read whole.
 */
#include "fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>
#include "agent/symbolize/code_map.h"
#include "agent/symbolize/demangle.h"
#include "agent/symbolize/kernel_symbols.h"

static int file_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd >= 0 && (write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0))
		__builtin_trap();
	return fd;
}

static void made_code(const uint8_t *data, size_t size, enum code_map_kind kind)
{
	int fd = file_of(data, size / 2), rest = file_of(data, size);
	struct work_budget no_limit = { 0 };
	struct code_map *parts, *whole;
	struct buf text;

	if (fd < 0 || rest < 0)
		return;
	parts = code_map_new(dup(fd), kind, 1 << 20);
	whole = code_map_new(rest, kind, 1 << 20);
	buf_init(&text, 1 << 20);
	code_map_update(parts, &no_limit);
	if (pwrite(fd, data + size / 2, size - size / 2, (off_t)(size / 2)) < 0)
		__builtin_trap();
	code_map_update(parts, &no_limit);
	code_map_update(whole, &no_limit);
	for (uint64_t pc = 0; pc < 0x2000; pc += 0x91) {
		struct code_hit a = { 0 }, b = { 0 };

		buf_reset(&text);
		if (code_map_find(whole, pc, &text, &a) != code_map_find(parts, pc, &text, &b) ||
		    a.start != b.start)
			__builtin_trap();
	}
	buf_release(&text);
	code_map_free(parts);
	code_map_free(whole);
	close(fd);
}

static void kernel(const uint8_t *data, size_t size)
{
	struct kernel_symbols *k = kernel_symbols_new(1 << 20);
	struct work_budget no_limit = { 0 };
	struct kernel_hit hit;
	int fd = file_of(data, size);

	if (fd >= 0) {
		kernel_symbols_read(k, fd);
		kernel_symbols_step(k, &no_limit);
		for (uint64_t pc = 0xffffffff81000000; pc < 0xffffffff81004000; pc += 0x101)
			kernel_symbols_find(k, pc, &hit);
	}
	kernel_symbols_free(k);
}

static void mangled(const uint8_t *data, size_t size)
{
	struct buf out;

	buf_init(&out, 1 << 20);
	demangle(str_from(data, size), &out);
	if (out.len > DEMANGLE_OUT_MOST)
		__builtin_trap();
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0] % 4) {
	case 0:
		made_code(data + 1, size - 1, CODE_MAP_PERF);
		break;
	case 1:
		made_code(data + 1, size - 1, CODE_MAP_JITDUMP);
		break;
	case 2:
		kernel(data + 1, size - 1);
		break;
	default:
		mangled(data + 1, size - 1);
		break;
	}
	return 0;
}
