/* plain_http.c - any bytes as the answers of an http:// server: a head, a body by its length, in
 * chunks or to the connection's end. The peer is real: a socket of loopback that has said all and
 * hung up. */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fuzz/fuzz.h"
#include "net/plain_http.h"

enum { SAID_MOST = 32 << 10 /* what a socket takes at once */ };

static int listening = -1;
static char url[64];

static void listen_once(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	if (listening >= 0)
		return;
	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert(listening >= 0 && bind(listening, (struct sockaddr *)&at, sizeof(at)) == 0 &&
	       listen(listening, 8) == 0 &&
	       getsockname(listening, (struct sockaddr *)&at, &len) == 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(at.sin_port));
}

static void say_and_hang_up(const uint8_t *data, size_t size)
{
	char asked[4096];
	int fd = accept(listening, NULL, NULL);

	assert(fd >= 0);
	if (recv(fd, asked, sizeof(asked), 0) > 0 && size)
		(void)!send(fd, data, size, MSG_NOSIGNAL);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct plain_http_options options = { .connect_timeout_ns = SECOND_NS,
					      .timeout_ns = SECOND_NS,
					      .answer_most_bytes = 1 << 20 };
	struct plain_http *c;
	struct buf answer;
	struct err err;
	int status;

	if (size > SAID_MOST)
		return 0;
	listen_once();
	options.url = url;
	c = plain_http_new(&options, &err);
	assert(c);
	buf_init(&answer, 0);
	if (plain_http_begin(c, STR("/"), STR("x"), &err)) {
		say_and_hang_up(data, size);
		if (plain_http_end(c, &status, &answer, &err))
			assert(answer.len <= size);
	}
	buf_release(&answer);
	plain_http_free(c);
	return 0;
}
