#include "agent/symbolize/kernel_symbols.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/cleanup.h"

enum {
	CHUNK_BYTES = 32 * 1024,
	LINE_MOST = 600, /* KSYM_NAME_LEN is 512 */
	MODULES_MOST = 255,
	FUNCTION_BYTES_MOST = 1 << 20, /* farther than that behind a symbol is not inside it */
};

struct symbol {
	uint32_t offset, name; /* name: in the pool: u8 module, text, NUL */
};

/* One reading of the file. */
struct reading {
	uint64_t base;
	struct symbol *list;
	uint32_t count, cap;
	struct buf names;
	struct {
		uint32_t at;
		uint64_t start;
	} modules[MODULES_MOST];
	uint32_t module_count;
	uint64_t text; /* _text */
	uint32_t zeros;
	bool full;
};

struct kernel_symbols {
	size_t limit_bytes;
	struct reading use, next;
	bool ready;
	int fd;
	char carry[LINE_MOST];
	size_t carry_len;
	char problem[160];
};

static void reading_release(struct reading *r)
{
	free(r->list);
	buf_release(&r->names);
	memset(r, 0, sizeof(*r));
}

static size_t reading_bytes(const struct reading *r)
{
	return (size_t)r->cap * sizeof(*r->list) + r->names.cap;
}

struct kernel_symbols *kernel_symbols_new(size_t limit_bytes)
{
	struct kernel_symbols *k = calloc(1, sizeof(*k));

	if (!k)
		abort();
	k->limit_bytes = limit_bytes;
	k->fd = -1;
	return k;
}

void kernel_symbols_free(struct kernel_symbols *k)
{
	if (!k)
		return;
	fd_close(&k->fd);
	reading_release(&k->use);
	reading_release(&k->next);
	free(k);
}

/* ---- one line ---- */

static uint32_t add_name(struct reading *r, uint8_t module, struct str name)
{
	uint32_t at = (uint32_t)r->names.len;

	buf_char(&r->names, (char)module);
	buf_str(&r->names, name);
	buf_char(&r->names, 0);
	return at;
}

static struct str pool_name(const struct reading *r, uint32_t at)
{
	return str_cstr(r->names.ptr + at + 1);
}

/* 0: the kernel. Modules past the most share the last number. */
static uint8_t module_number(struct reading *r, struct str name, uint64_t address)
{
	uint32_t i;

	if (!name.len)
		return 0;
	for (i = r->module_count;
	     i-- > 0;) { /* lines of a module stand together: the newest first */
		if (str_equal(pool_name(r, r->modules[i].at), name))
			break;
	}
	if (i == UINT32_MAX) {
		if (r->module_count == MODULES_MOST)
			return MODULES_MOST;
		i = r->module_count++;
		r->modules[i].at = add_name(r, 0, name);
		r->modules[i].start = address;
	}
	if (address < r->modules[i].start)
		r->modules[i].start = address;
	return (uint8_t)(i + 1);
}

static bool is_padding(struct str name)
{
	return str_has_prefix(name, STR("__pfx_")) || str_has_prefix(name, STR("__cfi_"));
}

static bool hex_take(struct str *s, uint64_t *out)
{
	uint64_t v = 0;
	size_t n = 0;

	for (; n < s->len && n <= 16; n++) {
		char c = s->ptr[n];
		unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
							: 16;

		if (digit == 16)
			break;
		v = v << 4 | digit;
	}
	if (!n || n > 16)
		return false;
	*s = str_skip(*s, n);
	*out = v;
	return true;
}

static void add_symbol(struct reading *r, uint64_t address, struct str name, struct str module)
{
	/* The file begins with the kernel's lowest; modules may lie below it (arm64). */
	if (!r->base)
		r->base = address > UINT64_C(0x80000000) ? address - UINT64_C(0x80000000) : address;
	if (str_is(name, "_text") || str_is(name, "_stext"))
		r->text = address;
	if (address < r->base || address - r->base > UINT32_MAX)
		return;
	if (r->count == r->cap) {
		uint32_t cap = r->cap ? r->cap + r->cap / 4 : 16384;
		struct symbol *grown = realloc(r->list, cap * sizeof(*grown));

		if (!grown)
			abort();
		r->list = grown;
		r->cap = cap;
	}
	r->list[r->count].offset = (uint32_t)(address - r->base);
	r->list[r->count].name = add_name(r, module_number(r, module, address), name);
	r->count++;
}

static void read_line(struct kernel_symbols *k, struct str line)
{
	struct reading *r = &k->next;
	struct str name, module = { 0 };
	uint64_t address;
	char type;

	if (!hex_take(&line, &address) || line.len < 4 || line.ptr[0] != ' ')
		return;
	type = line.ptr[1];
	line = str_skip(line, 3);
	str_split(&line, '\t', &name);
	if (line.len > 2 && line.ptr[0] == '[')
		module = str_from(line.ptr + 1, line.len - 2);
	if (!strchr("tTwW", type) || !name.len || is_padding(name))
		return;
	if (!address) {
		r->zeros++;
		return;
	}
	if (reading_bytes(r) > k->limit_bytes) {
		r->full = true;
		return;
	}
	add_symbol(r, address, name, module);
}

