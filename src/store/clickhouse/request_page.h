/*
 * request_page.h - requests as their rows have them, with all that they refer to: some at a time,
 * since a server takes a while for each question, however little is asked.
 *
 * Threads: those of the snapshot.
 */
#pragma once
#include "store/clickhouse/snapshot.h"
#include "store/rebuild.h"

struct ch_profile_columns {
	const uint64_t *seq, *time, *duration, *attributes;
	const uint32_t *samples, *dropped;
	const uint8_t *uid;
	const struct str *payload_format, *payload;
	const uint64_t *series; /* the first one of each */
	uint32_t count;
};

struct ch_kept_request {
	uint64_t seq, last_seq, request, date, t_first, t_last;
	uint32_t unknown_fields;
	uint8_t version, moved;
	bool damaged; /* its columns contradict each other: nothing below is to be used */
	const uint64_t *layout;
	uint32_t layout_count;
	struct str notes;
	const uint64_t *note_seq;
	const struct str *note;
	uint32_t note_count;
	struct ch_profile_columns profiles;
	struct rebuild_sample *samples; /* by place */
};

/* The first request behind `after`; NULL: there is none. It holds until the next call,
 * and until then the dictionary's entries that it needs are known, as far as they are there. */
bool ch_request_after(struct ch_snapshot *snap, uint64_t after, const struct ch_kept_request **out,
		      struct err *err) MUST_CHECK;
void ch_request_page_free(struct ch_request_page *page); /* NULL is fine */
