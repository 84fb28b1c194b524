/*
 * encode.h - requests as rows of the tables (clickhouse/schema.h), in RowBinary.
 *
 *   ch_encoder_writer() once, then
 *   ch_encoder_reset() -> ch_encoder_put() for each request -> insert dictionary, links, samples,
 * requests, in this order
 *
 * Dictionary entries have numbers, writer << 32 | page << 16 | place: the writer's is nobody
 * else's (ch_schema_new_writer()), a page is a group of entries that are much alike, such as the
 * stacks of a program or the series of a service; what an entry refers to is of the same writer.
 * Numbers cost a fraction of what hashes do, in the dictionary and in each sample. One of the same
 * content, from another writer or from after an eviction, has another one. Entries that were
 * written today already are not written again; after an insert that failed call
 * ch_encoder_forget(). A request's numbers: base is the request's, then each profile
 * followed by its samples, as in the SQLite store. Bases grow with time; those of several exporters
 * do not meet but by a rare chance, and then the column `request` still tells their rows apart.
 *
 * Memory: the buffers keep their capacity; known ids 8 MiB. Threads: one.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "store/schema/ident.h"
#include "store/known.h"

enum {
	CH_PART_ROWS = 250000, /* most samples of one insert: one block of the server's */
	CH_GROUPS = 1024,      /* of each kind; what falls into one shares pages */
	CH_PAGES_MOST =
		1 << 15, /* of a writer: then it is time for another; a batch has the rest */
};

struct ch_page {
	uint16_t number; /* 0: none yet */
	uint32_t used;
};

struct ch_request {
	const struct profiles *profiles;
	struct hash128 hash;
	uint64_t arrived_unix_ns;
	uint64_t base;        /* 0: choose one; else that of the rows that are there */
	const uint32_t *have; /* places of samples that are there already, ascending */
	size_t have_count;
};

struct ch_encoder {
	struct buf dictionary, links, samples, requests;
	uint64_t dictionary_rows, link_rows, sample_rows, request_rows;
	size_t *cuts; /* of samples: where each part after the first begins */
	uint32_t cut_count, cut_cap;

	/* inside */
	const char *tenant;
	uint32_t writer, pages_used, first_day;
	struct ch_page (*pages)[CH_GROUPS]; /* by ch_slot() of the kind */
	struct known known;
	uint64_t next_base, slot;
	uint32_t today;
	struct ident n;
	struct arena arena;
	struct buf notes, bytes, texts, scratch;
	uint32_t text_count;
};

/* tenant: borrowed. */
void ch_encoder_init(struct ch_encoder *e, const char *tenant);
void ch_encoder_release(struct ch_encoder *e);
void ch_encoder_reset(struct ch_encoder *e);
void ch_encoder_forget(struct ch_encoder *e);
/* From now on entries are numbered for the writer, into tables of such columns; what is known is
 * forgotten. */
void ch_encoder_writer(struct ch_encoder *e, uint32_t writer);
/* Another writer's number is due before the next request. */
bool ch_encoder_is_spent(const struct ch_encoder *e);
void ch_encoder_put(struct ch_encoder *e, const struct ch_request *r, uint64_t now_unix_ns);

/* The columns, in the order in which rows are written: "INSERT INTO flametap_links (...) FORMAT
 * RowBinary". */
extern const char ch_insert_links[];
extern const char ch_insert_requests[];
extern const char ch_insert_dictionary[];
extern const char ch_insert_samples[];
/* The day of arrival, as the column `date`. */
uint16_t ch_day(uint64_t unix_ns);
/* The 64 bits that the column `request` has. */
static inline uint64_t ch_request_id(struct hash128 hash)
{
	return hash.lo ^ (hash.hi << 1 | hash.hi >> 63);
}
