/* generation.h - all instances of one configuration, wired. graph.c replaces one by the next on
 * reload. */
#pragma once
#include "pipeline/graph.h"

struct generation;

/* Takes over config in any case. env must live as long. */
struct generation *generation_new(struct config *config, const struct graph_env *env,
				  struct problems *problems) MUST_CHECK;
bool generation_start(struct generation *g,
		      struct err *err) MUST_CHECK; /* on failure all is stopped again */
void generation_stop(struct generation *g, uint64_t deadline_ns);
bool generation_reload(struct generation *g,
		       struct err *err) MUST_CHECK; /* the first error; all are asked */
bool generation_running(const struct generation *g);
const struct config *generation_config(const struct generation *g);
/* For the next generation; g is then only good for freeing, by generation_free(). */
struct config *generation_take_config(struct generation *g);
void generation_free(struct generation *g); /* stopped; NULL is fine */
