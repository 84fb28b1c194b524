#include "agent/symbolize/name_cache.h"
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/elf/byte_reader.h"
#include "base/buf.h"
#include "base/cleanup.h"

enum { MAGIC_BYTES = 8, HEAD_BYTES = 8, TEXT_MOST = UINT16_MAX, LINES_MOST = 64, SLOTS_FIRST = 64 };
static const char magic[MAGIC_BYTES + 1] = "FTNAMES1";

struct name_cache {
	int fd;
	struct buf data; /* the file as it is */
	uint32_t *slots; /* hash of elf_vaddr -> place of the record's checked part in data; 0: free
			  */
	uint32_t slot_count; /* power of two */
	uint32_t count;
	size_t limit_bytes;
};

static size_t bytes_with(const struct name_cache *c, size_t data, uint32_t slots)
{
	return sizeof(*c) + data + slots * sizeof(*c->slots);
}

size_t name_cache_bytes(const struct name_cache *c)
{
	return bytes_with(c, c->data.cap, c->slot_count);
}

uint32_t name_cache_count(const struct name_cache *c)
{
	return c->count;
}

/* ---- index ---- */

static uint64_t vaddr_at(const struct name_cache *c, uint32_t place)
{
	uint64_t v;

	memcpy(&v, c->data.ptr + place, sizeof(v));
	return v;
}

