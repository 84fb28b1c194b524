#include "up_page.h"

#include <dirent.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { ANSWER_MOST = 4096, TRIES = 300, TRY_MS = 100 };

/* ---- one request ---- */

static int connect_to(const char *address)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	const char *colon = strrchr(address, ':');
	struct timeval second = { .tv_sec = 2 };
	char host[256];
	int fd;

	if (!colon || colon - address >= (ptrdiff_t)sizeof(host) || strcmp(colon, ":0") == 0)
		return -1;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
	if (host[0] == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = 0;
		memmove(host, host + 1, strlen(host));
	}
	if (getaddrinfo(host[0] ? host : "127.0.0.1", colon + 1, &hints, &list) != 0)
		return -1;
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));
		if (connect(fd, list->ai_addr, list->ai_addrlen) != 0)
			fd_close(&fd);
	}
	freeaddrinfo(list);
	return fd;
}

static bool send_all(int fd, struct str bytes)
{
	while (bytes.len) {
		ssize_t n = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		bytes = str_skip(bytes, (size_t)n);
	}
	return true;
}

/* The first bytes of the answer, as a string; false: there is none. */
static bool exchange(const char *address, struct str head, struct str body,
		     char answer[ANSWER_MOST])
{
	AUTO(fd_close) int fd = connect_to(address);
	size_t len = 0;
	ssize_t n = 0;

	if (fd < 0 || !send_all(fd, head) || !send_all(fd, body))
		return false;
	do {
		len += (size_t)n;
		n = recv(fd, answer + len, ANSWER_MOST - 1 - len, 0);
	} while (n > 0 && len + (size_t)n < ANSWER_MOST - 1);
	if (n > 0)
		len += (size_t)n;
	answer[len] = 0;
	return len > 0;
}

bool up_page_is_there(const char *address)
{
	AUTO(buf_release) struct buf head = { 0 };
	char answer[ANSWER_MOST];

	buf_printf(&head, "GET /api/v1/status/buildinfo HTTP/1.1\r\nHost: localhost\r\n"
			  "Connection: close\r\n\r\n");
	return exchange(address, buf_view(&head), (struct str){ 0 }, answer) &&
	       (strstr(answer, "\"application\":\"flametap\"") ||
		strstr(answer, "realm=\"flametap\""));
}

bool up_page_is_tls(const char *address)
{
	AUTO(fd_close) int fd = connect_to(address);
	char answer[16] = "";

	if (fd < 0 || !send_all(fd, STR("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")))
		return false;
	/* An alert, or an end: not a word of HTTP. */
	return recv(fd, answer, sizeof(answer) - 1, 0) >= 0 && strncmp(answer, "HTTP/", 5) != 0;
}

bool up_page_store(const char *holder, char *out, size_t room)
{
	static const char END[] = "-lock";
	char folder[64], target[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	unsigned pid;
	DIR *dir;

	if (sscanf(holder, "pid %u ", &pid) != 1)
		return false;
	snprintf(folder, sizeof(folder), "/proc/%u/fd", pid);
	dir = opendir(folder);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		size_t len = n > 0 ? (size_t)n : 0;

		found = len > strlen(END) && len - strlen(END) < room &&
			memcmp(target + len - strlen(END), END, strlen(END)) == 0;
		if (found)
			snprintf(out, room, "%.*s", (int)(len - strlen(END)), target);
	}
	if (dir)
		closedir(dir);
	return found;
}

int up_page_take_port(const char *address, char *out, size_t room)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE },
			*list = NULL;
	const char *colon = strrchr(address, ':');
	struct sockaddr_storage bound;
	socklen_t len = sizeof(bound);
	char host[256], port[16];
	int fd, on = 1;

	if (!colon || strcmp(colon, ":0") != 0 || colon - address >= (ptrdiff_t)sizeof(host))
		return -1;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
	if (host[0] == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = 0;
		memmove(host, host + 1, strlen(host));
	}
	if (getaddrinfo(host[0] ? host : NULL, "0", &hints, &list) != 0)
		return -1;
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, list->ai_addr, list->ai_addrlen) != 0 ||
	    getsockname(fd, (struct sockaddr *)&bound, &len) != 0 ||
	    getnameinfo((struct sockaddr *)&bound, len, NULL, 0, port, sizeof(port),
			NI_NUMERICSERV) != 0 ||
	    (size_t)snprintf(out, room, "%.*s:%s", (int)(colon - address), address, port) >= room) {
		fd_close(&fd);
		fd = -1;
	}
	freeaddrinfo(list);
	return fd;
}

