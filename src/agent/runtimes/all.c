#include "agent/hotspot/hotspot.h"
#include "agent/runtimes/cpython.h"
#include "agent/runtimes/runtime.h"

const struct runtime_ops *const runtimes_all[] = {
	&cpython_runtime,
	&hotspot_runtime,
	NULL,
};
