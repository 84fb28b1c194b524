/*
 * herd.c - starts a program many times in a while, and tells how much CPU time those processes had.
 *
 *   herd COUNT SECONDS PROGRAM [ARGUMENT]
 * prints "ended COUNT, CPU nanoseconds NS": the kernel's own account (wait4), from fork to exit.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long cpu_ns(const struct rusage *u)
{
	return (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000000L +
	       (u->ru_utime.tv_usec + u->ru_stime.tv_usec) * 1000L;
}

int main(int argc, char **argv)
{
	char *environment[] = { NULL };
	int count, started = 0, ended = 0, status;
	double begin = now(), seconds;
	struct rusage usage;
	long sum = 0;
	pid_t pid;

	if (argc < 4)
		return 2;
	count = atoi(argv[1]);
	seconds = atof(argv[2]);
	while (ended < count) {
		while (started < count && now() - begin >= started * seconds / count) {
			if (posix_spawn(&pid, argv[3], NULL, NULL, argv + 3, environment) != 0)
				return 1;
			started++;
		}
		while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
			ended++;
			sum += cpu_ns(&usage);
		}
		usleep(1000);
	}
	printf("ended %d, CPU nanoseconds %ld\n", ended, sum);
	return 0;
}