/* ---- the demo ---- */

#define BODY(name, file)                              \
	__asm__(".section .rodata\n"                  \
		".global demo_" name "_begin\n"       \
		".global demo_" name "_end\n"         \
		"demo_" name "_begin:\n"              \
		".incbin \"" DEMO_DIR "/" file "\"\n" \
		"demo_" name "_end:\n"                \
		".byte 0\n"                           \
		".previous\n")

BODY("big", "v1.11.0-oncpu-big.pb");
BODY("mixed", "v1.11.0-oncpu-mixed.pb");
BODY("start", "v1.11.0-oncpu-start.pb");
BODY("links", "v1.11.0-synthetic-offcpu-links.pb");

extern const char demo_big_begin[], demo_big_end[], demo_mixed_begin[], demo_mixed_end[],
	demo_start_begin[], demo_start_end[], demo_links_begin[], demo_links_end[];

static bool post(const char *address, const char *token, struct str body)
{
	AUTO(buf_release) struct buf head = { 0 };
	char answer[ANSWER_MOST];

	buf_printf(&head,
		   "POST /v1development/profiles HTTP/1.1\r\nHost: localhost\r\n"
		   "Content-Type: application/x-protobuf\r\nContent-Length: %zu\r\n",
		   body.len);
	if (token[0])
		buf_printf(&head, "Authorization: Bearer %s\r\n", token);
	buf_lit(&head, "Connection: close\r\n\r\n");
	return exchange(address, buf_view(&head), body, answer) &&
	       strncmp(answer, "HTTP/1.1 200", 12) == 0;
}

/* Whether the store holds them from an earlier start; no answer: not yet known. */
static bool demo_is_there(const char *address, const char *token, bool *known)
{
	AUTO(buf_release) struct buf head = { 0 };
	char answer[ANSWER_MOST];

	buf_lit(&head, "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n");
	if (token[0])
		buf_printf(&head, "Authorization: Bearer %s\r\n", token);
	buf_lit(&head, "Connection: close\r\n\r\n");
	*known = exchange(address, buf_view(&head), (struct str){ 0 }, answer) &&
		 strncmp(answer, "HTTP/1.1 200", 12) == 0;
	return *known && strstr(answer, "\"types\":[{");
}

static void send_demo(const char *address, const char *token)
{
	const struct str bodies[] = {
		{ demo_big_begin, (size_t)(demo_big_end - demo_big_begin) },
		{ demo_mixed_begin, (size_t)(demo_mixed_end - demo_mixed_begin) },
		{ demo_start_begin, (size_t)(demo_start_end - demo_start_begin) },
		{ demo_links_begin, (size_t)(demo_links_end - demo_links_begin) },
	};
	unsigned tries = 0;
	bool known = false;

	while (!known && tries < TRIES) {
		if (demo_is_there(address, token, &known))
			return;
		if (!known && ++tries < TRIES)
			poll(NULL, 0, TRY_MS);
	}
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
		while (!post(address, token, bodies[i])) {
			if (++tries == TRIES) {
				fprintf(stderr, "flametap up: the page does not take the demo's "
						"profiles\n");
				return;
			}
			poll(NULL, 0, TRY_MS);
		}
}

void up_demo_start(const char *address, const char *token)
{
	pid_t parent = getpid();

	signal(SIGCHLD, SIG_IGN); /* it is waited for by nobody */
	if (fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* it outlives the page by nothing */
	if (getppid() == parent)
		send_demo(address, token);
	_exit(0);
}
