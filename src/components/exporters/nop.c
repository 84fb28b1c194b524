/* nop.c - the exporter that takes everything and keeps nothing: for measuring what stands before
 * it. */
#include "components/exporters/exporters.h"

static void nop_consume(void *state, struct batch *batch, struct completion *done)
{
	static const struct outcome ok = { .kind = OUTCOME_OK };

	(void)state;
	batch_unref(batch);
	completion_done(done, &ok);
}

static const struct config_field nop_fields[] = { { 0 } };

const struct component_ops nop_exporter = {
	.type = "nop",
	.summary = "accepts everything and keeps nothing",
	.kind = COMPONENT_EXPORTER,
	.state_size = 1,
	.fields = nop_fields,
	.consume = nop_consume,
};
