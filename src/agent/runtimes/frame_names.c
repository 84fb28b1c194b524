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
	uint32_t line_count;
	struct name_line lines[]; /* their texts behind them */
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
	struct entry *answer; /* a copy: the entry may go while the answer is used */
	size_t answer_room;
	struct name_line fallback;
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
	free(n->answer);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

/* ---- reading ---- */

static void frame_text_init(struct frame_text *text)
{
	*text = (struct frame_text){ .line = 0 };
	buf_init(&text->function, TEXT_BYTES_MOST);
	buf_init(&text->file, TEXT_BYTES_MOST);
}

struct frame_text *frame_text_add_caller(struct frame_text *innermost)
{
	struct frame_text **at = &innermost->caller;

	for (int i = 0; i < FRAME_CALLERS_MOST; i++, at = &(*at)->caller) {
		if (*at)
			continue;
		*at = malloc(sizeof(**at));
		assert(*at);
		frame_text_init(*at);
		return *at;
	}
	return NULL;
}

static void frame_text_release(struct frame_text *text)
{
	for (struct frame_text *caller = text->caller, *next; caller; caller = next) {
		next = caller->caller;
		buf_release(&caller->function);
		buf_release(&caller->file);
		free(caller);
	}
	buf_release(&text->function);
	buf_release(&text->file);
}

static char *put_text(char *at, const struct buf *text, struct str *out)
{
	if (text->len)
		memcpy(at, text->ptr, text->len);
	*out = str_from(at, text->len);
	return at + text->len;
}

static struct entry *make_entry(const struct key *k, const struct frame_text *innermost)
{
	size_t bytes = sizeof(struct entry);
	struct name_line *line;
	uint32_t count = 0;
	struct entry *e;
	char *at;

	for (const struct frame_text *t = innermost; t; t = t->caller, count++)
		bytes += sizeof(*line) + t->function.len + t->file.len;
	e = malloc(bytes);
	assert(e);
	*e = (struct entry){ .key = *k, .bytes = bytes, .line_count = count };
	line = e->lines;
	at = (char *)(e->lines + count);
	for (const struct frame_text *t = innermost; t; t = t->caller, line++) {
		*line = (struct name_line){ .line = t->line,
					    .column = t->column,
					    .start_line = t->start_line };
		at = put_text(at, &t->function, &line->function);
		at = put_text(at, &t->file, &line->file);
	}
	return e;
}

static struct entry *read_entry(struct frame_names *n, const struct trace_frame *frame,
				const struct key *k)
{
	struct entry *e = NULL;
	struct frame_text text;

	frame_text_init(&text);
	if (n->ops->read(n->memory, frame, (uint32_t)k->pid, &text))
		e = make_entry(k, &text);
	frame_text_release(&text);
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

static void answer(struct frame_names *n, const struct entry *e, struct frame_name *out)
{
	ptrdiff_t moved;

	if (e->bytes > n->answer_room) {
		free(n->answer);
		n->answer = malloc(e->bytes);
		assert(n->answer);
		n->answer_room = e->bytes;
	}
	memcpy(n->answer, e, e->bytes);
	moved = (char *)n->answer - (const char *)e;
	for (uint32_t i = 0; i < e->line_count; i++) {
		n->answer->lines[i].function.ptr += moved;
		n->answer->lines[i].file.ptr += moved;
	}
	*out = (struct frame_name){ .lines = n->answer->lines,
				    .line_count = e->line_count,
				    .final = true };
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
	n->fallback = (struct name_line){ .function = str_cstr(n->ops->fallback) };
	*out = (struct frame_name){ .lines = &n->fallback, .line_count = 1, .fallback = true };
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
