#include "agent/symbolize/code_map.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "agent/elf/byte_reader.h"
#include "base/cleanup.h"

enum {
	CHUNK_BYTES = 64 * 1024,
	NAME_MOST = 4096,
	OVERLAPS_LOOK_BACK = 64,
	LINES_MOST = 1 << 16, /* of one function */
	DUMP_HEADER_BYTES = 40,
	RECORD_HEAD_BYTES = 16,
	LOAD_HEAD_BYTES = 56, /* with the record's head */
	DUMP_MAGIC = 0x4a695444,
};
#define CODE_BYTES_MOST (UINT64_C(1) << 30)

enum { RECORD_LOAD, RECORD_MOVE, RECORD_LINES, RECORD_CLOSE };

/* The place in the file is also the age: later is newer. */
struct entry {
	uint64_t start;
	uint32_t size;
	uint32_t name_at, lines_at; /* lines_at: of a record, 0: none */
	uint32_t age;
};

struct code_map {
	int fd;
	enum code_map_kind kind;
	size_t limit_bytes;
	uint64_t read_to;
	struct entry *list;
	uint32_t count, cap, sorted;
	uint32_t pending_lines_at; /* a lines record waits for its load */
	uint64_t pending_lines_of;
	uint32_t age;
	uint64_t refused;
	bool broken; /* a jitdump whose records make no sense: nothing more is read */
};

struct code_map *code_map_new(int fd, enum code_map_kind kind, size_t limit_bytes)
{
	struct code_map *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->fd = fd;
	m->kind = kind;
	m->limit_bytes = limit_bytes;
	return m;
}

void code_map_free(struct code_map *m)
{
	if (!m)
		return;
	fd_close(&m->fd);
	free(m->list);
	free(m);
}

uint32_t code_map_count(const struct code_map *m)
{
	return m->count;
}

size_t code_map_bytes(const struct code_map *m)
{
	return sizeof(*m) + m->cap * sizeof(*m->list);
}

uint64_t code_map_refused(const struct code_map *m)
{
	return m->refused;
}

static size_t read_at(const struct code_map *m, uint64_t offset, void *out, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = pread(m->fd, (char *)out + have, n - have, (off_t)(offset + have));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	return have;
}

/* ---- entries ---- */

static void add_entry(struct code_map *m, uint64_t start, uint64_t size, uint64_t name_at,
		      uint32_t lines_at)
{
	if (!size || size > CODE_BYTES_MOST || name_at > UINT32_MAX || start + size < start) {
		m->refused++;
		return;
	}
	if (m->count == m->cap) {
		uint32_t cap = m->cap ? m->cap + m->cap / 2 : 64;
		struct entry *grown;

		if (cap * sizeof(*grown) > m->limit_bytes) {
			m->refused++;
			return;
		}
		grown = realloc(m->list, cap * sizeof(*grown));
		if (!grown)
			abort();
		m->list = grown;
		m->cap = cap;
	}
	m->list[m->count++] =
		(struct entry){ start, (uint32_t)size, (uint32_t)name_at, lines_at, ++m->age };
}

static int by_start_then_age(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->age < y->age ? -1 : x->age > y->age;
}

/* Of entries with one start the newest stays. */
static void sort_entries(struct code_map *m)
{
	uint32_t out = 0;

	if (m->sorted == m->count)
		return;
	qsort(m->list, m->count, sizeof(*m->list), by_start_then_age);
	for (uint32_t i = 0; i < m->count; i++) {
		if (i + 1 < m->count && m->list[i + 1].start == m->list[i].start)
			continue;
		m->list[out++] = m->list[i];
	}
	m->count = m->sorted = out;
}

