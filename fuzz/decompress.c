/* Every codec, by the first byte: never more than the limit, never more charged than that, all
 * given back. */
#include "fuzz/fuzz.h"

#include "base/budget.h"
#include "net/compress.h"

enum { LIMIT = 100000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct budget budget;
	struct err err = { 0 };
	struct blob *b;

	if (!size)
		return 0;
	budget_init(&budget, 0);
	b = decompress_charged((enum compression)(data[0] % (COMPRESSION_LZ4 + 1)),
			       str_from(data + 1, size - 1), LIMIT, &budget, &err);
	if (b ? b->len > LIMIT : err.kind == ERR_NONE || !err.msg[0])
		__builtin_trap();
	blob_unref(b);
	if (budget_used(&budget) || atomic_load(&budget.peak_bytes) > LIMIT)
		__builtin_trap();
	return 0;
}
