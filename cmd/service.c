#include "service.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/doctor/privileges.h"
#include "agent/profiling.h"
#include "agent/supervise/supervise.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "command.h"
#include "metrics_server.h"
#include "net/loops.h"
#include "pipeline/graph.h"
#include "pipeline/telemetry.h"

enum { TRIM_EVERY_MS = 30000 };

struct service {
	const struct service_options *options;
	struct budget budget;
	struct metrics *metrics;
	struct net_loops *loops;
	struct graph *graph;
	struct metrics_server *metrics_server;
	int signal_fd, fail_fd;
	pthread_mutex_t fail_lock;
	struct err failure; /* fail_lock; the first one */
};

static void print_problems(const struct problems *p)
{
	AUTO(buf_release) struct buf text = { 0 };

	problems_write(p, false, &text);
	fprintf(stderr, "Error: %.*s", (int)text.len, text.ptr ? text.ptr : "");
}

static struct config *load(const struct service_options *o, struct problems *problems)
{
	return config_load(o->sources, o->source_count, components_all, problems);
}

static int print_config(const struct config *c)
{
	AUTO(buf_release) struct buf text = { 0 };

	config_print(c, &text);
	return fwrite(text.ptr, 1, text.len, stdout) == text.len && fflush(stdout) == 0
		       ? EXIT_OK
		       : EXIT_FAILED;
}

/* Any thread: a component can't go on (a closed pipe, a lost disk). The main thread stops the
 * graph. */
static void on_failure(void *arg, const struct err *err)
{
	struct service *s = arg;
	uint64_t one = 1;

	pthread_mutex_lock(&s->fail_lock);
	if (s->failure.kind == ERR_NONE)
		s->failure = *err;
	pthread_mutex_unlock(&s->fail_lock);
	if (write(s->fail_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: it is readable already */
}

static bool open_signals(struct service *s, struct err *err)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	/* Before any thread is made, so that all inherit it and only the descriptor sees them. */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	s->fail_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->signal_fd < 0 || s->fail_fd < 0)
		return err_set_errno(err, "signalfd");
	return true;
}

static void set_up_log(const struct config *c)
{
	log_setup((enum log_level)c->telemetry.logs.level,
		  c->telemetry.logs.encoding ? LOG_JSON : LOG_TEXT, STDERR_FILENO);
}

static bool start(struct service *s, struct config *config, struct problems *problems,
		  struct err *err)
{
	struct net_loops_options loops = { .budget = &s->budget };
	struct graph_env env = {
		.budget = &s->budget, .metrics = s->metrics, .fail = on_failure, .fail_arg = s
	};

	budget_init(&s->budget, config->engine.max_inflight_bytes);
	process_metrics_register(s->metrics);
	supervise_metrics(s->metrics);
	s->loops = net_loops_new(&loops, err);
	if (!s->loops) {
		config_free(config);
		return false;
	}
	env.loops = s->loops;
	s->graph = graph_new(config, &env, problems);
	if (!s->graph)
		return err_set(err, ERR_INVALID, "the configuration can't be built");
	s->metrics_server = metrics_server_new(s->loops, s->metrics, graph_config(s->graph), err);
	return s->metrics_server && graph_start(s->graph, err);
}

static uint64_t stop_deadline(const struct service *s)
{
	return clock_monotonic_ns() + graph_config(s->graph)->engine.shutdown_timeout_ns;
}

