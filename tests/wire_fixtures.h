/*
 * wire_fixtures.h - the bodies of tests/fixtures/otlp for tests of wire and model: read, listed,
 * gunzipped.
 *
 * Tests run in the root of the tree. A file that is missing fails the test that asked for it.
 */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include "base/blob.h"
#include "base/buf.h"
#include "base/cleanup.h"

#define FIXTURE_DIR "tests/fixtures/otlp/"

/* Names without ending; each has a .pb and a .json.gz. */
static const char *const wire_fixtures[] = {
	"v1.11.0-synthetic-offcpu-links-strindex",
	"v1.11.0-synthetic-offcpu-links",
	"v1.11.0-oncpu-start",
	"v1.11.0-oncpu-mixed",
	"v1.11.0-oncpu-errframes-env",
	"v1.11.0-oncpu-big",
	"v1.9.0-synthetic-transcoded",
	"v1.9.0-oncpu-mixed-b",
	"v1.9.0-oncpu-mixed-a",
	"v1.8.0-synthetic-transcoded",
	"v1.8.0-oncpu-mixed-b",
	"v1.8.0-oncpu-mixed-a",
	"v1.7.0-synthetic-transcoded",
	"v1.7.0-oncpu-start",
	"v1.7.0-oncpu-mixed",
	"v1.5.0-synthetic-transcoded",
	"v1.4.0-oncpu-start",
	"v1.4.0-oncpu-mixed",
	"v1.3.1-experimental-oncpu-b",
	"v1.3.1-experimental-oncpu-a",
};

static inline struct blob *fixture_drain(FILE *f, const char *path)
{
	struct buf b;
	size_t n = 0, len;
	char *heap;

	if (!f)
		fail_msg("%s cannot be opened", path);
	buf_init(&b, 0);
	do {
		char *p = buf_reserve(&b, 65536);

		n = fread(p, 1, 65536, f);
		buf_advance(&b, n);
	} while (n > 0);
	if (b.len == 0)
		fail_msg("%s is empty", path);
	heap = buf_take(&b, &len);
	return blob_adopt(heap, len);
}

/* The file `name` + `ending`. The caller unrefs. */
static inline struct blob *fixture_read(const char *name, const char *ending)
{
	char path[256];
	struct blob *b;
	FILE *f;

	snprintf(path, sizeof(path), FIXTURE_DIR "%s%s", name, ending);
	f = fopen(path, "rb");
	b = fixture_drain(f, path);
	fclose(f);
	return b;
}

/* The content of `name`.json.gz. */
static inline struct blob *fixture_read_json(const char *name)
{
	char command[256];
	struct blob *b;
	FILE *f;

	snprintf(command, sizeof(command), "gzip -dc " FIXTURE_DIR "%s.json.gz", name);
	f = popen(command, "r");
	b = fixture_drain(f, command);
	if (pclose(f) != 0)
		fail_msg("%s failed", command);
	return b;
}
