/* read_proc.h - the text of a file of /proc/PID, through the seam. */
#pragma once
#include <stdbool.h>
#include "agent/seam.h"
#include "base/buf.h"

/* Appends the file; false: it cannot be opened or read, or is larger than the buffer's limit (what
 * was read is there). */
bool read_proc(struct seam *seam, uint32_t pid, enum seam_proc_file file, struct buf *out);
