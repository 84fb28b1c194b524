/*
 * selector.h - which samples are meant: Prometheus matchers over the attributes of resource, scope,
 * profile and sample, and over the profile type.
 *
 *   {service.name="api", thread.name=~"w.*", "k8s.pod.name"!="x"}
 *   process_cpu:cpu:nanoseconds:cpu:nanoseconds{host_name="a"}
 *   service.name="api"                               (braces may be left out)
 *
 * Keys may be quoted. A key is also found with '_' in the place of '.', '-', '/' and ' '. What has
 * no such attribute has the empty value. Values are quoted by ", ' (with Go's escapes) or ` (as
 * is); =~ and !~ match the whole value (regex.h). Memory: own heap. Threads: one at a time (the
 * regexes).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { SELECTOR_TEXT_MOST = 16384, SELECTOR_MATCHERS_MOST = 32 };

enum matcher_op { MATCH_EQUAL, MATCH_NOT_EQUAL, MATCH_REGEX, MATCH_NOT_REGEX };

struct regex;

struct matcher {
	struct str key, value;
	enum matcher_op op;
	struct regex *regex;
};

struct selector {
	struct matcher matchers[SELECTOR_MATCHERS_MOST];
	uint32_t count;
	struct str profile_type; /* before the brace, or __profile_type__="..."; may be empty */
	struct arena arena;
};

/* A bit for each of its matchers. */
static inline uint32_t selector_all(const struct selector *s)
{
	return (uint32_t)((UINT64_C(1) << s->count) - 1);
}

struct selector *selector_parse(struct str text, struct err *err) MUST_CHECK;
void selector_free(struct selector *s); /* NULL is fine */

bool matcher_match(const struct matcher *m, struct str value, bool *matches,
		   struct err *err) MUST_CHECK;
/* Is `label` the attribute that is called `key` in a query? Byte for byte, or with '_' for
 * punctuation. */
bool label_key_is(struct str label, struct str key);
