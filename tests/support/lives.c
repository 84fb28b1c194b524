/*
 * lives.c - a process whose life takes turns, for tests/test_agent_lives.py:
 *
 *   lives lead SECONDS            the first thread ends, another one works on
 *   lives names SECONDS           a child works under its parent's name, as "kid", as "other", so
 * long each lives plugins SECONDS A B     A and B by turns, four times, each loaded where the other
 * was lives plugin SECONDS A        A
 *
 * Seconds are of its own CPU time: samples are counted in them, however busy the machine is. What
 * happens is told on standard output, with CLOCK_REALTIME in nanoseconds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long count;
static double seconds;
static pthread_t first;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void tell(const char *what)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	printf("%s %d %ld%09ld\n", what, getpid(), (long)t.tv_sec, t.tv_nsec);
	fflush(stdout);
}

__attribute__((noinline)) void known_leaf(void)
{
	for (int i = 0; i < 100000; i++)
		count += i;
}

__attribute__((noinline)) void known_outer(double until)
{
	while (now() < until)
		known_leaf();
	count++;
}

static void *work(void *none)
{
	pthread_join(first, NULL);
	prctl(PR_SET_NAME, "second");
	tell("alone");
	known_outer(now() + seconds);
	exit(0);
	return none;
}

static int lead(void)
{
	pthread_t t;

	first = pthread_self();
	known_outer(now() + 0.3);
	pthread_create(&t, NULL, work, NULL);
	pthread_exit(NULL);
}

static int names(void)
{
	static const char *const turns[] = { NULL, "kid", "other" };

	if (fork()) {
		wait(NULL);
		return 0;
	}
	for (int i = 0; i < 3; i++) {
		if (turns[i])
			prctl(PR_SET_NAME, turns[i]);
		tell(turns[i] ? turns[i] : "born");
		known_outer(now() + seconds);
	}
	tell("end");
	return 0;
}

static int plugin(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*run)(void) = library ? dlsym(library, "plugin_run") : NULL;
	double until = now() + seconds;

	if (!run)
		return puts(dlerror()), 1;
	tell(path);
	while (now() < until)
		run();
	tell("end");
	return dlclose(library);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	seconds = atof(argv[2]);
	if (!strcmp(argv[1], "lead"))
		return lead();
	if (!strcmp(argv[1], "names"))
		return names();
	if (!strcmp(argv[1], "plugin") && argc == 4)
		return plugin(argv[3]);
	if (strcmp(argv[1], "plugins") || argc < 5)
		return 2;
	for (int i = 0; i < 4; i++)
		if (plugin(argv[3 + i % 2]))
			return 1;
	return 0;
}
