#include "agent/process/file_stamp.h"

#include <sys/stat.h>

#include "base/clock.h"

static uint64_t nanoseconds(struct timespec t)
{
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

struct file_stamp file_stamp_of(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return (struct file_stamp){ 0 };
	return (struct file_stamp){ .device = st.st_dev,
				    .inode = st.st_ino,
				    .bytes = (uint64_t)st.st_size,
				    .written_ns = nanoseconds(st.st_mtim),
				    .touched_ns = nanoseconds(st.st_ctim) };
}

bool file_stamp_same_file(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->inode == b->inode && a->device == b->device;
}

bool file_stamp_unwritten(const struct file_stamp *then, int fd)
{
	struct file_stamp now = file_stamp_of(fd);

	return file_stamp_same_file(then, &now) && now.bytes == then->bytes &&
	       now.written_ns == then->written_ns;
}

bool file_stamp_untouched(const struct file_stamp *then, int fd)
{
	return file_stamp_unwritten(then, fd) && file_stamp_of(fd).touched_ns == then->touched_ns;
}