static uint32_t *slot_of(const struct name_cache *c, uint64_t elf_vaddr)
{
	uint32_t at = (uint32_t)((elf_vaddr * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	for (;; at++) {
		uint32_t *slot = &c->slots[at & (c->slot_count - 1)];

		if (!*slot || vaddr_at(c, *slot) == elf_vaddr)
			return slot;
	}
}

static void slots_grow(struct name_cache *c)
{
	uint32_t *old = c->slots, old_count = c->slot_count;

	c->slot_count = old_count ? old_count * 2 : SLOTS_FIRST;
	c->slots = calloc(c->slot_count, sizeof(*c->slots));
	if (!c->slots)
		abort();
	for (uint32_t i = 0; i < old_count; i++) {
		if (old[i])
			*slot_of(c, vaddr_at(c, old[i])) = old[i];
	}
	free(old);
}

/* A later record of the same address takes the place of the first. */
static void index_record(struct name_cache *c, uint32_t place)
{
	uint32_t *slot;

	if (c->count * 2 >= c->slot_count)
		slots_grow(c);
	slot = slot_of(c, vaddr_at(c, place));
	c->count += *slot == 0;
	*slot = place;
}

/* ---- records ---- */

static uint32_t read_lines(struct bytes record, struct name_line *lines, uint32_t cap)
{
	struct byte_reader r = byte_reader_at(record, 8);
	uint32_t count = read_u32(&r), n = 0;

	for (; n < count && n < cap && !r.failed; n++) {
		struct str *texts[] = { &lines[n].function, &lines[n].system_name, &lines[n].file };
		uint16_t lens[3];

		lines[n].line = read_u32(&r);
		lines[n].column = read_u32(&r);
		lines[n].start_line = read_u32(&r);
		for (int i = 0; i < 3; i++)
			lens[i] = read_u16(&r);
		for (int i = 0; i < 3; i++) {
			*texts[i] = str_from(r.ptr, lens[i]);
			read_skip(&r, lens[i]);
		}
	}
	return r.failed ? 0 : n;
}

/* One record at `at`; 0: it is broken, or cut short. */
static uint32_t record_bytes(const struct name_cache *c, size_t at)
{
	struct name_line lines[LINES_MOST];
	struct bytes all = { (const uint8_t *)c->data.ptr, c->data.len }, record;
	struct byte_reader r = byte_reader_at(all, at);
	uint32_t bytes = read_u32(&r), crc = read_u32(&r);

	if (r.failed || bytes < 12 || !bytes_part(all, at + HEAD_BYTES, bytes, &record) ||
	    libdeflate_crc32(0, record.ptr, record.len) != crc ||
	    !read_lines(record, lines, LINES_MOST))
		return 0;
	return HEAD_BYTES + bytes;
}

static struct bytes record_at(const struct name_cache *c, uint32_t place)
{
	uint32_t bytes;

	memcpy(&bytes, c->data.ptr + place - HEAD_BYTES, sizeof(bytes));
	return (struct bytes){ (const uint8_t *)c->data.ptr + place, bytes };
}

static void put_u32(struct buf *b, uint32_t v)
{
	buf_append(b, &v, sizeof(v));
}

static void put_line(struct buf *b, const struct name_line *l)
{
	const struct str texts[] = { str_head(l->function, TEXT_MOST),
				     str_head(l->system_name, TEXT_MOST),
				     str_head(l->file, TEXT_MOST) };

	put_u32(b, l->line);
	put_u32(b, l->column);
	put_u32(b, l->start_line);
	for (int i = 0; i < 3; i++) {
		uint16_t len = (uint16_t)texts[i].len;

		buf_append(b, &len, sizeof(len));
	}
	for (int i = 0; i < 3; i++)
		buf_str(b, texts[i]);
}

/* ---- the file ---- */

static bool write_all(int fd, const char *data, size_t len)
{
	ssize_t n;

	do {
		n = write(fd, data, len);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)len;
}

/* What was appended last may be cut: all before it is kept. Anything else that is wrong: false. */
static bool load(struct name_cache *c)
{
	size_t at = MAGIC_BYTES;

	if (c->data.len < MAGIC_BYTES || memcmp(c->data.ptr, magic, MAGIC_BYTES) != 0)
		return false;
	while (at < c->data.len) {
		uint32_t bytes = record_bytes(c, at);

		if (!bytes)
			return false;
		index_record(c, (uint32_t)(at + HEAD_BYTES));
		at += bytes;
	}
	return true;
}

static bool read_file(struct name_cache *c)
{
	struct stat st;
	char *room;
	ssize_t n;

	if (fstat(c->fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 0 ||
	    (uint64_t)st.st_size > c->limit_bytes / 2)
		return false;
	room = buf_reserve(&c->data, (size_t)st.st_size);
	n = room ? pread(c->fd, room, (size_t)st.st_size, 0) : -1;
	if (n != st.st_size)
		return false;
	buf_advance(&c->data, (size_t)n);
	return load(c);
}

static void forget(struct name_cache *c)
{
	buf_reset(&c->data);
	free(c->slots);
	c->slots = NULL;
	c->slot_count = c->count = 0;
}

static bool file_name(struct str build_id_hex, char *out, size_t cap)
{
	for (size_t i = 0; i < build_id_hex.len; i++) {
		if (!strchr("0123456789abcdef", build_id_hex.ptr[i]))
			return false;
	}
	return build_id_hex.len >= 8 &&
	       (size_t)snprintf(out, cap, "%.*s.names", STR_ARG(build_id_hex)) < cap;
}

struct name_cache *name_cache_open(int folder, struct str build_id_hex, size_t limit_bytes,
				   bool *refused)
{
	struct name_cache *c;
	char name[160];
	int fd;

	*refused = false;
	if (!file_name(build_id_hex, name, sizeof(name)))
		return NULL;
	fd = openat(folder, name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	c->fd = fd;
	c->limit_bytes = limit_bytes;
	buf_init(&c->data, limit_bytes);
	if (read_file(c))
		return c;
	*refused = c->data.len > 0 || lseek(fd, 0, SEEK_END) > 0;
	forget(c);
	/* Anew, under the name: whoever else has the old file open goes on with that. */
	fd_close(&c->fd);
	unlinkat(folder, name, 0);
	c->fd = openat(folder, name, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (c->fd < 0 || !write_all(c->fd, magic, MAGIC_BYTES)) {
		name_cache_free(c);
		return NULL;
	}
	buf_append(&c->data, magic, MAGIC_BYTES);
	return c;
}

void name_cache_free(struct name_cache *c)
{
	if (!c)
		return;
	fd_close(&c->fd);
	buf_release(&c->data);
	free(c->slots);
	free(c);
}

uint32_t name_cache_find(const struct name_cache *c, uint64_t elf_vaddr, struct name_line *lines,
			 uint32_t cap)
{
	uint32_t place = c->slot_count ? *slot_of(c, elf_vaddr) : 0;

	return place ? read_lines(record_at(c, place), lines, cap) : 0;
}

void name_cache_add(struct name_cache *c, uint64_t elf_vaddr, const struct name_line *lines,
		    uint32_t count)
{
	size_t before = c->data.len, record = before + HEAD_BYTES;
	uint32_t head[2];

	if (!count || count > LINES_MOST || !lines[0].line || c->fd < 0)
		return;
	put_u32(&c->data, 0);
	put_u32(&c->data, 0);
	buf_append(&c->data, &elf_vaddr, sizeof(elf_vaddr));
	put_u32(&c->data, count);
	for (uint32_t i = 0; i < count; i++)
		put_line(&c->data, &lines[i]);
	if (c->data.failed || c->data.len > c->limit_bytes / 2 ||
	    bytes_with(c, c->data.cap, (c->count + 1) * 4) > c->limit_bytes) {
		c->data.len = before;
		c->data.failed = false;
		return;
	}
	head[0] = (uint32_t)(c->data.len - record);
	head[1] = libdeflate_crc32(0, c->data.ptr + record, head[0]);
	memcpy(c->data.ptr + before, head, sizeof(head));
	if (!write_all(c->fd, c->data.ptr + before, c->data.len - before)) {
		fd_close(&c->fd); /* the disk is full: what is known stays known to us */
		c->fd = -1;
	}
	index_record(c, (uint32_t)record);
}
