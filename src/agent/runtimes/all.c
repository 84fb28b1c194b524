#include "agent/runtimes/runtime.h"

#include "agent/hotspot/hotspot.h"

const struct runtime_ops *const runtimes_all[] = {
	&hotspot_runtime,
	NULL,
};
