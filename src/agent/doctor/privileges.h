/*
 * privileges.h - the six capabilities of the sampler (docs/decisions/), and what each is for.
 *
 * CAP_SYS_ADMIN stands for BPF, PERFMON, CHECKPOINT_RESTORE and SYSLOG, as the kernel has it.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { SAMPLER_CAPABILITIES = 6 };

struct sampler_capability {
	const char *finding; /* "cap_bpf" */
	const char *name;    /* "CAP_BPF" */
	unsigned number;     /* linux/capability.h */
	bool admin_will_do;
	bool required; /* else its lack only limits */
	const char *costs;
};
extern const struct sampler_capability sampler_capabilities[SAMPLER_CAPABILITIES];

/* The effective and permitted sets of this thread as bits; false when the kernel does not say. */
bool capabilities_read(uint64_t *effective, uint64_t *permitted);
/* Does this set allow what the capability is for? */
bool capability_is_in(const struct sampler_capability *c, uint64_t set);
/* Debian's and Ubuntu's kernels refuse perf events to PERFMON alone while
 * kernel.perf_event_paranoid is above 2, which is their default. True where it is so: tried, with
 * the effective set of this thread for that moment. */
bool perf_needs_admin(void);
/* Of `permitted` what a sampler keeps: the six, and SYS_ADMIN in place of one that is missing, or
 * where perf events need it. */
uint64_t capabilities_of_sampler(uint64_t permitted, bool perf_admin);
