/*
 * service.h - runs a graph until a signal ends it: what every command that listens has in common.
 *
 * SIGTERM and SIGINT stop it in order (a second one, a second or more later, at once), SIGHUP reads
 * the configuration and certificates again, all or nothing. A graph with the receiver `profiling`
 * runs in a worker without privileges, beside a sampler (agent/supervise/).
 */
#pragma once
#include <stdbool.h>
#include "pipeline/config.h"

struct service_options {
	const char *command; /* for messages: "backend" */
	struct config_source *sources;
	uint32_t source_count;
	bool print_config;  /* print the graph's YAML and return */
	bool validate_only; /* load, build, start nothing */
	/* Makes the sources' text anew before SIGHUP reads them. May be NULL. */
	bool (*refresh)(void *arg, struct err *err);
	void *refresh_arg;
	/* Everything runs: once in each process that runs the graph (a worker may be started again,
	 * and has no privileges). May be NULL. */
	void (*started)(void *arg);
	void *started_arg;
};

int service_run(const struct service_options *options);
