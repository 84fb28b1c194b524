#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/doctor/privileges.h"
#include "agent/supervise/seam_wire.h"
#include "agent/supervise/supervise.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"

/* A number of /proc/PID/status; -1 when it is not there. */
static long long status_of(const char *pid, const char *key, int base)
{
	char path[64], line[256];
	long long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtoll(line + strlen(key), NULL, base);
	if (f)
		fclose(f);
	return value;
}

/* In a child, where cmocka cannot be asked: says what went wrong and ends. */
#define REQUIRE(condition)                                                                        \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: %s (errno %s)\n", __FILE__, __LINE__, #condition, \
				strerror(errno));                                                 \
			_exit(99);                                                                \
		}                                                                                 \
	} while (0)

static int in_child(void (*run)(void))
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool is_refused(long result)
{
	return result == -1 && errno == EPERM;
}

static void as_sampler(void)
{
	char *const no_words[] = { NULL };
	uint64_t permitted, effective, before;
	struct err err;
	bool admin;

	REQUIRE(capabilities_read(&effective, &before));
	admin = perf_needs_admin();
	REQUIRE(confine_sampler(&err));
	REQUIRE(is_refused(socket(AF_INET, SOCK_STREAM, 0)));
	REQUIRE(is_refused(socket(AF_INET6, SOCK_DGRAM, 0)));
	REQUIRE(is_refused(socket(AF_NETLINK, SOCK_RAW, 0)));
	REQUIRE(is_refused(socket(AF_UNIX, SOCK_STREAM, 0)));
	REQUIRE(is_refused(syscall(SYS_io_uring_setup, 1, NULL)));
	REQUIRE(is_refused(execve("/bin/true", no_words, no_words)));
	REQUIRE(is_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)));
	REQUIRE(status_of("self", "Seccomp:", 10) == 2);
	REQUIRE(status_of("self", "NoNewPrivs:", 10) == 1);
	REQUIRE(capabilities_read(&effective, &permitted));
	REQUIRE(permitted == capabilities_of_sampler(before, admin) && effective == permitted);
}

static void test_confined_sampler(void **state)
{
	(void)state;
	assert_int_equal(in_child(as_sampler), 0);
}

static void as_worker(void)
{
	static const struct confine_user same = { .set = false };
	struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(event) };
	union bpf_attr map = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};
	union bpf_attr element = { .map_fd = (uint32_t)-1 };
	struct err err;

	REQUIRE(confine_worker(&same, &err));
	REQUIRE(status_of("self", "CapEff:", 16) == 0);
	REQUIRE(status_of("self", "CapPrm:", 16) == 0);
	REQUIRE(status_of("self", "Seccomp:", 10) == 2);
	REQUIRE(status_of("self", "NoNewPrivs:", 10) == 1);
	REQUIRE(is_refused(syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map))));
	REQUIRE(syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &element, sizeof(element)) == -1 &&
		errno != EPERM); /* allowed, and then of no map */
	REQUIRE(is_refused(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0)));
	REQUIRE(is_refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)));
	REQUIRE(socket(AF_INET, SOCK_STREAM, 0) >= 0); /* the network is the worker's */
}

static void test_confined_worker(void **state)
{
	(void)state;
	assert_int_equal(in_child(as_worker), 0);
}

static void as_another_user(void)
{
	static const struct confine_user other = { .set = true, .uid = 65534, .gid = 65533 };
	struct err err;

	REQUIRE(confine_worker(&other, &err));
	REQUIRE(getuid() == 65534 && geteuid() == 65534 && getgid() == 65533);
	REQUIRE(setuid(0) != 0);
	REQUIRE(status_of("self", "CapEff:", 16) == 0);
}

static void test_worker_of_another_user(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		puts("SKIPPED ALOUD: only root can become another user");
		return;
	}
	assert_int_equal(in_child(as_another_user), 0);
}

static void test_user_parse(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		uid_t uid;
		gid_t gid;
	} cases[] = {
		{ "root", true, 0, 0 },      { "1000", true, 1000, 1000 },
		{ "1000:7", true, 1000, 7 }, { "no-such-user-here", false, 0, 0 },
		{ "1000:x", false, 0, 0 },   { "4294967295", false, 0, 0 },
		{ "", false, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct confine_user user;
		struct err err;

		if (confine_user_parse(cases[i].text, &user, &err) != cases[i].ok)
			fail_msg("\"%s\"", cases[i].text);
		if (cases[i].ok)
			assert_true(user.set && user.uid == cases[i].uid &&
				    user.gid == cases[i].gid);
	}
}

/* ---- processes ---- */

/* What worker and test tell each other. */
static struct shared {
	_Atomic int runs, sampler_answers;
	_Atomic int64_t sampler_caps;
	_Atomic int sampler_seccomp, worker_seccomp, lost_seen, restarts_shown;
} * shared;

static void share(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
}

/* The process that the supervisor started besides us. */
static bool find_sampler(char *pid, size_t room)
{
	char path[64], line[512] = "", *at, *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", getppid(), getppid());
	f = fopen(path, "re");
	if (!f)
		return false;
	at = fgets(line, sizeof(line), f);
	fclose(f);
	for (; at && *at; at = end) {
		long child = strtol(at, &end, 10);

		if (end == at)
			return false;
		if (child != getpid()) {
			snprintf(pid, room, "%ld", child);
			return true;
		}
		end += strspn(end, " \n");
	}
	return false;
}

