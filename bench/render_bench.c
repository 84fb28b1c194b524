/*
 * render_bench.c - what a body costs as text: each layout and format, per body, beside one write of
 * that text to /dev/null, one memcpy of it, and one append of it to a file.
 *
 * usage: render_bench BODY.pb [rounds] [directory for the file]
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "components/exporters/resolved_json.h"
#include "components/exporters/text.h"
#include "formats/folded.h"
#include "wire/otlp.h"

enum { CHUNK_BYTES = 240 << 10, ROUNDS_USUAL = 200 };

static bool write_to(void *ctx, struct str text, struct err *err)
{
	int fd = *(int *)ctx;

	while (text.len) {
		ssize_t n = write(fd, text.ptr, text.len);

		if (n < 0)
			return err_set_errno(err, "write");
		text = str_skip(text, (size_t)n);
	}
	return true;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

struct subject {
	const char *name;
	struct text_renderer *text;
	struct json_renderer *json;
	struct folded_renderer *folded;
};

static bool render(const struct subject *s, const struct profiles *p, struct render_out *out,
		   struct err *err)
{
	bool ok = s->text   ? text_render(s->text, p, out, err)
		  : s->json ? json_render(s->json, p, out, err)
			    : folded_render(s->folded, p, out, err);

	return ok && render_out_finish(out, err);
}

/* CPU time of one rendering into chunks, written to fd; the median would hide the kernel's share,
 * so this is the mean. */
static double render_us(const struct subject *s, const struct profiles *p, unsigned rounds, int fd,
			uint64_t *bytes)
{
	struct buf chunk;
	struct render_out out = {
		.buf = &chunk, .chunk_bytes = CHUNK_BYTES, .write = write_to, .ctx = &fd
	};
	struct err err;
	uint64_t start = 0;

	buf_init(&chunk, 0);
	for (unsigned i = 0; i <= rounds; i++) {
		if (i == 1) /* the first one fills caches */
			start = cpu_ns();
		out.handed_bytes = 0;
		if (!render(s, p, &out, &err)) {
			fprintf(stderr, "%s: %s\n", s->name, err.msg);
			exit(1);
		}
	}
	*bytes = out.handed_bytes;
	buf_release(&chunk);
	return (double)(cpu_ns() - start) / 1000 / rounds;
}

static double copy_us(uint64_t bytes, unsigned rounds)
{
	char *from = calloc(1, bytes), *to = calloc(1, bytes);
	uint64_t start;

	if (!from || !to)
		exit(1);
	memset(from, 'x', bytes);
	memcpy(to, from, bytes);
	start = cpu_ns();
	for (unsigned i = 0; i < rounds; i++) {
		memcpy(to, from, bytes);
		__asm__ volatile("" : : "r"(to) : "memory");
	}
	start = cpu_ns() - start;
	free(from);
	free(to);
	return (double)start / 1000 / rounds;
}

/* One write of all of the text; a regular file is emptied after each, so that pages are taken anew
 * as in a growing file. */
static double write_us(uint64_t bytes, unsigned rounds, int fd)
{
	char *from = malloc(bytes);
	uint64_t sum = 0;
	struct err err;

	if (!from)
		exit(1);
	memset(from, 'x', bytes);
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start = cpu_ns();

		if (!write_to(&fd, str_from(from, bytes), &err))
			exit(1);
		sum += cpu_ns() - start;
		if (ftruncate(fd, 0) == 0)
			lseek(fd, 0, SEEK_SET);
	}
	free(from);
	return (double)sum / 1000 / rounds;
}

static struct profiles *load(const char *path)
{
	const struct otlp_decode_options options = { 0 };
	struct otlp_decode_report report;
	struct profiles *p = NULL;
	struct stat st;
	struct err err;
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct blob *body;

	if (fd < 0 || fstat(fd, &st) != 0)
		return NULL;
	body = blob_new((size_t)st.st_size);
	if (read(fd, body->ptr, (size_t)st.st_size) != st.st_size)
		return NULL;
	body->len = (size_t)st.st_size;
	if (!otlp_decode(body, &options, &p, &report, NULL, &err))
		fprintf(stderr, "%s: %s\n", path, err.msg);
	blob_unref(body);
	return p;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : ROUNDS_USUAL;
	struct profiles *p = argc > 1 ? load(argv[1]) : NULL;
	struct config_strings all = { 0 };
	struct folded_options folded = { .process = true };
	struct subject subjects[8] = { 0 };
	char path[4096];
	size_t count = 0;
	int null, file;

	if (!p || rounds == 0) {
		fprintf(stderr, "usage: %s BODY.pb [rounds] [directory [layout]]\n", argv[0]);
		return 2;
	}
	for (int i = 0; text_layout_names[i]; i++) {
		struct text_options o = text_options_default((enum text_layout)i);

		subjects[count++] = (struct subject){ .name = text_layout_names[i],
						      .text = text_renderer_new(&o) };
	}
	subjects[count++] = (struct subject){ .name = "json",
					      .json = json_renderer_new(JSON_LINE_A_SAMPLE, &all) };
	subjects[count++] =
		(struct subject){ .name = "jsonl",
				  .json = json_renderer_new(JSON_LINE_A_PROFILE, &all) };
	subjects[count++] =
		(struct subject){ .name = "folded", .folded = folded_renderer_new(&folded) };
	snprintf(path, sizeof(path), "%s/render_bench.%d", argc > 3 ? argv[3] : "/tmp", getpid());
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (null < 0 || file < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	unlink(path);
	printf("%-10s %10s %10s %12s %12s %12s %10s\n", "layout", "bytes", "render us", "memcpy us",
	       "null us", "append us", "x memcpy");
	for (size_t i = 0; i < count; i++) {
		uint64_t bytes;
		double us, copy;

		if (argc > 4 && strcmp(argv[4], subjects[i].name) != 0)
			continue;
		us = render_us(&subjects[i], p, rounds, null, &bytes);
		copy = copy_us(bytes, rounds);
		printf("%-10s %10" PRIu64 " %10.1f %12.1f %12.1f %12.1f %10.1f\n", subjects[i].name,
		       bytes, us, copy, write_us(bytes, rounds, null),
		       write_us(bytes, rounds, file), us / copy);
		text_renderer_free(subjects[i].text);
		json_renderer_free(subjects[i].json);
		folded_renderer_free(subjects[i].folded);
	}
	profiles_free(p);
	close(null);
	close(file);
	return 0;
}
