/*
 * gen_bodies.h - invented profiles bodies, the same for the same seed: what the store and the
 * queries are measured with.
 *
 * A machine of 60 programs, seen for seven days. Each body is one report: 40 processes that live
 * for ever and 40 that were born since the last one, each a resource with one profile of
 * samples/count, about 15 samples each. A program has 300 locations, a third with names, of these
 * a fifth with inlined functions; hot ones are met often. Nine of ten samples have a stack that was
 * there before (recent and low-numbered ones more often); a new one shares its root half, on
 * average, with an old one. Depth 5 to 120. Samples carry thread.name, thread.id and cpu; one in
 * eight has two to five timestamps; one in a hundred a link of its own (`link_every`).
 */
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "model/builder.h"

enum {
	GEN_PROGRAMS = 60,
	GEN_LOCATIONS = 300,
	GEN_LONG_LIVED = 40,
	GEN_NEW = 40,
	GEN_SAMPLES = 1200,
	GEN_STACKS = 1500, /* remembered a program */
	GEN_DEPTH_MOST = 120,
};

struct gen_stack {
	uint16_t depth;
	uint16_t at[GEN_DEPTH_MOST]; /* root first */
};

struct gen {
	uint64_t state;
	uint64_t start_ns, step_ns;
	uint64_t recent_from, recent_ns,
		recent_step_ns; /* bodies from there on are closer together */
	uint64_t bodies;        /* made so far */
	uint32_t link_every;    /* one sample of so many has a link of its own */
	uint32_t next_pid, next_stack[GEN_PROGRAMS];
	struct gen_stack *stacks[GEN_PROGRAMS];
	uint32_t stack_count[GEN_PROGRAMS];
};

