/*
 * schema.h - the tables of a store in ClickHouse.
 *
 *   flametap_samples     a row for each OTLP sample; ordered by (page of the series' number,
 * which is its service's, 10 minutes, series, place on the line)
 *   flametap_requests    a row for each request, written last: what is in it counts as received.
 * Its profiles are arrays in it, so that all of a request but its samples is one row.
 *   flametap_dictionary  every content once a writer: (kind, id) -> refs, numbers, texts. Kinds are
 * those of store/schema/ident.h; ids are numbers of the exporter that wrote the entry (encode.h),
 * and of links the lower half of the content's hash. flametap_links       where a trace or span has
 * samples
 *
 * Partitions are days of arrival: retention drops whole ones, and whatever times senders claim, one
 * insert is one partition. In a cluster each is a table NAME_local on every server and a
 * Distributed table NAME over them. docs/clickhouse.md describes each column for people.
 */
#pragma once
#include "model/service_name.h"
#include "store/clickhouse/server.h"
#include "store/schema/ident.h"

enum {
	CH_SCHEMA_VERSION = 1,
	/* Kinds of dictionary rows beyond enum store_kind; in stores: append, never renumber. */
	CH_KIND_STEM = 64, /* the root's side of stacks, 16 locations */
	CH_KIND_REACH =
		65, /* samples of a bucket that end in a later one: numbers = bucket, longest */
	CH_KIND_SCHEMA = 66, /* numbers = CH_SCHEMA_VERSION */
	CH_KIND_SYMBOL = 67, /* names found later: clickhouse/symbols.h */
	CH_KIND_WRITER = 68, /* id = a writer's number, hash_hi = who took it */
	/* A key that samples or profiles have beyond their series, in texts. */
	CH_KIND_KEY = 69,
	/* A page of numbers that series of a service are on: id = ch_service_id(), hash_hi = the
	 * page (ch_page_of()), texts = the service. */
	CH_KIND_PAGE = 70,
	CH_STEM = 16,
	CH_KIND_SLOTS = KIND_COUNT + 2,
};
#define CH_BUCKET_NS "600000000000" /* STORE_BUCKET_NS */

/* samples.shape: what `values` and `times` would say. */
enum ch_shape {
	CH_ONE_TIME,       /* one timestamp, t0; no values were sent */
	CH_ONE_TIME_VALUE, /* and one value */
	CH_NO_TIME,        /* no timestamp (t0 is the profile's), no values */
	CH_NO_TIME_VALUE,  /* one value */
	CH_LISTS,          /* the columns `values` and `times` */
	CH_OFFSETS,        /* the columns `values` and `offsets`, which count from t0 */
};

/* A list of attributes has four texts for each. Values come behind the others of all, so that lists
 * of the same keys are alike up to there. */
enum ch_list_text { CH_LIST_KEY, CH_LIST_VALUE, CH_LIST_UNIT, CH_LIST_NOTES };

struct ch_schema {
	unsigned features;   /* of enum ch_feature */
	const char *cluster; /* NULL or "" = none */
	const char *engine;  /* "MergeTree", "ReplicatedMergeTree"; NULL = as there is a cluster or
				not */
	const char *engine_params; /* of it, NULL = made from the table's name */
	const char *database;
	uint64_t ttl_ns; /* 0 = for ever */
};

/* A view for people: SELECT without the word, every table behind "FROM ". */
struct ch_view {
	const char *name, *select;
};
extern const struct ch_view ch_views[]; /* to one without a name; after those that they read */

/* ERR_INVALID: an engine that is none of MergeTree's. */
bool ch_schema_check(const struct ch_schema *s, struct err *err) MUST_CHECK;
/* All statements that make the tables, one after another, each ended by ";\n". */
void ch_schema_ddl(const struct ch_schema *s, struct buf *out);
/* Runs them, one by one, and marks the store with its version. */
bool ch_schema_create(const struct ch_schema *s, struct ch_server *server,
		      struct err *err) MUST_CHECK;
/* Marks the store with this program's version. */
bool ch_schema_mark(struct ch_server *server, struct err *err) MUST_CHECK;
/* Whether it is a store of this version. ERR_NOT_FOUND: no tables, ERR_UNSUPPORTED: another
 * version.
 */
bool ch_schema_test(struct ch_server *server, struct err *err) MUST_CHECK;
/* The same, for a newest mark that was asked for before. */
bool ch_schema_judge(const struct ch_server *server, uint64_t version, struct err *err) MUST_CHECK;
/* A number that no other writer has: it is written down, then checked for another taker. */
bool ch_schema_new_writer(struct ch_server *server, uint32_t *out, struct err *err) MUST_CHECK;
/* Do the tables of samples and requests, as they are, drop a block that they have had lately? */
bool ch_schema_knows_again(const struct ch_schema *s, struct ch_server *server, bool *out,
			   struct err *err) MUST_CHECK;
bool ch_schema_is_cluster(const struct ch_schema *s);
bool ch_schema_is_replicated(const struct ch_schema *s);
/* Whole days after which what arrived goes. */
uint32_t ch_schema_days(uint64_t ttl_ns);
/* Drops what is older than the schema's ttl, where the server does not do it by itself (no CH_TTL).
 */
bool ch_schema_expire(const struct ch_schema *s, struct ch_server *server, uint64_t now_unix_ns,
		      struct err *err) MUST_CHECK;

/* The 64 bits that name an entry in refs and samples; 0 = the empty entry. */
static inline uint64_t ch_id(struct hash128 h)
{
	return h.lo ? h.lo : h.hi;
}

/* Stands for every series without a service, whatever name was made up for it. */
#define CH_NO_SERVICE STR(UNKNOWN_SERVICE)

/* What CH_KIND_PAGE finds the pages of a service by. */
static inline uint64_t ch_service_id(struct str service)
{
	if (str_has_prefix(service, CH_NO_SERVICE))
		service = CH_NO_SERVICE;
	return ch_id(ident_bytes((enum store_kind)CH_KIND_PAGE, service));
}

/* The page of an exporter's number, its own number included (clickhouse/encode.h). */
static inline uint64_t ch_page_of(uint64_t id)
{
	return id >> 16;
}
#define CH_SERIES_PAGE "bitShiftRight(series, 16)"

/* Where tables by kind have theirs. */
static inline unsigned ch_slot(unsigned kind)
{
	return kind == CH_KIND_STEM ? KIND_COUNT : kind == CH_KIND_SYMBOL ? KIND_COUNT + 1 : kind;
}
