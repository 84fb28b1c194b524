/*
 * target.h - files and memory of other processes, for the sampler: opened, never parsed.
 *
 * What a target maps may be anything, so that only regular files are opened: first with O_PATH,
 * then looked at, then for reading. Paths are resolved inside the target's root and may not leave
 * it. Threads: any.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "agent/seam.h"

bool target_open_proc(uint32_t pid, enum seam_proc_file file, int *fd, struct err *err) MUST_CHECK;
bool target_exe_path(uint32_t pid, char *path, size_t cap, struct err *err) MUST_CHECK;
bool target_list(uint32_t *pids, uint32_t cap, uint32_t *count, struct err *err) MUST_CHECK;
bool target_open_mapped(uint32_t pid, const struct seam_file *file, int *fd,
			struct err *err) MUST_CHECK;
bool target_open_in_root(uint32_t pid, const char *path, int *fd, struct err *err) MUST_CHECK;
bool target_read_memory(uint32_t pid, uint64_t address, void *to, size_t bytes, size_t *got,
			struct err *err) MUST_CHECK;
bool target_open_kallsyms(int *fd, struct err *err) MUST_CHECK;
