/*
 * ask.c - one question to a store, asked once by a process that knows nothing yet; bench/queries
 * runs it.
 *
 * usage: ask [--cold] [--times N] STORE QUESTION [FROM TO [SELECTOR | SPAN | LABEL | FROM2 TO2
 * SELECTOR]]
 *
 *   flame   flame graph     diff   of [FROM, TO) and [FROM2, TO2)     top    table
 *   invert  inverted flame graph    group  flame graph with the values of a label outermost
 *   heat    heat map        chart  flame chart      line   timeline   span   flame graph of a span
 *   range   the time that has samples               spans  ids of spans, one a line, as many as N
 *
 * FROM and TO are ns since 1970; SPAN is 16 hex digits. Prints: wall time and CPU time of the first
 * answer in microseconds, from before the store is opened until the answer is there; events; a
 * number of the answer's own (nodes, boxes, cells); its total. --cold: the file's pages are dropped
 * from the page cache before. --times: asks again, for a profiler; the first answer is printed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "query/query.h"
#include "store/store.h"

struct question {
	const char *store, *what;
	struct source_range range, other;
	const char *selector, *group;
	uint8_t span[8];
	bool by_span, cold;
	unsigned times;
};

struct answer {
	uint64_t events, size;
	int64_t total;
	bool partial;
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Pages that are not written yet cannot be dropped: they are synced first. */
static void drop_pages(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static struct query *begin(const struct question *x, struct source *source,
			   struct source_range range, struct err *err)
{
	struct query_request r = {
		.source = source,
		.range = range,
		.selector = str_cstr(x->selector ? x->selector : ""),
		.span_id = x->by_span ? x->span : NULL,
		.group_by = str_cstr(x->group ? x->group : ""),
	};

	return query_begin(&r, err);
}

static void take_tree(const struct query_tree *t, struct answer *a)
{
	a->size = t->node_count;
	a->total = t->total[QUERY_LEFT];
}

static bool answer_time(const struct question *x, struct query *q, struct answer *a,
			struct err *err)
{
	struct source_range r = x->range;

	if (strcmp(x->what, "heat") == 0) {
		struct query_heatmap_options o = { .column_ns = (r.to - r.from) / 1200 + 1 };
		struct query_heatmap h;

		if (!query_heatmap(q, &o, &h, err))
			return false;
		a->size = (uint64_t)h.columns * h.rows;
		for (uint64_t i = 0; i < a->size; i++)
			a->total += h.values[i];
	} else if (strcmp(x->what, "line") == 0) {
		struct query_timeline t;

		if (!query_timeline(q, NULL, &t, err))
			return false;
		a->size = t.bucket_count;
		a->total = t.group_count ? t.groups[0].total : 0;
	} else {
		struct query_chart c;

		if (!query_chart(q, NULL, &c, err))
			return false;
		for (uint32_t i = 0; i < c.lane_count; i++) {
			a->size += c.lanes[i].box_count;
			a->total += c.lanes[i].value;
		}
	}
	return true;
}

static bool answer_stacks(const struct question *x, struct query *q, struct query *right,
			  struct answer *a, struct err *err)
{
	struct query_tree_options o = { .nodes_most = 16384,
					.inverted = strcmp(x->what, "invert") == 0,
					.group_by = str_cstr(x->group ? x->group : "") };
	struct query_tree tree;

	if (strcmp(x->what, "top") == 0) {
		struct query_top top;

		if (!query_top(q, &top, err))
			return false;
		a->size = top.row_count;
		a->total = top.total[QUERY_LEFT];
		return true;
	}
	if (right ? !query_diff(q, right, &o, &tree, err) : !query_flamegraph(q, &o, &tree, err))
		return false;
	take_tree(&tree, a);
	return true;
}

static bool ask_source(const struct question *x, struct source *source, struct answer *a,
		       struct err *err)
{
	struct query *q = begin(x, source, x->range, err), *right = NULL;
	bool ok = q != NULL;

	if (ok && strcmp(x->what, "diff") == 0) {
		right = begin(x, source, x->other, err);
		ok = right != NULL;
	}
	if (ok && strchr("hlc", x->what[0]))
		ok = answer_time(x, q, a, err);
	else if (ok)
		ok = answer_stacks(x, q, right, a, err);
	if (ok) {
		struct query_facts f = query_facts(q);

		a->events = f.events + (right ? query_facts(right).events : 0);
		a->partial = f.partial;
		if (f.partial)
			fprintf(stderr, "ask: partial: %s\n", f.reason);
	}
	query_end(right);
	query_end(q);
	return ok;
}

static bool ask_once(const struct question *x, struct answer *a, struct err *err)
{
	struct source *source;
	struct store *store;
	bool ok;

	*a = (struct answer){ 0 };
	if (!store_open(&(struct store_open_options){ .location = x->store }, &store, err))
		return false;
	ok = store_begin(store, &source, err);
	if (ok) {
		ok = ask_source(x, source, a, err);
		source_free(source);
	}
	store_close(store);
	return ok;
}

/* ---- what the script asks to choose its questions ---- */

static bool tell_range(struct source *source, struct err *err)
{
	struct source_range r;

	if (!source->ops->extent(source, &r, err))
		return false;
	printf("%llu %llu\n", (unsigned long long)r.from, (unsigned long long)r.to);
	return true;
}

static bool tell_spans(const struct question *x, struct source *source, struct err *err)
{
	struct query_samples_options o = { .page = 10000 };
	struct query *q = begin(x, source, x->range, err);
	struct query_samples page;
	unsigned given = 0;

	if (!q || !query_samples(q, &o, &page, err)) {
		query_end(q);
		return false;
	}
	for (uint32_t i = 0; i < page.count && given < x->times; i++) {
		static const uint8_t none[8];

		if (memcmp(page.ptr[i].span_id, none, 8) == 0)
			continue;
		for (int k = 0; k < 8; k++)
			printf("%02x", page.ptr[i].span_id[k]);
		putchar('\n');
		given++;
	}
	query_end(q);
	return true;
}

static bool tell(const struct question *x, struct err *err)
{
	struct source *source;
	struct store *store;
	bool ok;

	if (!store_open(&(struct store_open_options){ .location = x->store }, &store, err))
		return false;
	ok = store_begin(store, &source, err);
	if (ok) {
		ok = strcmp(x->what, "range") == 0 ? tell_range(source, err)
						   : tell_spans(x, source, err);
		source_free(source);
	}
	store_close(store);
	return ok;
}

static bool ask(const struct question *x, struct err *err)
{
	uint64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct answer first, again;

	if (!ask_once(x, &first, err))
		return false;
	wall = now_ns(CLOCK_MONOTONIC) - wall;
	cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	for (unsigned i = 1; i < x->times; i++)
		if (!ask_once(x, &again, err))
			return false;
	printf("%llu %llu %llu %llu %lld %d\n", (unsigned long long)wall / 1000,
	       (unsigned long long)cpu / 1000, (unsigned long long)first.events,
	       (unsigned long long)first.size, (long long)first.total, first.partial);
	return true;
}

static bool read_question(int argc, char **argv, struct question *x)
{
	int at = 1;

	*x = (struct question){ .range = SOURCE_ALWAYS, .times = 1 };
	for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
		if (strcmp(argv[at], "--cold") == 0)
			x->cold = true;
		else if (strcmp(argv[at], "--times") == 0 && at + 1 < argc)
			x->times = (unsigned)strtoul(argv[++at], NULL, 10);
		else
			return false;
	}
	if (argc - at < 2)
		return false;
	x->store = argv[at++];
	x->what = argv[at++];
	if (argc - at >= 2) {
		x->range.from = strtoull(argv[at], NULL, 10);
		x->range.to = strtoull(argv[at + 1], NULL, 10);
		at += 2;
	}
	if (strcmp(x->what, "diff") == 0) {
		if (argc - at < 2)
			return false;
		x->other.from = strtoull(argv[at], NULL, 10);
		x->other.to = strtoull(argv[at + 1], NULL, 10);
		at += 2;
	}
	x->selector = argc > at ? argv[at] : NULL;
	if (strcmp(x->what, "group") == 0) {
		x->group = x->selector;
		x->selector = NULL;
	}
	return true;
}

