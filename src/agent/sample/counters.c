#include "agent/sample/counters.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

const struct sample_counters *counters_map(int fd, uint32_t cpu_count, struct err *err)
{
	void *at = mmap(NULL, cpu_count * sizeof(struct sample_counters), PROT_READ, MAP_SHARED, fd,
			0);

	if (at != MAP_FAILED)
		return at;
	err_set_errno(err, "mapping the counters of %u CPUs", cpu_count);
	return NULL;
}

void counters_unmap(const struct sample_counters *counters, uint32_t cpu_count)
{
	if (counters)
		munmap((void *)(uintptr_t)counters, cpu_count * sizeof(*counters));
}

void counters_sum(const struct sample_counters *counters, uint32_t cpu_count,
		  struct sample_counters *sum)
{
	uint64_t *to = (uint64_t *)sum;

	*sum = (struct sample_counters){ 0 };
	for (uint32_t cpu = 0; cpu < cpu_count; cpu++) {
		const uint64_t *from = (const uint64_t *)&counters[cpu];

		for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
			to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
}
