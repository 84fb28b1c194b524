/* clock.h - time in nanoseconds: now, monotonic, and Go's spelling of both instants and durations.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "base/str.h"

#define SECOND_NS UINT64_C(1000000000)
#define MILLI_NS  UINT64_C(1000000)
#define MINUTE_NS (60 * SECOND_NS)

struct buf;

uint64_t clock_realtime_ns(void);
uint64_t clock_monotonic_ns(void);
/* realtime - monotonic: of several pairs of looks the one that took least time. */
uint64_t clock_realtime_offset_ns(void);

/*
 * Appends an instant as Go's time.Time.String() without the monotonic part: "2025-09-19
 * 12:13:22.457210575 +0200 CEST"; trailing zeros of the fraction are cut, UTC is "+0000 UTC". As in
 * time.Unix(0, int64(ns)) the upper half of the numbers lies before 1970. `local` uses TZ (zone
 * names included), else UTC. Fast for runs of near instants: the caller keeps a clock_zone_cache
 * per thread of rendering (zero it first).
 */
struct clock_zone_cache {
	int64_t valid_from,
		valid_until; /* seconds in [from, until) have the zone of suffix and offset_s */
	int64_t second;      /* the one that prefix spells */
	int32_t offset_s;    /* east of UTC */
	char prefix[24];     /* "2025-09-19 12:13:22" */
	char suffix[40];     /* " +0200 CEST" */
	uint8_t prefix_len, suffix_len;
	bool local, filled, missing; /* missing: TZ names no zone that is there */
};
void clock_append_go_time(struct buf *b, uint64_t unix_ns, bool local,
			  struct clock_zone_cache *cache);
/* The same with the upper half of the numbers where OTLP has it: from 2262 to 2554. */
void clock_append_late_time(struct buf *b, uint64_t unix_ns, bool local,
			    struct clock_zone_cache *cache);
/* RFC 3339 with milliseconds, UTC: for logs. */
void clock_append_rfc3339(struct buf *b, uint64_t unix_ns);

/* Go durations: "1m30s", "200ms", "1.5h", "0". A bare number is an error here (the config reader
 * decides). */
bool duration_parse(struct str text, uint64_t *out_ns, struct err *err) MUST_CHECK;
void duration_append(struct buf *b, uint64_t ns); /* Go's Duration.String() */
