#include "base/clock.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/digits.h"

enum {
	DAY_S = 86400,
	FRACTION_MOST = 10,
	ZONE_BLOCK_S = 900, /* zone changes of our time fall on quarters of an hour, UTC */
};

static uint64_t clock_read(clockid_t id)
{
	struct timespec ts;
	int rc = clock_gettime(id, &ts);

	assert(rc == 0);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

uint64_t clock_realtime_ns(void)
{
	return clock_read(CLOCK_REALTIME);
}

uint64_t clock_monotonic_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_offset_ns(void)
{
	uint64_t best = UINT64_MAX, offset = 0;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_monotonic_ns(), real = clock_realtime_ns();
		uint64_t took = clock_monotonic_ns() - before;

		if (took >= best)
			continue;
		best = took;
		offset = real - (before + took / 2);
	}
	return offset;
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/*
 * "2025-09-19 12:13:22" of seconds on the proleptic Gregorian calendar; years 0 to 9999 (63 bits of
 * nanoseconds and a sign reach from 1677 to 2262, 64 bits to 2554). Days are counted from 1 March,
 * so that the leap day is a year's last: H. Hinnant's civil_from_days.
 */
static void put_date_time(char out[19], int64_t seconds)
{
	int64_t days = floor_div(seconds, DAY_S);
	uint64_t in_day = (uint64_t)(seconds - days * DAY_S);
	int64_t z = days + 719468; /* days since 0000-03-01 */
	int64_t era = floor_div(z, 146097);
	uint64_t doe = (uint64_t)(z - era * 146097);
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	uint64_t mp = (5 * doy + 2) / 153;
	uint64_t month = mp < 10 ? mp + 3 : mp - 9;
	uint64_t year = yoe + (uint64_t)era * 400 + (month <= 2);

	digits_put_2(out, (uint32_t)(year / 100));
	digits_put_2(out + 2, (uint32_t)(year % 100));
	out[4] = '-';
	digits_put_2(out + 5, (uint32_t)(month));
	out[7] = '-';
	digits_put_2(out + 8, (uint32_t)(doy - (153 * mp + 2) / 5 + 1));
	out[10] = ' ';
	digits_put_2(out + 11, (uint32_t)(in_day / 3600));
	out[13] = ':';
	digits_put_2(out + 14, (uint32_t)(in_day / 60 % 60));
	out[16] = ':';
	digits_put_2(out + 17, (uint32_t)(in_day % 60));
}

/* " +0200 CEST"; the offset stands in for a zone without a name, as in Go. Seconds of an offset are
 * not shown. */
static void cache_set_zone(struct clock_zone_cache *c, const char *name, long offset_s)
{
	unsigned long minutes = (unsigned long)(offset_s < 0 ? -offset_s : offset_s) / 60;
	char offset[6] = { ' ', offset_s <= -60 ? '-' : '+' };
	size_t name_len = name ? strnlen(name, sizeof(c->suffix) - 7) : 0;

	digits_put_2(offset + 2, (uint32_t)(minutes / 60));
	digits_put_2(offset + 4, (uint32_t)(minutes % 60));
	memcpy(c->suffix, offset, 6);
	c->suffix[6] = ' ';
	if (name_len) {
		memcpy(c->suffix + 7, name, name_len);
	} else {
		name_len = minutes % 60 ? 5 : 3;
		memcpy(c->suffix + 7, offset + 1, name_len);
	}
	c->suffix_len = (uint8_t)(7 + name_len);
	c->offset_s = (int32_t)offset_s;
}

static void local_time(int64_t second, struct tm *tm)
{
	time_t t = second;
	struct tm *done = localtime_r(&t, tm);

	assert(done);
}

/*
 * TZ names a file that is not there, as in an image without tzdata: the C library then makes a zone
 * of offset 0 of the name's letters ("Europe"), Go says UTC. A rule ("CET-1CEST") has digits.
 */
static bool zone_is_missing(void)
{
	const char *tz = getenv("TZ"), *dir = getenv("TZDIR");
	char path[512];

	if (!tz || !*tz)
		return false;
	tz += *tz == ':';
	if (strpbrk(tz, "0123456789"))
		return false;
	if (*tz == '/')
		return access(tz, R_OK) != 0;
	snprintf(path, sizeof(path), "%s/%s", dir ? dir : "/usr/share/zoneinfo", tz);
	return access(path, R_OK) != 0;
}

static bool same_zone(const struct tm *a, const struct tm *b)
{
	return a->tm_gmtoff == b->tm_gmtoff && strcmp(a->tm_zone, b->tm_zone) == 0;
}

/*
 * Looks the zone up for the quarter of an hour around a second. Where the zone changes inside it
 * (which only old local mean times do), the answer is kept for this one second.
 */
static void cache_look_up_zone(struct clock_zone_cache *c, int64_t second)
{
	int64_t from = floor_div(second, ZONE_BLOCK_S) * ZONE_BLOCK_S, until = from + ZONE_BLOCK_S;
	struct tm first, here, last;

	if (!c->filled) {
		tzset();
		c->missing = zone_is_missing();
	}
	local_time(second, &here);
	cache_set_zone(c, c->missing && here.tm_gmtoff == 0 ? "UTC" : here.tm_zone, here.tm_gmtoff);
	local_time(from, &first);
	local_time(until - 1, &last);
	if (same_zone(&first, &here) && same_zone(&last, &here)) {
		c->valid_from = from;
		c->valid_until = until;
	} else {
		c->valid_from = second;
		c->valid_until = second + 1;
	}
}

static void cache_fill(struct clock_zone_cache *c, int64_t second, bool local)
{
	if (!c->filled || c->local != local || second < c->valid_from || second >= c->valid_until) {
		if (local) {
			cache_look_up_zone(c, second);
		} else {
			cache_set_zone(c, "UTC", 0);
			c->valid_from = INT64_MIN;
			c->valid_until = INT64_MAX;
		}
	}
	put_date_time(c->prefix, second + c->offset_s);
	c->prefix_len = 19;
	c->second = second;
	c->local = local;
	c->filled = true;
}

/* ".457210575" without its trailing zeros, nothing for a whole second. */
static size_t put_fraction(char out[FRACTION_MOST], uint32_t ns)
{
	size_t len = FRACTION_MOST;

	if (ns == 0)
		return 0;
	out[0] = '.';
	out[1] = (char)('0' + ns / 100000000);
	digits_put_8(out + 2, ns % 100000000);
	while (out[len - 1] == '0')
		len--;
	return len;
}

/* Copies of fixed size: what lies behind the text is copied too, and not counted. */
static size_t put_go_time(char *out, uint32_t ns, const struct clock_zone_cache *c)
{
	size_t len = c->prefix_len;

	memcpy(out, c->prefix, sizeof(c->prefix));
	len += put_fraction(out + len, ns);
	memcpy(out + len, c->suffix, sizeof(c->suffix));
	return len + c->suffix_len;
}

static void append_time(struct buf *b, int64_t second, uint32_t ns, bool local,
			struct clock_zone_cache *c)
{
	char text[sizeof(c->prefix) + FRACTION_MOST + sizeof(c->suffix)];

	if (!c->filled || c->second != second || c->local != local)
		cache_fill(c, second, local);
	if (b->cap - b->len >= sizeof(text))
		buf_advance(b, put_go_time(b->ptr + b->len, ns, c));
	else
		buf_append(b, text, put_go_time(text, ns, c));
}

void clock_append_go_time(struct buf *b, uint64_t unix_ns, bool local, struct clock_zone_cache *c)
{
	int64_t second = floor_div((int64_t)unix_ns, (int64_t)SECOND_NS);

	append_time(b, second, (uint32_t)((int64_t)unix_ns - second * (int64_t)SECOND_NS), local,
		    c);
}

void clock_append_late_time(struct buf *b, uint64_t unix_ns, bool local, struct clock_zone_cache *c)
{
	append_time(b, (int64_t)(unix_ns / SECOND_NS), (uint32_t)(unix_ns % SECOND_NS), local, c);
}

void clock_append_rfc3339(struct buf *b, uint64_t unix_ns)
{
	uint32_t milli = (uint32_t)(unix_ns % SECOND_NS / MILLI_NS);
	char text[24];

	put_date_time(text, (int64_t)(unix_ns / SECOND_NS));
	text[10] = 'T';
	text[19] = '.';
	text[20] = (char)('0' + milli / 100);
	digits_put_2(text + 21, milli % 100);
	text[23] = 'Z';
	buf_append(b, text, sizeof(text));
}
