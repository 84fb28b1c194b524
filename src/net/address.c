#include "net/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

enum { BACKLOG = 1024, HOST_MOST = 256, INODES_MOST = 8 };

/* Texts. */

void address_format(const struct sockaddr *sa, socklen_t len, char out[ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, ADDRESS_TEXT, "%s:%u", host, ntohs(in->sin_port));
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)sa;
		bool mapped = IN6_IS_ADDR_V4MAPPED(&in->sin6_addr);

		/* An IPv4 peer of a socket for both is shown as what it is. */
		if (mapped)
			inet_ntop(AF_INET, &in->sin6_addr.s6_addr[12], host, sizeof(host));
		else
			inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host));
		snprintf(out, ADDRESS_TEXT, mapped ? "%s:%u" : "[%s]:%u", host,
			 ntohs(in->sin6_port));
	} else if (sa->sa_family == AF_UNIX && len > offsetof(struct sockaddr_un, sun_path)) {
		const struct sockaddr_un *un = (const struct sockaddr_un *)sa;

		snprintf(out, ADDRESS_TEXT, "unix://%.*s",
			 (int)(len - offsetof(struct sockaddr_un, sun_path)), un->sun_path);
	} else {
		snprintf(out, ADDRESS_TEXT, "unix");
	}
}

static bool split_host_port(const char *text, char host[HOST_MOST], char port[8], struct err *err)
{
	const char *colon = strrchr(text, ':'), *begin = text;
	size_t host_len;
	uint64_t number;

	if (!colon && str_to_u64(str_cstr(text), &number) && number <= 65535)
		return err_set(err, ERR_INVALID,
			       "address \"%.100s\": missing host, e.g. 127.0.0.1:%.100s", text,
			       text);
	if (!colon)
		return err_set(err, ERR_INVALID,
			       "address \"%.100s\": missing port, e.g. %.100s:4317", text, text);
	host_len = (size_t)(colon - text);
	if (text[0] == '[') {
		if (host_len < 2 || text[host_len - 1] != ']')
			return err_set(err, ERR_INVALID, "address \"%.100s\": missing \"]\"", text);
		begin++;
		host_len -= 2;
	} else if (memchr(text, ':', host_len)) {
		return err_set(err, ERR_INVALID,
			       "address \"%.100s\": an IPv6 address needs brackets, [::1]:4317",
			       text);
	}
	if (host_len >= HOST_MOST)
		return err_set(err, ERR_INVALID, "address \"%.60s...\": the host is too long",
			       text);
	if (!str_to_u64(str_cstr(colon + 1), &number) || number > 65535)
		return err_set(err, ERR_INVALID,
			       "address \"%.100s\": \"%.20s\" is not a port (0 to 65535)", text,
			       colon + 1);
	memcpy(host, begin, host_len);
	host[host_len] = '\0';
	snprintf(port, 8, "%u", (unsigned)number);
	return true;
}

/* Who has the port: /proc/net/tcp gives the inodes of listening sockets, /proc/PID/fd who has them
 * open. */

struct inodes {
	unsigned long inode[INODES_MOST];
	unsigned count;
};

static void note_listeners(const char *path, unsigned port, struct inodes *found)
{
	FILE *f = fopen(path, "re");
	char line[512];

	if (!f)
		return;
	while (found->count < INODES_MOST && fgets(line, sizeof(line), f)) {
		unsigned local_port, state;
		unsigned long inode;

		/* sl local:port remote:port st tx:rx tr:when retrnsmt uid timeout inode */
		if (sscanf(line,
			   " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*d %lu",
			   &local_port, &state, &inode) == 3 &&
		    local_port == port && state == 0x0a)
			found->inode[found->count++] = inode;
	}
	fclose(f);
}

static bool fd_is_one_of(int dir, const char *name, const struct inodes *wanted)
{
	char target[64];
	unsigned long inode;
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n <= 0)
		return false;
	target[n] = '\0';
	if (sscanf(target, "socket:[%lu]", &inode) != 1)
		return false;
	for (unsigned i = 0; i < wanted->count; i++)
		if (wanted->inode[i] == inode)
			return true;
	return false;
}

static bool process_has(const char *pid, const struct inodes *wanted)
{
	char path[64];
	struct dirent *entry;
	bool has = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!has && (entry = readdir(dir)))
		has = fd_is_one_of(dirfd(dir), entry->d_name, wanted);
	closedir(dir);
	return has;
}

static void process_describe(const char *pid, char *out, size_t cap)
{
	char path[64], comm[32] = "?";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	f = fopen(path, "re");
	if (f) {
		if (fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		fclose(f);
	}
	snprintf(out, cap, "pid %.20s (%s)", pid, comm);
}

bool address_find_holder(unsigned port, char *out, size_t cap)
{
	struct inodes inodes = { .count = 0 };
	struct dirent *entry;
	bool found = false;
	DIR *proc;

	note_listeners("/proc/net/tcp", port, &inodes);
	note_listeners("/proc/net/tcp6", port, &inodes);
	proc = inodes.count ? opendir("/proc") : NULL;
	if (!proc)
		return false;
	while (!found && (entry = readdir(proc))) {
		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    !process_has(entry->d_name, &inodes))
			continue;
		process_describe(entry->d_name, out, cap);
		found = true;
	}
	closedir(proc);
	return found;
}

