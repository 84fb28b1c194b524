/*
 * hotspot.h - the HotSpot Java virtual machine as a runtime of the agent (runtimes/runtime.h).
 *
 * What libjvm.so says of itself is read once per file, and is the executable's facts: a struct
 * hotspot_layout. Attaching to a process finds its code heaps.
 */
#pragma once
#include "agent/runtimes/runtime.h"

bool hotspot_recognise(const struct elf_file *f, struct str path,
		       const struct runtime_tables *tables, struct runtime_binary *out);
extern const struct runtime_ops hotspot_runtime;
