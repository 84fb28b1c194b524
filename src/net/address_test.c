#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/address.h"

static unsigned port_of(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char text[ADDRESS_TEXT];

	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	address_format((struct sockaddr *)&sa, len, text);
	return (unsigned)atoi(strrchr(text, ':') + 1);
}

static void test_good_addresses(void **state)
{
	static const struct {
		const char *in, *prefix;
	} cases[] = {
		{ "127.0.0.1:0", "127.0.0.1:" },
		{ "localhost:0", "127.0.0.1:" },
		{ "[::1]:0", "[::1]:" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sockaddr_storage sa;
		socklen_t len = sizeof(sa);
		char text[ADDRESS_TEXT];
		struct err err = { 0 };
		int fd = address_listen(cases[i].in, &err);

		if (fd < 0) {
			print_message("skipped: %s\n", err.msg); /* a machine without IPv6 */
			assert_true(i == 2);
			continue;
		}
		getsockname(fd, (struct sockaddr *)&sa, &len);
		address_format((struct sockaddr *)&sa, len, text);
		if (strncmp(text, cases[i].prefix, strlen(cases[i].prefix)))
			fail_msg("%s is %s", cases[i].in, text);
		close(fd);
	}
}

static void test_bad_addresses(void **state)
{
	static const struct {
		const char *in, *says;
	} cases[] = {
		{ "localhost", "missing port" },
		{ "4140", "missing host, e.g. 127.0.0.1:4140" },
		{ "localhost:", "is not a port" },
		{ "localhost:http", "is not a port" },
		{ "localhost:65536", "is not a port" },
		{ "localhost:-1", "is not a port" },
		{ "::1:4317", "needs brackets" },
		{ "[::1:4317", "missing \"]\"" },
		{ "no-such-host.invalid:1", "cannot listen on no-such-host.invalid:1: " },
		{ "192.0.2.1:0", "cannot listen on 192.0.2.1:0: " }, /* not ours */
		{ "unix://", "characters" },
		{ "unix:///nowhere/at/all/s", "No such file" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = { 0 };
		int fd = address_listen(cases[i].in, &err);

		if (fd >= 0 || !strstr(err.msg, cases[i].says))
			fail_msg("%s: %s", cases[i].in, err.msg);
	}
}

static void test_a_taken_port_names_its_holder(void **state)
{
	char address[64], holder[64], want[96];
	struct err err = { 0 };
	int fd = address_listen("127.0.0.1:0", &err);
	unsigned port = port_of(fd);

	(void)state;
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	assert_int_equal(address_listen(address, &err), -1);
	assert_int_equal(err.kind, ERR_BUSY);
	snprintf(want, sizeof(want), "port %u is in use by pid %d (", port, (int)getpid());
	if (!strstr(err.msg, want))
		fail_msg("%s", err.msg);
	/* All addresses include the one that is taken. */
	snprintf(address, sizeof(address), ":%u", port);
	assert_int_equal(address_listen(address, &err), -1);
	assert_int_equal(err.kind, ERR_BUSY);
	close(fd);
	assert_false(address_find_holder(port, holder, sizeof(holder)));
	fd = address_listen(address, &err);
	assert_true(fd >= 0);
	close(fd);
}

static void test_unix_sockets(void **state)
{
	char dir[] = "/tmp/flametap-test-XXXXXX", path[64], address[80], want[64];
	struct err err = { 0 };
	int first;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(address, sizeof(address), "unix://%s", path);
	first = address_listen(address, &err);
	assert_true(first >= 0);
	assert_int_equal(address_listen(address, &err), -1);
	assert_int_equal(err.kind, ERR_BUSY);
	snprintf(want, sizeof(want), "in use by pid %d (", (int)getpid());
	assert_non_null(strstr(err.msg, want));
	close(first); /* as after a kill: the file stays, nobody listens */
	first = address_listen(address, &err);
	assert_true(first >= 0);
	close(first);
	unlink(path);
	fclose(fopen(path, "w"));
	assert_int_equal(address_listen(address, &err),
			 -1); /* never removes a file that is not a socket */
	assert_non_null(strstr(err.msg, "is not a socket"));
	unlink(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_addresses),
		cmocka_unit_test(test_bad_addresses),
		cmocka_unit_test(test_a_taken_port_names_its_holder),
		cmocka_unit_test(test_unix_sockets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
