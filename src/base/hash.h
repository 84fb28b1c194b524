/* hash.h - XXH3 of bytes: 64 bits for tables in memory, 128 for identities that are kept. Seed 0.
 */
#pragma once
#include <stdint.h>
#include "base/str.h"

struct hash128 {
	uint64_t lo, hi;
};
uint64_t hash64(struct str bytes);
struct hash128 hash128(struct str bytes);
