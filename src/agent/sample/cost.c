#include "agent/sample/cost.h"

static enum sample_cost_kind kind_of(const struct sample_record *r, const uint64_t *words)
{
	const uint64_t *user = words + r->kernel_count;
	uint32_t i = 0;

	if (!r->frame_count)
		return COST_KERNEL;
	while (i < r->word_count) {
		if ((user[i] & 0xff) > FRAME_TAG_NATIVE)
			return COST_RUNTIME;
		i += 1 + (user[i] >> 16 & 0xff);
	}
	return COST_NATIVE;
}

void sample_costs_add(struct sample_costs *c, const struct sample_record *r, const uint64_t *words)
{
	uint32_t step = (uint32_t)r->took_before * SAMPLE_TOOK_NS / COST_STEP_NS;

	if (r->cpu >= SEAM_CPUS_MAX)
		return;
	if (r->took_before)
		c->counts[c->kind_of[r->cpu]][step < COST_STEPS ? step : COST_STEPS - 1]++;
	c->kind_of[r->cpu] = (uint8_t)kind_of(r, words);
}

uint64_t sample_costs_quantile(const struct sample_costs *c, enum sample_cost_kind kind,
			       double share)
{
	uint64_t total = 0, below = 0;

	for (uint32_t i = 0; i < COST_STEPS; i++)
		total += c->counts[kind][i];
	for (uint32_t i = 0; i < COST_STEPS; i++) {
		below += c->counts[kind][i];
		if (total && (double)below >= share * (double)total)
			return (uint64_t)i * COST_STEP_NS + COST_STEP_NS / 2;
	}
	return 0;
}
