#include "agent/runtimes/hotspot/methods.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runtimes/hotspot/signature.h"
#include "agent/runtimes/hotspot/unsigned5.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"

enum {
	COPY_MOST = 512,    /* bytes of a VM struct that are looked at */
	SYMBOL_MOST = 4096, /* of a name; what is longer is cut */
	SYMBOL_FIRST = 64,  /* read at once: most are shorter */
	LINES_BYTES_MOST = 65536,
	NAMES_BYTES_MOST = 4 * SYMBOL_MOST,
	BUCKETS = 512,
};

struct class
{
	struct class *next;
	uint64_t pool; /* its address */
	uint64_t length;
	struct str name, file;
};

struct entry {
	struct entry *next;
	uint64_t address, const_method;
	struct java_method method;
};

struct methods {
	const struct hotspot_layout *layout;
	size_t limit_bytes;
	struct arena arena;
	struct entry *methods[BUCKETS];
	struct class *classes[BUCKETS];
	struct buf text;
	char symbol[2][SYMBOL_MOST]; /* name and signature of the method that is being read */
};

struct methods *methods_new(const struct hotspot_layout *layout, size_t limit_bytes)
{
	struct methods *m = calloc(1, sizeof(*m));

	assert(m);
	m->layout = layout;
	m->limit_bytes = limit_bytes;
	/* A single answer may pass the limit: methods_trim() is what keeps it. */
	arena_init(&m->arena, 16384, 0);
	buf_init(&m->text, 2 * NAMES_BYTES_MOST);
	return m;
}

void methods_free(struct methods *m)
{
	if (!m)
		return;
	buf_release(&m->text);
	arena_release(&m->arena);
	free(m);
}

size_t methods_bytes(const struct methods *m)
{
	return sizeof(*m) + m->arena.reserved_bytes + m->text.cap;
}

void methods_trim(struct methods *m)
{
	if (m->arena.reserved_bytes <= m->limit_bytes)
		return;
	arena_release(&m->arena);
	arena_init(&m->arena, 16384, 0);
	memset(m->methods, 0, sizeof(m->methods));
	memset(m->classes, 0, sizeof(m->classes));
}

