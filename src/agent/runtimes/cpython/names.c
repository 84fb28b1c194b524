#include "agent/runtimes/cpython/names.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/process_info.h"
#include "agent/runtimes/cpython/cpython.h"
#include "agent/runtimes/cpython/lines.h"
#include "agent/runtimes/cpython/text.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"

enum {
	BUCKETS = 1024,
	CODE_BYTES_MOST = 512, /* of a code object, up to the last field that we read */
	LINES_BYTES_MOST = 64 << 10,
	ANSWER_BYTES_MOST = 64 << 10,
};

struct key {
	uint64_t code;
	uint64_t start_unix_nano; /* of the process image */
	uint32_t pid, cookie;
};

struct entry {
	struct key key;
	struct entry *next;          /* in its bucket */
	struct entry *newer, *older; /* by use */
	size_t bytes;
	struct str function, file;
	struct bytes lines;
	uint32_t first_line;
	char data[];
};

struct cpython_names {
	const struct runtime_memory *memory;
	size_t memory_bytes;
	pthread_mutex_t lock; /* guards what follows */
	struct entry *buckets[BUCKETS];
	struct entry *newest, *oldest;
	struct cpython_names_stats stats;
	/* name() alone */
	struct buf answer;
	struct name_line line;
};

struct cpython_names *cpython_names_new(const struct runtime_memory *memory, size_t memory_bytes)
{
	struct cpython_names *n = calloc(1, sizeof(*n));

	assert(n);
	n->memory = memory;
	n->memory_bytes = memory_bytes;
	pthread_mutex_init(&n->lock, NULL);
	buf_init(&n->answer, ANSWER_BYTES_MOST);
	return n;
}

/* ---- what is kept ---- */

static struct entry **bucket_of(struct cpython_names *n, const struct key *k)
{
	return &n->buckets[hash64(str_from(k, sizeof(*k))) % BUCKETS];
}

static void take_out_of_order(struct cpython_names *n, struct entry *e)
{
	*(e->newer ? &e->newer->older : &n->newest) = e->older;
	*(e->older ? &e->older->newer : &n->oldest) = e->newer;
}

static void make_newest(struct cpython_names *n, struct entry *e)
{
	e->newer = NULL;
	e->older = n->newest;
	*(n->newest ? &n->newest->newer : &n->oldest) = e;
	n->newest = e;
}

static struct entry *find(struct cpython_names *n, const struct key *k)
{
	struct entry *e = *bucket_of(n, k);

	while (e && memcmp(&e->key, k, sizeof(*k)) != 0)
		e = e->next;
	if (e && e != n->newest) {
		take_out_of_order(n, e);
		make_newest(n, e);
	}
	return e;
}

static void drop(struct cpython_names *n, struct entry *e)
{
	struct entry **at = bucket_of(n, &e->key);

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	take_out_of_order(n, e);
	n->stats.bytes -= e->bytes;
	free(e);
}

static void keep(struct cpython_names *n, struct entry *e)
{
	struct entry **bucket = bucket_of(n, &e->key);

	e->next = *bucket;
	*bucket = e;
	make_newest(n, e);
	n->stats.bytes += e->bytes;
	while (n->stats.bytes > n->memory_bytes && n->oldest != e) {
		drop(n, n->oldest);
		n->stats.evicted++;
	}
}

