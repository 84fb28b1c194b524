/*
 * store.h - opens a store, to read it: an SQLite file, or a database in ClickHouse.
 *
 *   store_open() -> store_begin(), a source (source.h) for each question -> store_close()
 *
 * Threads: any; a source, one at a time. Sources end before their store is closed.
 */
#pragma once
#include "store/source.h"

struct store;

struct store_open_options {
	const char *location; /* path of an SQLite file, or http(s)://... of a ClickHouse server */
};

/* Read-only, beside any writer. ERR_NOT_FOUND: no such file; ERR_UNSUPPORTED: made by another
 * version; ERR_INVALID: not a store, or damaged. */
bool store_open(const struct store_open_options *options, struct store **out,
		struct err *err) MUST_CHECK;
/* What its exporter calls it when it fails (pipeline/failing.h), from malloc(). */
char *store_name(const char *location);

struct store_ops {
	bool (*begin)(struct store *s, struct source **out, struct err *err);
	void (*close)(struct store *s);
};

/* The first member of either kind. */
struct store {
	const struct store_ops *ops;
};

static inline bool MUST_CHECK store_begin(struct store *s, struct source **out, struct err *err)
{
	return s->ops->begin(s, out, err);
}

static inline void store_close(struct store *s)
{
	if (s)
		s->ops->close(s);
}

/* The two kinds: store_open() chooses by the location. */
bool sqlite_open(const struct store_open_options *options, struct store **out,
		 struct err *err) MUST_CHECK;
bool ch_open(const struct store_open_options *options, struct store **out,
	     struct err *err) MUST_CHECK;
