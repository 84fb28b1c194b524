/*
 * decode_bench.c - what decoding a body costs (version told, tables read, every reference checked),
 * beside one memcpy of it.
 *
 * usage: decode_bench [BODY.pb...]
 * Best of many rounds: the machine's other work only adds. CPU time of this thread.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "wire/otlp.h"

enum { ROUNDS = 2000, BODY_BYTES_MOST = 64 << 20 };

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

static struct blob *body_read(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct blob *b;
	long size;

	if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || size > BODY_BYTES_MOST ||
	    fseek(f, 0, SEEK_SET)) {
		fprintf(stderr, "decode_bench: cannot read %s\n", path);
		exit(1);
	}
	b = blob_new((size_t)size);
	b->len = fread(b->ptr, 1, (size_t)size, f);
	fclose(f);
	return b;
}

static uint64_t memcpy_best_ns(const struct blob *body)
{
	char *copy = malloc(body->len ? body->len : 1);
	uint64_t best = UINT64_MAX;

	if (!copy)
		exit(1);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t from = cpu_ns(), took;

		memcpy(copy, body->ptr, body->len);
		__asm__ volatile("" : : "r"(copy) : "memory"); /* the copy is wanted */
		took = cpu_ns() - from;
		best = took < best ? took : best;
	}
	free(copy);
	return best;
}

static void bench(const char *path)
{
	struct blob *body = body_read(path);
	uint64_t best = UINT64_MAX, copy = memcpy_best_ns(body);
	struct otlp_decode_report report;
	size_t model_bytes = 0;
	uint32_t samples = 0;
	struct err err;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t from = cpu_ns(), took;
		struct profiles *p;

		if (!otlp_decode(body, NULL, &p, &report, NULL, &err)) {
			fprintf(stderr, "decode_bench: %s: %s\n", path, err.msg);
			exit(1);
		}
		model_bytes = p->arena.reserved_bytes;
		samples = p->sample_count;
		profiles_free(p);
		took = cpu_ns() - from;
		best = took < best ? took : best;
	}
	printf("%s: v%s, %zu bytes, %" PRIu32 " samples: decode %.1f us, memcpy %.1f us, ratio "
	       "%.1f; %.0f MB/s; model %zu bytes, %.1f x body\n",
	       path, wire_version_name(report.version), body->len, samples, (double)best / 1e3,
	       (double)copy / 1e3, (double)best / (double)copy,
	       (double)body->len * 1e3 / (double)best, model_bytes,
	       (double)model_bytes / (double)body->len);
	blob_unref(body);
}

int main(int argc, char **argv)
{
	if (argc == 1)
		bench("tests/fixtures/otlp/v1.11.0-oncpu-big.pb");
	for (int i = 1; i < argc; i++)
		bench(argv[i]);
	return 0;
}
