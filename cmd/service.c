#include "service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "command.h"
#include "metrics_server.h"
#include "net/loops.h"
#include "pipeline/graph.h"
#include "pipeline/telemetry.h"

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

static void wait_for_end(struct service *s)
{
	struct pollfd fds[] = { { s->signal_fd, POLLIN, 0 }, { s->fail_fd, POLLIN, 0 } };

	for (;;) {
		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			return;
		if (fds[1].revents)
			return;
		if (fds[0].revents && !take_signal(s))
			return;
	}
}

/* While the graph drains, a second Ctrl-C ends the process as it always does. */
static void let_signals_kill(void)
{
	sigset_t set;

	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
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
	} else {
		struct service s = { .options = options,
				     .metrics = metrics_new(),
				     .signal_fd = -1,
				     .fail_fd = -1,
				     .fail_lock = PTHREAD_MUTEX_INITIALIZER };

		status = run(&s, config, &problems);
		service_release(&s);
	}
	problems_release(&problems);
	return status;
}
