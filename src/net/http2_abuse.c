#include "net/http2_abuse.h"

#include "base/clock.h"

#define TEXT(number) #number
#define BUCKET(most, per_second, what)                             \
	{                                                          \
		most, per_second, "more than " TEXT(most) " " what \
	}

static const struct {
	uint32_t most;       /* at once */
	uint32_t per_second; /* forgotten */
	const char *text;
} buckets[GLITCH_COUNT] = {
	/* five times the streams there may be, at once */
	[GLITCH_RESET] = BUCKET(500, 50, "streams reset at once"),
	[GLITCH_PING] = BUCKET(1000, 10, "pings at once"),
	[GLITCH_SETTINGS] = BUCKET(50, 1, "SETTINGS frames at once"),
	[GLITCH_EMPTY] = BUCKET(200, 20, "empty DATA frames at once"),
	/* 64 KiB of header need four of the usual size */
	[GLITCH_CONTINUATION] = BUCKET(32, 0, "CONTINUATION frames of one header block"),
	[GLITCH_WINDOW] = BUCKET(5000, 500, "WINDOW_UPDATE frames at once"),
	[GLITCH_OTHER] = BUCKET(500, 50, "invalid or unknown frames at once"),
};

static void forget(struct http2_abuse *a, uint64_t now_ns)
{
	uint64_t seconds = (now_ns - a->since_ns) / SECOND_NS;

	if (!seconds)
		return;
	a->since_ns += seconds * SECOND_NS;
	for (int i = 0; i < GLITCH_COUNT; i++) {
		uint64_t less = seconds * buckets[i].per_second;

		a->level[i] = less >= a->level[i] ? 0 : a->level[i] - (uint32_t)less;
	}
}

bool http2_abuse_note(struct http2_abuse *a, enum http2_glitch kind, uint64_t now_ns)
{
	if (kind != GLITCH_CONTINUATION)
		forget(a, now_ns);
	return ++a->level[kind] > buckets[kind].most;
}

void http2_abuse_worked(struct http2_abuse *a)
{
	a->level[GLITCH_PING] = 0;
	a->level[GLITCH_WINDOW] = 0;
	a->level[GLITCH_EMPTY] = 0;
}

void http2_abuse_header_block(struct http2_abuse *a)
{
	a->level[GLITCH_CONTINUATION] = 0;
}

const char *http2_abuse_text(enum http2_glitch kind)
{
	return buckets[kind].text;
}
