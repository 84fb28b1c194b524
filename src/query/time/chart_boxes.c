/* chart_boxes.c - one lane of the flame chart: from events in order to boxes of pixels. */
#include <stdlib.h>

#include "query/time/chart.h"

#define NO_FRAME UINT32_MAX
enum { AHEAD = 16, SOON = AHEAD / 2 };

struct span {
	uint64_t from, to;
	uint32_t stack; /* of chart.runs */
};

/* What a pixel has of one stack. */
struct stay {
	uint64_t from, to, busy;
	uint32_t first, depth;
};

/* One frame of the path that a pixel shows. */
struct step {
	uint64_t from, to, busy;
	uint32_t frame;
};

struct drawing {
	struct chart *c;
	const struct chart_lane *lane;
	uint32_t at, end; /* events of the lane that are not spans yet: c->order[at, end) */
	struct span *active;
	uint32_t active_count, active_cap;
	struct stay *within; /* the pixel's, one a stack */
	uint32_t within_cap;
	uint32_t *place_of; /* by stack: + 1 among `within`; of the scratch */
	uint32_t *next;     /* of each of `within`: its next frame, or NO_FRAME */
	uint32_t next_cap;
	uint64_t *weights; /* by frame; of the scratch */
	struct step *path;
	uint32_t path_len, path_cap;
	uint32_t *open; /* boxes by depth that the next pixel may go on with */
	uint32_t open_count, open_cap;
	uint64_t last_bin; /* that `open` is of */
};

/* The event at d->at as what it lasts, cut by the window. */
static struct span span_of(const struct drawing *d)
{
	const struct chart *c = d->c;
	uint32_t event = c->order[d->at];
	const struct chart_event *e = &c->events[event], *next;
	const struct series_says *says = chart_says(c, &c->pairs[e->pair]);
	uint64_t lasts = c->has_durations ? c->durations[event] : chart_usual(c, says);
	struct span s = { .from = e->start, .stack = e->stack };

	s.to = s.from > UINT64_MAX - lasts ? UINT64_MAX : s.from + lasts;
	if (d->at + 1 < d->end && says->counted) {
		next = &c->events[c->order[d->at + 1]];
		if (next->start < s.to ? d->lane->thread_known : next->start - s.to <= lasts / 2)
			s.to = next->start;
	}
	s.from = s.from > c->range.from ? s.from : c->range.from;
	s.to = s.to < c->range.to ? s.to : c->range.to;
	return s;
}

/* Neither events nor stacks lie in the order in which they are drawn. */
static inline void fetch_ahead(const struct drawing *d)
{
	const struct chart *c = d->c;

	if (d->at + AHEAD >= d->end)
		return;
	__builtin_prefetch(&c->events[c->order[d->at + AHEAD]]);
	__builtin_prefetch(&c->runs[c->events[c->order[d->at + SOON]].stack]);
}

/* Leaves in `active` what touches the time, and takes in what begins there. */
static bool activate(struct drawing *d, uint64_t from, uint64_t to, struct err *err)
{
	struct chart *c = d->c;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < d->active_count; i++)
		if (d->active[i].to > from)
			d->active[kept++] = d->active[i];
	d->active_count = kept;
	for (; d->at < d->end && c->events[c->order[d->at]].start < to; d->at++) {
		struct span s;
		uint32_t first;

		fetch_ahead(d);
		s = span_of(d);
		first = c->runs[s.stack].first;
		if (s.from >= s.to || first == RUN_LEFT_OUT)
			continue;
		__builtin_prefetch(&c->set.pool[first]);
		if (!QUERY_ROOM(c->q, d->active, d->active_cap, d->active_count + 1u, err))
			return false;
		d->active[d->active_count++] = s;
	}
	return query_alive(c->q, err);
}

