/* Conditions and statements as configurations give them: compiled or refused, then run over a small
 * message, whose dictionary stays sound. */
#include <stdlib.h>
#include "components/ottl/message_for_tests.h"
#include "components/ottl/ottl.h"
#include "fuzz/fuzz.h"
#include "model/subset.h"

static void run(struct ottl *o, const struct ottl_code *c)
{
	struct profiles *p = test_message(), *small;
	struct edit *edit = edit_new(p);
	struct ottl_run *r = ottl_run_new(o, p, edit);
	bool all[64], holds;
	struct err err;

	for (uint32_t i = 0; i < TEST_SAMPLES; i++) {
		struct ottl_at at = { .sample = i };

		err.kind = ERR_NONE;
		if (!(c->editor ? ottl_apply(r, c, &at, &err)
				: ottl_holds(r, c, &at, &holds, &err)) &&
		    err.kind == ERR_NONE)
			abort();
	}
	memset(all, true, sizeof(all));
	small = profiles_select(p, &(struct selection){ all, all }, &err);
	if (!small)
		abort();
	profiles_free(small);
	ottl_run_free(r);
	edit_free(edit);
	profiles_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_node node = { .kind = NODE_SCALAR, .text = str_from(data, size) };
	struct problems problems;
	struct arena arena;
	struct ottl o;

	for (int kind = 0; kind < 4; kind++) {
		struct ottl_source source = { &node, "fuzz", kind < 2 ? OTTL_INFER : OTTL_SAMPLE,
					      &problems };
		struct ottl_code *c;

		arena_init(&arena, 4096, 0);
		problems_init(&problems);
		ottl_init(&o, &arena);
		c = kind & 1 ? ottl_compile_statement(&o, &source)
			     : ottl_compile_condition(&o, &source);
		if (!c && problems.error_count == 0)
			abort();
		if (c)
			run(&o, c);
		ottl_release(&o);
		problems_release(&problems);
		arena_release(&arena);
	}
	return 0;
}
