/*
 * go_pgo.c - profiles as Go's compiler wants them for profile-guided optimisation: the frames next
 * to the leaf, equal stacks as one sample.
 *
 * The compiler weighs edges (caller, line of the call from the function's start, callee) of pprof
 * files with samples/count or cpu/nanoseconds (go.dev/doc/pgo); the rest of a stack only costs
 * memory and time of every build. Pyroscope's query API offers the same as
 * StackTraceSelector.go_pgo.
 */
#include "formats/go_pgo.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "formats/readers_writers.h"
#include "model/builder.h"

/* Profiles of one type and period are one profile here. */
struct merged {
	const struct profile *first;
	uint64_t from, to; /* ns; to 0: none has a time */
	int64_t *values;   /* by stack of the result */
	uint32_t cap;
};

struct pgo {
	const struct profiles *p;
	const struct go_pgo_options *o;
	struct builder *b;
	struct location_index *callers, *leaves; /* by location of p; 0 = not yet copied */
	struct location_index *stack;            /* room for the longest */
	struct merged *merged;
	uint32_t merged_count;
	uint32_t stack_count; /* of the result, one more than the highest index */
};

static struct strindex string_of(struct pgo *g, struct strindex s)
{
	return builder_string(g->b, profiles_string(g->p, s));
}

static struct mapping_index copy_mapping(struct pgo *g, struct mapping_index i)
{
	struct mapping m = g->p->dict.mappings[i.v];

	m.filename = string_of(g, m.filename);
	m.attributes = (struct range){ 0 };
	return i.v ? builder_mapping(g->b, &m, NULL, 0) : i;
}

static struct function_index copy_function(struct pgo *g, struct function_index i)
{
	struct function f = g->p->dict.functions[i.v];

	f.name = string_of(g, f.name);
	f.system_name = string_of(g, f.system_name);
	f.filename = string_of(g, f.filename);
	return i.v ? builder_function(g->b, &f) : i;
}

/* A leaf whose own line does not matter is its function, wherever in it the sample was. */
static struct location_index copy_location(struct pgo *g, uint32_t i, bool anywhere)
{
	const struct dictionary *d = &g->p->dict;
	struct location l = d->locations[i];
	struct line *lines = calloc(l.lines.count + 1u, sizeof(*lines));
	struct location_index out;

	assert(lines);
	for (uint32_t k = 0; k < l.lines.count; k++) {
		lines[k] = d->lines[l.lines.first + k];
		lines[k].function = copy_function(g, lines[k].function);
	}
	if (anywhere && l.lines.count) {
		lines[0].line = lines[0].column = 0;
		l.address = 0;
	}
	l.mapping = copy_mapping(g, l.mapping);
	l.attributes = (struct range){ 0 };
	out = builder_location(g->b, &l, lines, l.lines.count, NULL, 0);
	free(lines);
	return out;
}

static struct location_index location_of(struct pgo *g, uint32_t i, bool leaf)
{
	bool anywhere = leaf && g->o->aggregate_callees;
	struct location_index *known = anywhere ? &g->leaves[i] : &g->callers[i];

	if (!known->v)
		*known = copy_location(g, i, anywhere);
	return *known;
}

static struct stack_index stack_of(struct pgo *g, struct stack_index s)
{
	const struct dictionary *d = &g->p->dict;
	struct range r = d->stacks[s.v].locations;
	struct stack_index out;
	uint32_t n = 0;

	for (uint32_t i = 0; i < r.count && (!g->o->keep || n < g->o->keep); i++) {
		uint32_t l = d->stack_locations[r.first + i].v;

		if (l)
			g->stack[n] = location_of(g, l, n == 0), n++;
	}
	out = builder_stack(g->b, g->stack, n);
	if (out.v >= g->stack_count)
		g->stack_count = out.v + 1;
	return out;
}

static bool same_type(const struct pgo *g, struct value_type a, struct value_type b)
{
	return str_equal(profiles_string(g->p, a.type), profiles_string(g->p, b.type)) &&
	       str_equal(profiles_string(g->p, a.unit), profiles_string(g->p, b.unit));
}

static struct merged *merged_of(struct pgo *g, const struct profile *profile)
{
	uint32_t i = 0;

