#include "components/exporters/fd_out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum { POLL_MS = 100 };

void fd_out_init(struct fd_out *o, int fd)
{
	char path[32];
	struct stat st;
	bool pipe;

	*o = (struct fd_out){ .fd = fd, .own_fd = -1 };
	if (fstat(fd, &st) != 0)
		return;
	pipe = S_ISFIFO(st.st_mode);
	o->is_socket = S_ISSOCK(st.st_mode);
	if (!pipe && !isatty(fd))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	o->own_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	o->in_pieces = pipe && o->own_fd < 0;
}

void fd_out_release(struct fd_out *o)
{
	if (o->own_fd > STDERR_FILENO)
		close(o->own_fd);
	o->own_fd = -1;
}

/* With O_APPEND (>>) the file's end is where we write; without (>) our offset is, and must be its
 * end. */
void fd_out_begin(struct fd_out *o)
{
	struct stat st;
	int flags = fcntl(o->fd, F_GETFL);

	o->can_take_back = false;
	if (flags < 0 || fstat(o->fd, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	o->start = flags & O_APPEND ? st.st_size : lseek(o->fd, 0, SEEK_CUR);
	o->can_take_back = o->start == st.st_size;
}

bool fd_out_take_back(struct fd_out *o)
{
	return o->can_take_back && ftruncate(o->fd, o->start) == 0 &&
	       lseek(o->fd, o->start, SEEK_SET) == o->start;
}

void fd_out_stop(struct fd_out *o, uint64_t deadline_ns)
{
	atomic_store(&o->deadline_ns, deadline_ns ? deadline_ns : 1);
}

/* EAGAIN: no room now. */
static ssize_t write_some(struct fd_out *o, struct str text)
{
	struct pollfd p = { .fd = o->fd, .events = POLLOUT };

	if (o->own_fd >= 0)
		return write(o->own_fd, text.ptr, text.len);
	if (o->is_socket)
		return send(o->fd, text.ptr, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!o->in_pieces)
		return write(o->fd, text.ptr, text.len);
	if (poll(&p, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(o->fd, text.ptr, text.len < PIPE_BUF ? text.len : PIPE_BUF);
}

/* Waits for room; POLLERR is for the next write to report. */
static bool wait_for_room(struct fd_out *o, struct err *err)
{
	for (;;) {
		struct pollfd p = { .fd = o->fd, .events = POLLOUT };
		uint64_t deadline_ns = atomic_load(&o->deadline_ns);

		if (poll(&p, 1, POLL_MS) > 0)
			return true;
		if (deadline_ns && clock_monotonic_ns() >= deadline_ns)
			return err_set(err, ERR_UNAVAILABLE,
				       "nobody reads the output, and we are stopping");
	}
}

bool fd_out_write(struct fd_out *o, struct str text, struct err *err)
{
	while (text.len) {
		ssize_t n = write_some(o, text);

		if (n >= 0) {
			text = str_skip(text, (size_t)n);
		} else if (errno == EAGAIN) {
			if (!wait_for_room(o, err))
				return false;
		} else if (errno == EPIPE) {
			return err_set(err, ERR_CANCELLED, "the reader of the output went away");
		} else if (errno != EINTR) {
			err_set_errno(err, "writing %zu bytes of output", text.len);
			err->kind = ERR_IO;
			return false;
		}
	}
	return true;
}
