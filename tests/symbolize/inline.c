/* Inlined calls, nested ones, statics, blocks, recursion: what dwarf_test.c asks about. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int clamp(int v, int low, int high)
{
	if (v < low)
		return low;
	return v > high ? high : v;
}

static inline int mix(int a, int b)
{
	int sum = 0;

	for (int i = 0; i < 3; i++) {
		int part = clamp(a * i, b, b + 100);

		sum += part ^ b;
	}
	return sum;
}

static inline __attribute__((always_inline)) int deeper(const int *v, int n)
{
	int best = 0;

	for (int i = 0; i < n; i++) {
		int m = mix(v[i], i);

		best = clamp(m, best, 1 << 20);
	}
	return best;
}

__attribute__((noinline)) int fold(const int *v, int n)
{
	return deeper(v, n) + deeper(v + 1, n - 1);
}

static int compare(const void *a, const void *b)
{
	return clamp(*(const int *)a - *(const int *)b, -1, 1);
}

__attribute__((noinline)) static int walk(int n)
{
	return n < 2 ? n : walk(n - 1) + walk(n - 2);
}

__attribute__((cold, noinline)) static void complain(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

int unused_but_global(int a)
{
	return mix(a, a + 1);
}

int main(int argc, char **argv)
{
	int v[16];

	for (int i = 0; i < 16; i++)
		v[i] = mix(argc, i);
	if (argc > 5)
		complain(argv[1]);
	qsort(v, 16, sizeof(v[0]), compare);
	printf("%d %d\n", fold(v, 16), walk(10 + argc));
	return 0;
}
