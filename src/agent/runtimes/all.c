#include "agent/runtimes/hotspot/hotspot.h"
#include "agent/runtimes/cpython/cpython.h"
#include "agent/runtimes/go/go.h"
#include "agent/runtimes/php/php.h"
#include "agent/runtimes/ruby/ruby.h"
#include "agent/runtimes/runtime.h"
#include "agent/runtimes/v8/v8.h"

/* Their steps know x86-64's frames and thread-local storage; elsewhere native frames are shown. */
const struct runtime_ops *const runtimes_all[] = {
#ifdef __x86_64__
	&cpython_runtime,
	&hotspot_runtime,
	&go_runtime,
	&php_runtime,
	&ruby_runtime,
	&v8_runtime,
#endif
	NULL,
};
