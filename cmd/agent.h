/* agent.h - the graph that the agent's flags describe: profiling -> OTLP. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "flags.h"

/* Appends the YAML. OTEL_EXPORTER_OTLP_*, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES stand for
 * flags that were not given. */
bool agent_graph_yaml(const struct flag *flags, struct buf *out, struct err *err) MUST_CHECK;
