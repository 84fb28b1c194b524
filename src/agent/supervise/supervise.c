#include "agent/supervise/supervise.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/doctor/doctor.h"
#include "agent/supervise/seam_wire.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"

static const uint64_t RESTART_FIRST_NS = SECOND_NS / 2, RESTART_MOST_NS = 30 * SECOND_NS,
		      CALM_NS = MINUTE_NS;

enum { SAMPLERS_MOST = 16, EXIT_NOTHING_RUNS = 1 };

/* Shared with the workers, who show it in their metrics. */
struct counts {
	_Atomic int64_t worker_restarts, sampler_restarts, samplers_lost;
};

struct supervisor {
	const struct supervise_options *options;
	struct counts *counts;
	sigset_t old_mask;
	int signal_fd;
	int control; /* to the worker; -1 while there is none */
	pid_t worker;
	pid_t samplers[SAMPLERS_MOST]; /* 0 = free */
	uint64_t started_ns, restart_at_ns, pause_ns;
	bool ending;
	uint64_t end_asked_ns; /* when, first */
};

/* The worker's own: set in its process only. */
static struct {
	int control;
	struct counts *counts;
	pthread_mutex_t lock;
} self = { .control = -1, .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the worker's side ---- */

bool supervised(void)
{
	return self.control >= 0;
}

struct seam *supervise_seam(struct err *err)
{
	char answer[sizeof(err->msg)] = "";
	uint32_t fd_count = 0;
	size_t got = 0;
	bool came;
	int fd;

	if (!supervised())
		return seam_local_new();
	pthread_mutex_lock(&self.lock);
	came = seam_packet_send(self.control, "sampler", 7, NULL, 0, NULL, 0, err) &&
	       seam_packet_receive(self.control, answer, sizeof(answer) - 1, NULL, 0, &got, &fd, 1,
				   &fd_count, err);
	pthread_mutex_unlock(&self.lock);
	if (!came || fd_count != 1) {
		if (came)
			err_set(err, ERR_UNAVAILABLE, "the supervisor gives no sampler: %s",
				got ? answer : "it is gone");
		return NULL;
	}
	return seam_remote_new(fd);
}

static int64_t read_count(void *arg)
{
	return atomic_load((_Atomic int64_t *)arg);
}

void supervise_metrics(struct metrics *m)
{
	if (!supervised())
		return;
	metrics_gauge_fn(m, "flametap_supervisor_worker_restarts",
			 "How often the worker was started again", read_count,
			 &self.counts->worker_restarts);
	metrics_gauge_fn(m, "flametap_supervisor_sampler_restarts",
			 "How often a sampler was started again", read_count,
			 &self.counts->sampler_restarts);
}

/* ---- children ---- */

/* What every child must not have of the supervisor. */
static void leave_supervisor(struct supervisor *s)
{
	fd_close(&s->signal_fd);
	sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

__attribute__((noreturn)) static void die(const char *who, const struct err *err)
{
	LOG(LOG_ERROR, who, LOG_S("error", err->msg));
	_exit(EXIT_NOTHING_RUNS);
}

__attribute__((noreturn)) static void be_sampler(struct supervisor *s, int seam_fd)
{
	struct seam *local;
	struct err err;

	leave_supervisor(s);
	fd_close(&s->control);
	prctl(PR_SET_NAME, "flametap-sample");
	/* It ends with its seam: a worker that stops still wants the last samples. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (!confine_sampler(&err))
		die("The sampler cannot be confined", &err);
	local = seam_local_new();
	if (!seam_serve(seam_fd, local, doctor_explain, &err))
		die("The sampler ends", &err);
	seam_free(local);
	_exit(0);
}

__attribute__((noreturn)) static void be_worker(struct supervisor *s, int control, pid_t parent)
{
	struct err err;
	int status;

	leave_supervisor(s);
	setpgid(0, 0); /* a terminal's Ctrl-C comes through the supervisor, once */
	prctl(PR_SET_NAME, "flametap-worker");
	if (!confine_worker(&s->options->user, &err))
		die("The worker cannot be confined", &err);
	/* After the change of user, which clears it. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_NOTHING_RUNS);
	self.control = control;
	self.counts = s->counts;
	status = s->options->worker(s->options->ctx);
	fflush(NULL);
	_exit(status); /* what a leak checker does at exit() is refused here */
}

static bool socket_pair(int fds[2], struct err *err)
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0 ||
	       err_set_errno(err, "socketpair");
}

static bool start_worker(struct supervisor *s, struct err *err)
{
	pid_t parent = getpid();
	int fds[2];

	if (!socket_pair(fds, err))
		return false;
	fflush(NULL);
	s->worker = fork();
	if (s->worker == 0) {
		close(fds[0]);
		be_worker(s, fds[1], parent);
	}
	close(fds[1]);
	s->control = fds[0];
	s->started_ns = clock_monotonic_ns();
	if (s->worker > 0)
		return true;
	fd_close(&s->control);
	s->control = -1;
	s->worker = 0;
	return err_set_errno(err, "the worker cannot be started");
}

static pid_t *free_place(struct supervisor *s)
{
	for (int i = 0; i < SAMPLERS_MOST; i++)
		if (!s->samplers[i])
			return &s->samplers[i];
	return NULL;
}

/* The seam's other end, for the worker; -1 and err. */
static int start_sampler(struct supervisor *s, struct err *err)
{
	pid_t *place = free_place(s);
	int fds[2];

	if (!place) {
		err_set(err, ERR_LIMIT, "%d samplers run already", SAMPLERS_MOST);
		return -1;
	}
	if (!socket_pair(fds, err))
		return -1;
	fflush(NULL);
	*place = fork();
	if (*place == 0) {
		close(fds[0]);
		be_sampler(s, fds[1]);
	}
	close(fds[1]);
	if (*place > 0)
		return fds[0];
	*place = 0;
	close(fds[0]);
	err_set_errno(err, "a sampler cannot be started");
	return -1;
}

/* ---- the supervisor's loop ---- */

/* The worker asks for a sampler, or is gone (its end is seen by waitpid). */
static void answer_worker(struct supervisor *s)
{
	struct err err = { .kind = ERR_NONE };
	char request[16];
	uint32_t none;
	size_t got;
	int fd, unused[1];

	if (!seam_packet_receive(s->control, request, sizeof(request), NULL, 0, &got, unused, 0,
				 &none, &err) ||
	    got == 0) {
		fd_close(&s->control);
		s->control = -1;
		return;
	}
	fd = start_sampler(s, &err);
	if (fd >= 0 && atomic_load(&s->counts->samplers_lost) > 0) {
		atomic_fetch_sub(&s->counts->samplers_lost, 1);
		atomic_fetch_add(&s->counts->sampler_restarts, 1);
	}
	if (!seam_packet_send(s->control, err.msg, strlen(err.msg) + 1, NULL, 0, &fd, fd >= 0,
			      &err))
		LOG(LOG_WARN, "The worker did not take its sampler", LOG_S("error", err.msg));
	fd_close(&fd);
}

static void log_death(const char *who, int status)
{
	if (WIFSIGNALED(status))
		LOG(LOG_ERROR, who, LOG_S("signal", strsignal(WTERMSIG(status))));
	else
		LOG(LOG_ERROR, who, LOG_I("status", WEXITSTATUS(status)));
}

static void sampler_ended(struct supervisor *s, pid_t pid, int status)
{
	for (int i = 0; i < SAMPLERS_MOST; i++) {
		if (s->samplers[i] != pid)
			continue;
		s->samplers[i] = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			return;
		atomic_fetch_add(&s->counts->samplers_lost, 1);
		log_death("A sampler ended; the worker asks for another one", status);
	}
}

/* True: everything ends with *exit_status. */
static bool worker_ended(struct supervisor *s, int status, int *exit_status)
{
	uint64_t now = clock_monotonic_ns();

	s->worker = 0;
	if (s->control >= 0)
		fd_close(&s->control);
	s->control = -1;
	*exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_NOTHING_RUNS;
	if (WIFEXITED(status) || s->ending)
		return true;
	if (now - s->started_ns > CALM_NS)
		s->pause_ns = 0;
	s->pause_ns = s->pause_ns ? s->pause_ns * 2 : RESTART_FIRST_NS;
	if (s->pause_ns > RESTART_MOST_NS)
		s->pause_ns = RESTART_MOST_NS;
	s->restart_at_ns = now + s->pause_ns;
	log_death("The worker was ended; starting it again", status);
	return false;
}

/* True: everything ends. */
static bool reap(struct supervisor *s, int *exit_status)
{
	bool over = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == s->worker)
			over |= worker_ended(s, status, exit_status);
		else if (pid == s->options->other)
			*s->options->other_status = status;
		else
			sampler_ended(s, pid, status);
	}
	return over;
}