	for (; i < g->merged_count; i++)
		if (same_type(g, g->merged[i].first->sample_type, profile->sample_type) &&
		    same_type(g, g->merged[i].first->period_type, profile->period_type) &&
		    g->merged[i].first->period == profile->period)
			return &g->merged[i];
	g->merged = realloc(g->merged, (i + 1) * sizeof(*g->merged));
	assert(g->merged);
	g->merged[i] = (struct merged){ .first = profile, .from = UINT64_MAX };
	g->merged_count++;
	return &g->merged[i];
}

static void add_stack_value(struct merged *m, struct stack_index stack, int64_t value)
{
	if (stack.v >= m->cap) {
		uint32_t cap = (stack.v + 1) * 2;

		m->values = realloc(m->values, cap * sizeof(*m->values));
		assert(m->values);
		memset(m->values + m->cap, 0, (cap - m->cap) * sizeof(*m->values));
		m->cap = cap;
	}
	if (__builtin_add_overflow(m->values[stack.v], value, &m->values[stack.v]))
		m->values[stack.v] = value < 0 ? INT64_MIN : INT64_MAX;
}

static void add_time(struct merged *m, const struct profile *p)
{
	uint64_t to;

	if (!p->time_unix_nano || __builtin_add_overflow(p->time_unix_nano, p->duration_nano, &to))
		return;
	if (p->time_unix_nano < m->from)
		m->from = p->time_unix_nano;
	if (to > m->to)
		m->to = to;
}

static void add_profile(struct pgo *g, const struct profile *profile)
{
	struct merged *m = merged_of(g, profile);

	add_time(m, profile);
	for (uint32_t i = 0; i < profile->samples.count; i++) {
		const struct sample *s = &g->p->samples[profile->samples.first + i];

		add_stack_value(m, stack_of(g, s->stack), sample_total(g->p, profile, s).value);
	}
}

static void put_merged(struct pgo *g, const struct merged *m)
{
	struct profile *out = builder_begin_profile(g->b);
	struct value_type sample = m->first->sample_type, period = m->first->period_type;

	out->sample_type =
		(struct value_type){ string_of(g, sample.type), string_of(g, sample.unit) };
	out->period_type =
		(struct value_type){ string_of(g, period.type), string_of(g, period.unit) };
	out->period = m->first->period;
	if (m->to) {
		out->time_unix_nano = m->from;
		out->duration_nano = m->to - m->from;
	}
	for (uint32_t i = 0; i < m->cap; i++)
		if (m->values[i])
			builder_sample(g->b, (struct stack_index){ i }, (struct link_index){ 0 },
				       NULL, 0, &m->values[i], 1, NULL, 0);
}

static uint32_t longest_stack(const struct profiles *p)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < p->dict.stack_count; i++)
		if (p->dict.stacks[i].locations.count > most)
			most = p->dict.stacks[i].locations.count;
	return most;
}

static void pgo_release(struct pgo *g)
{
	for (uint32_t i = 0; i < g->merged_count; i++)
		free(g->merged[i].values);
	free(g->merged);
	free(g->callers);
	free(g->leaves);
	free(g->stack);
}

struct profiles *go_pgo_make(const struct profiles *p, const struct go_pgo_options *o,
			     struct err *err)
{
	struct builder_options options = { .copy_strings = true };
	struct pgo g = { .p = p, .o = o, .b = builder_new(&options) };

	g.callers = calloc(p->dict.location_count + 1u, sizeof(*g.callers));
	g.leaves = calloc(p->dict.location_count + 1u, sizeof(*g.leaves));
	g.stack = calloc(longest_stack(p) + 1u, sizeof(*g.stack));
	assert(g.callers && g.leaves && g.stack);
	for (uint32_t i = 0; i < p->profile_count; i++)
		if (!p->profiles[i].refused)
			add_profile(&g, &p->profiles[i]);
	builder_begin_resource(g.b);
	builder_begin_scope(g.b);
	for (uint32_t i = 0; i < g.merged_count; i++)
		put_merged(&g, &g.merged[i]);
	pgo_release(&g);
	return builder_finish(g.b, err);
}

bool go_pgo_write(const struct profiles *p, const struct export_options *o, struct buf *out,
		  struct err *err)
{
	const struct go_pgo_options pgo = { .keep = GO_PGO_KEEP, .aggregate_callees = true };
	struct profiles *made = go_pgo_make(p, &pgo, err);
	bool ok = made && pprof_write(made, o, out, err);

	profiles_free(made);
	return ok;
}