/* Each stay's next frame at `depth`. True: all have the same one, or none, which is *out. */
static bool look_ahead(struct drawing *d, uint32_t count, uint32_t depth, uint32_t *out)
{
	const uint32_t *pool = d->c->set.pool;
	uint32_t differ = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct stay *s = &d->within[i];

		d->next[i] = s->depth == depth ? NO_FRAME : pool[s->first + depth];
		differ |= d->next[i] ^ d->next[0];
	}
	*out = count ? d->next[0] : NO_FRAME;
	return !differ;
}

/* Of their next frames the one that they were longest in, and of those the one that was there
 * first. False: they stood longer in the frame above. */
static bool choose_frame(struct drawing *d, uint32_t count, uint32_t *out)
{
	uint64_t ended = 0, most = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct stay *s = &d->within[i];

		if (d->next[i] == NO_FRAME)
			ended += s->busy;
		else
			d->weights[d->next[i]] += s->busy;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t *weight = d->next[i] == NO_FRAME ? NULL : &d->weights[d->next[i]];

		if (weight && *weight > most) {
			most = *weight;
			*out = d->next[i];
		}
		if (weight)
			*weight = 0;
	}
	return most > 0 && most >= ended;
}

/* Leaves the stays that go on with the frame; *out: what they are together. */
static uint32_t keep_frame(struct drawing *d, uint32_t count, uint32_t frame, struct step *out)
{
	uint32_t kept = 0;

	*out = (struct step){ .from = UINT64_MAX };
	for (uint32_t i = 0; i < count; i++) {
		const struct stay s = d->within[i];
		bool goes_on = d->next[i] == frame;

		/* No branches: which ones go on is anybody's guess. */
		out->busy += goes_on ? s.busy : 0;
		out->from = goes_on && s.from < out->from ? s.from : out->from;
		out->to = goes_on && s.to > out->to ? s.to : out->to;
		d->within[kept] = s;
		kept += goes_on;
	}
	return kept;
}

/* What there is of the pixel [from, to), in the order of time: all of it goes on. */
static uint32_t cut_active(struct drawing *d, uint64_t from, uint64_t to, struct step *out)
{
	uint32_t count = 0;

	*out = (struct step){ .from = UINT64_MAX };
	for (uint32_t i = 0; i < d->active_count; i++) {
		const struct span *s = &d->active[i];
		struct stay one = { .from = s->from > from ? s->from : from,
				    .to = s->to < to ? s->to : to };
		struct stay *same;

		one.busy = one.to - one.from;
		out->busy += one.busy;
		out->from = one.from < out->from ? one.from : out->from;
		out->to = one.to > out->to ? one.to : out->to;
		if (!d->place_of[s->stack]) {
			one.first = d->c->runs[s->stack].first;
			one.depth = d->c->runs[s->stack].count;
			d->within[count] = one;
			d->place_of[s->stack] = ++count;
			continue;
		}
		same = &d->within[d->place_of[s->stack] - 1];
		same->busy += one.busy;
		same->from = one.from < same->from ? one.from : same->from;
		same->to = one.to > same->to ? one.to : same->to;
	}
	for (uint32_t i = 0; i < d->active_count; i++)
		d->place_of[d->active[i].stack] = 0;
	return count;
}

/* What the pixel [from, to) shows. Most steps are those where all go on together. */
static bool choose_path(struct drawing *d, uint64_t from, uint64_t to, struct err *err)
{
	struct query *q = d->c->q;
	uint32_t count, frame = NO_FRAME;
	struct step step;

	d->path_len = 0;
	if (!QUERY_ROOM(q, d->within, d->within_cap, d->active_count + 1u, err) ||
	    !QUERY_ROOM(q, d->next, d->next_cap, d->active_count + 1u, err))
		return false;
	count = cut_active(d, from, to, &step);
	for (;;) {
		if (!look_ahead(d, count, d->path_len, &frame)) {
			if (!choose_frame(d, count, &frame))
				return true;
			count = keep_frame(d, count, frame, &step);
		}
		if (frame == NO_FRAME)
			return true;
		if (!QUERY_ROOM(q, d->path, d->path_cap, d->path_len + 1u, err))
			return false;
		step.frame = frame;
		d->path[d->path_len++] = step;
	}
}

