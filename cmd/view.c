/* view.c - flametap view: the page on files, in memory and read-only. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "command.h"
#include "flags.h"
#include "input.h"
#include "model/subset.h"
#include "net/loops.h"
#include "query/profiles_source.h"
#include "web/web.h"
#include "wire/otlp.h"
#include "wire/otlp_json.h"

enum { BODIES_MOST = 10000 };

static const char *listen_address = "127.0.0.1:4040";
static bool print_url_only;

static const struct flag flags[] = {
	{ "Flags", "listen", FLAG_STRING, &listen_address, "ADDRESS", "127.0.0.1:4040",
	  "where the page is", NULL, false, false },
	{ "Flags", "quiet", FLAG_BOOL, &print_url_only, NULL, NULL,
	  "print the URL and nothing else", NULL, false, false },
	{ 0 },
};

static const char *const examples[] = {
	"flametap view body.pb",
	"flametap view --listen 127.0.0.1:0 *.pb",
	NULL,
};

static const struct command command = {
	.name = "view",
	.words = "FILE...|-",
	.summary = "Look at OTLP profiles files in the browser: flame graph, time, raw samples.",
	.examples = examples,
	.flags = flags,
	.words_max = 1u << 16,
};

struct bodies {
	struct profiles *list[BODIES_MOST];
	uint32_t count;
};

static bool add_body(struct bodies *b, struct blob *body, struct err *err)
{
	struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report = { 0 };
	struct profiles *p = NULL, *partial = NULL;
	bool ok;

	if (b->count == BODIES_MOST)
		return err_set(err, ERR_LIMIT, "more than %d bodies", BODIES_MOST);
	ok = otlp_looks_like_json(blob_view(body))
		     ? otlp_json_decode(body, &options, &p, &report, err)
		     : otlp_decode(body, &options, &p, &report, &partial, err);
	profiles_free(partial);
	if (ok)
		b->list[b->count++] = p;
	return ok;
}

static bool add_file(struct bodies *b, const char *file, struct err *err)
{
	struct input in;
	struct blob *body;
	size_t offset;
	bool ok = true;

	if (!input_open(&in, file, err))
		return false;
	while (ok && input_next(&in, &body, &offset, err)) {
		ok = add_body(b, body, err);
		blob_unref(body);
	}
	input_close(&in);
	return (ok && err->kind == ERR_NONE) || err_prefix(err, "%s", file);
}

static bool read_all(const struct words *words, struct profiles **out, struct err *err)
{
	struct bodies *b = calloc(1, sizeof(*b));
	bool ok = true;

	for (unsigned i = 0; ok && i < words->count; i++) {
		err->kind = ERR_NONE;
		ok = add_file(b, words->items[i], err);
	}
	if (ok && b->count == 0)
		ok = err_set(err, ERR_INVALID, "no profiles in the files");
	if (ok) {
		*out = profiles_merge((const struct profiles *const *)b->list, b->count, err);
		ok = *out != NULL;
	}
	for (uint32_t i = 0; i < b->count; i++)
		profiles_free(b->list[i]);
	free(b);
	return ok;
}

static bool open_source(void *ctx, struct query_source **out, struct err *err)
{
	(void)err;
	*out = profiles_source_new(ctx);
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

static int serve(struct profiles *p, const char *what)
{
	struct net_loops_options loops_options = { .count = 1 };
	struct web_options options = {
		.address = listen_address,
		.sources = { open_source, p, "files", what },
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
	struct profiles *p = NULL;
	struct err err = { 0 };
	int status;

	if (!read_all(words, &p, &err)) {
		fprintf(stderr, "flametap view: %s\n", err.msg);
		return EXIT_FAILED;
	}
	status = serve(p, words->items[0]);
	profiles_free(p);
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
