#include "store/salvage/page_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_HEADER = 100, DEPTH_MOST = 20, MAP_ENTRY = 5 };
enum { TREE_INDEX_INNER = 2, TREE_TABLE_INNER = 5, TREE_INDEX_LEAF = 10, TREE_TABLE_LEAF = 13 };
enum { MAP_ROOT = 1, MAP_TREE = 5 }; /* between: free and overflow pages */

static uint32_t be16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t be32(const uint8_t *p)
{
	return be16(p) << 16 | be16(p + 2);
}

static const uint8_t *page_at(const struct page_file *f, uint32_t page)
{
	return f->bytes + (size_t)(page - 1) * f->page_bytes;
}

/* ---- one page ---- */

struct tree_page {
	const uint8_t *page, *head; /* head: behind the file's header, on the first */
	uint8_t type;
	uint32_t cells, header;
};

static bool is_inner(uint8_t type)
{
	return type == TREE_INDEX_INNER || type == TREE_TABLE_INNER;
}

static uint32_t cell_at(const struct tree_page *t, uint32_t cell)
{
	return be16(t->head + t->header + 2 * cell);
}

/* False: it is no page of a tree. */
static bool read_tree_page(const struct page_file *f, uint32_t page, struct tree_page *t)
{
	size_t skip = page == 1 ? FIRST_HEADER : 0;
	uint32_t behind;

	t->page = page_at(f, page);
	t->head = t->page + skip;
	t->type = t->head[0];
	if (!is_inner(t->type) && t->type != TREE_INDEX_LEAF && t->type != TREE_TABLE_LEAF)
		return false;
	t->header = is_inner(t->type) ? 12 : 8;
	t->cells = be16(t->head + 3);
	behind = (uint32_t)skip + t->header + 2 * t->cells;
	if (behind > f->page_bytes || t->head[7] > 60)
		return false;
	for (uint32_t i = 0; i < t->cells; i++)
		if (cell_at(t, i) < behind || cell_at(t, i) > f->page_bytes - 4)
			return false;
	return true;
}

/* ---- which tree a page is of ---- */

/* The entry of the pointer map: false where the map's own page is none. */
static bool map_entry(const struct page_file *f, uint32_t page, uint8_t *type, uint32_t *parent)
{
	uint32_t entries = f->page_bytes / MAP_ENTRY, map;
	const uint8_t *e;

	if (page < 3)
		return false;
	map = (page - 2) / (entries + 1) * (entries + 1) + 2;
	if (map == page || map > f->page_count)
		return false;
	e = page_at(f, map) + (size_t)(page - map - 1) * MAP_ENTRY;
	*type = e[0];
	*parent = be32(e + 1);
	return *type >= MAP_ROOT && *type <= MAP_TREE && *parent <= f->page_count;
}

static bool is_map_page(const struct page_file *f, uint32_t page)
{
	return page >= 2 && (page - 2) % (f->page_bytes / MAP_ENTRY + 1) == 0;
}

/* By the page above, which may say it where the map cannot. */
static void note_children(const struct page_file *f, uint32_t page, uint32_t *parents)
{
	struct tree_page t;

	if (!read_tree_page(f, page, &t) || !is_inner(t.type))
		return;
	for (uint32_t i = 0; i <= t.cells; i++) {
		uint32_t child = be32(i < t.cells ? t.page + cell_at(&t, i) : t.head + 8);

		if (child > 1 && child <= f->page_count && !parents[child])
			parents[child] = page;
	}
}

static enum page_kind kind_of(const struct page_file *f, uint32_t page)
{
	struct tree_page t;

	if (!read_tree_page(f, page, &t))
		return PAGE_UNREADABLE;
	return t.type == TREE_TABLE_LEAF    ? PAGE_TABLE_LEAF
	       : t.type == TREE_TABLE_INNER ? PAGE_TABLE_INNER
					    : PAGE_INDEX;
}

