/* config_service.h - the `service` section: pipelines, extensions, telemetry, flametap. Between
 * config*.c only. */
#pragma once
#include "pipeline/config.h"

extern const struct config_field telemetry_fields[];
extern const struct config_field engine_fields[];

/* Reads it into c, whose components are known by now. */
void config_read_service(struct config *c, const struct config_node *service,
			 struct problems *problems);
/* "type" or "type/name"; notes what is wrong with it. */
bool config_id_check(struct str id, const struct config_pos *pos, const char *section,
		     struct problems *problems);
struct str config_id_type(struct str id);
const char *config_section_name(enum component_kind kind); /* "receivers" */
