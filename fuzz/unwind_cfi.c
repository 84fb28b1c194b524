/*
 * Call frame information: any bytes make rows that hold what their format promises.
 *
 * The first byte: 1 arm64, 2 .debug_frame, 4 the next 64 bytes are .eh_frame_hdr and the rest has
 * no section. Text lies at 0x40f000 and reaches into the next page; the CFI at 0x300000.
 */
#include "fuzz/fuzz.h"
#include "fuzz/unwind_pages.h"

enum { TEXT = 0x40f000, TEXT_BYTES = 0x3000, CFI = 0x300000, HEADER = 0x2ff000, HEADER_BYTES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t code[TEXT_BYTES];
	struct image_part parts[3] = { { ".text", TEXT, code, sizeof(code), true, false } };
	size_t count = 1, header = 0;
	struct image m;
	uint8_t flags;

	if (!size)
		return 0;
	flags = *data++;
	size--;
	if (flags & 4) {
		header = size < HEADER_BYTES ? size : HEADER_BYTES;
		parts[0].name = NULL;
		parts[count++] = (struct image_part){ NULL, HEADER, data, header, false, true };
	}
	parts[count++] = (struct image_part){ flags & 4   ? NULL
					      : flags & 2 ? ".debug_frame"
							  : ".eh_frame",
					      CFI,
					      data + header,
					      size - header,
					      false,
					      false };
	m = image_make(flags & 1 ? EM_AARCH64 : EM_X86_64, TEXT + 0x10, parts, count);
	check_image(&m);
	free(m.bytes);
	return 0;
}
