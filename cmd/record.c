/*
 * record.c - flametap record: profiles a process, a command or the whole machine for a while, into
 * a file.
 *
 * The receiver `profiling` runs by itself, its reports are kept in memory and written as one
 * message. It runs in a worker beside a sampler, as the agent does; the command to be watched is
 * started before, outside of both, and waits until sampling has begun.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/profiling.h"
#include "agent/supervise/supervise.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "command.h"
#include "flags.h"
#include "graph_yaml.h"
#include "model/subset.h"
#include "net/compress.h"
#include "pipeline/node.h"
#include "query/draw/drawn.h"
#include "wire/otlp.h"
#include "wire/otlp_json.h"

static const char *duration_text, *output;
static bool all, verbose;

#define RECEIVER "receivers/profiling/"

/* clang-format off */
static const struct flag flags[] = {
	OPTION("What", "p", "PID,...", RECEIVER "pids", .help = "these processes and what they start; several times"),
	FLAG("What", "all", FLAG_BOOL, &all, NULL, "true without -p and CMD", "every process of the machine"),
	OPTION("What", "process-filter", "REGEX", RECEIVER "process_filter", .help = "of these only executables of such a name"),
	FLAG("How", "d", FLAG_DURATION, &duration_text, "TIME", "10s; CMD: until its end", "how long; -p ends with its last; ends CMD"),
	OPTION("How", "F", "HZ", RECEIVER "samples_per_second", .fallback = "97", .least = 1, .most = 10000, .help = "samples a second and CPU"),
	OPTION("How", "inlines", NULL, RECEIVER "inlines", .fallback = "true", .help = "inlined functions, from debug information"),
	FLAG("Where to", "o", FLAG_STRING, &output, "FILE", NULL, ".otlp .pb .json: OTLP; .folded .txt: stacks; .pb.gz .pprof: pprof"),
	FLAG("Where to", "v", FLAG_BOOL, &verbose, NULL, NULL, "say more", .advanced = true),
	{ 0 },
};
/* clang-format on */

static const char *const examples[] = {
	"flametap record -p 1234 -d 30s -o out.folded",
	"flametap record -o out.pb.gz -- make -j2",
	"flametap record --all -F 20 -o machine.otlp",
	NULL,
};

static const struct command command = {
	.name = "record",
	.words = "[-- CMD...]",
	.summary = "Profile a process, a command or the whole machine into a file. Needs "
		   "privileges: 'flametap doctor'.\nCtrl-C ends it and keeps what was recorded. "
		   "With CMD, and without -d, the exit status is CMD's.\n-d ends CMD as well, by "
		   "SIGTERM; to watch one that shall go on, start it first and use -p.",
	.examples = examples,
	.flags = flags,
	.words_max = 1000,
};

/* ---- the recording ---- */

enum { PARTS_MOST = 65536, CALLS_AT_ONCE_MS = 250, COMMAND_ENDS_MS = 5000 };

struct recording {
	const struct format *format;
	uint64_t duration_ns; /* 0: until what ends it has, or Ctrl-C */
	const char *command;
	pid_t child; /* 0 = none */
	int go_fd;   /* writing to it lets the child go */
	int *ends;   /* pidfds of what ends it: the command, or those of -p, all of them */
	uint32_t end_count, ended; /* the first `ended` of them have */
	int exec_fd;               /* errno comes here if the child cannot become the command */
	int end_signal;   /* what the command gets when the recording is over; 0: nothing */
	int child_status; /* as of wait(2); -1 = has not ended */
	int out_fd;
	bool created; /* the file was not there before */

	struct consumer consumer; /* takes the reports */
	pthread_mutex_t lock;
	struct batch **parts; /* lock */
	uint32_t count;       /* lock */

	struct metrics *metrics;
	struct component_host host;
	struct arena arena;
	void *receiver;
	int signal_fd;
	uint64_t started_ns, ended_ns;
	struct err failure;
};

