/* source.h - where a configuration is read from: URIs, text, single settings. */
#pragma once
#include "pipeline/config.h"

/* All sources parsed and merged in their order, settings (--set) on top; not yet expanded. NULL
 * when problems got an error. */
struct config_node *sources_read(struct arena *a, const struct config_source *sources,
				 uint32_t count, struct problems *problems) MUST_CHECK;
