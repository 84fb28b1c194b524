/*
 * online.h - has the set of online CPUs changed? A look at the kernel's list, once a second, for
 * the worker: a question to the sampler wakes another process.
 *
 * Where the list cannot be read, the answer is yes each second. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define ONLINE_CPUS_PATH "/sys/devices/system/cpu/online"

struct online_cpus {
	int fd;
	bool known;
	uint64_t hash; /* of the list that was seen last */
	uint64_t looked_ns;
};

/* Closed by online_cpus_close(), also when the file could not be opened. */
void online_cpus_open(struct online_cpus *o, const char *path);
void online_cpus_close(struct online_cpus *o);
/* True at first, and once for each other list that is seen. Looks at most once a second. */
bool online_cpus_changed(struct online_cpus *o, uint64_t now_ns);
/* What has changed could not be followed: true again in a second. */
void online_cpus_forget(struct online_cpus *o);
