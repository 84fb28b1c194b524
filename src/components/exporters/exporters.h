/* exporters.h - the exporters of this folder, for components/all.c and tests. */
#pragma once
#include "pipeline/component.h"

extern const struct component_ops stdout_exporter;
extern const struct component_ops customprofilesexporter_exporter;
extern const struct component_ops filesystem_exporter;
extern const struct component_ops prometheus_exporter;
extern const struct component_ops nop_exporter;
extern const struct component_ops otlp_grpc_exporter;
extern const struct component_ops otlp_http_exporter;

/* A row of an option table: name, kind, offset, default, help, and any further member of struct
 * config_field. */
#define EXPORTER_FIELD(name_, kind_, offset_, default_, help_, ...)                                \
	{                                                                                          \
		.name = (name_), .kind = (kind_), .offset = (offset_), .default_text = (default_), \
		.help = (help_), ##__VA_ARGS__                                                     \
	}