/* The selector of the question `span` is its id. */
static bool read_span(struct question *x)
{
	unsigned long long id;
	char *end;

	x->by_span = strcmp(x->what, "span") == 0;
	if (!x->by_span)
		return true;
	if (!x->selector || strlen(x->selector) != 16)
		return false;
	id = strtoull(x->selector, &end, 16);
	for (int i = 0; i < 8; i++)
		x->span[i] = (uint8_t)(id >> (56 - 8 * i));
	x->selector = NULL;
	return !*end;
}

int main(int argc, char **argv)
{
	struct question x;
	struct err err;
	bool ok = read_question(argc, argv, &x);

	if (!ok || !read_span(&x)) {
		fputs("usage: ask [--cold] [--times N] STORE QUESTION [FROM TO [SELECTOR | SPAN | "
		      "LABEL | "
		      "FROM2 TO2 SELECTOR]]\n",
		      stderr);
		return 2;
	}
	if (x.cold) {
		char log[4096];

		snprintf(log, sizeof(log), "%s-wal", x.store);
		drop_pages(x.store);
		drop_pages(log);
	}
	ok = x.what[0] == 'r' || strcmp(x.what, "spans") == 0 ? tell(&x, &err) : ask(&x, &err);
	if (!ok)
		fprintf(stderr, "ask: %s\n", err.msg);
	return !ok;
}
