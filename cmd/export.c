/* export.c - flametap export: what a store keeps, as the OTLP requests that came in. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "command.h"
#include "flags.h"
#include "store/reader.h"
#include "wire/otlp_json.h"

static const char *db = "flametap.db", *out = "-", *format = "otlp", *version_text = "1.10";
static enum wire_version version;

static const char *const formats[] = { "otlp", "otlp-json", NULL };
static const char *const versions[] = { "1.7", "1.8", "1.9", "1.10", "1.11", NULL };

static const struct flag flags[] = {
	{ "Input", "db", FLAG_STRING, &db, "FILE", "flametap.db", "the store", NULL, false, false },
	{ "Output", "o", FLAG_STRING, &out, "FILE", "-", "where to; - is standard output", NULL,
	  false, false },
	{ "Output", "format", FLAG_CHOICE, &format, "FORMAT", "otlp",
	  "otlp: length-prefixed requests, as the Collector's file exporter writes them; "
	  "otlp-json: "
	  "one a line",
	  formats, false, false },
	{ "Output", "wire-version", FLAG_CHOICE, &version_text, "VERSION", "1.10",
	  "of otlp: the opentelemetry-proto version to write", versions, false, false },
	{ 0 },
};

static const char *const examples[] = {
	"flametap export --db flametap.db -o out.otlp",
	"flametap export --db flametap.db | flametap decode --layout full -",
	NULL,
};

static const struct command command = {
	.name = "export",
	.words = "",
	.summary = "Give back what a store keeps: OTLP requests, sample by sample as they came.",
	.examples = examples,
	.flags = flags,
};

static bool write_all(int fd, const struct buf *b, struct err *err)
{
	size_t done = 0;

	while (done < b->len) {
		ssize_t n = write(fd, b->ptr + done, b->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(err, "cannot write %s", out);
		done += (size_t)n;
	}
	return true;
}

/* 4 bytes of length, big-endian, then the request. */
static bool encode(const struct profiles *p, struct buf *b, struct err *err)
{
	size_t len;

	buf_reset(b);
	if (strcmp(format, "otlp-json") == 0) {
		if (!otlp_json_encode(p, b, err))
			return false;
		buf_char(b, '\n');
		return true;
	}
	buf_lit(b, "\0\0\0\0");
	if (!otlp_encode(p, version, b, err))
		return false;
	len = b->len - 4;
	if (len > UINT32_MAX)
		return err_set(err, ERR_LIMIT, "a request is longer than 4 GiB");
	for (int i = 0; i < 4; i++)
		b->ptr[i] = (char)(len >> (24 - 8 * i));
	return true;
}

static bool export_all(struct store_snapshot *snap, int fd, struct err *err)
{
	AUTO(buf_release) struct buf b = { 0 };
	struct profiles *p;
	uint64_t seq = 0;
	bool ok = true;

	while (ok && store_next_request(snap, seq, 0, &seq, &p, err)) {
		if (!p)
			return true;
		ok = encode(p, &b, err) && write_all(fd, &b, err);
		profiles_free(p);
	}
	return false;
}

static bool export_to(const char *path, struct store_snapshot *snap, struct err *err)
{
	bool to_stdout = strcmp(path, "-") == 0, ok;
	int fd = to_stdout ? STDOUT_FILENO
			   : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0)
		return err_set_errno(err, "cannot write %s", path);
	ok = export_all(snap, fd, err);
	if (!to_stdout && close(fd) < 0 && ok)
		return err_set_errno(err, "cannot write %s", path);
	return ok;
}

int export_run(int argc, char **argv)
{
	struct store_open_options options = { 0 };
	struct store_snapshot *snap = NULL;
	struct store *store = NULL;
	struct words words;
	struct err err;
	bool ok;

	switch (flags_parse(&command, argc, argv, &words, &err)) {
	case FLAGS_HELP_SHOWN:
		return EXIT_OK;
	case FLAGS_ERROR:
		return command_usage_error("export", &err);
	case FLAGS_GO:
		break;
	}
	free(words.items);
	options.location = db;
	ok = wire_version_parse(str_cstr(version_text), &version, &err) &&
	     store_open(&options, &store, &err) && store_begin(store, &snap, &err) &&
	     export_to(out, snap, &err);
	if (!ok)
		fprintf(stderr, "flametap export: %s\n", err.msg);
	store_end(snap);
	store_close(store);
	return ok ? EXIT_OK : EXIT_FAILED;
}
