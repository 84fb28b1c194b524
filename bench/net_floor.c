/*
 * net_floor.c - what a gRPC body costs before anybody looks at it: receive, de-frame, trivial
 *handler, empty answer.
 *
 *	net_floor [-a address] [-l loops] [-s seconds]
 *
 * Serves until SIGTERM, SIGINT or the time is over, then prints bodies, CPU per body and peak
 *memory. Drive it with h2load -n 20000 -c 4 -m 1 -d framed.bin -H 'content-type: application/grpc'
 *-H 'te: trailers' http://ADDRESS/bench.Sink/Take
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/server.h"

static atomic_ullong bodies, bytes;

static void take(struct net_request *r, struct blob *body, void *ctx)
{
	(void)ctx;
	atomic_fetch_add_explicit(&bodies, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&bytes, body->len, memory_order_relaxed);
	blob_unref(body);
	if (net_request_transport(r) == NET_GRPC)
		net_reply_grpc(r, STR(""));
	else
		net_reply_http(r, 200, NULL, 0, STR("ok\n"));
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void wait_for_end(unsigned limit_s)
{
	struct timespec until = { .tv_sec = limit_s };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigtimedwait(&set, NULL, &until);
}

static void report(void)
{
	unsigned long long n = atomic_load(&bodies);
	struct rusage use;
	double cpu;

	getrusage(RUSAGE_SELF, &use);
	cpu = seconds(use.ru_utime) + seconds(use.ru_stime);
	printf("bodies %llu  bytes %llu  cpu %.3f s  cpu/body %.4f ms  peak rss %ld kB\n", n,
	       (unsigned long long)atomic_load(&bytes), cpu, n ? cpu * 1000 / (double)n : 0,
	       use.ru_maxrss);
}

int main(int argc, char **argv)
{
	const char *address = "127.0.0.1:0";
	struct net_loops_options options = { .count = 2 };
	unsigned limit_s = 60;
	struct net_listener *listener;
	struct net_loops *loops;
	struct net_app *app;
	struct err err;
	sigset_t set;

	for (int c; (c = getopt(argc, argv, "a:l:s:")) != -1;) {
		if (c == 'a')
			address = optarg;
		else if (c == 'l')
			options.count = (unsigned)atoi(optarg);
		else if (c == 's')
			limit_s = (unsigned)atoi(optarg);
		else
			return 2;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	loops = net_loops_new(&options, &err);
	app = net_app_new(&(struct net_app_options){ 0 });
	net_app_grpc_method(app, "/bench.Sink/Take", (struct net_handler){ take, NULL });
	net_app_route(app, NULL, "/", NULL, (struct net_handler){ take, NULL });
	net_app_grpc_health(app, true);
	net_app_grpc_reflection(app, NULL, 0);
	listener = loops ? net_listen(loops, app, address, NULL, &err) : NULL;
	if (!listener) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	printf("listening on %s\n", net_listener_address(listener));
	fflush(stdout);
	wait_for_end(limit_s);
	net_listener_close(listener, clock_monotonic_ns() + SECOND_NS);
	net_app_free(app);
	net_loops_free(loops);
	report();
	return 0;
}
