/*
 * Go's table of functions: any bytes make rows that hold what their format promises, and names and
 * walks that end.
 *
 * The first byte: 1 arm64. Then u16 length of the code, the code, at 0x401000, and the table.
 */
#include "fuzz/fuzz.h"
#include "agent/unwind/pclntab.h"
#include "fuzz/unwind_pages.h"

enum { TEXT = 0x401000, TABLE = 0x500000 };

/* Everything a reader of names and lines asks for; a walk moves on, and ends with its function. */
static void read_functions(const struct pclntab *t)
{
	struct pclntab_function f;

	for (uint32_t i = 0; i < t->function_count && i < 1000; i++) {
		if (!pclntab_function(t, i, &f))
			continue;
		(void)pclntab_name(t, &f);
		for (struct pclntab_walk w = pclntab_walk(t, &f, f.pcsp); pclntab_next(&w);)
			if (w.begin >= w.end || w.end > f.end)
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image_part parts[2];
	struct pclntab t;
	struct image m;
	uint16_t code;
	uint8_t flags;

	if (size < 3)
		return 0;
	flags = data[0];
	memcpy(&code, data + 1, sizeof(code));
	data += 3;
	size -= 3;
	if (code > size)
		code = (uint16_t)size;
	parts[0] = (struct image_part){ ".text", TEXT, data, code, true, false };
	parts[1] =
		(struct image_part){ ".gopclntab", TABLE, data + code, size - code, false, false };
	m = image_make(flags & 1 ? EM_AARCH64 : EM_X86_64, 0, parts, 2);
	check_image(&m);
	if (pclntab_parse((struct bytes){ data + code, size - code }, TABLE, 0, &t))
		read_functions(&t);
	free(m.bytes);
	return 0;
}