static void keep_part(struct consumer *self, struct batch *batch, struct completion *done)
{
	struct recording *r = CONTAINER_OF(self, struct recording, consumer);
	struct outcome o = outcome_ok();
	struct batch **grown = NULL;

	pthread_mutex_lock(&r->lock);
	if (r->count < PARTS_MOST)
		grown = realloc(r->parts, (r->count + (size_t)1) * sizeof(struct batch *));
	if (grown) {
		r->parts = grown;
		r->parts[r->count++] = batch;
	}
	pthread_mutex_unlock(&r->lock);
	if (!grown) {
		batch_unref(batch);
		o.kind = OUTCOME_PERMANENT;
		err_set(&o.err, ERR_LIMIT, "more than %d reports in one recording", PARTS_MOST);
	}
	completion_done(done, &o);
}

static bool receiver_yaml(struct buf *out, pid_t child, struct err *err)
{
	struct yaml_out *y = yaml_out_new(out);
	char pid[24];
	bool ok;

	snprintf(pid, sizeof(pid), "%d", child);
	yaml_map_begin(y);
	ok = graph_put_options(y, flags, "receivers/profiling", err);
	graph_put(y, "reporter_interval", "1s"); /* names are asked for while processes live */
	graph_put_number(y, "reporter_jitter", "0");
	graph_put(y, "naming_budget", "1m");          /* what is not named now never is */
	graph_put(y, "debuginfod_wait", "1m");        /* DEBUGINFOD_URLS */
	graph_put_bool(y, "send_error_frames", true); /* a cut stack should look like one */
	if (child)
		graph_put_list(y, "pids", pid);
	yaml_map_end(y);
	yaml_out_free(y);
	buf_char(out, '\0');
	return ok;
}

/* As the pipeline would: state, options, checks. */
static bool make_receiver(struct recording *r, struct err *err)
{
	AUTO(buf_release) struct buf yaml = { 0 };
	AUTO(buf_release) struct buf text = { 0 };
	uint32_t nodes_left = NODES_MOST;
	struct config_node *node;
	struct problems problems;
	bool ok;

	if (!receiver_yaml(&yaml, r->child, err))
		return false;
	r->receiver = calloc(1, profiling_receiver.state_size);
	problems_init(&problems);
	node = node_parse(&r->arena, str_cstr(yaml.ptr), "flags", &nodes_left, &problems);
	options_fill(profiling_receiver.fields, r->receiver, node, "record", &r->arena, &problems);
	ok = !problems.error_count;
	if (!ok) {
		problems_write(&problems, false, &text);
		err_set(err, ERR_INVALID, "%.*s", STR_ARG(str_trim(buf_view(&text))));
	}
	problems_release(&problems);
	return ok && profiling_receiver.check(r->receiver, err);
}

static void on_failure(const struct component_host *host, const struct err *err)
{
	(void)host;
	LOG(LOG_ERROR, "The recording fails", LOG_S("error", err->msg));
}

static bool start(struct recording *r, struct err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	r->metrics = metrics_new();
	r->host = (struct component_host){
		.id = "profiling", .next = &r->consumer, .metrics = r->metrics, .fail = on_failure
	};
	arena_init(&r->arena, 4096, 0);
	return make_receiver(r, err) && profiling_receiver.start(r->receiver, &r->host, err);
}

static void show_progress(const struct recording *r)
{
	uint64_t now = clock_monotonic_ns(), ns = now - r->started_ns;
	char of[32] = "";

	if (!isatty(STDERR_FILENO))
		return;
	if (r->duration_ns)
		snprintf(of, sizeof(of), " of %.0f", (double)r->duration_ns / SECOND_NS);
	fprintf(stderr, "\rRecording: %.1f%s s, %llu samples; Ctrl-C ends it and keeps them ",
		(double)ns / SECOND_NS, of, (unsigned long long)profiling_trace_count(r->receiver));
}

