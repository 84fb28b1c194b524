#include "agent/runtimes/frame_names.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/process_info.h"
#include "base/hash.h"

enum { BUCKETS = 1024, TEXT_BYTES_MOST = 16 << 10 };

struct key {
	uint64_t address, extra;
	uint64_t start_unix_nano; /* of the process image */
	uint64_t pid;
};

struct entry {
	struct key key;
	struct entry *next;          /* in its bucket */
	struct entry *newer, *older; /* by use */
	size_t bytes;
	struct str function, file;
	uint32_t line, column, start_line;
	char data[];
};

struct frame_names {
	const struct frame_names_ops *ops;
	const struct runtime_memory *memory;
	size_t memory_bytes;
	pthread_mutex_t lock; /* guards what follows */
	struct entry *buckets[BUCKETS];
	struct entry *newest, *oldest;
	struct frame_names_stats stats;
	/* name() alone */
	struct buf answer;
	struct name_line line;
};

struct frame_names *frame_names_new(const struct frame_names_ops *ops,
				    const struct runtime_memory *memory, size_t memory_bytes)
{
	struct frame_names *n = calloc(1, sizeof(*n));

	assert(n);
	n->ops = ops;
	n->memory = memory;
	n->memory_bytes = memory_bytes;
	pthread_mutex_init(&n->lock, NULL);
	buf_init(&n->answer, 2 * TEXT_BYTES_MOST + 1);
	return n;
}

/* ---- what is kept ---- */

static struct entry **bucket_of(struct frame_names *n, const struct key *k)
{
	return &n->buckets[hash64(str_from(k, sizeof(*k))) % BUCKETS];
}

static void take_out_of_order(struct frame_names *n, struct entry *e)
{
	*(e->newer ? &e->newer->older : &n->newest) = e->older;
	*(e->older ? &e->older->newer : &n->oldest) = e->newer;
}

static void make_newest(struct frame_names *n, struct entry *e)
{
	e->newer = NULL;
	e->older = n->newest;
	*(n->newest ? &n->newest->newer : &n->oldest) = e;
	n->newest = e;
}

static struct entry *find(struct frame_names *n, const struct key *k)
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

static void drop(struct frame_names *n, struct entry *e)
{
	struct entry **at = bucket_of(n, &e->key);

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	take_out_of_order(n, e);
	n->stats.bytes -= e->bytes;
	free(e);
}

static void keep(struct frame_names *n, struct entry *e)
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

void frame_names_free(struct frame_names *n)
{
	if (!n)
		return;
	while (n->oldest)
		drop(n, n->oldest);
	buf_release(&n->answer);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

/* ---- reading ---- */

static struct entry *make_entry(const struct key *k, const struct frame_text *text)
{
	size_t bytes = text->function.len + text->file.len;
	struct entry *e = malloc(sizeof(*e) + bytes);

	assert(e);
	*e = (struct entry){ .key = *k,
			     .bytes = sizeof(*e) + bytes,
			     .line = text->line,
			     .column = text->column,
			     .start_line = text->start_line,
			     .function = str_from(e->data, text->function.len),
			     .file = str_from(e->data + text->function.len, text->file.len) };
	if (text->function.len)
		memcpy(e->data, text->function.ptr, text->function.len);
	if (text->file.len)
		memcpy(e->data + text->function.len, text->file.ptr, text->file.len);
	return e;
}

static struct entry *read_entry(struct frame_names *n, const struct trace_frame *frame,
				const struct key *k)
{
	struct frame_text text = { .line = 0 };
	struct entry *e = NULL;

	buf_init(&text.function, TEXT_BYTES_MOST);
	buf_init(&text.file, TEXT_BYTES_MOST);
	if (n->ops->read(n->memory, frame, (uint32_t)k->pid, &text))
		e = make_entry(k, &text);
	buf_release(&text.function);
	buf_release(&text.file);
	return e;
}

/* The entry of a frame, read now if it is not there. n->lock is held, and released meanwhile. */
static struct entry *get(struct frame_names *n, const struct trace_frame *frame,
			 const struct process_info *process)
{
	const struct key k = { .address = frame->address,
			       .extra = frame->extra,
			       .start_unix_nano = process->start_unix_nano,
			       .pid = process->pid };
	struct entry *e = find(n, &k), *other;

	if (e)
		return e;
	pthread_mutex_unlock(&n->lock);
	e = read_entry(n, frame, &k);
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
	struct frame_names *n = ctx;

	if (!process)
		return;
	pthread_mutex_lock(&n->lock);
	get(n, frame, process);
	pthread_mutex_unlock(&n->lock);
}

/* The entry may go while the answer is used: it is copied. */
static void answer(struct frame_names *n, const struct entry *e, struct frame_name *out)
{
	buf_reset(&n->answer);
	buf_str(&n->answer, e->function);
	buf_char(&n->answer, '\0'); /* so that there is a buffer, whatever is empty */
	buf_str(&n->answer, e->file);
	n->line = (struct name_line){
		.function = str_from(n->answer.ptr, e->function.len),
		.file = str_from(n->answer.ptr + e->function.len + 1, e->file.len),
		.line = e->line,
		.column = e->column,
		.start_line = e->start_line,
	};
	*out = (struct frame_name){ .lines = &n->line, .line_count = 1, .final = true };
}

static bool name(void *ctx, const struct trace_frame *frame, struct process_info *process,
		 struct frame_name *out)
{
	struct frame_names *n = ctx;
	const struct entry *e = NULL;

	if (process) {
		pthread_mutex_lock(&n->lock);
		e = get(n, frame, process);
		if (e)
			answer(n, e, out);
		pthread_mutex_unlock(&n->lock);
	}
	if (e)
		return true;
	n->line = (struct name_line){ .function = str_cstr(n->ops->fallback) };
	*out = (struct frame_name){ .lines = &n->line, .line_count = 1, .fallback = true };
	return true;
}

struct namer frame_names_namer(struct frame_names *n)
{
	return (struct namer){ .name = name, .prepare = prepare, .ctx = n };
}

void frame_names_stats(struct frame_names *n, struct frame_names_stats *out)
{
	pthread_mutex_lock(&n->lock);
	*out = n->stats;
	pthread_mutex_unlock(&n->lock);
}
