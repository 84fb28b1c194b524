#include "agent/process/read_proc.h"

#include <unistd.h>

#include "base/cleanup.h"

enum { CHUNK = 16384 };

bool read_proc(struct seam *seam, uint32_t pid, enum seam_proc_file file, struct buf *out)
{
	AUTO(fd_close) int fd = -1;
	struct err err;
	ssize_t n;

	if (!seam->ops->open_proc(seam, pid, file, &fd, &err))
		return false;
	do {
		char *to = buf_reserve(out, CHUNK);

		n = to ? read(fd, to, CHUNK) : -1;
		if (n > 0)
			buf_advance(out, (size_t)n);
	} while (n > 0);
	return n == 0;
}
