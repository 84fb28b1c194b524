/* profiling.h - the receiver `profiling`: every process of this machine, as OTLP profiles. For
 * components/all.c. */
#pragma once
#include "pipeline/component.h"

extern const struct component_ops profiling_receiver;

/* Samples so far, of a state that was started. Any thread. */
uint64_t profiling_trace_count(void *state);
