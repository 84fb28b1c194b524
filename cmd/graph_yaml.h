/*
 * graph_yaml.h - what the commands that make a graph from flags have in common: YAML, entry by
 * entry.
 *
 * A NULL value writes nothing: the component's own default holds. Values that refer to the
 * environment stay references, so that --print-config shows no secret.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "flags.h"
#include "pipeline/yaml_out.h"

void graph_begin(struct yaml_out *y, const char *key); /* ends with yaml_map_end() */
void graph_put(struct yaml_out *y, const char *key, const char *value);
void graph_put_number(struct yaml_out *y, const char *key, const char *digits); /* as it is */
void graph_put_bool(struct yaml_out *y, const char *key, bool value);
void graph_put_true(struct yaml_out *y, const char *key, bool value); /* nothing when false */
void graph_put_list(struct yaml_out *y, const char *key, const char *comma_list);
/* A map from "k=v,k=v"; nothing when empty. */
bool graph_put_pairs(struct yaml_out *y, const char *key, const char *pairs,
		     struct err *err) MUST_CHECK;
/*
 * What flags set of the options below `path` ("exporters/sqlite"), as entries of the map that is
 * open. An option that no flag was given for is left out: the component's own default holds.
 */
bool graph_put_options(struct yaml_out *y, const struct flag *flags, const char *path,
		       struct err *err) MUST_CHECK;
/* `telemetry`: the log's options, and own metrics on the flag metrics-address (none: no metrics).
 */
bool graph_put_telemetry(struct yaml_out *y, const struct flag *flags, struct err *err) MUST_CHECK;
/* `spool`: its options; without a directory /var/lib/flametap/spool as root, else in the user's
 * state. */
bool graph_put_spool(struct yaml_out *y, const struct flag *flags, struct err *err) MUST_CHECK;