/* A second SIGTERM or SIGINT kills. Not one that comes with the first: timeout(1), for one, sends
 * its signal both to its child and to the child's group. */
static void hand_on(struct supervisor *s, int signal_number)
{
	uint64_t now = clock_monotonic_ns();

	if (signal_number != SIGHUP) {
		if (s->ending && now - s->end_asked_ns < SECOND_NS)
			return;
		if (s->ending)
			signal_number = SIGKILL;
		else
			s->end_asked_ns = now;
		s->ending = true;
	}
	if (s->worker)
		kill(s->worker, signal_number);
}

/* True: everything ends. */
static bool take_signal(struct supervisor *s, int *exit_status)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo == SIGCHLD)
		return reap(s, exit_status);
	hand_on(s, (int)info.ssi_signo);
	return !s->worker && s->ending; /* nothing is left to wait for */
}

static int wait_ms(const struct supervisor *s)
{
	uint64_t now = clock_monotonic_ns();

	if (s->worker)
		return -1;
	return s->restart_at_ns <= now ? 0 : (int)((s->restart_at_ns - now) / MILLI_NS + 1);
}

static void restart_if_due(struct supervisor *s)
{
	struct err err;

	if (s->worker || clock_monotonic_ns() < s->restart_at_ns)
		return;
	atomic_fetch_add(&s->counts->worker_restarts, 1);
	if (start_worker(s, &err))
		return;
	LOG(LOG_ERROR, "The worker does not start", LOG_S("error", err.msg));
	s->restart_at_ns = clock_monotonic_ns() + RESTART_MOST_NS;
}

