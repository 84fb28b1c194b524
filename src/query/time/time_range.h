/*
 * time_range.h - instants as people and URLs write them.
 *
 * RFC 3339 ("2026-11-21T03:17:28.5Z", also with a space, without a zone (UTC), or a date alone),
 * "now", "now-15m", "now-1h30m" (units ns us ms s m h d w), a unix time in s, ms, us or ns (told by
 * its size) or in seconds with a fraction.
 */
#pragma once
#include "store/source.h"

bool time_parse(struct str text, uint64_t now_ns, uint64_t *out_ns, struct err *err) MUST_CHECK;
/* Empty texts: the beginning and the end of time. `from` must not be behind `to`. */
bool time_range_parse(struct str from, struct str to, uint64_t now_ns, struct source_range *out,
		      struct err *err) MUST_CHECK;
