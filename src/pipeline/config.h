/*
 * config.h - a whole configuration: sources in, checked components and pipelines out, normalized
 * YAML back.
 *
 * Structure, merging, ${env:X} expansion, ids and error texts are the Collector's (its confmap and
 * service), each message with file:line:column and a suggestion besides, and all of them at once.
 * What the Collector has no word for stands in `service::flametap`. The commands that build a graph
 * from flags hand in YAML text: one way in for all.
 *
 * Memory: a struct config owns all it names. Threads: one; read-only once loaded.
 */
#pragma once
#include "pipeline/component.h"
#include "pipeline/node.h"
#include "pipeline/problems.h"

enum config_source_kind {
	CONFIG_FROM_URI,  /* "file:a.yaml", "a.yaml", "env:NAME", "yaml:a::b::c: value" */
	CONFIG_FROM_TEXT, /* a YAML document */
	CONFIG_FROM_SET,  /* "a.b.c=value": applied after all others */
};

struct config_source {
	enum config_source_kind kind;
	const char *text;
	const char *name; /* FROM_TEXT: what messages call it; NULL = they tell no places */
};

/* One id under receivers, processors, exporters or extensions. */
struct config_component {
	enum component_kind kind;
	const char *id; /* "otlp", "otlp/2" */
	const struct component_ops *ops;
	struct config_pos pos;          /* of the id */
	const char *path;               /* "receivers::otlp": in front of messages */
	const struct config_node *node; /* its settings; may be a null node */
	bool used;                      /* named by a pipeline or by service::extensions */
};

struct config_pipeline {
	const char *id; /* "profiles", "profiles/2" */
	struct config_pos pos;
	const struct config_component **receivers, **processors, **exporters;
	uint32_t receiver_count, processor_count, exporter_count;
};

enum telemetry_level { TELEMETRY_NONE, TELEMETRY_BASIC, TELEMETRY_NORMAL, TELEMETRY_DETAILED };
enum spool_fsync { SPOOL_FSYNC_ALWAYS, SPOOL_FSYNC_INTERVAL, SPOOL_FSYNC_NEVER };

/* service::telemetry */
struct telemetry_options {
	struct telemetry_logs {
		int level;    /* enum log_level */
		int encoding; /* 0 console, 1 json */
		/* Read so that the Collector's files load; without effect here, where there is one
		 * log on stderr. */
		bool development, disable_caller, disable_stacktrace;
		struct config_strings output_paths, error_output_paths;
		const struct config_node *initial_fields, *sampling, *processors;
	} logs;
	struct telemetry_metrics {
		int level; /* enum telemetry_level */
		const struct config_node *readers, *views;
		const char *host; /* of the first Prometheus pull reader; NULL = none is wanted */
		uint32_t port;
	} metrics;
	const struct config_node *traces, *resource;
};

/* service::flametap: what a graph has as a whole. */
struct engine_options {
	uint64_t max_inflight_bytes; /* max_inflight_mib */
	bool durable, strict;
	uint64_t dedup_window_ns;
	uint64_t shutdown_timeout_ns;
	const char *worker_user; /* whom the part without privileges runs as; NULL: as started */
	struct spool_settings {
		const char *directory; /* NULL: no spools */
		uint64_t max_bytes;    /* max_mib: of all spools */
		int fsync;             /* enum spool_fsync */
		uint64_t fsync_interval_ns;
	} spool;
};

struct config {
	struct arena arena;
	const struct component_ops *const *known;
	struct config_node *root; /* merged and expanded */
	struct config_component *components;
	struct config_pipeline *pipelines;          /* in the order of the file */
	const struct config_component **extensions; /* in the order of service::extensions */
	uint32_t component_count, pipeline_count, extension_count;
	struct telemetry_options telemetry;
	struct engine_options engine;
};

/* NULL when problems holds an error. Warnings (unset variables, old names) are in problems either
 * way. */
struct config *config_load(const struct config_source *sources, uint32_t count,
			   const struct component_ops *const *known,
			   struct problems *problems) MUST_CHECK;
void config_free(struct config *c); /* NULL is fine */

/*
 * The configuration as normalized YAML: every option with its value, defaults included; ${...} as
 * it was written, other secrets as [REDACTED]. Loaded again and printed it gives itself, byte for
 * byte.
 */
void config_print(const struct config *c, struct buf *out);

/* Finds a component by kind and id, or NULL. */
const struct config_component *config_component_find(const struct config *c,
						     enum component_kind kind, const char *id);
/* Allocates a component's state (free() it, after ops->release()) with all options filled in,
 * strings in `arena`, and runs check(). NULL when problems got an error. */
void *config_component_state(const struct config_component *c, struct arena *arena,
			     struct problems *problems) MUST_CHECK;
