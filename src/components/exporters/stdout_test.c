/* stdout_test.c - the exporters that print, on a standard output of the test's own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "components/exporters/exporters.h"
#include "components/exporters/fixtures_for_tests.h"
#include "components/exporters/component_for_tests.h"
#include "components/exporters/temp_dir_for_tests.h"

#define BODY "v1.11.0-synthetic-offcpu-links"

static int real_stdout;

static void stdout_becomes(int fd)
{
	fflush(stdout);
	real_stdout = dup(STDOUT_FILENO);
	assert_true(dup2(fd, STDOUT_FILENO) >= 0);
	close(fd);
}

static void stdout_again(void)
{
	dup2(real_stdout, STDOUT_FILENO);
	close(real_stdout);
}

static struct batch *make_batch(const char *name)
{
	struct blob *body = fixture_body(name);
	struct err err = { 0 };
	struct batch *b = batch_new(fixture_profiles(name), body, NULL, &err);

	assert_non_null(b);
	blob_unref(body);
	return b;
}

static int open_file(const char *dir, const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | flags, 0600);
	assert_true(fd >= 0);
	return fd;
}

static const struct {
	const struct component_ops *ops;
	const char *yaml, *want; /* a part of the text */
} outputs[] = {
	{ &stdout_exporter, "",
	  "  Timestamp[0]: 1767225601700000000 (2026-01-01 00:00:01.7 +0000 UTC)\n" },
	{ &stdout_exporter, "layout: seed-000", "  timestamp[0]: 1767225601700000000" },
	{ &stdout_exporter, "layout: seed-001", "PeriodType: [cpu, nanoseconds, Unspecified]\n" },
	{ &stdout_exporter, "layout: full\nsample_types: off_cpu",
	  "values            1200345  998  456789012\n" },
	{ &stdout_exporter, "layout: typed\nsample_types: [events]",
	  "  process.pid: 4242 (Int)\n" },
	{ &stdout_exporter, "color: always",
	  "Instrumentation: \x1b[33mkernel\x1b[0m, Function: \x1b[1mschedule\x1b[0m, File: " },
	{ &customprofilesexporter_exporter, "", "              SKIPPED (no container.id)\n" },
	{ &customprofilesexporter_exporter,
	  "{ignore_profiles_without_container_id: false, export_function_file: true}",
	  "Instrumentation: jvm, Function: void Cart.add(java.lang.String), File: Cart.java, Line: "
	  "55, Column: 0\n" },
};

static void test_outputs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(outputs); i++) {
		char *dir = temp_dir_make();
		struct test_component c;
		struct outcome o;
		struct buf got;

		stdout_becomes(open_file(dir, "out", O_TRUNC));
		test_component_start(&c, outputs[i].ops, outputs[i].yaml);
		o = test_consume(&c, make_batch(BODY));
		test_component_stop(&c);
		stdout_again();
		assert_int_equal(o.kind, OUTCOME_OK);
		buf_init(&got, 0);
		temp_file_read(&got, dir, "out");
		if (str_search(buf_view(&got), str_cstr(outputs[i].want)) < 0)
			fail_msg("%s: nowhere in\n%.*s", outputs[i].want, STR_ARG(buf_view(&got)));
		buf_release(&got);
		temp_dir_remove(dir);
	}
}

static void test_sample_types(void **state)
{
	char *dir = temp_dir_make();
	struct test_component c;
	struct buf got;

	(void)state;
	stdout_becomes(open_file(dir, "out", O_TRUNC));
	test_component_start(&c, &stdout_exporter, "sample_types: off_cpu");
	test_consume(&c, make_batch(BODY));
	test_component_stop(&c);
	stdout_again();
	buf_init(&got, 0);
	temp_file_read(&got, dir, "out");
	assert_true(str_search(buf_view(&got), STR("SampleType: off_cpu\n")) >= 0);
	assert_int_equal(str_search(buf_view(&got), STR("SampleType: events\n")), -1);
	assert_int_equal(str_search(buf_view(&got), STR("SampleType: samples\n")), -1);
	buf_release(&got);
	temp_dir_remove(dir);
}

/* A redirect to a full disk: RETRY, and nothing of the request stays; later ones are whole again.
 */