static void reload(struct service *s)
{
	struct problems problems;
	struct config *config;
	struct err err;

	if (s->options->refresh && !s->options->refresh(s->options->refresh_arg, &err)) {
		LOG(LOG_ERROR, "The new configuration is bad; the old one goes on",
		    LOG_S("error", err.msg));
		return;
	}
	problems_init(&problems);
	config = load(s->options, &problems);
	problems_log_warnings(&problems);
	if (!config) {
		AUTO(buf_release) struct buf text = { 0 };

		problems_write(&problems, false, &text);
		LOG(LOG_ERROR, "The new configuration is bad; the old one goes on",
		    LOG_STR("errors", str_trim(buf_view(&text))));
	} else if (graph_reload(s->graph, config, stop_deadline(s), &err)) {
		set_up_log(graph_config(s->graph));
		if (!metrics_server_move(&s->metrics_server, s->loops, graph_config(s->graph),
					 &err))
			LOG(LOG_WARN, "Own metrics stay where they were", LOG_S("error", err.msg));
		LOG(LOG_INFO, "Configuration and certificates were read again");
	} else {
		LOG(LOG_ERROR, "Could not take over the new configuration", LOG_S("error", err.msg),
		    LOG_S("now", graph_running(s->graph) ? "the old one goes on" : "nothing runs"));
		if (!graph_running(s->graph))
			on_failure(s, &err);
	}
	problems_release(&problems);
}

/* True to go on, false to stop. */
static bool take_signal(struct service *s)
{
	struct signalfd_siginfo info;

	if (read(s->signal_fd, &info, sizeof(info)) != sizeof(info))
		return true;
	LOG(LOG_INFO, "Received signal from OS", LOG_S("signal", strsignal((int)info.ssi_signo)));
	if (info.ssi_signo != SIGHUP)
		return false;
	reload(s);
	return true;
}

/* Reports, tables of modules and answers are some MiB each and of all ages: what they leave free
 * lies between what is in use, where free() gives nothing back. Half an hour beside compilers left
 * 20 of 70 MiB so. */
static void wait_for_end(struct service *s)
{
	struct pollfd fds[] = { { s->signal_fd, POLLIN, 0 }, { s->fail_fd, POLLIN, 0 } };

	for (;;) {
		int n = poll(fds, ARRAY_LEN(fds), TRIM_EVERY_MS);

		if (n < 0 && errno != EINTR)
			return;
		if (n == 0)
			malloc_trim(0);
		if (fds[1].revents)
			return;
		if (fds[0].revents && !take_signal(s))
			return;
	}
}

/* When the graph began to drain; for the handler, which gets nothing but a number. */
static volatile uint64_t drain_began_ns;

