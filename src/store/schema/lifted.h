/*
 * lifted.h - what both stores must do alike: what makes a series besides its resource, scope and
 * types (keys that samples carried up to v1.9 and resources since, and the service's name), what
 * agents report, times, identities.
 */
#pragma once
#include "base/buf.h"
#include "model/profiles.h"
#include "store/schema/ident.h"

/* Which of a message's attributes are lifted, found once each. */
struct lifted {
	const struct profiles *p;
	uint8_t *known; /* by attribute: 0 unknown, 1 no, 2 yes; | 4: stayed a sample's */
	struct attribute_index *at; /* those of the newest sample */
	uint32_t cap;
};
/* Memory: the arena. */
void lifted_begin(struct lifted *l, const struct profiles *p, struct arena *arena);
/* The sample's lifted attributes, into l->at: process, service and container keys that the resource
 * lacks. */
uint32_t lifted_of(struct lifted *l, const struct resource_profiles *r, const struct sample *s,
		   struct arena *arena);

/* Has a sample of those so far this attribute, and it was not lifted from it? */
static inline bool lifted_is_own(const struct lifted *l, uint32_t attribute)
{
	return l->known[attribute] & 4;
}

/* service.name of the lifted attributes, else of the resource; else
 * unknown_service[:process.executable.name]. Borrowed from the message or from `scratch`. */
struct str lifted_service(const struct profiles *p, const struct resource_profiles *r,
			  const struct attribute_index *at, uint32_t count, struct buf *scratch);

/* process_hash() of the resource and the lifted attributes. */
uint64_t lifted_process(const struct profiles *p, const struct resource_profiles *r,
			const struct attribute_index *at, uint32_t count);

/* What a series' identity is made of. */
struct series_key {
	struct hash128 tenant, resource, scope;
	const struct profile *profile;
	const struct attribute_index *lifted;
	uint32_t lifted_count;
};
struct hash128 series_hash(struct ident *n, const struct series_key *k);

/* The host that an agent's report is of: host.name, else host.id, else host.ip; "" when none is
 * said. */
struct str report_host(const struct resource_profiles *r);
/* "flametap.NAME" with a whole number: what an agent says of its own watching. */
bool report_of(const struct profiles *p, const struct attribute *a, struct str *reason, int64_t *n);

/* First and last timestamp; the profile's time for a sample without any. */
void sample_times(const struct profiles *p, const struct profile *f, const struct sample *s,
		  uint64_t *t0, uint64_t *t1);
/* A mapping's build id: gnu, else go, else htlhash. */
struct str mapping_build_id(const struct profiles *p, const struct mapping *m);

/* What a process is told by: the first of each in its resource, else in what was lifted. */
enum { PROCESS_PARTS = 5 };
struct process_parts {
	uint64_t of[PROCESS_PARTS];
};
/* An attribute of a resource, then those that were lifted. Only what is missing is taken. */
void process_note(struct process_parts *p, struct str key, const struct any_value *v);
/* 0: without a pid nobody knows. Kept in files (series.process): never to change. */
uint64_t process_hash(const struct process_parts *p);
