#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

enum { STAMP_LEN = 24 };

struct fixture {
	int fds[2];
};

static int setup(void **state)
{
	static struct fixture f;

	if (pipe2(f.fds, O_NONBLOCK | O_CLOEXEC))
		return -1;
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	log_setup(LOG_INFO, LOG_TEXT, 2);
	close(f->fds[0]);
	close(f->fds[1]);
	return 0;
}

/* What was written, its time stamp replaced by T. */
static const char *written(struct fixture *f)
{
	static char text[65536 + 256];
	ssize_t n = read(f->fds[0], text, sizeof(text) - 1);
	char *stamp;

	text[n > 0 ? n : 0] = '\0';
	stamp = strstr(text, "20");
	if (stamp && strlen(stamp) > STAMP_LEN && stamp[STAMP_LEN - 1] == 'Z') {
		stamp[0] = 'T';
		memmove(stamp + 1, stamp + STAMP_LEN, strlen(stamp + STAMP_LEN) + 1);
	}
	return text;
}

static void test_text(void **state)
{
	struct fixture *f = *state;

	log_setup(LOG_INFO, LOG_TEXT, f->fds[1]);
	LOG(LOG_INFO, "Starting gRPC server", LOG_S("endpoint", "127.0.0.1:4317"));
	assert_string_equal(written(f), "T INFO  Starting gRPC server  endpoint=127.0.0.1:4317\n");
	LOG(LOG_WARN, "no fields");
	assert_string_equal(written(f), "T WARN  no fields\n");
	LOG(LOG_ERROR, "many", LOG_I("i", -5), LOG_U("u", UINT64_MAX), LOG_S("s", "two words"),
	    LOG_S("empty", ""), LOG_S("evil", "a\nb\x1b[0m"), LOG_S("eq", "a=b"),
	    LOG_STR("bad", STR("\xff")));
	assert_string_equal(written(f),
			    "T ERROR many  i=-5 u=18446744073709551615 s=\"two words\" empty=\"\" "
			    "evil=\"a\\nb\\u001b[0m\" eq=\"a=b\" bad=\"\xef\xbf\xbd\"\n");
}

static void test_json(void **state)
{
	struct fixture *f = *state;

	log_setup(LOG_DEBUG, LOG_JSON, f->fds[1]);
	LOG(LOG_DEBUG, "say \"hi\"", LOG_S("endpoint", "127.0.0.1:4317"), LOG_I("n", -1),
	    LOG_U("u", 2), (struct log_field){ .name = "b", .kind = LOG_F_BOOL, .i = 1 });
	assert_string_equal(written(f),
			    "{\"ts\":\"T\",\"level\":\"debug\",\"msg\":\"say \\\"hi\\\"\","
			    "\"endpoint\":\"127.0.0.1:4317\",\"n\":-1,\"u\":2,\"b\":true}\n");
}

static void test_levels(void **state)
{
	static const struct {
		enum log_level least, level;
		bool shown;
	} cases[] = {
		{ LOG_INFO, LOG_DEBUG, false }, { LOG_INFO, LOG_INFO, true },
		{ LOG_ERROR, LOG_WARN, false }, { LOG_DEBUG, LOG_DEBUG, true },
		{ LOG_ERROR, LOG_ERROR, true },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		log_setup(cases[i].least, LOG_TEXT, f->fds[1]);
		LOG(cases[i].level, "x");
		if ((*written(f) != '\0') != cases[i].shown)
			fail_msg("row %zu", i);
	}
}

static void test_overlong_line_keeps_its_message(void **state)
{
	struct fixture *f = *state;
	char *huge = malloc(200000);

	assert_non_null(huge);
	memset(huge, 'x', 199999);
	huge[199999] = '\0';
	log_setup(LOG_INFO, LOG_TEXT, f->fds[1]);
	LOG(LOG_INFO, "short", LOG_S("huge", huge));
	assert_string_equal(written(f), "T INFO  short\n");
	free(huge);
}

static void test_colours_only_on_a_terminal(void **state)
{
	static const struct {
		const char *no_colour, *term;
		bool coloured;
	} cases[] = {
		{ NULL, "xterm", true },
		{ "", "xterm", true }, /* no-color.org: set and not empty */
		{ "1", "xterm", false },
		{ NULL, "dumb", false },
	};
	int master = posix_openpt(O_RDWR | O_NOCTTY);
	char text[256];

	(void)state;
	if (master < 0 || grantpt(master) || unlockpt(master))
		skip(); /* no pseudo terminals here */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int tty = open(ptsname(master), O_RDWR | O_NOCTTY);
		ssize_t n;

		assert_true(tty >= 0);
		setenv("TERM", cases[i].term, 1);
		unsetenv("NO_COLOR");
		if (cases[i].no_colour)
			setenv("NO_COLOR", cases[i].no_colour, 1);
		log_setup(LOG_INFO, LOG_TEXT, tty);
		LOG(LOG_WARN, "look");
		n = read(master, text, sizeof(text) - 1);
		assert_true(n > 0);
		text[n] = '\0';
		if ((strstr(text, "\x1b[33mWARN") != NULL) != cases[i].coloured)
			fail_msg("row %zu: %s", i, text);
		close(tty);
	}
	unsetenv("NO_COLOR");
	close(master);
}

static void *log_many(void *arg)
{
	for (int i = 0; i < 50; i++)
		LOG(LOG_INFO, "line", LOG_S("who", arg));
	return NULL;
}

/* Lines of several threads are never mixed. */
static void test_threads(void **state)
{
	static char names[4][41] = { "a", "b", "c", "d" };
	struct fixture *f = *state;
	pthread_t threads[4];
	static char text[65536];
	size_t lines = 0;
	ssize_t n;

	for (int i = 0; i < 4; i++)
		memset(names[i], names[i][0], 40);
	log_setup(LOG_INFO, LOG_TEXT, f->fds[1]);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	n = read(f->fds[0], text, sizeof(text));
	assert_true(n > 0);
	for (struct str rest = str_from(text, (size_t)n - 1), line; str_split(&rest, '\n', &line);
	     lines++) {
		struct str who = str_skip(line, line.len - 40);

		for (size_t i = 1; i < 40; i++)
			assert_int_equal(who.ptr[i], who.ptr[0]);
		assert_true(str_search(line, STR(" INFO  line  who=")) == STAMP_LEN);
	}
	assert_int_equal(lines, 200);
}

static void test_gate(void **state)
{
	struct log_gate gate = { 0 };
	uint64_t skipped = 99;

	(void)state;
	assert_true(log_gate_open(&gate, 3600 * SECOND_NS, &skipped));
	assert_int_equal(skipped, 0);
	for (int i = 0; i < 3; i++)
		assert_false(log_gate_open(&gate, 3600 * SECOND_NS, &skipped));
	atomic_store(&gate.next_ns, 0); /* the hour is over */
	assert_true(log_gate_open(&gate, 3600 * SECOND_NS, &skipped));
	assert_int_equal(skipped, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_json, setup, teardown),
		cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overlong_line_keeps_its_message, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_colours_only_on_a_terminal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
		cmocka_unit_test(test_gate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
