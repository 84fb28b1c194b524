/* view.c - flametap view: the page on files, in memory and read-only. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "command.h"
#include "flags.h"
#include "net/loops.h"
#include "query/profiles_source.h"
#include "store/store.h"
#include "selection.h"
#include "web/web.h"

static const char *listen_address = "127.0.0.1:4040";
static const char *source_folder;
static bool print_url_only;

static const struct flag flags[] = {
	FLAG("Flags", "listen", FLAG_STRING, &listen_address, "ADDRESS", "127.0.0.1:4040",
	     "where the page is"),
	FLAG("Flags", "source", FLAG_STRING, &source_folder, "DIR", NULL,
	     "folder of source files, whose text the page may show"),
	FLAG("Flags", "quiet", FLAG_BOOL, &print_url_only, NULL, NULL,
	     "print the URL and nothing else"),
	{ 0 },
};

static const char *const examples[] = {
	"flametap view cpu.pprof",
	"flametap view --listen 127.0.0.1:0 *.pb",
	NULL,
};

static const struct command command = {
	.name = "view",
	.words = "FILE...|-",
	.summary = "Look at files of profiles in the browser: flame graph, time, raw samples.",
	.examples = examples,
	.flags = flags,
	.words_max = 1u << 16,
};

/* A message is asked as it is; a store is opened once, and each question has a state of it. */
static bool open_source(void *ctx, struct source **out, struct err *err)
{
	const struct samples *s = ctx;

	if (s->store)
		return store_begin(s->store, out, err);
	*out = profiles_source_new(s->profiles);
	return true;
}

static void wait_for_end(void)
{
	struct signalfd_siginfo info;
	AUTO(fd_close) int fd = -1;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	while (fd >= 0 && read(fd, &info, sizeof(info)) < 0)
		continue;
}

static void block_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int serve(struct samples *s, const char *what)
{
	struct net_loops_options loops_options = { .count = 1 };
	struct web_options options = {
		.address = listen_address,
		.sources = { .open = open_source,
			     .ctx = s,
			     .kind = s->store ? "sqlite" : "files",
			     .path = what },
		.source_folder = source_folder,
		.read_only = true,
	};
	struct net_loops *loops;
	struct web_server *web = NULL;
	struct err err;

	block_signals();
	loops = net_loops_new(&loops_options, &err);
	if (loops)
		web = web_start(loops, &options, &err);
	if (!web) {
		fprintf(stderr, "flametap view: %s\n", err.msg);
		net_loops_free(loops);
		return EXIT_FAILED;
	}
	if (!print_url_only)
		printf("The page is at ");
	printf("http://%s/\n", web_address(web));
	fflush(stdout);
	wait_for_end();
	web_stop(web, clock_monotonic_ns() + 1000000000);
	net_loops_free(loops);
	return EXIT_OK;
}

static int run(const struct words *words)
{
	AUTO(buf_release) struct buf what = { 0 };
	struct err err = { 0 };
	struct samples s;
	int status;

	if (!samples_open(&s, NULL, words->items, words->count, &err)) {
		fprintf(stderr, "flametap view: %s\n", err.msg);
		samples_close(&s);
		return EXIT_FAILED;
	}
	buf_printf(&what, "%s", words->items[0]);
	if (words->count > 1)
		buf_printf(&what, " and %zu more", (size_t)words->count - 1);
	buf_char(&what, 0);
	status = serve(&s, what.ptr);
	samples_close(&s);
	return status;
}

int view_run(int argc, char **argv)
{
	struct words words;
	struct err err;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	if (words.count == 0) {
		err_set(&err, ERR_INVALID, "no file is given");
		status = command_usage_error("view", &err);
	} else {
		status = run(&words);
	}
	free(words.items);
	return status;
}
