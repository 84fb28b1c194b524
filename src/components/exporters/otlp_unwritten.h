/*
 * otlp_unwritten.h - counts, and says once a minute, what of a message the OTLP version that an
 * exporter writes has no place for (wire/losses.h): flametap_exporter_unwritten_total.
 *
 * Threads: any, once initialized.
 */
#pragma once
#include "base/log.h"
#include "pipeline/component.h"
#include "wire/losses.h"

struct otlp_unwritten {
	struct metric *losses[OTLP_LOSSES]; /* NULL: the host counts nothing */
	struct log_gate gate;
};

void otlp_unwritten_init(struct otlp_unwritten *u, const struct component_host *host);
/* A message was encoded. */
void otlp_unwritten_note(struct otlp_unwritten *u, const struct profiles *p,
			 enum wire_version version, bool json);