static inline uint64_t gen_next(struct gen *g)
{
	uint64_t z = g->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint32_t gen_below(struct gen *g, uint32_t n)
{
	return (uint32_t)((gen_next(g) >> 32) * n >> 32);
}

/* Low numbers far more often than high ones. */
static inline uint32_t gen_skewed(struct gen *g, uint32_t n)
{
	uint64_t a = gen_below(g, n), b = gen_below(g, n), c = gen_below(g, n);

	return (uint32_t)(a * b / n * c / n);
}

/* `bodies` over seven days that end at end_ns. */
static inline void gen_init(struct gen *g, uint64_t seed, uint64_t bodies, uint64_t end_ns)
{
	*g = (struct gen){ .state = seed, .next_pid = 2000, .link_every = 100 };
	g->step_ns = 7 * 86400 * SECOND_NS / (bodies ? bodies : 1);
	g->start_ns = end_ns - 7 * 86400 * SECOND_NS;
	g->recent_from = UINT64_MAX;
	for (int i = 0; i < GEN_PROGRAMS; i++) {
		g->stacks[i] = calloc(GEN_STACKS, sizeof(*g->stacks[i]));
		if (!g->stacks[i])
			abort();
	}
}

/* The last `recent` of them lie in the last over_ns instead. */
static inline void gen_recent(struct gen *g, uint64_t bodies, uint64_t recent, uint64_t over_ns)
{
	uint64_t end_ns = g->start_ns + 7 * 86400 * SECOND_NS;

	if (recent > bodies)
		recent = bodies;
	if (recent < bodies)
		g->step_ns = (7 * 86400 * SECOND_NS - over_ns) / (bodies - recent);
	g->recent_from = bodies - recent;
	g->recent_ns = end_ns - over_ns;
	g->recent_step_ns = recent ? over_ns / recent : 0;
}

static inline uint64_t gen_time(const struct gen *g, uint64_t body)
{
	if (body < g->recent_from)
		return g->start_ns + body * g->step_ns;
	return g->recent_ns + (body - g->recent_from) * g->recent_step_ns;
}

static inline void gen_release(struct gen *g)
{
	for (int i = 0; i < GEN_PROGRAMS; i++)
		free(g->stacks[i]);
}

/* ---- stacks ---- */

static inline const struct gen_stack *gen_stack(struct gen *g, uint32_t program)
{
	uint32_t count = g->stack_count[program];
	struct gen_stack *all = g->stacks[program], *s;
	const struct gen_stack *old;
	uint32_t keep;

	if (count && gen_below(g, 10))
		return &all[gen_below(g, 2) ? gen_skewed(g, count)
					    : count - 1 - gen_skewed(g, count)];
	/* A new one takes the place of an old one when there are enough. */
	s = &all[count < GEN_STACKS ? count : g->next_stack[program]++ % GEN_STACKS];
	old = count ? &all[gen_skewed(g, count)] : NULL;
	keep = old ? gen_below(g, old->depth) : 0;
	if (old && old != s)
		memcpy(s->at, old->at, keep * sizeof(s->at[0]));
	s->depth = (uint16_t)(5 + gen_skewed(g, GEN_DEPTH_MOST - 4));
	if (s->depth <= keep)
		s->depth = (uint16_t)(keep + 1); /* <= GEN_DEPTH_MOST: keep is below a depth */
	for (uint32_t i = keep; i < s->depth; i++)
		s->at[i] = (uint16_t)gen_skewed(g, GEN_LOCATIONS);
	if (count < GEN_STACKS)
		g->stack_count[program]++;
	return s;
}

/* ---- a body ---- */

struct gen_body {
	struct gen *g;
	struct builder *b;
	struct mapping_index mappings[GEN_PROGRAMS];
	uint32_t *locations[GEN_PROGRAMS]; /* index + 1 of those that are there */
	struct attribute_index native;
};

__attribute__((format(printf, 2, 3))) static inline struct strindex gen_text(struct gen_body *y,
									     const char *format,
									     ...)
{
	char text[128];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return builder_string(y->b, str_cstr(text));
}

static inline struct attribute_index gen_attribute(struct gen_body *y, const char *key,
						   struct any_value v)
{
	struct attribute a = { .key = builder_string(y->b, str_cstr(key)), .value = v };

	return builder_attribute(y->b, &a);
}

static inline struct any_value gen_string_value(struct gen_body *y, struct str s)
{
	struct any_value v = { .kind = ANY_STRING, .string = s };

	return builder_any(y->b, &v);
}

static inline struct mapping_index gen_mapping(struct gen_body *y, uint32_t program)
{
	struct mapping m = { .memory_start = 0x400000, .memory_limit = 0x900000 };
	struct attribute_index id;
	char text[48];

	if (y->mappings[program].v)
		return y->mappings[program];
	snprintf(text, sizeof(text), "%08x%08x%08x%08x%08x", program * 77, 1, 2, 3, program);
	id = gen_attribute(y, "process.executable.build_id.gnu",
			   gen_string_value(y, str_cstr(text)));
	m.filename = gen_text(y, "/usr/lib/program-%u/bin/program%u", program, program);
	y->mappings[program] = builder_mapping(y->b, &m, &id, 1);
	return y->mappings[program];
}

static inline struct line gen_line(struct gen_body *y, uint32_t program, uint32_t n)
{
	struct function f = {
		.name = gen_text(y, "program%u::module::function_number_%u", program, n / 3),
		.filename = gen_text(y, "src/program%u/module_%u.cc", program, n / 60),
	};

	f.system_name = f.name;
	return (struct line){ .function = builder_function(y->b, &f), .line = 10 + n % 400 };
}

static inline struct location_index gen_location(struct gen_body *y, uint32_t program, uint32_t n)
{
	struct location l = { .address = 0x1000 + (uint64_t)n * 24 };
	struct line lines[3];
	uint32_t count = 0;

	if (!y->locations[program]) {
		y->locations[program] = calloc(GEN_LOCATIONS, sizeof(uint32_t));
		if (!y->locations[program])
			abort();
	}
	if (y->locations[program][n])
		return (struct location_index){ y->locations[program][n] - 1 };
	l.mapping = gen_mapping(y, program);
	if (n % 3 == 0)
		lines[count++] = gen_line(y, program, n);
	if (n % 15 == 0) {
		lines[count++] = gen_line(y, program, n / 2);
		lines[count++] = gen_line(y, program, n / 4);
	}
	y->locations[program][n] = builder_location(y->b, &l, lines, count, &y->native, 1).v + 1;
	return (struct location_index){ y->locations[program][n] - 1 };
}

static inline void gen_sample(struct gen_body *y, uint32_t program, uint32_t pid, uint64_t begin_ns)
{
	static const char *const names[] = { "main", "worker", "io", "gc", "timer", "http", "db" };
	struct gen *g = y->g;
	const struct gen_stack *s = gen_stack(g, program);
	struct location_index at[GEN_DEPTH_MOST];
	uint32_t thread = gen_skewed(g, 8);
	struct attribute_index attributes[3];
	struct any_value number = { .kind = ANY_INT };
	uint64_t times[5];
	uint32_t time_count = gen_below(g, 8) ? 1 : 2 + gen_below(g, 4);
	struct link_index link = { 0 };

	for (uint32_t i = 0; i < s->depth; i++)
		at[s->depth - 1 - i] = gen_location(y, program, s->at[i]);
	attributes[0] = gen_attribute(y, "thread.name",
				      gen_string_value(y, str_cstr(names[(program + thread) % 7])));
	number.integer = pid + thread;
	attributes[1] = gen_attribute(y, "thread.id", number);
	number.integer = gen_skewed(g, 16);
	attributes[2] = gen_attribute(y, "cpu.logical_number", number);
	for (uint32_t i = 0; i < time_count; i++)
		times[i] = begin_ns + (uint64_t)gen_below(g, 5000000) * 1000 + gen_below(g, 1000);
	if (!gen_below(g, g->link_every)) {
		struct link l;
		uint64_t id[3] = { gen_next(g), gen_next(g), gen_next(g) };

		memcpy(l.trace_id, id, 16);
		memcpy(l.span_id, &id[2], 8);
		link = builder_link(y->b, &l);
	}
	builder_sample(y->b, builder_stack(y->b, at, s->depth), link, attributes, 3, NULL, 0, times,
		       time_count);
}

static inline void gen_process(struct gen_body *y, uint32_t pid, uint32_t program, uint64_t time_ns,
			       uint32_t samples)
{
	struct resource_profiles *r = builder_begin_resource(y->b);
	struct key_value kv[5] = { 0 };
	struct profile *p;
	char text[5][80];
	uint64_t uid[2] = { gen_next(y->g), gen_next(y->g) };
	struct scope_profiles *scope;

	snprintf(text[0], sizeof(text[0]), "service-%u", program % 20);
	snprintf(text[1], sizeof(text[1]), "program%u", program);
	snprintf(text[2], sizeof(text[2]), "/usr/lib/program-%u/bin/program%u", program, program);
	snprintf(text[3], sizeof(text[3]), "%064x", program % 20 * 7919);
	kv[0] = (struct key_value){ .key = STR("service.name"),
				    .value = gen_string_value(y, str_cstr(text[0])) };
	kv[1] = (struct key_value){ .key = STR("process.executable.name"),
				    .value = gen_string_value(y, str_cstr(text[1])) };
	kv[2] = (struct key_value){ .key = STR("process.executable.path"),
				    .value = gen_string_value(y, str_cstr(text[2])) };
	kv[3] = (struct key_value){ .key = STR("process.pid"),
				    .value = { .kind = ANY_INT, .integer = pid } };
	kv[4] = (struct key_value){ .key = STR("container.id"),
				    .value = gen_string_value(y, str_cstr(text[3])) };
	r->attributes = builder_key_values(y->b, kv, 5);
	scope = builder_begin_scope(y->b);
	scope->name = STR("go.opentelemetry.io/ebpf-profiler");
	scope->version = STR("v0.1.0");
	p = builder_begin_profile(y->b);
	p->sample_type = (struct value_type){ builder_string(y->b, STR("samples")),
					      builder_string(y->b, STR("count")) };
	p->period_type = (struct value_type){ builder_string(y->b, STR("cpu")),
					      builder_string(y->b, STR("nanoseconds")) };
	p->period = 50000000;
	p->time_unix_nano = time_ns;
	p->duration_nano = 5 * SECOND_NS;
	memcpy(p->profile_id, uid, sizeof(uid));
	for (uint32_t i = 0; i < samples; i++)
		gen_sample(y, program, pid, time_ns);
}

/* The next body; *arrived is when its report ended. */
static inline struct profiles *gen_body(struct gen *g, uint64_t *arrived)
{
	struct builder_options options = { .copy_strings = true };
	struct gen_body y = { .g = g, .b = builder_new(&options) };
	uint64_t time_ns = gen_time(g, g->bodies++);
	struct any_value native = { .kind = ANY_STRING, .string = STR("native") };
	struct profiles *p;
	struct err err;

	y.native = gen_attribute(&y, "profile.frame.type", native);
	for (uint32_t i = 0; i < GEN_LONG_LIVED; i++)
		gen_process(&y, 100 + i * 20, i, time_ns, 20);
	for (uint32_t i = 0; i < GEN_NEW; i++, g->next_pid += 8)
		gen_process(&y, g->next_pid, gen_below(g, GEN_PROGRAMS), time_ns, 10);
	for (int i = 0; i < GEN_PROGRAMS; i++)
		free(y.locations[i]);
	p = builder_finish(y.b, &err);
	if (!p) {
		fprintf(stderr, "gen: %s\n", err.msg);
		abort();
	}
	p->source_version = 8; /* as WIRE_V1_10 */
	*arrived = time_ns + 5 * SECOND_NS;
	return p;
}
