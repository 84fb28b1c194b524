/* up_page_test.c - a port that is taken before the server is there. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "up_page.h"

static int bound(unsigned port, int reuse)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)), 0);
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	assert_int_equal(errno, EADDRINUSE);
	close(fd);
	return -1;
}

/* A port that was taken is nobody else's until our server listens there. */
static void test_taken_port_is_kept(void **state)
{
	char address[64] = "";
	int fd, server;
	unsigned port;

	(void)state;
	fd = up_page_take_port("127.0.0.1:0", address, sizeof(address));
	assert_true(fd >= 0);
	assert_int_equal(sscanf(address, "127.0.0.1:%u", &port), 1);
	assert_int_equal(bound(port, 0), -1);
	server = bound(port, 1);
	assert_true(server >= 0);
	assert_int_equal(listen(server, 1), 0);
	close(server);
	close(fd);
}

static void test_what_is_no_free_port(void **state)
{
	static const char *const addresses[] = { "127.0.0.1:80", "127.0.0.1", "", ":", "[::1:0" };
	char address[64] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++)
		assert_int_equal(up_page_take_port(addresses[i], address, sizeof(address)), -1);
	assert_int_equal(up_page_take_port("127.0.0.1:0", address, 8), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken_port_is_kept),
		cmocka_unit_test(test_what_is_no_free_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
