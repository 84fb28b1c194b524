/*
 * check.h - is an SQLite store whole? Reads all of it: minutes for a large one.
 */
#pragma once
#include "base/err.h"

/* Calls back once a finding: what SQLite's own check says of pages and indexes, and references to
 * rows that are not there. False: the file cannot be opened as a store at all. */
bool store_check(const char *path, void (*found)(void *arg, const char *finding), void *arg,
		 struct err *err) MUST_CHECK;
