/* seam_packet.c - packets with descriptors, for both ends of the seam. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/supervise/seam_wire.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SEAM_FDS_MOST * sizeof(int))];
};

static void put_descriptors(struct msghdr *m, union control *control, const int *fds,
			    uint32_t count)
{
	struct cmsghdr *c;

	if (!count)
		return;
	memset(control, 0, sizeof(*control));
	m->msg_control = control;
	m->msg_controllen = CMSG_SPACE(count * sizeof(int));
	c = CMSG_FIRSTHDR(m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, count * sizeof(int));
}

bool seam_packet_send(int fd, const void *head, size_t head_bytes, const void *tail,
		      size_t tail_bytes, const int *fds, uint32_t fd_count, struct err *err)
{
	struct iovec parts[] = { { (void *)(uintptr_t)head, head_bytes },
				 { (void *)(uintptr_t)tail, tail_bytes } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = tail_bytes ? 2 : 1 };
	union control control;
	ssize_t sent;

	put_descriptors(&m, &control, fds, fd_count);
	do
		sent = sendmsg(fd, &m, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return true;
	err_set_errno(err, "the seam");
	if (errno == EPIPE || errno == ECONNRESET)
		err->kind = ERR_UNAVAILABLE;
	return false;
}

static void take_descriptors(struct msghdr *m, int *fds, uint32_t room, uint32_t *count)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (*count < room)
				fds[(*count)++] = fd;
			else
				close(fd);
		}
	}
}

bool seam_packet_receive(int fd, void *head, size_t head_bytes, void *tail, size_t tail_room,
			 size_t *got, int *fds, uint32_t fd_room, uint32_t *fd_count,
			 struct err *err)
{
	struct iovec parts[] = { { head, head_bytes }, { tail, tail_room } };
	union control control;
	struct msghdr m = { .msg_iov = parts,
			    .msg_iovlen = tail_room ? 2 : 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t read;

	*fd_count = 0;
	do
		read = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	while (read < 0 && errno == EINTR);
	if (read < 0 && errno == ECONNRESET)
		read = 0; /* as good as closed */
	if (read < 0)
		return err_set_errno(err, "the seam");
	take_descriptors(&m, fds, fd_room, fd_count);
	*got = (size_t)read;
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		for (uint32_t i = 0; i < *fd_count; i++)
			close(fds[i]);
		*fd_count = 0;
		return err_set(err, ERR_INVALID, "a packet of the seam is larger than %zu bytes",
			       head_bytes + tail_room);
	}
	return true;
}
