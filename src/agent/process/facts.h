/*
 * facts.h - gathers what goes onto the wire beside a process's samples (process_info.h), from /proc
 * and from what the side band has told.
 *
 * A process that is gone already keeps what is known without it: its path and comm from the side
 * band, its container from the process that forked it. Threads: one at a time per seam.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "agent/process/process_info.h"
#include "agent/seam.h"

struct facts_wish {
	uint32_t pid;
	const char *path; /* as the side band told; NULL: ask /proc */
	const char *comm;
	uint64_t start_ns, start_boottime_ns; /* the first that is not 0 counts */
	const struct process_info *parent;    /* may be NULL */
	bool kernel_thread;
	const char *const *variables;
	uint32_t variable_count;
};

struct process_info *facts_gather(struct seam *seam, const struct facts_wish *wish);

/* The value of a variable in /proc/PID/environ; false: not set. */
bool environ_find(struct str environ, struct str name, struct str *value);
/* What a process says it is: OTEL_SERVICE_NAME, else service.name in OTEL_RESOURCE_ATTRIBUTES. */
struct str environ_service_name(struct str environ);
