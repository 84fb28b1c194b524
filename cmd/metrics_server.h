/* metrics_server.h - the process's own metrics at http://HOST:PORT/metrics, where
 * service::telemetry asks for it. */
#pragma once
#include "base/err.h"
#include "base/metrics.h"
#include "net/loops.h"
#include "pipeline/config.h"

struct metrics_server;

/* Listens where the configuration has a pull reader; else makes a server that does nothing. */
struct metrics_server *metrics_server_new(struct net_loops *loops, struct metrics *metrics,
					  const struct config *config, struct err *err) MUST_CHECK;
/* After a reload: to where the new configuration has it. On failure it stays where it is. */
bool metrics_server_move(struct metrics_server **server, struct net_loops *loops,
			 const struct config *config, struct err *err) MUST_CHECK;
void metrics_server_free(struct metrics_server *s); /* NULL is fine */