/* Sockets. */

static int bind_failed(const char *text, const struct sockaddr *sa, struct err *err)
{
	unsigned port = sa->sa_family == AF_INET
				? ntohs(((const struct sockaddr_in *)sa)->sin_port)
				: ntohs(((const struct sockaddr_in6 *)sa)->sin6_port);
	char holder[64];

	if (errno != EADDRINUSE)
		err_set_errno(err, "cannot listen on %.100s", text);
	else if (address_find_holder(port, holder, sizeof(holder)))
		err_set(err, ERR_BUSY, "cannot listen on %.100s: port %u is in use by %s", text,
			port, holder);
	else
		err_set(err, ERR_BUSY,
			"cannot listen on %.100s: port %u is in use (by a process that is hidden "
			"from us)",
			text, port);
	return -1;
}

static int listen_tcp(const char *text, const struct sockaddr *sa, socklen_t len, bool both,
		      struct err *err)
{
	int on = 1, v6_only = !both;
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		err_set_errno(err, "cannot listen on %.100s", text);
		return -1;
	}
	/* Only for ports whose old connections linger: Linux still refuses a port that someone
	 * listens on. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* Inherited by what is accepted. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	if (sa->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
	if (bind(fd, sa, len) || listen(fd, BACKLOG)) {
		bind_failed(text, sa, err);
		close(fd);
		return -1;
	}
	return fd;
}

/* ":4317": one socket for IPv6 and IPv4, or for IPv4 where the machine has no IPv6. */
static int listen_everywhere(const char *text, const char *port, struct err *err)
{
	uint16_t number = htons((uint16_t)atoi(port));
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = number };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = number };
	int fd = listen_tcp(text, (struct sockaddr *)&six, sizeof(six), true, err);

	if (fd >= 0 || err->kind == ERR_BUSY)
		return fd;
	return listen_tcp(text, (struct sockaddr *)&four, sizeof(four), false, err);
}

static int listen_host(const char *text, const char *host, const char *port, struct err *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *list,
			*best;
	int rc = getaddrinfo(host, port, &hints, &list), fd;

	if (rc) {
		err_set(err, ERR_INVALID, "cannot listen on %.100s: %s", text, gai_strerror(rc));
		return -1;
	}
	best = list;
	for (struct addrinfo *a = list; a; a = a->ai_next)
		if (a->ai_family == AF_INET) {
			best = a;
			break;
		}
	fd = listen_tcp(text, best->ai_addr, best->ai_addrlen, false, err);
	freeaddrinfo(list);
	return fd;
}

/* A socket file that nobody listens on any more is left over from a killed process: it may go. */
static bool unix_make_way(const struct sockaddr_un *un, socklen_t len, struct err *err)
{
	AUTO(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct ucred holder = { .pid = 0 };
	socklen_t holder_len = sizeof(holder);
	char text[64] = "another process", pid[16];
	struct stat st;

	if (lstat(un->sun_path, &st))
		return true;
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, ERR_BUSY,
			       "cannot listen on unix://%s: the file exists and is not a socket",
			       un->sun_path);
	if (fd < 0 || connect(fd, (const struct sockaddr *)un, len)) {
		if (errno != ECONNREFUSED)
			return err_set_errno(err, "cannot listen on unix://%s", un->sun_path);
		unlink(un->sun_path);
		return true;
	}
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &holder, &holder_len) && holder.pid) {
		snprintf(pid, sizeof(pid), "%d", (int)holder.pid);
		process_describe(pid, text, sizeof(text));
	}
	return err_set(err, ERR_BUSY, "cannot listen on unix://%s: it is in use by %s",
		       un->sun_path, text);
}

static int listen_unix(const char *path, struct err *err)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	int fd;

	if (!n || n >= sizeof(un.sun_path)) {
		err_set(err, ERR_INVALID,
			"unix socket path has %zu characters, 1 to %zu are possible", n,
			sizeof(un.sun_path) - 1);
		return -1;
	}
	memcpy(un.sun_path, path, n);
	if (!unix_make_way(&un, sizeof(un), err))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&un, sizeof(un)) && !listen(fd, BACKLOG))
		return fd;
	err_set_errno(err, "cannot listen on unix://%s", path);
	if (fd >= 0)
		close(fd);
	return -1;
}

int address_listen(const char *text, struct err *err)
{
	char host[HOST_MOST], port[8];

	if (str_has_prefix(str_cstr(text), STR("unix://")))
		return listen_unix(text + strlen("unix://"), err);
	if (!split_host_port(text, host, port, err))
		return -1;
	if (!host[0])
		return listen_everywhere(text, port, err);
	return listen_host(text, host, port, err);
}
