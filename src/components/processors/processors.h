/* processors.h - the processors of this folder, for components/all.c. */
#pragma once
#include "pipeline/component.h"

extern const struct component_ops memory_limiter_processor;
extern const struct component_ops batch_processor;
extern const struct component_ops queuebatch_processor;
extern const struct component_ops filter_processor;
extern const struct component_ops transform_processor;
extern const struct component_ops resource_processor;
extern const struct component_ops attributes_processor;
extern const struct component_ops probabilistic_sampler_processor;
extern const struct component_ops resourcedetection_processor;
