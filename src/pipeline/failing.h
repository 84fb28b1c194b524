/*
 * failing.h - whether a store takes what comes: its exporter says so, the page of the same process
 * asks.
 *
 * Known by the store's name: a file's path, as the configuration has it, or a ClickHouse database's
 * http://host:port/database. Threads: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

struct store_failing {
	uint64_t since_unix_ns;
	uint64_t refused; /* requests since then: their senders were told to try again */
	char error[sizeof(((struct err *)0)->msg)]; /* the newest */
};

/* What became of so many requests; `failure` NULL: they are kept, and all is well again. */
void store_failing_note(const char *store, uint32_t requests, const struct err *failure);
/* False: it takes what comes, or nobody here writes it. */
bool store_failing_now(const char *store, struct store_failing *out);