static bool open_box(struct drawing *d, uint32_t depth, struct err *err)
{
	struct chart *c = d->c;
	const struct step *s = &d->path[depth];

	if (c->box_count == CHART_BOXES_MOST)
		return err_set(err, ERR_LIMIT, "a flame chart of more than %d boxes",
			       CHART_BOXES_MOST);
	if (!QUERY_ROOM(c->q, c->boxes, c->box_cap, c->box_count + 1u, err) ||
	    !QUERY_ROOM(c->q, d->open, d->open_cap, depth + 1u, err))
		return false;
	d->open[depth] = c->box_count;
	c->boxes[c->box_count++] = (struct query_box){ s->from, s->to, s->busy, s->frame, depth };
	return true;
}

/* The path of a pixel goes on with the boxes of the one before as far as both are equal. */
static bool put_path(struct drawing *d, uint64_t bin, struct err *err)
{
	struct chart *c = d->c;
	uint32_t depth = 0;

	if (d->last_bin + 1 != bin)
		d->open_count = 0;
	for (; depth < d->path_len && depth < d->open_count; depth++) {
		struct query_box *b = &c->boxes[d->open[depth]];

		if (b->frame != d->path[depth].frame)
			break;
		b->to = d->path[depth].to;
		b->busy += d->path[depth].busy;
	}
	for (; depth < d->path_len; depth++)
		if (!open_box(d, depth, err))
			return false;
	d->open_count = d->path_len;
	d->last_bin = bin;
	return true;
}

/* The next bin that has something to show, from `bin` on. */
static uint64_t next_bin(const struct drawing *d, uint64_t bin)
{
	const struct chart *c = d->c;
	uint64_t start;

	if (d->active_count)
		return bin;
	if (d->at == d->end)
		return c->bins;
	start = c->events[c->order[d->at]].start;
	start = start > c->range.from ? (start - c->range.from) / c->bin_ns : 0;
	return start > bin ? start : bin;
}

static bool draw_boxes(struct drawing *d, struct err *err)
{
	struct chart *c = d->c;

	for (uint64_t bin = next_bin(d, 0); bin < c->bins; bin = next_bin(d, bin + 1)) {
		uint64_t from = c->range.from + bin * c->bin_ns;
		uint64_t to = c->range.to - from > c->bin_ns ? from + c->bin_ns : c->range.to;

		if (!activate(d, from, to, err))
			return false;
		if (d->active_count && (!choose_path(d, from, to, err) || !put_path(d, bin, err)))
			return false;
	}
	return true;
}

/* Zeros, and zeros again after each use: of frames and of stacks. */
static bool scratch(struct chart *c, uint64_t **weights, uint32_t **places, struct err *err)
{
	uint64_t frames = c->set.frame_count + 1u, stacks = c->stack_count + 1u;
	uint32_t before = c->scratch_cap;

	if (!QUERY_ROOM(c->q, c->scratch, c->scratch_cap, frames + stacks / 2 + 1, err))
		return false;
	if (c->scratch_cap != before)
		memset(c->scratch, 0, c->scratch_cap * sizeof(*c->scratch));
	*weights = c->scratch;
	*places = (uint32_t *)(c->scratch + frames);
	return true;
}

bool chart_draw_lane(struct chart *c, uint32_t lane, struct err *err)
{
	struct drawing d = { .c = c,
			     .lane = &c->lanes[lane],
			     .at = c->lane_first[lane],
			     .end = c->lane_first[lane + 1],
			     .last_bin = UINT64_MAX - 1 };
	bool ok = scratch(c, &d.weights, &d.place_of, err) && draw_boxes(&d, err);

	QUERY_DROP(c->q, d.active, d.active_cap);
	QUERY_DROP(c->q, d.within, d.within_cap);
	QUERY_DROP(c->q, d.next, d.next_cap);
	QUERY_DROP(c->q, d.path, d.path_cap);
	QUERY_DROP(c->q, d.open, d.open_cap);
	return ok;
}