/* 0: not of a tree, or it cannot be told. */
static uint32_t owner_of(const struct page_file *f, uint32_t page, const uint32_t *parents)
{
	for (int i = 0; i < DEPTH_MOST; i++) {
		uint32_t parent = 0;
		uint8_t type = 0;

		if (page == 1)
			return 1;
		if (map_entry(f, page, &type, &parent)) {
			if (type == MAP_ROOT)
				return page;
			if (type != MAP_TREE)
				return 0;
		} else {
			parent = parents[page];
			if (!parent) /* as far as it can be told */
				return kind_of(f, page) == PAGE_UNREADABLE ? 0 : page;
		}
		if (!parent)
			return 0;
		page = parent;
	}
	return 0;
}

/* What is above others held no rows of a table, so that none are lost with it. */
static void tell_inner(struct page_file *f)
{
	for (uint32_t i = 1; i <= f->page_count; i++) {
		uint32_t parent;
		uint8_t type;

		if (f->owner[i] && map_entry(f, i, &type, &parent) && type == MAP_TREE && parent &&
		    f->kind[parent] == PAGE_UNREADABLE)
			f->kind[parent] = PAGE_TABLE_INNER;
	}
}

static void tell_trees(struct page_file *f)
{
	uint32_t *parents = calloc((size_t)f->page_count + 1, sizeof(*parents));

	f->owner = calloc((size_t)f->page_count + 1, sizeof(*f->owner));
	f->kind = calloc((size_t)f->page_count + 1, 1);
	assert(parents && f->owner && f->kind);
	for (uint32_t i = 1; i <= f->page_count; i++)
		if (!is_map_page(f, i))
			note_children(f, i, parents);
	for (uint32_t i = 1; i <= f->page_count; i++) {
		if (!is_map_page(f, i))
			f->owner[i] = owner_of(f, i, parents);
		if (f->owner[i])
			f->kind[i] = (uint8_t)kind_of(f, i);
	}
	tell_inner(f);
	free(parents);
}

/* ---- the file ---- */

static uint32_t page_bytes_of(const struct page_file *f)
{
	static const char magic[] = "SQLite format 3";
	uint32_t bytes;

	if (f->size < FIRST_HEADER || memcmp(f->bytes, magic, sizeof(magic)) != 0)
		return PAGE_BYTES_KNOWN;
	bytes = be16(f->bytes + 16);
	if (bytes == 1)
		bytes = 65536;
	return bytes >= 512 && (bytes & (bytes - 1)) == 0 ? bytes : PAGE_BYTES_KNOWN;
}

void page_file_of(struct str bytes, struct page_file *out)
{
	struct page_file f = { .bytes = (const uint8_t *)bytes.ptr, .size = bytes.len };

	f.page_bytes = page_bytes_of(&f);
	f.page_count = f.size / f.page_bytes < UINT32_MAX ? (uint32_t)(f.size / f.page_bytes) : 0;
	tell_trees(&f);
	*out = f;
}

bool page_file_open(const char *path, struct page_file *out, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *at;

	if (fd < 0 || fstat(fd, &st) < 0) {
		err_set_errno(err, "%s", path);
		if (fd >= 0)
			close(fd);
		return false;
	}
	if (st.st_size == 0) {
		close(fd);
		return err_set(err, ERR_INVALID, "%s is empty", path);
	}
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		err_set_errno(err, "%s", path);
	close(fd);
	if (at == MAP_FAILED)
		return false;
	page_file_of(str_from(at, (size_t)st.st_size), out);
	out->mapped = true;
	return true;
}

void page_file_close(struct page_file *f)
{
	if (f->mapped)
		munmap((void *)(uintptr_t)f->bytes, f->size);
	free(f->owner);
	free(f->kind);
	*f = (struct page_file){ 0 };
}

/* ---- rows ---- */

uint32_t page_cells(const struct page_file *f, uint32_t page)
{
	struct tree_page t;

	return read_tree_page(f, page, &t) ? t.cells : 0;
}

/* SQLite's varint, high bits first; false: it goes past the end. */
static bool take_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
	uint64_t v = 0;

	for (int i = 0; i < 9 && *p < end; i++) {
		uint8_t byte = *(*p)++;

		if (i == 8) {
			*out = v << 8 | byte;
			return true;
		}
		v = v << 7 | (byte & 0x7f);
		if (!(byte & 0x80)) {
			*out = v;
			return true;
		}
	}
	return false;
}