static int wait_ms(const struct recording *r)
{
	uint64_t passed = clock_monotonic_ns() - r->started_ns;
	uint64_t left = r->duration_ns > passed ? (r->duration_ns - passed) / MILLI_NS + 1 : 0;

	return r->duration_ns && left < CALLS_AT_ONCE_MS ? (int)left : CALLS_AT_ONCE_MS;
}

static int next_end(const struct recording *r)
{
	return r->ended < r->end_count ? r->ends[r->ended] : -1;
}

/* Who ends the recording ends the command, but for Ctrl-C, which a terminal sends to both. */
static int signal_for_command(const struct recording *r, bool signalled)
{
	struct signalfd_siginfo info;

	if (!signalled)
		return SIGTERM; /* -d */
	if (read(r->signal_fd, &info, sizeof(info)) != sizeof(info) || info.ssi_signo == SIGINT)
		return 0;
	return (int)info.ssi_signo;
}

/* Once the names that only a living process can tell are there. */
static void end_command(const struct recording *r)
{
	if (r->child && r->end_signal && r->ended < r->end_count &&
	    syscall(SYS_pidfd_send_signal, r->ends[0], r->end_signal, NULL, 0) != 0)
		fprintf(stderr, "flametap record: %s cannot be ended: %s\n", r->command,
			strerror(errno));
}

static void wait_for_command(const struct recording *r)
{
	struct pollfd end = { next_end(r), POLLIN, 0 };

	if (r->child && r->end_signal && end.fd >= 0 && poll(&end, 1, COMMAND_ENDS_MS) == 0)
		fprintf(stderr,
			"flametap record: %s did not end on signal %d: process %d goes on\n",
			r->command, r->end_signal, (int)r->child);
}

static void record(struct recording *r)
{
	bool over = false, signalled = false;

	r->started_ns = clock_monotonic_ns();
	if (r->child && write(r->go_fd, "g", 1) != 1)
		return;
	while (!over) {
		struct pollfd fds[] = { { r->signal_fd, POLLIN, 0 }, { next_end(r), POLLIN, 0 } };

		poll(fds, ARRAY_LEN(fds), wait_ms(r));
		r->ended += fds[1].revents != 0;
		show_progress(r);
		signalled = fds[0].revents;
		over = signalled || (r->end_count && r->ended == r->end_count) ||
		       (r->duration_ns && clock_monotonic_ns() - r->started_ns >= r->duration_ns);
	}
	r->ended_ns = clock_monotonic_ns();
	r->end_signal = signal_for_command(r, signalled);
	if (isatty(STDERR_FILENO))
		fputs("\n", stderr);
}

/* The command could not be run: 127 or 126, as a shell says it; else 0. */
static int exec_failure(struct recording *r, struct err *err)
{
	int number;

	if (r->exec_fd < 0 || read(r->exec_fd, &number, sizeof(number)) != sizeof(number))
		return 0;
	errno = number;
	err_set_errno(err, "%s", r->command);
	return number == ENOENT ? 127 : 126;
}

/* ---- the file ---- */

static struct profiles *merge(struct recording *r, struct err *err)
{
	const struct profiles **parts = calloc(r->count + (size_t)1, sizeof(struct profiles *));
	struct profiles *merged;

	for (uint32_t i = 0; parts && i < r->count; i++)
		parts[i] = r->parts[i]->profiles;
	merged = parts ? profiles_merge(parts, r->count, err) : NULL;
	free(parts);
	return merged;
}

static bool write_all(int fd, struct str bytes, struct err *err)
{
	while (bytes.len) {
		ssize_t n = write(fd, bytes.ptr, bytes.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(err, "%s", output);
		bytes = str_skip(bytes, (size_t)n);
	}
	return true;
}

/* Only now: a recording that fails leaves an older file as it was. */
static bool empty_file(int fd, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || (S_ISREG(st.st_mode) && ftruncate(fd, 0) != 0))
		return err_set_errno(err, "%s", output);
	return true;
}