void cpython_names_free(struct cpython_names *n)
{
	if (!n)
		return;
	while (n->oldest)
		drop(n, n->oldest);
	buf_release(&n->answer);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

/* ---- reading a code object ---- */

struct code {
	uint64_t file, name, qualified, lines;
	uint32_t first_line;
};

static uint64_t word_at(const uint8_t *block, int32_t offset)
{
	uint64_t word = 0;

	if (offset >= 0 && offset <= CODE_BYTES_MOST - 8)
		memcpy(&word, block + offset, sizeof(word));
	return word;
}

static int32_t last_field(const struct cpython_offsets *o)
{
	int32_t most = o->code_line;

	most = o->code_file + 16 > most ? o->code_file + 16 : most;
	most = o->code_lines > most ? o->code_lines : most;
	return o->code_qualified_name > most ? o->code_qualified_name : most;
}

/* False: it is not there, or not the one that the frame is of. */
static bool read_code(struct cpython_names *n, const struct cpython_offsets *o, const struct key *k,
		      struct code *c)
{
	uint8_t block[CODE_BYTES_MOST] = { 0 };
	int32_t bytes = last_field(o) + 8;
	uint64_t cookie;

	if (bytes > CODE_BYTES_MOST ||
	    !n->memory->read(n->memory->ctx, k->pid, k->code, block, (size_t)bytes))
		return false;
	*c = (struct code){ .file = word_at(block, o->code_file),
			    .name = word_at(block, o->code_name),
			    .qualified = word_at(block, o->code_qualified_name),
			    .lines = word_at(block, o->code_lines),
			    .first_line = (uint32_t)word_at(block, o->code_line) };
	cookie = cpython_cookie(c->file, c->name, word_at(block, o->code_file + 16), c->first_line);
	/* 0: the kernel's side could not read it; then this is our best knowledge. */
	return !k->cookie || (uint32_t)cookie == k->cookie;
}

/* Appends the bytes object's content; what cannot be read is left out. */
static void read_lines(struct cpython_names *n, const struct cpython_offsets *o, uint32_t pid,
		       uint64_t at, struct buf *out)
{
	uint64_t length = 0;
	char *room;

	if (!at ||
	    !n->memory->read(n->memory->ctx, pid, at + (uint64_t)o->bytes_length, &length,
			     sizeof(length)) ||
	    !length || length > LINES_BYTES_MOST)
		return;
	room = malloc(length);
	assert(room);
	if (n->memory->read(n->memory->ctx, pid, at + (uint64_t)o->bytes_data, room, length))
		buf_append(out, room, length);
	free(room);
}

static struct entry *read_entry(struct cpython_names *n, const struct cpython_offsets *o,
				const struct key *k)
{
	AUTO(buf_release) struct buf data = { 0 };
	size_t function, file;
	struct entry *e;
	struct code c;

	if (!read_code(n, o, k, &c))
		return NULL;
	if (!cpython_read_text(n->memory, o, k->pid, c.qualified ? c.qualified : c.name, &data))
		return NULL;
	function = data.len;
	cpython_read_text(n->memory, o, k->pid, c.file, &data);
	file = data.len - function;
	read_lines(n, o, k->pid, c.lines, &data);
	e = malloc(sizeof(*e) + data.len);
	assert(e);
	*e = (struct entry){ .key = *k,
			     .bytes = sizeof(*e) + data.len,
			     .first_line = c.first_line,
			     .function = str_from(e->data, function),
			     .file = str_from(e->data + function, file),
			     .lines = { (const uint8_t *)e->data + function + file,
					data.len - function - file } };
	if (data.len)
		memcpy(e->data, data.ptr, data.len);
	return e;
}

/* The entry of a frame, read now if it is not there. n->lock is held, and let go meanwhile. */
static struct entry *get(struct cpython_names *n, const struct trace_frame *frame,
			 const struct process_info *process, const struct cpython_facts *facts)
{
	struct key k;
	struct entry *e, *other;

	memset(&k, 0, sizeof(k));
	k.code = frame->address;
	k.pid = process->pid;
	k.start_unix_nano = process->start_unix_nano;
	k.cookie = (uint32_t)frame->extra;
	e = find(n, &k);
	if (e)
		return e;
	pthread_mutex_unlock(&n->lock);
	e = read_entry(n, &facts->offsets, &k);
	pthread_mutex_lock(&n->lock);
	other = find(n, &k);
	if (other || !e) {
		n->stats.refused += !e;
		free(e);
		return other;
	}
	n->stats.read++;
	keep(n, e);
	return e;
}

/* ---- the namer ---- */

static void prepare(void *ctx, const struct trace_frame *frame, struct process_info *process)
{
	const struct cpython_facts *facts = cpython_facts(frame->executable);
	struct cpython_names *n = ctx;

	if (!facts || !process)
		return;
	pthread_mutex_lock(&n->lock);
	get(n, frame, process, facts);
	pthread_mutex_unlock(&n->lock);
}

/* The entry may go while the answer is used: it is copied. */
static void answer(struct cpython_names *n, const struct entry *e,
		   const struct cpython_facts *facts, int32_t at, struct frame_name *out)
{
	buf_reset(&n->answer);
	buf_str(&n->answer, e->function);
	buf_char(&n->answer, '\0'); /* so that there is a buffer, whatever is empty */
	buf_str(&n->answer, e->file);
	n->line = (struct name_line){
		.function = str_from(n->answer.ptr, e->function.len),
		.file = str_from(n->answer.ptr + e->function.len + 1, e->file.len),
		.line = cpython_line((enum cpython_lines)facts->offsets.lines, e->lines,
				     e->first_line, at),
		.start_line = e->first_line,
	};
	*out = (struct frame_name){ .lines = &n->line,
				    .line_count = 1,
				    .address = at > 0 ? (uint64_t)at : 0,
				    .final = true };
}

static bool name(void *ctx, const struct trace_frame *frame, struct process_info *process,
		 struct frame_name *out)
{
	const struct cpython_facts *facts = cpython_facts(frame->executable);
	int32_t at = (int32_t)(frame->extra >> 32);
	struct cpython_names *n = ctx;
	const struct entry *e = NULL;

	if (facts && process) {
		pthread_mutex_lock(&n->lock);
		e = get(n, frame, process, facts);
		if (e)
			answer(n, e, facts, at, out);
		pthread_mutex_unlock(&n->lock);
	}
	if (e)
		return true;
	n->line = (struct name_line){ .function = STR("[python]") };
	*out = (struct frame_name){ .lines = &n->line, .line_count = 1, .fallback = true };
	return true;
}

struct namer cpython_names_namer(struct cpython_names *n)
{
	return (struct namer){ .name = name, .prepare = prepare, .ctx = n };
}

void cpython_names_stats(struct cpython_names *n, struct cpython_names_stats *out)
{
	pthread_mutex_lock(&n->lock);
	*out = n->stats;
	pthread_mutex_unlock(&n->lock);
}
