/*
 * file_guard.h - a mapped file may be cut short by whoever owns it; reading past its new end must
 * not end our process.
 *
 * The kernel answers such a read with SIGBUS. Our handler looks the address up among the guarded
 * ranges, maps zeros over the lost rest of that range, marks the range damaged, and the read goes
 * on: to a parser that bounds everything, zeros are one more hostile file. (systemd's journal reads
 * its files the same way.) A SIGBUS anywhere else goes to the handler that was there before.
 *
 * Threads: any; a range is read and released by one thread at a time.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

enum { FILE_GUARD_RANGES_MOST = 2048 };

/* Guards a mapping of whole pages. The slot goes to file_guard_remove(). ERR_LIMIT: too many. */
bool file_guard_add(const void *start, size_t bytes, int *slot, struct err *err) MUST_CHECK;
/* Before the munmap(). */
void file_guard_remove(int slot);
/* A read of this range has met lost pages: what was read since may be zeros. */
bool file_guard_damaged(int slot);