static uint64_t count_events(const struct profiles *p)
{
	uint64_t events = 0;

	for (uint32_t i = 0; i < p->sample_count; i++)
		events += p->samples[i].timestamps.count;
	return events;
}

static bool write_file(struct recording *r, struct err *err)
{
	AUTO(buf_release) struct buf out = { 0 };
	struct profiles *p = merge(r, err);
	const struct export_options options = { .process = true, .addresses = true };
	bool ok = p && r->format->write(p, &options, &out, err) &&
		  (!r->format->gzip || compress_gzip_buf(&out, err)) &&
		  empty_file(r->out_fd, err) && write_all(r->out_fd, buf_view(&out), err);

	if (ok)
		fprintf(stderr, "Recorded %llu samples in %.1f s: %s, %zu bytes\n",
			(unsigned long long)count_events(p),
			(double)(r->ended_ns - r->started_ns) / SECOND_NS, output, out.len);
	if (ok && !count_events(p))
		fputs("flametap record: nothing of what was asked for was found on a CPU in that "
		      "time\n",
		      stderr);
	profiles_free(p);
	return ok;
}

static void release(struct recording *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		batch_unref(r->parts[i]);
	free(r->parts);
	free(r->receiver);
	arena_release(&r->arena);
	metrics_free(r->metrics);
	fd_close(&r->signal_fd);
	pthread_mutex_destroy(&r->lock);
}

static int run_worker(void *ctx)
{
	struct recording *r = ctx;
	int status = EXIT_FAILED;
	struct err err;

	r->consumer.consume = keep_part;
	pthread_mutex_init(&r->lock, NULL);
	if (start(r, &err)) {
		record(r);
		profiling_receiver.stop(r->receiver, clock_monotonic_ns() + 30 * SECOND_NS);
		end_command(r);
		status = exec_failure(r, &err);
		if (!status)
			status = write_file(r, &err) ? EXIT_OK : EXIT_FAILED;
		wait_for_command(r);
	}
	if (status)
		fprintf(stderr, "flametap record: %s\n", err.msg);
	release(r);
	return status;
}

/* ---- before the processes part ---- */

/* Waits for a byte, then becomes the command; ends when nobody lets it go. */
static _Noreturn void be_command(int go_fd, int exec_fd, char **words)
{
	int number;
	char byte;
	ssize_t got;

	do
		got = read(go_fd, &byte, 1);
	while (got < 0 && errno == EINTR);
	if (got != 1)
		_exit(127);
	execvp(words[0], words);
	number = errno;
	_exit(write(exec_fd, &number, sizeof(number)) == sizeof(number) ? 127 : 126);
}

static bool start_command(struct recording *r, char **words, struct err *err)
{
	int go[2], failed[2];

	if (pipe2(go, O_CLOEXEC) != 0)
		return err_set_errno(err, "pipe");
	r->go_fd = go[1];
	if (pipe2(failed, O_CLOEXEC | O_NONBLOCK) != 0) {
		close(go[0]);
		return err_set_errno(err, "pipe");
	}
	r->exec_fd = failed[0];
	r->command = words[0];
	fflush(NULL);
	r->child = fork();
	if (r->child == 0) {
		close(go[1]);
		be_command(go[0], failed[1], words);
	}
	close(go[0]);
	close(failed[1]);
	return r->child > 0 || err_set_errno(err, "the command cannot be started");
}

static bool end_with(struct recording *r, uint64_t pid, struct err *err)
{
	int fd = pid <= INT_MAX ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
	int *grown;

	if (fd < 0)
		return err_set(err, ERR_INVALID, "-p: there is no process %llu",
			       (unsigned long long)pid);
	grown = realloc(r->ends, (r->end_count + (size_t)1) * sizeof(int));
	if (!grown)
		abort();
	r->ends = grown;
	r->ends[r->end_count++] = fd;
	return true;
}

