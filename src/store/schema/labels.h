/*
 * labels.h - the column series.labels: what a series says under the keys that people group by, so
 * that it can be told from its row alone.
 *
 * A run of varints, the rows of `attribute` in the order of the keys below, 0 where it has none.
 * What was lifted from samples counts as its resource's. NULL: the attributes themselves must be
 * read, as the series says such a key in its scope, twice, or in another spelling.
 */
#pragma once
#include "model/profiles.h"

/* Kept in files: append, never renumber. */
enum label_key {
	LABEL_SERVICE,
	LABEL_EXECUTABLE,
	LABEL_HOST,
	LABEL_CONTAINER_ID,
	LABEL_CONTAINER,
	LABEL_POD,
	LABEL_NAMESPACE,
	LABEL_DEPLOYMENT,
	LABEL_ENVIRONMENT,
	LABEL_PROFILER, /* no key: the host by which its profiler is told, as queries tell it */
	LABEL_KEYS,
	LABEL_NONE = LABEL_KEYS,
};

/* *exact false: the key is spelled with other punctuation ("host_name"), as queries may have it. */
enum label_key label_key_of(struct str key, bool *exact);

/* Of a resource's attributes the host whose profiler it is from, as queries have it: host.id, else
 * host.name. NULL: none is said, or the process's own SDK profiles it. */
const struct key_value *label_profiler(struct key_values resource);

/* Which of them (bits) must be known for all that is asked; false: they do not do. */
bool label_keys_asked(const struct str *keys, uint32_t count, uint32_t *bits);
