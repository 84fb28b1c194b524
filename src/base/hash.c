#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64(struct str bytes)
{
	return XXH3_64bits(bytes.ptr, bytes.len);
}

struct hash128 hash128(struct str bytes)
{
	XXH128_hash_t h = XXH3_128bits(bytes.ptr, bytes.len);

	return (struct hash128){ .lo = h.low64, .hi = h.high64 };
}