static void assert_full_disk(int flags)
{
	char *dir = temp_dir_make();
	struct test_component c;
	struct rlimit old, small;
	struct outcome refused, kept;
	struct buf got;

	temp_file_write(dir, "out", STR("before\n"));
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){ 100000, old.rlim_max };
	stdout_becomes(open_file(dir, "out", flags));
	if (!(flags & O_APPEND))
		lseek(STDOUT_FILENO, 0, SEEK_END);
	test_component_start(&c, &stdout_exporter, "");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	refused = test_consume(&c, make_batch("v1.11.0-oncpu-mixed")); /* 230 kB */
	kept = test_consume(&c, make_batch(BODY));                     /* 7 kB */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	test_component_stop(&c);
	stdout_again();
	assert_int_equal(refused.kind, OUTCOME_RETRY);
	assert_int_equal(refused.err.kind, ERR_IO);
	assert_int_equal(kept.kind, OUTCOME_OK);
	assert_false(c.failed);
	buf_init(&got, 0);
	assert_int_equal(temp_file_read(&got, dir, "out"), 7 + 7539);
	buf_release(&got);
	temp_dir_remove(dir);
}

static void test_full_disk(void **state)
{
	(void)state;
	assert_full_disk(0);
	assert_full_disk(O_APPEND);
}

static void test_reader_gone(void **state)
{
	struct test_component c;
	struct outcome o;
	int pipe_fds[2];

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	close(pipe_fds[0]);
	stdout_becomes(pipe_fds[1]);
	test_component_start(&c, &stdout_exporter, "");
	(void)test_consume(&c, make_batch(BODY));
	o = test_consume(&c, make_batch(BODY));
	test_component_stop(&c);
	stdout_again();
	assert_int_equal(o.kind, OUTCOME_RETRY);
	assert_true(c.failed);
	assert_int_equal(c.failure.kind, ERR_CANCELLED);
}

/* Nobody reads: stopping does not wait for ever, and the request is not acknowledged. */
static void assert_given_up(int reader, int writer)
{
	struct test_component c;
	struct test_answer a = { .completion = { test_answer_done },
				 .lock = PTHREAD_MUTEX_INITIALIZER,
				 .come = PTHREAD_COND_INITIALIZER };

	stdout_becomes(writer);
	test_component_start(&c, &stdout_exporter, "");
	c.ops->consume(c.state, make_batch("v1.11.0-oncpu-big"), &a.completion);
	c.ops->stopping(c.state, clock_monotonic_ns() + SECOND_NS / 10);
	test_answer_wait(&a);
	c.ops->stop(c.state, clock_monotonic_ns() + SECOND_NS / 10);
	test_component_release(&c);
	stdout_again();
	close(reader);
	assert_int_equal(a.outcome.kind, OUTCOME_RETRY);
	assert_int_equal(a.outcome.err.kind, ERR_UNAVAILABLE);
}

/* Components that only were checked are released, too. */
static void test_never_started(void **state)
{
	struct test_component c;
	struct err err;

	(void)state;
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	assert_true(test_component_init(&c, &stdout_exporter, "", &err));
	test_component_release(&c);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

static void test_full_outputs(void **state)
{
	char *dir = temp_dir_make();
	char path[256];
	int fds[2], reader;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_given_up(fds[0], fds[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_given_up(fds[0], fds[1]);
	fds[0] = posix_openpt(O_RDWR | O_NOCTTY);
	assert_true(fds[0] >= 0 && grantpt(fds[0]) == 0 && unlockpt(fds[0]) == 0);
	assert_int_equal(ptsname_r(fds[0], path, sizeof(path)), 0);
	assert_given_up(fds[0], open(path, O_WRONLY | O_NOCTTY));
	snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	reader = open(path, O_RDONLY | O_NONBLOCK);
	assert_given_up(reader, open(path, O_WRONLY));
	temp_dir_remove(dir);
}

static void test_text_limit(void **state)
{
	char *dir = temp_dir_make();
	struct test_component c;
	struct outcome o;
	struct buf got;

	(void)state;
	stdout_becomes(open_file(dir, "out", O_TRUNC));
	test_component_start(&c, &stdout_exporter, "max_text_mib: 1");
	o = test_consume(&c, make_batch("v1.11.0-oncpu-big"));
	test_component_stop(&c);
	stdout_again();
	assert_int_equal(o.kind, OUTCOME_PERMANENT);
	assert_int_equal(o.err.kind, ERR_LIMIT);
	buf_init(&got, 0);
	assert_int_equal(temp_file_read(&got, dir, "out"), 0);
	buf_release(&got);
	temp_dir_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_outputs),      cmocka_unit_test(test_sample_types),
		cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_reader_gone),
		cmocka_unit_test(test_full_outputs), cmocka_unit_test(test_never_started),
		cmocka_unit_test(test_text_limit),
	};

	setenv("TZ", "UTC", 1);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
