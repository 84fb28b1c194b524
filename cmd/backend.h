/* backend.h - the graph that the backend's flags describe. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "flags.h"

/* Appends the YAML; false (ERR_INVALID) for an unknown sink or a malformed list. */
bool backend_graph_yaml(const struct flag *flags, struct buf *out, struct err *err) MUST_CHECK;
