/*
 * select.h - the steps from a request to the series, links and profile type that it means; within
 * the module. query_begin() (query.c) goes through them.
 */
#pragma once
#include "query/select/walk.h"

/* ---- profile_type.c ---- */

/* What the values of a series are shown as. */
struct shown_type {
	struct str type, unit;
	int64_t scale;
	bool counted; /* samples of a period in time: they are that much time */
};

/* Counts the series under the type, which is added where it is new. */
bool profile_type_enter(struct query *q, const struct source_series *s, struct shown_type shown,
			struct series_says *series, struct err *err) MUST_CHECK;
/* The same with what the series is usually shown as. */
bool profile_type_of(struct query *q, const struct source_series *s, struct series_says *series,
		     struct err *err) MUST_CHECK;
/* Is the series shown as what q->selected.type is? */
bool profile_type_is_chosen(const struct query *q, const struct source_series *s);
/* Sets q->selected.type, of the series selected so far: to what the request or its selector asks
 * for, else to what most people want of what the selection has. ERR_NOT_FOUND names what there is.
 */
bool profile_type_choose(struct query *q, struct err *err) MUST_CHECK;

/* ---- which type the maker of a profile wants to be seen first ---- */

/* The series before, of a walk over them. */
struct first_type {
	uint64_t owner;
	uint32_t type;
	bool counted; /* its type counts as the last one */
};

/* Notes in the type of a series what its scope says of the type to be seen first. */
void first_type_note(struct query *q, struct first_type *before, const struct source_series *s,
		     uint32_t type);

/* ---- what many series say alike ---- */

/* The one that says the same as x, of q->selected.says or added to it; two of one hash stay apart.
 */
bool series_says_share(struct query *q, const struct series_says *x, const struct series_says **out,
		       struct err *err) MUST_CHECK;

/* ---- two_columns.c ---- */

/* Takes counts apart from the time that the same owner and process says itself. */
bool part_columns(struct query *q, struct err *err) MUST_CHECK;

/* ---- select_series.c ---- */

/* Series again, with the values of a group-by key. */
bool select_series(struct query *q, struct str group_key, struct err *err) MUST_CHECK;

/* ---- select_links.c ---- */

/* {trace_id="...", span_id="..."} of the selector: through the links, so that a store need not look
 * at all samples. */
bool selector_take_ids(struct query *q, struct err *err) MUST_CHECK;
/* q->links: those of the request's trace and span, with the series and the time of their samples.
 */
bool select_links(struct query *q, struct err *err) MUST_CHECK;