static int watch(struct supervisor *s)
{
	int exit_status = EXIT_NOTHING_RUNS;

	for (;;) {
		struct pollfd fds[] = { { s->signal_fd, POLLIN, 0 }, { s->control, POLLIN, 0 } };

		if (poll(fds, ARRAY_LEN(fds), wait_ms(s)) < 0 && errno != EINTR)
			return EXIT_NOTHING_RUNS;
		if (fds[0].revents && take_signal(s, &exit_status))
			return exit_status;
		/* Reading a signal may have closed the worker's socket. */
		if (fds[1].revents && s->control == fds[1].fd)
			answer_worker(s);
		restart_if_due(s);
	}
}

static bool open_signals(struct supervisor *s, struct err *err)
{
	static const int signals[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, &s->old_mask);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd >= 0 || err_set_errno(err, "signalfd");
}

int supervise_run(const struct supervise_options *options)
{
	struct supervisor s = { .options = options, .signal_fd = -1, .control = -1 };
	struct err err;
	int status = EXIT_NOTHING_RUNS;

	s.counts = mmap(NULL, sizeof(*s.counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (s.counts == MAP_FAILED) {
		LOG(LOG_ERROR, "No memory for the supervisor");
		return EXIT_NOTHING_RUNS;
	}
	if (open_signals(&s, &err) && start_worker(&s, &err))
		status = watch(&s);
	else
		LOG(LOG_ERROR, "Nothing could be started", LOG_S("error", err.msg));
	fd_close(&s.signal_fd);
	fd_close(&s.control);
	sigprocmask(SIG_SETMASK, &s.old_mask, NULL);
	munmap(s.counts, sizeof(*s.counts));
	return status;
}
