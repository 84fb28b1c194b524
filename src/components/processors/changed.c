#include "components/processors/changed.h"

#include <assert.h>
#include <stdlib.h>

#include "model/subset.h"

/* All of it, with a dictionary that holds only what it uses: values that were deleted or hashed are
 * nowhere in it. */
static struct profiles *minimal(const struct profiles *p, struct err *err)
{
	uint32_t most = p->sample_count > p->profile_count ? p->sample_count : p->profile_count;
	bool *all = malloc(most ? most : 1);
	struct profiles *out;

	assert(all);
	memset(all, true, most);
	out = profiles_select(p, &(struct selection){ all, all }, err);
	free(all);
	return out;
}

/* Takes over the batch; NULL on failure. */
static struct batch *settled(struct batch *batch, const struct edit *edit, struct err *err)
{
	struct batch *out = NULL;
	struct profiles *p;

	if (!edit_dictionary_changed(edit)) {
		if (batch_charge_growth(batch, err))
			return batch;
	} else {
		p = minimal(batch->profiles, err);
		out = p ? batch_derive(batch, p, err) : NULL;
		if (p && !out)
			profiles_free(p);
	}
	batch_unref(batch);
	return out;
}

void changed_hand_on(const struct component_host *host, struct batch *batch,
		     const struct edit *edit, bool ok, struct err *err, struct completion *done)
{
	struct outcome o;

	if (!ok) {
		batch_unref(batch);
		batch = NULL;
	} else {
		batch = settled(batch, edit, err);
	}
	if (batch) {
		consumer_consume(host->next, batch, done);
		return;
	}
	o = outcome_of(err);
	completion_done(done, &o);
}
