/*
 * gen.c - invented profiles, the same for the same seed, as a file of requests or as a store.
 *
 * usage: gen [--seed N] [--samples N] [--end UNIX_SECONDS] [--recent N [--recent-seconds S]]
 *            [--link-every N] (-o FILE.otlp | --db FILE.db)
 *
 * --recent: the last N of the samples lie in the last S (900) seconds, not spread over the week.
 * --link-every: one sample of N (100) has a span of its own; 1: each.
 * The file holds requests behind their length (4 bytes, big-endian). gen_bodies.h says what is in
 * them.
 */
#include <string.h>

#include "gen_bodies.h"
#include "store/write/writer.h"
#include "wire/otlp.h"

struct out {
	FILE *file;
	struct store_writer *store;
	struct buf bytes;
	uint64_t total_bytes;
};

static bool put_file(struct out *o, const struct profiles *p, struct err *err)
{
	size_t len;

	buf_reset(&o->bytes);
	buf_lit(&o->bytes, "\0\0\0\0");
	if (!otlp_encode(p, WIRE_NEWEST, &o->bytes, err))
		return false;
	len = o->bytes.len - 4;
	o->total_bytes += len;
	for (int i = 0; i < 4; i++)
		o->bytes.ptr[i] = (char)(len >> (24 - 8 * i));
	return fwrite(o->bytes.ptr, o->bytes.len, 1, o->file) == 1 || err_set_errno(err, "write");
}

static bool put_store(struct out *o, const struct profiles *p, uint64_t number, uint64_t arrived,
		      struct err *err)
{
	struct store_request r = {
		.profiles = p,
		.hash = { number * UINT64_C(0x9e3779b97f4a7c15), number },
		.arrived_unix_ns = arrived,
	};
	bool duplicate;

	return store_writer_begin(o->store, err) &&
	       store_writer_put(o->store, &r, &duplicate, err) &&
	       store_writer_commit(o->store, err);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, samples = 120000, end = 1763900000, bodies, arrived;
	uint64_t recent = 0, recent_seconds = 900, link_every = 0;
	const char *file = NULL, *db = NULL;
	struct out o = { 0 };
	struct err err;
	struct gen g;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--samples") == 0)
			samples = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--end") == 0)
			end = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--recent") == 0)
			recent = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--recent-seconds") == 0)
			recent_seconds = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "--link-every") == 0)
			link_every = strtoull(argv[i + 1], NULL, 0);
		else if (strcmp(argv[i], "-o") == 0)
			file = argv[i + 1];
		else if (strcmp(argv[i], "--db") == 0)
			db = argv[i + 1];
	}
	if (!file == !db) {
		fputs("usage: gen [--seed N] [--samples N] [--end UNIX_SECONDS] [--recent N "
		      "[--recent-seconds S]] [--link-every N] (-o FILE.otlp | --db FILE.db)\n",
		      stderr);
		return 2;
	}
	bodies = (samples + GEN_SAMPLES - 1) / GEN_SAMPLES;
	gen_init(&g, seed, bodies, end * SECOND_NS);
	if (link_every)
		g.link_every = (uint32_t)link_every;
	if (recent)
		gen_recent(&g, bodies, (recent + GEN_SAMPLES - 1) / GEN_SAMPLES,
			   recent_seconds * SECOND_NS);
	if (file && !(o.file = fopen(file, "wb"))) {
		perror(file);
		return 1;
	}
	if (db) {
		struct store_writer_options options = { .path = db,
							.durability = STORE_DURABLE_PROCESS };

		if (!store_writer_open(&options, &o.store, NULL, &err))
			goto fail;
	}
	for (uint64_t i = 0; i < bodies; i++) {
		struct profiles *p = gen_body(&g, &arrived);
		bool ok = file ? put_file(&o, p, &err) : put_store(&o, p, i, arrived, &err);

		profiles_free(p);
		if (!ok)
			goto fail;
	}
	if (file && fclose(o.file)) {
		perror(file);
		return 1;
	}
	store_writer_close(o.store);
	printf("%llu bodies, %llu samples", (unsigned long long)bodies,
	       (unsigned long long)(bodies * GEN_SAMPLES));
	if (file)
		printf(", %llu bytes a body",
		       (unsigned long long)(bodies ? o.total_bytes / bodies : 0));
	putchar('\n');
	gen_release(&g);
	buf_release(&o.bytes);
	return 0;
fail:
	fprintf(stderr, "gen: %s\n", err.msg);
	return 1;
}
