/* yaml_out.h - writes block-style YAML, the same bytes for the same content. Threads: one. */
#pragma once
#include "base/buf.h"
#include "pipeline/node.h"

struct yaml_out;

struct yaml_out *yaml_out_new(struct buf *out);
/* Ends the document. One whose maps and lists are not all closed, as after an error, is given up:
 * what `out` holds then is of no use. */
void yaml_out_free(struct yaml_out *y);
void yaml_map_begin(struct yaml_out *y);
void yaml_map_end(struct yaml_out *y);
void yaml_list_begin(struct yaml_out *y, bool flow);
void yaml_list_end(struct yaml_out *y);
void yaml_key(struct yaml_out *y, struct str key);
void yaml_bare(struct yaml_out *y, struct str text); /* numbers, bools, durations: as it is */
void yaml_string(struct yaml_out *y,
		 struct str text); /* quoted where it would read as something else; $ escaped */
void yaml_reference(struct yaml_out *y, struct str text); /* ${...} as it was written */
/* A tree: references as written, all else as it is. */
void yaml_node(struct yaml_out *y, const struct config_node *n);