static const struct entry *find_entry(const struct code_map *m, uint64_t pc)
{
	const struct entry *best = NULL;
	uint32_t low = 0, high = m->sorted;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (m->list[mid].start <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	for (uint32_t back = 1; back <= low && back <= OVERLAPS_LOOK_BACK; back++) {
		const struct entry *e = &m->list[low - back];

		if (pc - e->start < e->size && (!best || e->age > best->age))
			best = e;
	}
	return best;
}

/* ---- perf map ---- */

static bool hex_take(struct str *s, uint64_t *out)
{
	uint64_t v = 0;
	size_t n = 0;

	if (s->len > 2 && s->ptr[0] == '0' && (s->ptr[1] == 'x' || s->ptr[1] == 'X'))
		*s = str_skip(*s, 2);
	for (; n < s->len; n++) {
		char c = (char)(s->ptr[n] | 0x20);

		if (c >= '0' && c <= '9')
			v = v << 4 | (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | ((unsigned)(c - 'a') + 10);
		else
			break;
	}
	*s = str_skip(*s, n);
	*out = v;
	return n > 0 && n <= 16 && s->len > 0 && s->ptr[0] == ' ';
}

static void read_map_line(struct code_map *m, struct str line, uint64_t at)
{
	uint64_t start, size;
	struct str rest = line;

	if (!hex_take(&rest, &start)) {
		m->refused += line.len > 0;
		return;
	}
	rest = str_skip(rest, 1);
	if (!hex_take(&rest, &size) || rest.len < 2) {
		m->refused++;
		return;
	}
	add_entry(m, start, size, at + line.len - rest.len + 1, 0);
}

/* Whole lines of the chunk; returns how much of it they are. */
static size_t read_map_lines(struct code_map *m, struct str chunk)
{
	size_t at = 0;

	for (;;) {
		struct str rest = str_skip(chunk, at);
		ptrdiff_t end = str_find(rest, '\n');

		if (end < 0)
			return at;
		read_map_line(m, str_head(rest, (size_t)end), m->read_to + at);
		at += (size_t)end + 1;
	}
}

static bool update_map(struct code_map *m, struct work_budget *budget)
{
	char chunk[CHUNK_BYTES];

	for (;;) {
		size_t n = read_at(m, m->read_to, chunk, sizeof(chunk)), whole;

		whole = read_map_lines(m, str_from(chunk, n));
		if (!whole && n == sizeof(chunk)) { /* no line is that long */
			m->refused++;
			whole = n;
		}
		m->read_to += whole;
		if (n < sizeof(chunk))
			return true;
		if (work_budget_spent(budget))
			return false;
	}
}

/* ---- jitdump ---- */

static void read_load(struct code_map *m, const uint8_t *head, uint64_t at)
{
	struct byte_reader r = byte_reader_of((struct bytes){ head, LOAD_HEAD_BYTES });
	uint64_t address, size;

	read_skip(&r, RECORD_HEAD_BYTES + 8 + 8);
	address = read_u64(&r);
	size = read_u64(&r);
	add_entry(m, address, size, at + LOAD_HEAD_BYTES,
		  m->pending_lines_of == address ? m->pending_lines_at : 0);
	m->pending_lines_at = 0;
	m->pending_lines_of = 0;
}

/* The name comes along; what had moved before must be found among the unsorted, too. */
static void read_move(struct code_map *m, const uint8_t *head)
{
	struct byte_reader r = byte_reader_of((struct bytes){ head, LOAD_HEAD_BYTES });
	const struct entry *from;
	uint64_t old_address, address, size;

	read_skip(&r, RECORD_HEAD_BYTES + 8 + 8);
	old_address = read_u64(&r);
	address = read_u64(&r);
	size = read_u64(&r);
	sort_entries(m);
	from = find_entry(m, old_address);
	if (from)
		add_entry(m, address, size, from->name_at, 0);
	else
		m->refused++;
}

static void read_record(struct code_map *m, uint32_t kind, const uint8_t *head, size_t head_bytes,
			uint64_t at)
{
	switch (kind) {
	case RECORD_LOAD:
		if (head_bytes == LOAD_HEAD_BYTES)
			read_load(m, head, at);
		else
			m->refused++;
		break;
	case RECORD_MOVE:
		if (head_bytes == LOAD_HEAD_BYTES)
			read_move(m, head);
		else
			m->refused++;
		break;
	case RECORD_LINES:
		if (head_bytes >= RECORD_HEAD_BYTES + 8 && at <= UINT32_MAX) {
			memcpy(&m->pending_lines_of, head + RECORD_HEAD_BYTES, 8);
			m->pending_lines_at = (uint32_t)at;
		}
		break;
	default: /* close, unwinding information, and what may come */
		break;
	}
}

static bool read_dump_header(struct code_map *m)
{
	uint32_t words[3];

	if (read_at(m, 0, words, sizeof(words)) < sizeof(words))
		return false; /* not yet written */
	if (words[0] != DUMP_MAGIC || words[2] < DUMP_HEADER_BYTES) {
		m->broken = true;
		m->refused++;
		return false;
	}
	m->read_to = words[2];
	return true;
}

static bool update_dump(struct code_map *m, struct work_budget *budget)
{
	struct stat st;

	if (!m->read_to && !read_dump_header(m))
		return true;
	if (fstat(m->fd, &st) != 0)
		return true;
	while (!m->broken) {
		uint8_t head[LOAD_HEAD_BYTES];
		size_t n = read_at(m, m->read_to, head, sizeof(head));
		uint32_t kind, bytes;

		if (n < RECORD_HEAD_BYTES)
			break;
		memcpy(&kind, head, 4);
		memcpy(&bytes, head + 4, 4);
		if (bytes < RECORD_HEAD_BYTES) {
			m->broken = true;
			m->refused++;
			break;
		}
		if (m->read_to + bytes > (uint64_t)st.st_size) /* still being written */
			break;
		read_record(m, kind, head, n < bytes ? n : bytes, m->read_to);
		m->read_to += bytes;
		if (work_budget_step(budget))
			return false;
	}
	return true;
}

bool code_map_update(struct code_map *m, struct work_budget *budget)
{
	struct stat st;
	bool done;

	/* A runtime that starts anew in the same file truncates it. */
	if (fstat(m->fd, &st) == 0 && (uint64_t)st.st_size < m->read_to) {
		m->count = m->sorted = 0;
		m->read_to = 0;
		m->broken = false;
	}
	done = m->kind == CODE_MAP_PERF ? update_map(m, budget) : update_dump(m, budget);
	sort_entries(m);
	return done;
}

/* ---- finding ---- */

static bool read_name(const struct code_map *m, uint64_t at, struct buf *text, struct str *out)
{
	char name[NAME_MOST];
	size_t n = read_at(m, at, name, sizeof(name)), len = 0, before = text->len;

	while (len < n && name[len] && name[len] != '\n')
		len++;
	if (!len)
		return false;
	buf_append(text, name, len);
	*out = str_from((const char *)(uintptr_t)before, len);
	return !text->failed;
}

/* The last row at or before pc. */
static void read_lines(const struct code_map *m, const struct entry *e, uint64_t pc,
		       struct buf *text, struct code_hit *out)
{
	uint8_t head[RECORD_HEAD_BYTES + 16], row[16];
	uint64_t at = e->lines_at + (uint64_t)sizeof(head), count, best_file = 0;
	uint32_t bytes;

	if (read_at(m, e->lines_at, head, sizeof(head)) < sizeof(head))
		return;
	memcpy(&bytes, head + 4, 4);
	memcpy(&count, head + RECORD_HEAD_BYTES + 8, 8);
	for (uint64_t i = 0; i < count && i < LINES_MOST && at < e->lines_at + (uint64_t)bytes;
	     i++) {
		uint64_t address, name_at = at + sizeof(row);
		char name[NAME_MOST];
		size_t n, len;

		if (read_at(m, at, row, sizeof(row)) < sizeof(row))
			break;
		memcpy(&address, row, 8);
		n = read_at(m, name_at, name, sizeof(name));
		len = strnlen(name, n);
		if (address > pc || len == n)
			break;
		memcpy(&out->line, row + 8, 4);
		/* "\xff\0" says: the file of the row before */
		if (!(len == 1 && name[0] == (char)0xff))
			best_file = name_at;
		at = name_at + len + 1;
	}
	if (best_file)
		read_name(m, best_file, text, &out->file);
}

bool code_map_find(const struct code_map *m, uint64_t pc, struct buf *text, struct code_hit *out)
{
	const struct entry *e = find_entry(m, pc);
	struct code_hit hit = { 0 };

	if (!e || !read_name(m, e->name_at, text, &hit.name))
		return false;
	hit.start = e->start;
	if (e->lines_at)
		read_lines(m, e, pc, text, &hit);
	/* Until here they are places in the buffer, which may have moved. */
	hit.name.ptr = text->ptr + (uintptr_t)hit.name.ptr;
	if (hit.file.len)
		hit.file.ptr = text->ptr + (uintptr_t)hit.file.ptr;
	*out = hit;
	return true;
}
