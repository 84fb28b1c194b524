/*
 * file_stamp.h - tells whether a file that is open has been written over since.
 *
 * The page cache changes under whoever maps it, its inode does not (`cp new.so old.so`). A file
 * whose last name was removed keeps its bytes, but its ctime changes. Threads: any.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct file_stamp {
	uint64_t device, inode, bytes;
	uint64_t written_ns, touched_ns; /* mtime, ctime */
};

/* All zero for what is no open file. */
struct file_stamp file_stamp_of(int fd);
bool file_stamp_same_file(const struct file_stamp *a, const struct file_stamp *b);
/* Surely the same bytes as when `then` was taken? No, where anything about the file has changed. */
bool file_stamp_untouched(const struct file_stamp *then, int fd);
/* The same length and time of writing: the same bytes, unless somebody set the clock back. */
bool file_stamp_unwritten(const struct file_stamp *then, int fd);
