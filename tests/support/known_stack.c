/*
 * known_stack.c - a program whose stack is known: what the agent's end-to-end test compiles in many
 * ways and samples. It burns CPU in leaf() below level_1 .. level_8 until it is killed.
 *
 *   known_stack MODE [ARGUMENT]
 *
 * plain, threads, signal, altstack, deep N, fork, exec, vfork, syscall, jit, nocfi, cold: see
 * main().
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef THREADS
#include <pthread.h>
#endif

#define KEEP __attribute__((noinline, noclone, visibility("default"), used))

#ifndef NAME
#define NAME "known_stack"
#endif
__attribute__((used, visibility("default"))) const char image_name[] =
	NAME; /* builds that differ in nothing else are not one build */

static volatile uint64_t burn_until; /* CPU nanoseconds; 0: for ever */
static volatile unsigned long sink;

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

KEEP void leaf(void)
{
	do {
		for (int i = 0; i < 1000000; i++)
			sink += (unsigned long)i * sink + 1;
	} while (!burn_until || cpu_ns() < burn_until);
}

/* How the innermost level calls what burns. */
static void (*volatile burn)(void) = leaf;
#define AFTER sink++ /* so that no call is the last thing a function does */

KEEP void level_8(int n)
{
	char big[3000];

	memset(big, n, sizeof(big));
	burn();
	sink += (unsigned long)big[n & 7];
}

/* Many live values: registers that callees save, in use. */
KEEP void level_7(int a, int b, int c, int d, int e, int f)
{
	unsigned long u = sink, v = u * 3, w = v + u, x = w ^ 5, y = x * v, z = y - w;

	level_8(a + b + c + d + e + f);
	sink += u + v + w + x + y + z;
}

/* A frame of a size known at run time only: it needs a frame pointer. */
KEEP void level_6(size_t n)
{
	char *p = __builtin_alloca(n * 16 + 1);

	memset(p, 1, n * 16 + 1);
	level_7(1, 2, 3, 4, 5, (int)n);
	sink += (unsigned long)p[n];
}

KEEP void level_5(int n, ...)
{
	level_6((size_t)n);
	AFTER;
}

struct large {
	long words[40];
};

KEEP struct large level_4(struct large l)
{
	level_5((int)l.words[3], 1.5, "x", l.words[1]);
	l.words[2] += (long)sink;
	return l;
}

KEEP void level_3(void)
{
	struct large l = { { 1, 2, 3, 4 } };

	l = level_4(l);
	sink += (unsigned long)l.words[2];
}

/* Realigned: the CFA is found through a register or memory. */
KEEP void level_2(void)
{
	_Alignas(64) volatile char wide[64];

	wide[0] = 1;
	level_3();
	sink += (unsigned long)wide[0];
}

KEEP void level_1(void)
{
	level_2();
	AFTER;
}

KEEP void dive(int depth)
{
	char room[64];

	memset(room, depth, sizeof(room));
	if (depth > 0)
		dive(depth - 1);
	else
		leaf();
	sink += (unsigned long)room[depth & 7];
}

KEEP void on_signal(int signo)
{
	(void)signo;
	level_1();
	AFTER;
}

KEEP void *thread_main(void *arg)
{
	(void)arg;
	level_1();
	AFTER;
	return NULL;
}

/* Kernel code most of the time. */
KEEP void call_kernel(void)
{
	static char buffer[1 << 16];
	FILE *f = fopen("/dev/zero", "r");

	for (;;)
		sink += (unsigned long)read(fileno(f), buffer, sizeof(buffer));
}

/* Code without any unwind information, but with a frame pointer; it calls leaf(). */
#if defined(__x86_64__) && defined(NOCFI)
__asm__(".text\n.globl call_without_cfi\n.type call_without_cfi, @function\ncall_without_cfi:\n"
	"	push %rbp\n	mov %rsp, %rbp\n	sub $32, %rsp\n	call leaf\n	leave\n	"
	"ret\n"
	".size call_without_cfi, .-call_without_cfi\n");
void call_without_cfi(void);
#endif

/* As a JIT compiler does: push %rbp; mov %rsp,%rbp; movabs $leaf,%rax; call *%rax; pop %rbp; ret */
static void burn_in_jit(void)
{
	unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,    0,    0,
				 0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3 };
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*target)(void) = leaf;

	memcpy(code + 6, &target, sizeof(target));
	memcpy(at, code, sizeof(code));
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	memcpy((void *)&burn, &at, sizeof(at));
	level_1();
	AFTER;
}

static void with_signal(int altstack)
{
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = altstack ? SA_ONSTACK : 0 };
	stack_t stack = { .ss_size = 1 << 16 };

	stack.ss_sp = malloc(stack.ss_size);
	if (altstack)
		sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain", *argument = argc > 2 ? argv[2] : "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc > 3) /* CPU milliseconds to burn */
		burn_until = cpu_ns() + strtoull(argv[3], NULL, 10) * 1000000u;
	if (strcmp(mode, "signal") == 0 || strcmp(mode, "altstack") == 0) {
		with_signal(mode[0] == 'a');
	} else if (strcmp(mode, "deep") == 0) {
		dive(atoi(argument));
	} else if (strcmp(mode, "fork") == 0) {
		for (int i = 0; i < 3; i++) {
			if (fork() == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				level_1();
				_exit(0);
			}
		}
		for (;;)
			pause();
	} else if (strcmp(mode, "exec") == 0) {
		burn_until = cpu_ns() + 100000000u;
		level_1();
		execl(argument, argument, "plain", (char *)NULL);
	} else if (strcmp(mode, "short") == 0) {
		/* Children that live for a moment each, one after the other. */
		for (;;) {
			if (fork() == 0)
				execl(argument, argument, "plain", "", "50", (char *)NULL);
			wait(NULL);
		}
	} else if (strcmp(mode, "syscall") == 0) {
		call_kernel();
	} else if (strcmp(mode, "jit") == 0) {
		burn_in_jit();
#if defined(__x86_64__) && defined(NOCFI)
	} else if (strcmp(mode, "nocfi") == 0) {
		burn = call_without_cfi;
		level_1();
#endif
#ifdef THREADS
	} else if (strcmp(mode, "threads") == 0) {
		pthread_t threads[3];

		for (int i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, thread_main, NULL);
		pthread_join(threads[0], NULL);
#endif
	} else {
		level_1();
	}
	AFTER;
	return 0;
}
