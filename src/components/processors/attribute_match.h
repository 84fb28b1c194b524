/*
 * attribute_match.h - the `include` and `exclude` of the attributes processor: to which profiles
 * and samples it applies, by service, resource, scope ("libraries") and attributes.
 *
 * All kinds that are given must match; of services and libraries one of the list must, of resources
 * and attributes every one.
 */
#pragma once
#include <pthread.h>
#include "base/regex.h"
#include "model/profiles.h"
#include "pipeline/component.h"
#include "pipeline/node.h"

struct match_text {
	struct str text; /* ptr NULL: anything */
	struct regex *regex;
};

struct match_pair {
	struct str key;
	struct any_value value; /* ANY_EMPTY: the key alone */
	struct match_text text;
};

struct attribute_match {
	bool given;
	int match_type;
	struct config_strings services;
	const struct config_node *resource_list, *library_list, *attribute_list, *regexp;

	struct match_text *service_texts;
	struct match_pair *resources, *attributes;
	struct match_text *libraries; /* name and version by turns */
	uint32_t resource_count, attribute_count, library_count;
	pthread_mutex_t *lock; /* of the regexes */
};

extern const struct config_field attribute_match_fields[];

/* `node` is what it was filled from. */
void attribute_match_read(struct attribute_match *m, const struct config_node *node,
			  pthread_mutex_t *lock, const char *path, struct arena *arena,
			  struct problems *problems);
void attribute_match_release(struct attribute_match *m);
/* By service, resource and scope; the attributes are looked at for each profile and sample. */
bool attribute_match_outer(const struct attribute_match *m,
			   const struct resource_profiles *resource,
			   const struct scope_profiles *scope, bool *out,
			   struct err *err) MUST_CHECK;
bool attribute_match_refs(const struct attribute_match *m, const struct profiles *p,
			  struct range refs, bool *out, struct err *err) MUST_CHECK;
