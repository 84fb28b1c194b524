#include "store/log_pages.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* SQLite's file format, 4.1 and 4.2: a header (magic, version, size of a page, number, two salts,
 * checksum), then frames, each with a header of its own (page, pages of the file after a commit or
 * 0, the same salts, checksum) before the page. Frames of other salts are of an older log. */
enum { HEADER_BYTES = 32, PAGE_SIZE_AT = 8, SALTS_AT = 16, MAGIC = 0x377f0682 };
enum { FRAME_HEADER_BYTES = 24, COMMIT_AT = 4, FRAME_SALTS_AT = 8, SALTS_BYTES = 8 };

struct log {
	int fd;
	uint64_t frame_bytes, frames; /* as the file's size has it */
	uint8_t salts[SALTS_BYTES];
};

static uint32_t big_endian(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool log_open(struct log *l, const char *path)
{
	uint8_t header[HEADER_BYTES];
	char name[PATH_MAX];
	struct stat st;

	snprintf(name, sizeof(name), "%s-wal", path);
	l->fd = open(name, O_RDONLY | O_CLOEXEC);
	if (l->fd < 0 || fstat(l->fd, &st) < 0 ||
	    pread(l->fd, header, sizeof(header), 0) != sizeof(header) ||
	    (big_endian(header) & ~1U) != MAGIC)
		return false;
	l->frame_bytes = FRAME_HEADER_BYTES + (uint64_t)big_endian(header + PAGE_SIZE_AT);
	l->frames = ((uint64_t)st.st_size - HEADER_BYTES) / l->frame_bytes;
	memcpy(l->salts, header + SALTS_AT, SALTS_BYTES);
	return true;
}

static bool log_frame(const struct log *l, uint64_t i, uint32_t *page, bool *commit)
{
	uint8_t header[FRAME_HEADER_BYTES];

	if (i >= l->frames || pread(l->fd, header, sizeof(header),
				    (off_t)(HEADER_BYTES + i * l->frame_bytes)) != sizeof(header))
		return false;
	*page = big_endian(header);
	*commit = big_endian(header + COMMIT_AT) != 0;
	return memcmp(header + FRAME_SALTS_AT, l->salts, SALTS_BYTES) == 0;
}

static uint64_t committed_frames(const struct log *l)
{
	uint64_t committed = 0;
	uint32_t page;
	bool commit;

	for (uint64_t i = 0; log_frame(l, i, &page, &commit); i++)
		if (commit)
			committed = i + 1;
	return committed;
}

static bool has_pages(const struct log *l, uint32_t first, uint32_t last)
{
	uint64_t committed = committed_frames(l), wanted = (uint64_t)last - first + 1, found = 0;
	uint32_t page;
	bool *seen, commit;

	if (wanted > committed) /* which bounds the memory, too */
		return false;
	seen = calloc(wanted + 1, sizeof(*seen));
	assert(seen);
	for (uint64_t i = 0; i < committed && log_frame(l, i, &page, &commit); i++) {
		if (page < first || page > last || seen[page - first])
			continue;
		seen[page - first] = true;
		found++;
	}
	free(seen);
	return found == wanted;
}

bool log_has_pages(const char *path, uint32_t first, uint32_t last)
{
	struct log l;
	bool has;

	if (last < first)
		return true;
	has = log_open(&l, path) && has_pages(&l, first, last);
	fd_close(&l.fd);
	return has;
}
