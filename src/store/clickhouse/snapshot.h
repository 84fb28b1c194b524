/*
 * snapshot.h - inside of the ClickHouse reader: what its files share.
 */
#pragma once
#include <pthread.h>
#include "base/arena.h"
#include "base/cleanup.h"
#include "store/clickhouse/rowbinary.h"
#include "store/clickhouse/schema.h"
#include "store/clickhouse/server.h"
#include "store/idmap.h"
#include "store/store.h"

enum {
	CH_PAGE_ROWS = 200000, /* of samples in one answer */
	CH_IDS_MOST = 8000,    /* in one list of SQL: a query has at most 256 KiB */
};

/* A growing list of ids. */
struct id_list {
	uint64_t *ids;
	size_t count, cap;
};
void id_list_add(struct id_list *l, uint64_t id);

/* A row of the dictionary. */
struct ch_entry {
	uint64_t id;
	const uint64_t *refs;
	const int64_t *numbers;
	const struct str *texts;
	uint32_t ref_count, number_count, text_count;
	struct str notes;
};

struct ch_store {
	struct store base;
	struct ch_endpoint endpoint;
	char *password;
	pthread_mutex_t lock; /* guards idle */
	struct ch_snapshot *idle[2];
};

/* Buckets before a time that hold samples which end at it or later. */
struct ch_reach {
	uint64_t from;
	struct buf buckets; /* "1,2" */
	bool known;
};

/* Samples of a bucket that end in a later one: the longest, of all that were met. */
struct ch_reaching {
	uint64_t bucket, longest;
};

/* A page that a service's series are on. */
struct ch_service_page {
	uint64_t service, page; /* ch_service_id() */
};

/* What a window was found to hold when its series were asked for. */
struct ch_listed {
	struct source_range range;
	bool whole;         /* of any service */
	struct id_list ids; /* ascending */
	uint64_t *rows;     /* of each, in the window's buckets: no more than that */
	uint64_t *inner;    /* of these, in buckets that lie in the window: ch_window_parts() */
};

struct ch_request_page;

struct ch_snapshot {
	struct source base;
	struct ch_store *store;
	struct ch_server *server;
	uint64_t asof;
	uint64_t names_put_ns; /* when names were found later, the last time; 0: none were */
	bool whole;            /* entries are wanted with their notes */
	bool fresh;            /* nobody has asked it anything */
	uint64_t made_ns;
	struct buf sql, answer;

	/* What was met; forgotten when it passes the limit. */
	struct arena kept;
	struct idmap entries[CH_KIND_SLOTS]; /* id -> struct ch_entry */

	/* Of the sample that is given. */
	uint64_t time;
	int64_t value;
	int64_t *values;
	uint64_t *times;
	uint32_t value_cap, time_cap;

	struct ch_request_page *page; /* of requests that are given one by one; or NULL */

	/* What the store has at all, found when the snapshot was made. */
	struct ch_reaching *reaching; /* NULL: there are too many to know */
	size_t reaching_count;
	struct buf keys;  /* of samples: strings, as in RowBinary */
	bool pages_known; /* all that the dictionary lists of services are in `pages` */
	struct ch_service_page *pages;
	size_t page_count;

	/* A question asks more than once about its windows, and a diff has two. */
	struct ch_reach reach[2];
	unsigned reach_next;
	struct ch_listed listed[2];
	unsigned listed_next;
	uint64_t forgotten; /* how often all that was met was */
};

static inline struct ch_snapshot *ch_snapshot_of(struct source *s)
{
	return CONTAINER_OF(s, struct ch_snapshot, base);
}

/* What each file has of the snapshot's ops. */
SOURCE_OP(series) ch_series;
SOURCE_OP(sample_keys) ch_sample_keys;
SOURCE_OP(scan) ch_scan;
SOURCE_OP(events) ch_events;
SOURCE_OP(profiles) ch_profiles;
SOURCE_OP(stacks) ch_stacks;
SOURCE_OP(locations) ch_locations;
SOURCE_OP(attributes) ch_attributes;
SOURCE_OP(links) ch_links;
SOURCE_OP(find_links) ch_find_links;
SOURCE_OP(coverage) ch_coverage;
SOURCE_OP(next_request) ch_next_request;