/* Those that -p names must be there: nothing will ever be seen of one that is not. */
static bool find_pids_in(struct recording *r, const char *list, struct err *err)
{
	struct str left = str_cstr(list), one;
	uint64_t pid;

	while (str_split(&left, ',', &one)) {
		/* The receiver says more about a word that is not a number. */
		if (str_to_u64(str_trim(one), &pid) && !end_with(r, pid, err))
			return false;
	}
	return true;
}

static bool find_pids(struct recording *r, struct err *err)
{
	const struct flag *p = flags_find(flags, STR("p"));
	const char *list;
	unsigned at = 0;

	while ((list = flags_next_value(p, &at)))
		if (!find_pids_in(r, list, err))
			return false;
	return true;
}

static bool unknown_ending(struct err *err)
{
	AUTO(buf_release) struct buf known = { 0 };

	export_format_append_endings(&known);
	return err_set(err, ERR_INVALID, "-o %s: expected a name that ends in one of %.*s", output,
		       STR_ARG(buf_view(&known)));
}

static bool check_flags(const struct words *words, struct recording *r, struct err *err)
{
	bool by_pid = flags_given(flags_find(flags, STR("p")));

	if (!output || !*output)
		return err_set(err, ERR_INVALID,
			       "-o FILE is missing: out.folded, out.pb.gz, "
			       "out.otlp");
	r->format = export_format_of_file(str_cstr(output));
	if (!r->format)
		return unknown_ending(err);
	if (by_pid + (words->count > 0) + all > 1)
		return err_set(err, ERR_INVALID, "-p, --all and a command exclude each other");
	if (duration_text && !duration_parse(str_cstr(duration_text), &r->duration_ns, err))
		return err_prefix(err, "-d");
	if (duration_text && !r->duration_ns)
		return err_set(err, ERR_INVALID, "-d is zero");
	if (!duration_text && !words->count)
		r->duration_ns = 10 * SECOND_NS;
	return true;
}

static bool open_output(struct recording *r, struct err *err)
{
	int mode = O_WRONLY | O_CREAT | O_CLOEXEC;

	r->out_fd = open(output, mode | O_EXCL, 0644);
	r->created = r->out_fd >= 0;
	if (!r->created)
		r->out_fd = open(output, mode, 0644);
	return r->out_fd >= 0 || err_set_errno(err, "%s", output);
}

/* The command's, as a shell gives it, of a command that was watched to its end. */
static int status_of_command(const struct recording *r)
{
	if (r->child_status == -1 || r->duration_ns)
		return EXIT_OK;
	return WIFSIGNALED(r->child_status) ? 128 + WTERMSIG(r->child_status)
					    : WEXITSTATUS(r->child_status);
}

static int run(struct recording *r, struct words *words, struct err *err)
{
	struct supervise_options options = { .worker = run_worker, .ctx = r };

	int status;

	if (!find_pids(r, err) || !open_output(r, err) ||
	    (words->count &&
	     !(start_command(r, words->items, err) && end_with(r, (uint64_t)r->child, err)))) {
		fprintf(stderr, "flametap record: %s\n", err->msg);
		status = EXIT_FAILED;
	} else {
		log_setup(verbose ? LOG_DEBUG : LOG_WARN, LOG_TEXT, STDERR_FILENO);
		options.other = r->child;
		options.other_status = &r->child_status;
		status = supervise_run(&options);
	}
	if (status && r->created)
		unlink(output);
	return status ? status : status_of_command(r);
}

int record_run(int argc, char **argv)
{
	struct recording r = {
		.go_fd = -1, .exec_fd = -1, .child_status = -1, .out_fd = -1, .signal_fd = -1
	};
	struct words words;
	struct err err;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	if (check_flags(&words, &r, &err))
		status = run(&r, &words, &err);
	else
		status = command_usage_error("record", &err);
	free(words.items);
	while (r.end_count)
		fd_close(&r.ends[--r.end_count]);
	free(r.ends);
	fd_close(&r.go_fd);
	fd_close(&r.exec_fd);
	fd_close(&r.out_fd);
	return status;
}
