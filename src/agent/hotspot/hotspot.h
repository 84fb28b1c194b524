/*
 * hotspot.h - the HotSpot Java virtual machine as a runtime of the agent (runtimes/runtime.h).
 *
 * What libjvm.so says of itself is read once per file, and is the executable's facts: a struct
 * hotspot_layout. Attaching to a process finds its code heaps.
 */
#pragma once
#include "agent/runtimes/runtime.h"

extern const struct runtime_ops hotspot_runtime;
