/*
 * store_source.h - a store (store/reader.h) as a source of samples.
 *
 * The source looks at one snapshot, taken when it is made: make one a question, soon end it (in
 * SQLite it keeps the write-ahead log from being emptied). Memory: the store stays the caller's and
 * must outlive the source.
 */
#pragma once
#include "store/source.h"

struct store;

/* For who must not include the store: opens it read-only beside any writer. */
bool store_source_open(const char *location, struct store **out, struct err *err) MUST_CHECK;
void store_source_close(struct store *store); /* NULL is fine */
/* What its exporter calls it when it fails (pipeline/failing.h), from malloc(). */
char *store_source_name(const char *location);

bool store_source_new(struct store *store, struct source **out, struct err *err) MUST_CHECK;
