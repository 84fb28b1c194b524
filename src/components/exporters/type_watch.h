/*
 * type_watch.h - says, once, which of the sample types that were asked for nobody sends.
 *
 * A filter that matches nothing shows nothing, and looks like a sender that sends nothing: "cpu"
 * for "samples". What came instead is named beside it.
 * Threads: one at a time.
 */
#pragma once
#include "base/buf.h"
#include "model/profiles.h"
#include "pipeline/options.h"

enum {
	TYPE_WATCH_REQUESTS = 20, /* with samples, before an exporter says it */
	TYPE_WATCH_WANTED = 64,   /* more are not watched */
	TYPE_WATCH_SEEN = 6,
	TYPE_WATCH_NAME = 48, /* longer names are cut */
};

struct type_watch {
	uint64_t matched; /* a bit for each wanted type */
	uint32_t requests, seen_count;
	char seen[TYPE_WATCH_SEEN][TYPE_WATCH_NAME]; /* types that are not wanted */
	bool told;
};

/* A message came. */
void type_watch_note(struct type_watch *w, const struct config_strings *wanted,
		     const struct profiles *p);
/* Appends `no profile has the sample type "nope"; not asked for came "samples", "off_cpu"`; false
 * and nothing when each wanted type has come. */
bool type_watch_append(const struct type_watch *w, const struct config_strings *wanted,
		       struct buf *out);
/* As type_watch_note(), and the warning in the log when it is time for it. */
void type_watch_warn(struct type_watch *w, const struct config_strings *wanted,
		     const struct profiles *p, const char *exporter);