/* How much of a payload is on the tree's page. */
static uint64_t local_bytes(const struct page_file *f, uint64_t payload, bool table)
{
	uint64_t usable = f->page_bytes;
	uint64_t most = table ? usable - 35 : (usable - 12) * 64 / 255 - 23;
	uint64_t least = (usable - 12) * 32 / 255 - 23, some;

	if (payload <= most)
		return payload;
	some = least + (payload - least) % (usable - 4);
	return some <= most ? some : least;
}

static bool gather(const struct page_file *f, const uint8_t *at, const uint8_t *end,
		   uint64_t payload, bool table, struct arena *arena, struct str *out)
{
	uint64_t local = local_bytes(f, payload, table), done = local;
	uint32_t next;
	char *whole;

	if (payload > f->size || local > (size_t)(end - at))
		return false;
	if (local == payload) {
		*out = str_from(at, payload);
		return true;
	}
	if ((size_t)(end - at) < local + 4)
		return false;
	next = be32(at + local);
	whole = arena_alloc(arena, payload);
	memcpy(whole, at, local);
	while (done < payload) {
		uint64_t n = f->page_bytes - 4;

		if (next < 2 || next > f->page_count)
			return false;
		if (n > payload - done)
			n = payload - done;
		memcpy(whole + done, page_at(f, next) + 4, n);
		next = be32(page_at(f, next));
		done += n;
	}
	*out = str_from(whole, payload);
	return true;
}

static int64_t be_signed(const uint8_t *p, unsigned n)
{
	uint64_t v = p[0] & 0x80 ? UINT64_MAX : 0;

	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[i];
	return (int64_t)v;
}

/* Moves *at behind the value of that serial type. */
static bool take_value(uint64_t serial, const uint8_t **at, const uint8_t *end,
		       struct page_value *out)
{
	static const uint8_t bytes[] = { 0, 1, 2, 3, 4, 6, 8, 8, 0, 0 };
	uint64_t n;

	*out = (struct page_value){ 0 };
	if (serial == 10 || serial == 11)
		return false;
	n = serial < 10 ? bytes[serial] : (serial - 12) / 2;
	if (n > (size_t)(end - *at))
		return false;
	if (serial >= 12) {
		out->type = serial & 1 ? PAGE_TEXT : PAGE_BLOB;
		out->bytes = str_from(*at, n);
	} else if (serial == 7) {
		uint64_t bits = (uint64_t)be_signed(*at, 8);

		out->type = PAGE_REAL;
		memcpy(&out->real, &bits, sizeof(bits));
	} else if (serial > 0) {
		out->type = PAGE_INTEGER;
		out->integer = serial >= 8 ? (int64_t)serial - 8 : be_signed(*at, (unsigned)n);
	}
	*at += n;
	return true;
}

static bool read_record(struct str payload, struct page_row *out)
{
	const uint8_t *p = (const uint8_t *)payload.ptr, *end = p + payload.len, *at;
	uint64_t header, serial;

	out->count = 0;
	at = p;
	if (!take_varint(&at, end, &header) || header > payload.len || header < (size_t)(at - p))
		return false;
	p = at;
	end = (const uint8_t *)payload.ptr + header;
	at = end;
	while (p < end) {
		if (out->count == PAGE_COLUMNS_MOST || !take_varint(&p, end, &serial) ||
		    !take_value(serial, &at, (const uint8_t *)payload.ptr + payload.len,
				&out->values[out->count++]))
			return false;
	}
	return true;
}

bool page_row(const struct page_file *f, uint32_t page, uint32_t cell, struct arena *arena,
	      struct page_row *out)
{
	const uint8_t *at, *end = page_at(f, page) + f->page_bytes;
	bool table = f->kind[page] == PAGE_TABLE_LEAF;
	uint64_t payload, rowid = 0;
	struct tree_page t;
	struct str bytes;

	if (!read_tree_page(f, page, &t) || cell >= t.cells || t.type == TREE_TABLE_INNER)
		return false;
	at = t.page + cell_at(&t, cell) + (t.type == TREE_INDEX_INNER ? 4 : 0);
	if (!take_varint(&at, end, &payload) || (table && !take_varint(&at, end, &rowid)) ||
	    !gather(f, at, end, payload, table, arena, &bytes))
		return false;
	out->rowid = (int64_t)rowid;
	return read_record(bytes, out);
}