static void kill_if_meant(int signal_number)
{
	if (clock_monotonic_ns() - drain_began_ns < SECOND_NS)
		return;
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* While the graph drains, a second Ctrl-C ends the process as it always does. Not one that comes
 * with the first: timeout(1) and a shell's script that passes Ctrl-C on both send two. In a worker
 * that is the supervisor's business: systemd, for one, sends its signal to each process of the
 * unit. */
static void let_signals_kill(void)
{
	struct sigaction action = { .sa_handler = kill_if_meant, .sa_flags = SA_RESTART };
	sigset_t set;

	if (supervised())
		return;
	drain_began_ns = clock_monotonic_ns();
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int end(struct service *s)
{
	int status = EXIT_OK;

	let_signals_kill();
	graph_stop(s->graph, stop_deadline(s));
	pthread_mutex_lock(&s->fail_lock);
	if (s->failure.kind != ERR_NONE) {
		LOG(LOG_ERROR, "Stopped because of an error", LOG_S("error", s->failure.msg));
		status = EXIT_FAILED;
	}
	pthread_mutex_unlock(&s->fail_lock);
	return status;
}

static void service_release(struct service *s)
{
	metrics_server_free(s->metrics_server);
	graph_free(s->graph);
	net_loops_free(s->loops);
	metrics_free(s->metrics);
	fd_close(&s->signal_fd);
	fd_close(&s->fail_fd);
}

static int run(struct service *s, struct config *config, struct problems *problems)
{
	struct err err = { 0 };

	set_up_log(config);
	problems_log_warnings(problems);
	if (!open_signals(s, &err)) {
		config_free(config);
	} else if (start(s, config, problems, &err)) {
		if (s->options->started)
			s->options->started(s->options->started_arg);
		wait_for_end(s);
		return end(s);
	}
	if (problems->error_count)
		print_problems(problems);
	else
		fprintf(stderr, "Error: %s\n", err.msg);
	return EXIT_FAILED;
}

static int validate(struct config *config, struct problems *problems)
{
	struct budget budget;
	struct metrics *metrics = metrics_new();
	struct graph_env env = { .budget = &budget, .metrics = metrics };
	struct graph *graph;

	budget_init(&budget, config->engine.max_inflight_bytes);
	graph = graph_new(config, &env, problems);
	if (!graph)
		print_problems(problems);
	graph_free(graph);
	metrics_free(metrics);
	return graph ? EXIT_OK : EXIT_FAILED;
}

static int run_loaded(const struct service_options *options, struct config *config,
		      struct problems *problems)
{
	struct service s = { .options = options,
			     .metrics = metrics_new(),
			     .signal_fd = -1,
			     .fail_fd = -1,
			     .fail_lock = PTHREAD_MUTEX_INITIALIZER };
	int status = run(&s, config, problems);

	service_release(&s);
	return status;
}

/* ---- with a sampler ---- */

static bool has_agent(const struct config *c)
{
	for (uint32_t i = 0; i < c->component_count; i++)
		if (c->components[i].used && c->components[i].ops == &profiling_receiver)
			return true;
	return false;
}

/* In the worker's process, each time it is started. */
static int run_worker(void *ctx)
{
	const struct service_options *options = ctx;
	struct problems problems;
	struct config *config;
	int status = EXIT_FAILED;

	problems_init(&problems);
	config = load(options, &problems);
	if (config)
		status = run_loaded(options, config, &problems);
	else
		print_problems(&problems);
	problems_release(&problems);
	return status;
}

/* What is missing is said once, before it is missed. */
static void log_missing_capabilities(void)
{
	uint64_t effective, permitted;

	if (!capabilities_read(&effective, &permitted))
		return;
	for (int i = 0; i < SAMPLER_CAPABILITIES; i++) {
		const struct sampler_capability *c = &sampler_capabilities[i];

		if (!capability_is_in(c, effective))
			LOG(c->required ? LOG_ERROR : LOG_WARN, "A capability is missing",
			    LOG_S("capability", c->name), LOG_S("costs", c->costs));
	}
}

/* Makes what is missing of a path, the new parts for a user. */
static bool directory_make_for(const char *path, uid_t uid, gid_t gid, struct err *err)
{
	char part[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(part))
		return err_set(err, ERR_LIMIT, "the path of the spool has %zu bytes", len);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != 0)
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (mkdir(part, 0700) == 0 && chown(part, uid, gid) != 0)
			return err_set_errno(err, "%s", part);
	}
	return true;
}

/* The spool's directory must belong to whom the worker will be. */
static bool prepare_spool(const struct config *config, const struct confine_user *user,
			  struct err *err)
{
	const char *directory = config->engine.spool.directory;

	if (!user->set || !directory)
		return true;
	return directory_make_for(directory, user->uid, user->gid, err);
}

static int run_supervised(const struct service_options *options, const struct config *config)
{
	struct supervise_options supervise = { .worker = run_worker,
					       .ctx = (void *)(uintptr_t)options };
	const char *user = config->engine.worker_user;
	struct err err;

	set_up_log(config);
	if ((user && *user && !confine_user_parse(user, &supervise.user, &err)) ||
	    !prepare_spool(config, &supervise.user, &err)) {
		fprintf(stderr, "Error: service::flametap::worker_user: %s\n", err.msg);
		return EXIT_FAILED;
	}
	log_missing_capabilities();
	return supervise_run(&supervise);
}

int service_run(const struct service_options *options)
{
	struct problems problems;
	struct config *config;
	int status = EXIT_FAILED;

	problems_init(&problems);
	config = load(options, &problems);
	if (!config) {
		print_problems(&problems);
	} else if (options->print_config) {
		status = print_config(config);
		config_free(config);
	} else if (options->validate_only) {
		status = validate(config, &problems);
	} else if (has_agent(config)) {
		status = run_supervised(options, config);
		config_free(config);
	} else {
		status = run_loaded(options, config, &problems);
	}
	problems_release(&problems);
	return status;
}
