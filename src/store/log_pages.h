/*
 * log_pages.h - which pages SQLite's log (FILE-wal) holds, read without SQLite.
 *
 * Where the disk was full, the file may lack pages that only its log has: SQLite reads them there.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Are all pages `first` to `last` (counted from 1) in what was committed to the log of `path`?
 * Checksums are SQLite's business. */
bool log_has_pages(const char *path, uint32_t first, uint32_t last);