/* Do our metrics say so? */
static bool shows(const char *line)
{
	AUTO(buf_release) struct buf text = { 0 };
	struct metrics *m = metrics_new();
	bool there;

	supervise_metrics(m);
	metrics_write(m, &text);
	buf_char(&text, '\0');
	there = strstr(text.ptr, line) != NULL;
	metrics_free(m);
	return there;
}

static int worker_that_is_killed_once(void *ctx)
{
	(void)ctx;
	if (atomic_fetch_add(&shared->runs, 1) == 0)
		kill(getpid(), SIGKILL);
	atomic_store(&shared->worker_seccomp, (int)status_of("self", "Seccomp:", 10));
	atomic_store(&shared->restarts_shown,
		     shows("\nflametap_supervisor_worker_restarts 1\n") &&
			     shows("\nflametap_supervisor_sampler_restarts 0\n"));
	return 7;
}

static int quiet_supervise(const struct supervise_options *options)
{
	int status;

	log_setup(LOG_ERROR + 1, LOG_TEXT, STDERR_FILENO);
	status = supervise_run(options);
	log_setup(LOG_INFO, LOG_TEXT, STDERR_FILENO);
	return status;
}

static void test_a_killed_worker_comes_back(void **state)
{
	struct supervise_options options = { .worker = worker_that_is_killed_once };

	(void)state;
	share();
	assert_int_equal(quiet_supervise(&options), 7);
	assert_int_equal(shared->runs, 2);
	assert_int_equal(shared->worker_seccomp, 2);
	assert_true(shared->restarts_shown);
}

static int worker_that_fails(void *ctx)
{
	(void)ctx;
	atomic_fetch_add(&shared->runs, 1);
	return 3;
}

static void test_a_worker_that_fails_is_not_started_again(void **state)
{
	struct supervise_options options = { .worker = worker_that_fails };

	(void)state;
	share();
	assert_int_equal(quiet_supervise(&options), 3);
	assert_int_equal(shared->runs, 1);
}

/* Ends when its supervisor hands the signal on. */
static int worker_that_waits(void *ctx)
{
	sigset_t set;
	int got;

	(void)ctx;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getppid(), SIGTERM);
	sigwait(&set, &got);
	return 5;
}

static void test_signals_go_through(void **state)
{
	struct supervise_options options = { .worker = worker_that_waits };

	(void)state;
	assert_int_equal(quiet_supervise(&options), 5);
}

static bool list_works(struct seam *s)
{
	uint32_t pids[4096], count;
	struct err err;

	return s->ops->list(s, pids, ARRAY_LEN(pids), &count, &err) && count > 0;
}

static int worker_with_samplers(void *ctx)
{
	struct err err;
	struct seam *s = supervise_seam(&err);
	struct pollfd gone;
	char pid[16];

	(void)ctx;
	if (!s)
		return 90;
	atomic_fetch_add(&shared->sampler_answers, list_works(s));
	if (!find_sampler(pid, sizeof(pid)))
		return 91;
	atomic_store(&shared->sampler_caps, status_of(pid, "CapEff:", 16));
	atomic_store(&shared->sampler_seccomp, (int)status_of(pid, "Seccomp:", 10));
	kill((pid_t)strtol(pid, NULL, 10), SIGKILL);
	gone = (struct pollfd){ seam_remote_fd(s), POLLIN, 0 };
	if (poll(&gone, 1, 60000) != 1)
		return 92;
	atomic_store(&shared->lost_seen, !list_works(s));
	seam_free(s);
	s = supervise_seam(&err); /* another one */
	if (!s)
		return 93;
	atomic_fetch_add(&shared->sampler_answers, list_works(s));
	/* The supervisor hears of the death by a signal, which may come after our question. */
	for (int i = 0; i < 600 && !shows("\nflametap_supervisor_sampler_restarts 1\n"); i++) {
		seam_free(s);
		poll(NULL, 0, 100);
		s = supervise_seam(&err);
		if (!s)
			return 94;
	}
	atomic_store(&shared->restarts_shown, shows("\nflametap_supervisor_sampler_restarts 1\n"));
	seam_free(s);
	return 0;
}

static void test_a_killed_sampler_is_noticed_and_replaced(void **state)
{
	struct supervise_options options = { .worker = worker_with_samplers };
	uint64_t effective, permitted;

	(void)state;
	share();
	assert_true(capabilities_read(&effective, &permitted));
	assert_int_equal(quiet_supervise(&options), 0);
	assert_int_equal(shared->sampler_answers, 2);
	assert_int_equal(shared->sampler_seccomp, 2);
	assert_int_equal(shared->sampler_caps,
			 capabilities_of_sampler(permitted, perf_needs_admin()));
	assert_true(shared->lost_seen);
	assert_true(shared->restarts_shown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confined_sampler),
		cmocka_unit_test(test_confined_worker),
		cmocka_unit_test(test_worker_of_another_user),
		cmocka_unit_test(test_user_parse),
		cmocka_unit_test(test_a_killed_worker_comes_back),
		cmocka_unit_test(test_a_worker_that_fails_is_not_started_again),
		cmocka_unit_test(test_signals_go_through),
		cmocka_unit_test(test_a_killed_sampler_is_noticed_and_replaced),
	};

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
		puts("SKIPPED ALOUD: no seccomp here: an emulated CPU, or a kernel without it");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
