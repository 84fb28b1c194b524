/*
 * step_target.c - what the single-step test of the unwinder steps through
 * (src/agent/unwind/step_test.c compiles it in many ways): calls of every shape that a compiler
 * makes frames for.
 */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static volatile uint64_t sink;

APART static uint64_t leaf(uint64_t a, uint64_t b)
{
	return a * 31 + b;
}

APART static uint64_t deep(uint64_t n)
{
	return n ? deep(n - 1) * 3 + leaf(n, sink) : leaf(1, 2);
}

/* More values alive over a call than there are registers. */
APART static uint64_t many(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
			   uint64_t g, uint64_t h)
{
	uint64_t x = leaf(a, b), y = leaf(c, d), z = leaf(e, f);

	return leaf(x + g, y + h) + a * b + c * d + e * f + g * h + z;
}

/* A frame of a size known only when it runs. */
APART static uint64_t sized(size_t n)
{
	unsigned char *p = alloca(n);

	memset(p, (int)n, n);
	return leaf(p[0], p[n - 1]);
}

/* A frame aligned to more than the ABI promises. */
APART static uint64_t aligned(uint64_t v)
{
	volatile uint64_t wide[8] __attribute__((aligned(64)));

	for (int i = 0; i < 8; i++)
		wide[i] = leaf(v, (uint64_t)i);
	return wide[v & 7] + (uintptr_t)wide % 64;
}

/* A frame of more than one page. */
APART static uint64_t large(uint64_t v)
{
	volatile unsigned char bytes[20000];

	bytes[v % sizeof(bytes)] = 1;
	return leaf(bytes[v % sizeof(bytes)], v);
}

APART static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (int)leaf(x, 0) - (int)leaf(y, 0);
}

/* libc calls back. */
APART static uint64_t sorted(void)
{
	uint64_t v[] = { 5, 3, 9, 1 };

	qsort(v, 4, sizeof(v[0]), by_value);
	return v[0];
}

APART static uint64_t printed(void)
{
	char text[80];

	return (uint64_t)snprintf(text, sizeof(text), "%s %08.3f %lx", "a", 3.25, sink);
}

static jmp_buf back;

APART static uint64_t jumps(uint64_t n)
{
	if (n == 0)
		longjmp(back, 7);
	return jumps(n - 1) + leaf(n, n);
}

APART static uint64_t jumped(void)
{
	int v = setjmp(back);

	return v ? (uint64_t)v : jumps(3);
}

APART static void on_signal(int number)
{
	sink += leaf((uint64_t)number, deep(2));
}

APART static void signalled(void)
{
	raise(SIGUSR1);
	sink += 1;
}

APART static uint64_t tail(uint64_t n)
{
	return n > 100 ? leaf(n, 1) : many(n, 2, 3, 4, 5, 6, 7, 8);
}

static uint64_t (*volatile indirect)(uint64_t) = tail;

/* vfork() keeps its return address in a register while the child uses its stack. */
APART static uint64_t forked(void)
{
	int status = 0;
	pid_t child = vfork();

	if (!child)
		_exit(3);
	waitpid(child, &status, 0);
	return leaf((uint64_t)status, 0);
}

APART static void work(void)
{
	sink += deep(4);
	sink += many(1, 2, 3, 4, 5, 6, 7, 8);
	sink += sized(100 + (sink & 7));
	sink += aligned(sink);
	sink += large(sink);
	sink += sorted();
	sink += printed();
	sink += jumped();
	sink += forked();
	signalled();
	sink += indirect(sink & 127);
	free(malloc(100));
}

int main(void)
{
	static char alternate[65536];
	const stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &action, NULL);
	work();
	action.sa_flags = SA_ONSTACK;
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	signalled();
	return 0;
}