static uint32_t bucket_of(uint64_t address)
{
	return (uint32_t)((address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 55);
}

static struct str keep(struct methods *m, const char *text, size_t len)
{
	char *copy = arena_alloc(&m->arena, len ? len : 1);

	if (len)
		memcpy(copy, text, len);
	return str_from(copy, len);
}

/* Length and text of a Symbol, in `to`. */
static bool read_symbol(const struct methods *m, const struct hotspot_memory *memory, uint64_t at,
			char to[SYMBOL_MOST], struct str *out)
{
	const struct hotspot_layout *l = m->layout;
	uint32_t head = l->symbol_body.offset;
	char first[COPY_MOST];
	size_t have = head + SYMBOL_FIRST, len;

	if (!at || have > sizeof(first))
		return false;
	if (!hotspot_read(memory, at, first, have)) { /* the last one before unmapped memory? */
		have = head;
		if (!hotspot_read(memory, at, first, have))
			return false;
	}
	len = vm_slot_get(l->symbol_length, first, have);
	if (len > SYMBOL_MOST)
		len = SYMBOL_MOST;
	if (len <= have - head)
		memcpy(to, first + head, len);
	else if (!hotspot_read(memory, at + head, to, len))
		return false;
	*out = str_from(to, len);
	return true;
}

/* The Symbol that an entry of a constant pool points at. */
static bool read_pool_symbol(const struct methods *m, const struct hotspot_memory *memory,
			     uint64_t pool, uint64_t length, uint64_t index, char to[SYMBOL_MOST],
			     struct str *out)
{
	uint64_t symbol;

	return index && index < length &&
	       hotspot_read(memory, pool + m->layout->pool_bytes + index * 8, &symbol, 8) &&
	       read_symbol(m, memory, symbol & ~UINT64_C(1), to, out);
}

static struct class *read_class(struct methods *m, const struct hotspot_memory *memory,
				uint64_t pool)
{
	const struct hotspot_layout *l = m->layout;
	uint8_t copy[COPY_MOST];
	size_t bytes = l->pool_bytes < COPY_MOST ? l->pool_bytes : COPY_MOST;
	uint64_t holder, symbol, file = 0, length;
	struct class *c;
	struct str name, source = STR("");

	if (!hotspot_read(memory, pool, copy, bytes))
		return NULL;
	holder = vm_slot_get(l->pool_holder, copy, bytes);
	length = vm_slot_get(l->pool_length, copy, bytes);
	if (!holder || !vm_slot_read(l->klass_name, memory, holder, &symbol) ||
	    !read_symbol(m, memory, symbol, m->symbol[0], &name))
		return NULL;
	if (l->pool_source_file.bytes)
		file = vm_slot_get(l->pool_source_file, copy, bytes);
	else if (!vm_slot_read(l->klass_source_file, memory, holder, &file))
		file = 0;
	if (!read_pool_symbol(m, memory, pool, length, file, m->symbol[1], &source))
		source = STR("");
	c = arena_zalloc(&m->arena, sizeof(*c));
	c->pool = pool;
	c->length = length;
	c->name = keep(m, name.ptr, name.len);
	c->file = keep(m, source.ptr, source.len);
	c->next = m->classes[bucket_of(pool)];
	m->classes[bucket_of(pool)] = c;
	return c;
}

static const struct class *get_class(struct methods *m, const struct hotspot_memory *memory,
				     uint64_t pool)
{
	const struct class *c = m->classes[bucket_of(pool)];

	while (c && c->pool != pool)
		c = c->next;
	return c ? c : read_class(m, memory, pool);
}

/* The line table lies behind the byte codes, up to wherever the ConstMethod ends at most. */
static void read_lines(struct methods *m, const struct hotspot_memory *memory,
		       uint64_t const_method, uint64_t words, struct java_method *to)
{
	uint64_t before = m->layout->const_bytes + to->code_bytes, bytes = words * 8;
	char *copy;

	if (bytes <= before || bytes - before > LINES_BYTES_MOST)
		return;
	bytes -= before;
	copy = arena_alloc(&m->arena, bytes);
	if (!hotspot_read(memory, const_method + before, copy, bytes))
		return;
	to->lines = str_from(copy, bytes);
	to->lines_least = m->layout->major >= 20;
}

static void make_names(struct methods *m, const struct class *c, struct str name,
		       struct str signature, struct java_method *to)
{
	size_t split;

	buf_reset(&m->text);
	java_method_name(c->name, name, signature, &m->text);
	split = m->text.len;
	java_system_name(c->name, name, signature, &m->text);
	to->function = keep(m, m->text.ptr, split);
	to->system_name = keep(m, m->text.ptr + split, m->text.len - split);
	to->file = c->file;
}

static struct entry *read_method(struct methods *m, const struct hotspot_memory *memory,
				 uint64_t method, uint64_t const_method)
{
	const struct hotspot_layout *l = m->layout;
	uint8_t copy[COPY_MOST];
	size_t bytes = l->const_bytes < COPY_MOST ? l->const_bytes : COPY_MOST;
	uint64_t pool;
	const struct class *c;
	struct str name, signature;
	struct entry *e;

	if (!hotspot_read(memory, const_method, copy, bytes))
		return NULL;
	pool = vm_slot_get(l->const_constants, copy, bytes);
	c = pool ? get_class(m, memory, pool) : NULL;
	if (!c ||
	    !read_pool_symbol(m, memory, pool, c->length, vm_slot_get(l->const_name, copy, bytes),
			      m->symbol[0], &name) ||
	    !read_pool_symbol(m, memory, pool, c->length,
			      vm_slot_get(l->const_signature, copy, bytes), m->symbol[1],
			      &signature))
		return NULL;
	e = arena_zalloc(&m->arena, sizeof(*e));
	e->address = method;
	e->const_method = const_method;
	e->method.code_bytes = (uint32_t)vm_slot_get(l->const_code_size, copy, bytes);
	make_names(m, c, name, signature, &e->method);
	if (vm_slot_get(l->const_flags, copy, bytes) & 1) /* _has_linenumber_table */
		read_lines(m, memory, const_method, vm_slot_get(l->const_size, copy, bytes),
			   &e->method);
	e->next = m->methods[bucket_of(method)];
	m->methods[bucket_of(method)] = e;
	return e;
}

const struct java_method *methods_get(struct methods *m, const struct hotspot_memory *memory,
				      uint64_t method, uint32_t *cookie)
{
	const struct entry *e = m->methods[bucket_of(method)];
	uint64_t const_method;

	if (!method || !vm_slot_read(m->layout->method_const, memory, method, &const_method) ||
	    !const_method)
		return NULL;
	while (e && (e->address != method || e->const_method != const_method))
		e = e->next;
	if (!e)
		e = read_method(m, memory, method, const_method);
	if (!e)
		return NULL;
	if (cookie)
		*cookie = (uint32_t)(const_method >> 3);
	return &e->method;
}

/* Pairs of byte code index and line, not sorted: the one that begins nearest before bci counts. */
uint32_t java_method_line(const struct java_method *m, uint32_t bci)
{
	struct unsigned5 r = { .bytes = { (const uint8_t *)m->lines.ptr, m->lines.len },
			       .least = m->lines_least };
	int64_t at = 0, line = 0, best_at = -1, best = 0;

	while (!r.failed) {
		uint32_t byte = unsigned5_byte(&r);

		if (!byte)
			break;
		if (byte == 0xff) {
			at += unsigned5_next_signed(&r);
			line += unsigned5_next_signed(&r);
		} else {
			at += byte >> 3;
			line += byte & 7;
		}
		if (r.failed || at < 0 || line < 0 || line > UINT32_MAX)
			break;
		if (at <= bci && at > best_at) {
			best_at = at;
			best = line;
		}
	}
	return (uint32_t)best;
}
