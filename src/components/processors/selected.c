#include "components/processors/selected.h"

#include <assert.h>
#include <stdlib.h>

static bool *flags(uint32_t count)
{
	bool *p = malloc(count ? count : 1);

	assert(p);
	memset(p, true, count);
	return p;
}

struct selected selected_new(const struct profiles *p)
{
	return (struct selected){ flags(p->sample_count), flags(p->profile_count) };
}

void selected_release(struct selected *s)
{
	free(s->samples);
	free(s->profiles);
}

static bool nothing_left(const struct profiles *p, const struct selected *s)
{
	for (uint32_t i = 0; i < p->profile_count; i++)
		if (s->profiles[i])
			return false;
	return true;
}

/* Takes over the batch; NULL on failure. */
static struct batch *made(struct batch *batch, const struct selected *s, struct err *err)
{
	struct selection keep = { s->samples, s->profiles };
	struct profiles *left = profiles_select(batch->profiles, &keep, err);
	struct batch *out = left ? batch_derive(batch, left, err) : NULL;

	if (left && !out)
		profiles_free(left);
	batch_unref(batch);
	return out;
}

bool selected_hand_on(const struct component_host *host, struct batch *batch,
		      const struct selected *s, struct completion *done)
{
	struct outcome o = outcome_ok();
	struct err err;

	if (nothing_left(batch->profiles, s)) {
		batch_unref(batch);
		completion_done(done, &o);
		return true;
	}
	batch = made(batch, s, &err);
	if (batch) {
		consumer_consume(host->next, batch, done);
		return true;
	}
	o = outcome_of(&err);
	completion_done(done, &o);
	return false;
}
