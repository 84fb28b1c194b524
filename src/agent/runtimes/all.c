#include "agent/runtimes/runtime.h"

const struct runtime_ops *const runtimes_all[] = {
	NULL,
};
