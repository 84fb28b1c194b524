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
#include "pipeline/yaml_out.h"

void graph_begin(struct yaml_out *y, const char *key); /* ends with yaml_map_end() */
void graph_put(struct yaml_out *y, const char *key, const char *value);
void graph_put_number(struct yaml_out *y, const char *key, const char *digits); /* as it is */
void graph_put_bool(struct yaml_out *y, const char *key, bool value);
void graph_put_true(struct yaml_out *y, const char *key, bool value); /* nothing when false */
void graph_put_list(struct yaml_out *y, const char *key, const char *comma_list);
/* One list of what stands in all of them; nothing when that is nothing. */
void graph_put_lists(struct yaml_out *y, const char *key, const char *const *comma_lists,
		     uint32_t count);
/* A map from "k=v,k=v"; nothing when empty. */
bool graph_put_pairs(struct yaml_out *y, const char *key, const char *pairs,
		     struct err *err) MUST_CHECK;
/* `telemetry`: what is logged and how, and own metrics on HOST:PORT (NULL or empty: none). */
bool graph_put_telemetry(struct yaml_out *y, const char *log_level, const char *log_format,
			 const char *metrics_address, struct err *err) MUST_CHECK;
/* `directory`: /var/lib/flametap/spool as root, else in the user's state. */
void graph_put_default_spool_directory(struct yaml_out *y);
