/*
 * variant.h - which of the two compilations of the BPF programs this kernel takes.
 *
 * VARIANT_LOOP uses bpf_loop and hash maps that grow (Linux 6.1); VARIANT_BOUNDED nothing newer
 * than 5.10, at a higher price to load. The kernel is asked for features, not for its version:
 * vendors carry features back.
 */
#pragma once
#include <stdbool.h>
#include "base/err.h"

enum variant { VARIANT_LOOP, VARIANT_BOUNDED };

struct kernel_features {
	bool loop;         /* the helper bpf_loop: Linux 5.17 */
	bool growing_hash; /* perf event programs may use hash maps that grow: 6.1 */
	bool ring_buffer;  /* 5.8 */
	bool task_read;    /* bpf_probe_read_kernel, which bounded programs read tasks with: 5.5 */
};

/* Asks the kernel by loading programs of a few instructions. What may not be asked counts as there:
 * the load that follows names the missing privilege. */
struct kernel_features kernel_features_probe(void);
/* False: neither runs here, and err says what the kernel lacks. */
bool variant_choose(const struct kernel_features *f, enum variant *out, struct err *err) MUST_CHECK;
/* Are maps charged to RLIMIT_MEMLOCK (before Linux 5.11) and not to the control group? */
bool maps_are_locked_memory(void);