/* ---- reading ---- */

static int by_offset(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static void give_back_spare(struct reading *r)
{
	struct symbol *fitting = realloc(r->list, r->count * sizeof(*fitting));
	char *names = realloc(r->names.ptr, r->names.len);

	if (fitting) {
		r->list = fitting;
		r->cap = r->count;
	}
	if (names) {
		r->names.ptr = names;
		r->names.cap = r->names.len;
	}
}

static void finish(struct kernel_symbols *k)
{
	struct reading *r = &k->next;

	fd_close(&k->fd);
	k->fd = -1;
	k->problem[0] = 0;
	if (r->full)
		snprintf(k->problem, sizeof(k->problem),
			 "the kernel's symbols need more than %zu bytes: %u were kept",
			 k->limit_bytes, r->count);
	if (!r->count)
		snprintf(k->problem, sizeof(k->problem),
			 r->zeros ? "/proc/kallsyms hides addresses: CAP_SYSLOG is missing, or "
				    "kernel.kptr_restrict is 2"
				  : "/proc/kallsyms has no symbols");
	if (r->count) {
		qsort(r->list, r->count, sizeof(*r->list), by_offset);
		give_back_spare(r);
		reading_release(&k->use);
		k->use = *r;
		memset(r, 0, sizeof(*r));
	}
	reading_release(r);
	k->ready = true;
}

void kernel_symbols_read(struct kernel_symbols *k, int fd)
{
	fd_close(&k->fd);
	reading_release(&k->next);
	buf_init(&k->next.names, k->limit_bytes);
	k->carry_len = 0;
	k->fd = fd;
}

/* Lines of one chunk; what is left of the last one is carried over. */
static void read_chunk(struct kernel_symbols *k, struct str chunk)
{
	while (chunk.len) {
		ptrdiff_t end = str_find(chunk, '\n');
		struct str part = end < 0 ? chunk : str_head(chunk, (size_t)end);

		if (k->carry_len + part.len > sizeof(k->carry))
			k->carry_len = 0; /* no kernel writes that: not a line to keep */
		else if (k->carry_len || end < 0) {
			memcpy(k->carry + k->carry_len, part.ptr, part.len);
			k->carry_len += part.len;
			part = str_from(k->carry, k->carry_len);
		}
		if (end < 0)
			return;
		read_line(k, part);
		k->carry_len = 0;
		chunk = str_skip(chunk, (size_t)end + 1);
	}
}

bool kernel_symbols_step(struct kernel_symbols *k, struct work_budget *budget)
{
	char chunk[CHUNK_BYTES];

	while (k->fd >= 0) {
		ssize_t n = read(k->fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			read_line(k, str_from(k->carry, k->carry_len));
			finish(k);
			break;
		}
		read_chunk(k, str_from(chunk, (size_t)n));
		if (work_budget_spent(budget))
			return k->fd < 0;
	}
	return true;
}

bool kernel_symbols_ready(const struct kernel_symbols *k)
{
	return k->ready;
}

bool kernel_symbols_find(const struct kernel_symbols *k, uint64_t pc, struct kernel_hit *out)
{
	const struct reading *r = &k->use;
	uint32_t low = 0, high = r->count, offset, at;
	uint8_t module;

	if (!r->count || pc < r->base || pc - r->base > UINT32_MAX)
		return false;
	offset = (uint32_t)(pc - r->base);
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (r->list[mid].offset <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || offset - r->list[low - 1].offset > FUNCTION_BYTES_MOST)
		return false;
	/* Of several names of one address the first in the file, as perf has it. */
	for (at = low - 1; at > 0 && r->list[at - 1].offset == r->list[low - 1].offset;)
		at--;
	module = (uint8_t)r->names.ptr[r->list[at].name];
	out->name = pool_name(r, r->list[at].name);
	out->start = r->base + r->list[at].offset;
	out->module = STR("vmlinux");
	out->module_start = r->text;
	if (module && module <= r->module_count) {
		out->module = pool_name(r, r->modules[module - 1].at);
		out->module_start = r->modules[module - 1].start;
	}
	return true;
}

uint32_t kernel_symbols_count(const struct kernel_symbols *k)
{
	return k->use.count;
}

size_t kernel_symbols_bytes(const struct kernel_symbols *k)
{
	return sizeof(*k) + reading_bytes(&k->use) + reading_bytes(&k->next);
}

const char *kernel_symbols_problem(const struct kernel_symbols *k)
{
	return k->problem;
}
