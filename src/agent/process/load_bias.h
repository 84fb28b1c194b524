/*
 * load_bias.h - where a file lies in a process, by its /proc/PID/maps: for who has a frame and a
 * process and needs another address of that file. Memory: values. Threads: any.
 */
#pragma once
#include "agent/process/executable.h"

/* From the text of /proc/PID/maps: pc = elf_vaddr + *bias. False: the file is not mapped. */
bool load_bias_find(struct str maps, const struct executable *e, uint64_t *bias);