/* Runs what is in snap->sql; the answer is in snap->answer. */
bool ch_ask(struct ch_snapshot *snap, struct codec *out, struct err *err) MUST_CHECK;
bool ch_answer_ended(const struct codec *c, const char *what, struct err *err);
/* What stands behind IN: the ids, or what a mask leaves of them, as numbers of that type. */
void ch_put_numbers(struct buf *b, const char *type, const uint64_t *ids, size_t count,
		    uint64_t mask);
static inline void ch_put_ids(struct buf *b, const uint64_t *ids, size_t count)
{
	ch_put_numbers(b, "UInt64", ids, count, UINT64_MAX);
}

/* Forgets what was met if there is too much of it: between callbacks only. */
void ch_trim(struct ch_snapshot *snap);
/* The same before many are fetched: there is room for half of the limit then. */
void ch_make_room(struct ch_snapshot *snap);
/* From now on entries come with all that they have; those that were met without are forgotten. */
void ch_want_whole(struct ch_snapshot *snap);
/* Sees to it that all of these are known; in any order, doubles and 0 are fine. Together: in one
 * request, where they are not too many. */
struct ch_wanted {
	unsigned kind;
	const uint64_t *ids;
	size_t count;
};
enum { CH_KINDS_AT_ONCE = 3 };
/* The condition on rows of the dictionary; ids ascend. */
void ch_put_wanted(struct buf *sql, const struct ch_wanted *w);
bool ch_fetch_kinds(struct ch_snapshot *snap, const struct ch_wanted *wanted, size_t kinds,
		    struct err *err) MUST_CHECK;
bool ch_fetch(struct ch_snapshot *snap, unsigned kind, const uint64_t *ids, size_t count,
	      struct err *err) MUST_CHECK;
/* One that was fetched; NULL and err when the store does not have it. */
const struct ch_entry *ch_entry(struct ch_snapshot *snap, unsigned kind, uint64_t id,
				struct err *err);
/* What an entry has at a place, or what is empty. */
static inline struct str ch_text(const struct ch_entry *e, uint32_t i)
{
	return e && i < e->text_count ? e->texts[i] : (struct str){ 0 };
}
static inline int64_t ch_number(const struct ch_entry *e, uint32_t i)
{
	return e && i < e->number_count ? e->numbers[i] : 0;
}
static inline uint64_t ch_ref(const struct ch_entry *e, uint32_t i)
{
	return e && i < e->ref_count ? e->refs[i] : 0;
}

/* One of the texts of an attribute of a set, which has four for each of its numbers. */
static inline struct str ch_list_text(const struct ch_entry *set, uint32_t i,
				      enum ch_list_text which)
{
	if (which == CH_LIST_VALUE)
		return set->texts[3 * set->number_count + i];
	return set->texts[3 * i + (which ? which - 1 : 0)];
}

/* An attribute of a set: kind, and the value of its text. */
bool ch_value(int64_t kind, struct str text, struct arena *arena, struct any_value *out,
	      struct err *err) MUST_CHECK;
/* The locations of a fetched stack whose stems were fetched, leaf first; in the arena. */
bool ch_stack_locations(struct ch_snapshot *snap, const struct ch_entry *stack, struct arena *arena,
			const uint64_t **out, uint32_t *count, struct err *err) MUST_CHECK;
/* The stems of fetched stacks. */
bool ch_fetch_stems(struct ch_snapshot *snap, const uint64_t *stacks, size_t count,
		    struct err *err) MUST_CHECK;

/* The columns of samples, in the order that ch_read_sample() wants. */
extern const char ch_sample_columns[];
bool ch_read_sample(struct ch_snapshot *snap, struct codec *c, struct source_row *out);
/* The condition on the buckets of samples that may have a time in the window, behind what `where`
 * has. */
bool ch_window(struct ch_snapshot *snap, struct source_range range, struct buf *where,
	       struct err *err) MUST_CHECK;
/* Buckets before the window that have samples which may end in it: "1,2", or nothing. */
bool ch_window_before(struct ch_snapshot *snap, uint64_t from, struct str *out,
		      struct err *err) MUST_CHECK;
/* Where all that reaches is known: buckets whose samples lie in the window with all their times,
 * and those (`before` among them) of whose samples that has to be seen. Empty: there are none. */
void ch_window_parts(const struct ch_snapshot *snap, struct source_range range, struct str before,
		     struct buf *inner, struct buf *edges);
