/* exporters.h - the exporters of the store, for components/all.c and tests. */
#pragma once
#include "pipeline/component.h"

extern const struct component_ops sqlite_exporter;
extern const struct component_ops clickhouse_exporter;
