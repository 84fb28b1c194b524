/*
 * proc_maps.h - /proc/PID/maps, line by line: the executable mappings.
 *
 *   start-end perms offset major:minor inode   path
 *   7f12a4000000-7f12a4022000 r-xp 00001000 08:01 1835   /usr/lib/libc.so.6
 *
 * The path may hold spaces, "(deleted)" behind it, and "\012" for a newline. Source: proc(5).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"

struct proc_mapping {
	uint64_t start, end, file_offset, device, inode;
	bool executable;
	struct str path; /* without " (deleted)"; "" = anonymous */
};

/* One line without its newline. False: not such a line. */
bool proc_maps_parse(struct str line, struct proc_mapping *out);
