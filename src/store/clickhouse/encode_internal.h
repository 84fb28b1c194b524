/*
 * encode_internal.h - inside of ch_encoder_put(): what its files share. A put_ function writes the
 * rows of one thing of the message that are not there yet, and gives its id.
 */
#pragma once
#include "store/clickhouse/encode.h"
#include "store/clickhouse/rowbinary.h"
#include "store/clickhouse/schema.h"
#include "store/schema/lifted.h"
#include "store/schema/schema.h"

/* An array that grows in the arena, in RowBinary: count and bytes apart. */
struct column {
	struct buf bytes;
	uint32_t count;
};

enum { /* arrays of a request's row, in its order */
       LAYOUT,
       NOTE_SEQ,
       NOTE,
       PROFILE_SEQ,
       PROFILE_SAMPLES,
       PROFILE_TIME,
       PROFILE_DURATION,
       PROFILE_FIRST,
       PROFILE_LAST,
       PROFILE_SERIES,
       PROFILE_ATTRIBUTES,
       PROFILE_DROPPED,
       PROFILE_UID,
       PROFILE_PAYLOAD_FORMAT,
       PROFILE_PAYLOAD,
       COVERAGE_HOST,
       COVERAGE_T0,
       COVERAGE_T1,
       COVERAGE_REASON,
       COVERAGE_N,
       COLUMNS,
};

struct put {
	struct ch_encoder *e;
	const struct ch_request *r;
	const struct profiles *p;
	struct ident *n;
	struct lifted lifted;
	struct hash128 tenant;
	uint16_t day;
	uint64_t request, base, next; /* next: place in the request */
	size_t have_at;
	uint64_t first, last, samples;
	struct column columns[COLUMNS];
	struct link_span *link_spans; /* by link of the message */

	const struct resource_profiles *resource;
	struct hash128 resource_hash, scope_hash;
	uint64_t resource_id, scope_id, series;
	uint32_t profile;
	uint64_t reach_bucket, reach_longest; /* the newest that was written */
};

struct link_span {
	uint64_t t0, t1;
	bool used;
	struct str service;
};

/* Of the dictionary. */
uint64_t ch_put_stack(struct put *x, uint32_t index);
uint64_t ch_put_list(struct put *x, struct range refs);
uint64_t ch_put_link(struct put *x, uint32_t index);
uint64_t ch_put_series(struct put *x, const struct attribute_index *lifted, uint32_t lifted_count);
void ch_put_pair_notes(struct put *x, enum message_kind outer, enum message_kind inner,
		       uint32_t index);
void ch_put_resource_entry(struct put *x, uint32_t index);
void ch_put_scope_entry(struct put *x, uint32_t index);
void ch_put_notes(struct put *x, enum message_kind message, uint32_t index);
void ch_put_reach(struct put *x, uint64_t t0, uint64_t span);
/* The keys of samples and profiles, once all of them were put. */
void ch_put_keys(struct put *x);

/* Of the samples. */
uint64_t ch_put_sample(struct put *x, uint32_t index, uint64_t place, uint64_t *t0);

/* Of the request's row: what a message has beyond the tables. */
void ch_note_of(struct put *x, enum message_kind message, uint32_t index, uint64_t place);
