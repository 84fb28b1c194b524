#include "components/processors/sampler_hash.h"

enum { BUCKETS = 0x4000 };

static uint32_t fnv1a(uint32_t hash, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * UINT32_C(16777619);
	return hash;
}

uint32_t sampler_hash(struct str bytes, uint32_t seed)
{
	const uint8_t low_first[] = { (uint8_t)seed, (uint8_t)(seed >> 8), (uint8_t)(seed >> 16),
				      (uint8_t)(seed >> 24) };
	uint32_t hash = fnv1a(UINT32_C(2166136261), low_first, sizeof(low_first));

	return fnv1a(hash, (const uint8_t *)bytes.ptr, bytes.len) & (BUCKETS - 1);
}

bool sampler_keeps_hash(struct str bytes, uint32_t seed, double percentage)
{
	return percentage >= 100 ||
	       sampler_hash(bytes, seed) < (uint32_t)(percentage * BUCKETS / 100);
}

bool sampler_keeps_trace(const uint8_t trace_id[16], double percentage)
{
	const double all = (double)(UINT64_C(1) << 56);
	uint64_t random = 0;

	for (int i = 9; i < 16; i++)
		random = random << 8 | trace_id[i];
	if (percentage >= 100)
		return true;
	return percentage > 0 && random >= (uint64_t)(all - all * (percentage / 100));
}
