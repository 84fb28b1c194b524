/*
 * engine.h - a query's inside: what it asks for, what that means in its source, what is known of it
 * so far. The rooms go on from here: select/ (which events), sum/ (values by stack, and stacks as
 * runs of frames), diff/ (two sides), tree/ and time/ (answers). Only src/query includes this.
 */
#pragma once
#include "base/buf.h"
#include "query/large_pages.h"
#include "query/memory.h"
#include "query/query.h"
#include "query/select/selector.h"

/* One bit per matcher: does a level have the attribute (present), and does it match? weak: it only
 * has what service.name can be made from. */
struct match_bits {
	uint32_t present, match, weak, weak_match;
};

/* What the attributes of one level (a sample's set, a series, a profile) mean for the matchers and
 * the group. */
struct attribute_match {
	struct match_bits bits;
	struct str group; /* value of the group-by key */
	bool has_group, group_weak;
};

/* Shared by many series: there may be hundreds of thousands, one for each process. */
struct series_says {
	uint32_t type; /* of query_selected.types */
	bool counted;  /* values count periods of a time */
	int64_t scale; /* values times this are in the type's unit */
	int64_t period;
	struct attribute_match match;
};

struct engine_series {
	uint64_t id, owner;
	uint64_t process; /* hash of host, container and pid; 0: not said */
	const struct series_says *says;
	bool seen; /* by the last walk */
};

struct engine_profile {
	uint64_t first_sample, time, duration;
	uint32_t sample_count;
	bool wanted; /* by request.profile_ids */
	struct attribute_match match;
};

/* The memory of a question, and how much of it is in use. */
struct query_memory {
	struct arena arena; /* for what lives as long as the query */
	size_t heap_bytes, limit_bytes;
	struct large_pages pages; /* for the larger heap blocks, once there are many */
	void **given;             /* arrays of answers, until the end */
	uint32_t given_count, given_cap;
	uint32_t ticks; /* of query_alive() */
};

/* Links of the trace and span that are asked for, and where their samples are. */
struct query_links {
	bool asked;
	uint64_t *ids;
	uint32_t count, cap;
	uint64_t *series; /* with such samples, sorted; none: any series may have them */
	uint32_t series_count, series_cap;
	struct source_range range; /* of the events of these samples; to 0: not known */
};

/* What the request means in this source. */
struct query_selected {
	struct query_type *types;
	uint32_t type_count, type_cap, type; /* type: the one answered about; type_count: none */
	struct engine_series *series;        /* by id; of the chosen type */
	uint64_t *series_ids;
	uint32_t series_count, series_cap, series_ids_cap;
	const struct series_says **says; /* each once; says_numbers: place by hash */
	uint32_t says_count, says_cap;
	struct number_table says_numbers;
	struct number_table wanted_stacks; /* by_stack: only rows of these */
	bool by_stack;
	uint32_t open_matchers; /* bits of those that a sample or a profile may decide */
	bool group_open;        /* a sample or a profile may have the group's label */
	struct str group_key;   /* of the answer at hand; empty: none */
};

/* What earlier walks have read. */
struct query_known {
	struct attribute_match *sets;
	uint32_t set_count, set_cap;
	struct number_table set_numbers; /* known_sets.c: place in `sets` by id */
	struct source_range sets_known;  /* all sets of this range are among them; to 0: none */
	bool met_no_set;                 /* some of its samples have no attributes */
	struct engine_profile *profiles; /* by first_sample */
	uint32_t profile_count, profile_cap;
	bool profiles_loaded;
	uint64_t
		*measured; /* sorted: all series of the selection's profilers; none: not read yet */
	uint32_t measured_count, measured_cap;
};

struct query {
	struct query_request request;
	struct selector *selector;
	enum query_by filter_by; /* the `by` of names that filters may mean */
	struct query_memory memory;
	struct query_links links;
	struct query_selected selected;
	struct query_known known;
	uint64_t events; /* of the last walk */
	bool partial;
	char reason[400];
};

/* The type that is answered about; NULL: nothing matches. */
static inline const struct query_type *query_type_of(const struct query *q)
{
	const struct query_selected *s = &q->selected;

	return s->type < s->type_count ? &s->types[s->type] : NULL;
}
static inline bool query_of_gauge(const struct query *q)
{
	const struct query_type *type = query_type_of(q);

	return type && type->gauge;
}

void query_note_partial(struct query *q, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The value of an attribute as text: borrowed when it is a string, else in `scratch`. */
struct str attribute_text(const struct source_attribute *a, struct buf *scratch);

static inline int64_t engine_add(int64_t a, int64_t b) /* saturates */
{
	int64_t sum;

	if (!__builtin_add_overflow(a, b, &sum))
		return sum;
	return b < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t engine_scaled(int64_t value, int64_t scale) /* scales are positive */
{
	int64_t v;

	if (!__builtin_mul_overflow(value, scale, &v))
		return v;
	return value < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t engine_subtract(int64_t a, int64_t b) /* saturates */
{
	int64_t v;

	if (!__builtin_sub_overflow(a, b, &v))
		return v;
	return a < 0 ? INT64_MIN : INT64_MAX;
}
