/*
 * options.h - what user space sets before it loads the programs (src/agent/sample/programs.c).
 *
 * One struct: the compiler orders single variables as it likes, and both compilations of the
 * programs (portable.h) must have one layout.
 */
#pragma once
#include <linux/types.h>
#include <stdbool.h>

const volatile struct {
	bool send_idle;
	bool only_listed;
	__u32 ring_wake_bytes;
	__u32 ring_look_bytes; /* sent by a CPU before it looks how full it is */
	__u32 captures_per_second;
	__u32 capture_bytes;        /* at most UNWIND_CAPTURE_MAX */
	__u32 steps_enabled;        /* bit n: enum unwind_step_kind n */
	__u64 pidns_dev, pidns_ino; /* 0: the root namespace */
} options = { .ring_wake_bytes = 1 << 19 };
