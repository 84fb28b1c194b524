/*
 * exporter_internal.h - what the parts of the exporter `clickhouse` share: its state, and who does
 * what to it. exporter.c is the component and its worker, exporter_options.c reads and checks what
 * it is told, exporter_insert.c brings batches into the tables, once.
 *
 * Memory and threads: as exporter.c says.
 */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/metrics.h"
#include "pipeline/sending.h"
#include "pipeline/spool_seen.h"
#include "pipeline/worker.h"
#include "store/clickhouse/encode.h"
#include "store/clickhouse/fence.h"
#include "store/clickhouse/schema.h"
#include "store/clickhouse/server.h"

struct clickhouse {
	/* options */
	const char *endpoint, *username, *password, *password_file, *database, *cluster_name,
		*tenant;
	struct {
		const char *name, *params;
	} table_engine;
	struct {
		bool insecure, insecure_skip_verify;
		const char *ca_file, *cert_file, *key_file, *server_name_override;
	} tls;
	struct config_pairs connection_params;
	int compress;
	bool create_schema, async_insert, wait_for_async_insert;
	uint32_t insert_quorum, max_rows;
	uint64_t ttl_ns, flush_interval_ns, max_bytes, dedup_window_ns;
	struct sending_options sending;

	/* checked */
	struct ch_endpoint at;
	char *file_password, *settings, *store_name;

	/* run time; the worker's but where said */
	const struct component_host *host;
	struct worker *worker;
	struct ch_server *server;
	struct ch_version version;
	struct ch_schema schema;
	struct ch_encoder encoder;
	bool ready;               /* tables are there */
	struct spool_seen unsure; /* requests that an insert of ours failed with */
	struct ch_fence fence;    /* of samples and requests */
	uint64_t started_unix_ns, expire_at_ns;
	struct buf sql, answer;
	struct metric *requests, *duplicates, *samples, *rows, *repaired;

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t more;
	uint32_t waiting; /* batches that were taken and not answered */
	uint64_t waiting_bytes;
	bool stopping;
};

/* A batch on its way into the tables. */
struct work {
	struct worker_item *item;
	struct ch_request request;
	uint32_t *have;
	uint16_t day;
	bool unsure, there; /* maybe partly there; wholly there */
	bool repaired, inserted;
};

extern const struct config_field clickhouse_fields[];

/* NULL for what is not said, or said to be empty. */
const char *clickhouse_text(const char *text);
bool clickhouse_check(void *state, struct err *err);
/* Of what is sent to the server. */
bool clickhouse_compresses(const struct clickhouse *x);

static inline void clickhouse_count(struct metric *m, uint64_t n)
{
	if (m)
		metric_add(m, (int64_t)n);
}

/* All that is not there yet of the works; the server's tables are there. False: what was inserted
 * is not known. */
bool clickhouse_insert(struct clickhouse *x, struct work *works, uint32_t n, struct err *err);
