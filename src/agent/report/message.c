#include "agent/report/message.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/labels.h"
#include "base/cleanup.h"
#include "model/builder.h"

#define SCHEMA_URL "https://opentelemetry.io/schemas/1.37.0"

static const struct origin {
	const char *type, *unit, *period_type, *period_unit;
	bool values; /* else each timestamp counts one */
} origins[TRACE_ORIGIN_COUNT] = {
	[TRACE_ON_CPU] = { "samples", "count", "cpu", "nanoseconds", false },
};

static const char *const frame_types[FRAME_KIND_COUNT] = {
	[FRAME_KERNEL] = "kernel",    [FRAME_NATIVE] = "native",   [FRAME_GO] = "go",
	[FRAME_UNKNOWN] = "unknown",  [FRAME_CPYTHON] = "cpython", [FRAME_HOTSPOT] = "jvm",
	[FRAME_V8] = "v8js",          [FRAME_PHP] = "php",         [FRAME_RUBY] = "ruby",
	[FRAME_END] = "abort-marker",
};

struct message {
	struct builder *b;
	const struct window *w;
	const struct report_options *o;
	const struct report_facts *facts;
	struct frame_cache *cache;
	const struct namer *namer;
	struct report_totals *totals;

	struct location_index *locations; /* by the window's frames */
	struct stack_index *stacks;       /* by the window's stacks */
	struct attribute_index types[FRAME_KIND_COUNT];
	uint32_t *sample_order;  /* samples by process */
	uint32_t *process_first; /* where each process begins there; one more at the end */
	uint64_t *times;         /* by sample */
	int64_t *values;
	uint32_t *time_first; /* where each sample begins there */
	struct strindex thread_name, thread_id, cpu;
};

/* ---- attributes ---- */

static struct any_value text_value(struct str s)
{
	return (struct any_value){ .kind = ANY_STRING, .string = s };
}

static struct any_value int_value(int64_t v)
{
	return (struct any_value){ .kind = ANY_INT, .integer = v };
}

static struct attribute_index add_attribute(struct message *m, struct strindex key,
					    struct any_value value)
{
	return builder_attribute(m->b, &(struct attribute){ .key = key, .value = value });
}

static struct attribute_index add_text(struct message *m, const char *key, struct str value)
{
	return add_attribute(m, builder_string(m->b, str_cstr(key)), text_value(value));
}

/* ---- mappings ---- */

enum { BUILD_IDS = 3 };

static uint32_t add_build_ids(struct message *m, struct str gnu, struct str go, struct str htlhash,
			      struct attribute_index out[BUILD_IDS])
{
	uint32_t count = 0;

	if (gnu.len)
		out[count++] = add_text(m, "process.executable.build_id.gnu", gnu);
	if (go.len)
		out[count++] = add_text(m, "process.executable.build_id.go", go);
	if (htlhash.len)
		out[count++] = add_text(m, "process.executable.build_id.htlhash", htlhash);
	return count;
}

static struct mapping_index add_file_mapping(struct message *m, const struct executable *e,
					     uint64_t vaddr)
{
	struct mapping mapping = { .filename = builder_string(m->b, e->filename) };
	struct attribute_index ids[BUILD_IDS];
	uint32_t count = add_build_ids(m, e->build_id_gnu, e->build_id_go, e->htlhash, ids);

	for (uint32_t i = 0; i < e->segment_count; i++) {
		const struct executable_segment *s = &e->segments[i];

		if (vaddr < s->vaddr_start || vaddr >= s->vaddr_limit)
			continue;
		mapping.memory_start = s->vaddr_start;
		mapping.memory_limit = s->vaddr_limit;
		mapping.file_offset = s->file_offset;
	}
	return builder_mapping(m->b, &mapping, ids, count);
}

void report_kernel_hash(struct str build_id_hex, char out[33])
{
	const unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
	unsigned __int128 hash = (unsigned __int128)UINT64_C(0x6c62272e07bb0142) << 64 |
				 UINT64_C(0x62b821756295c58d);

	for (size_t i = 0; i < build_id_hex.len; i++)
		hash = (hash ^ (uint8_t)build_id_hex.ptr[i]) * prime;
	snprintf(out, 33, "%016llx%016llx", (unsigned long long)(hash >> 64),
		 (unsigned long long)hash);
}

static struct mapping_index add_kernel_mapping(struct message *m, const struct frame_name *name)
{
	struct mapping mapping = { 0 };
	struct attribute_index ids[BUILD_IDS];
	uint32_t count = 0;
	char hash[33];

	if (!name->module.len) /* a BPF program */
		return (struct mapping_index){ 0 };
	mapping.filename = builder_string(m->b, name->module);
	if (name->module_build_id_gnu.len) {
		report_kernel_hash(name->module_build_id_gnu, hash);
		count = add_build_ids(m, name->module_build_id_gnu, STR(""), str_cstr(hash), ids);
	}
	return builder_mapping(m->b, &mapping, ids, count);
}

/* ---- frames ---- */

static bool is_native(enum frame_kind kind)
{
	return kind == FRAME_NATIVE || kind == FRAME_UNKNOWN;
}

/* What is known of a frame; a zero name where nothing is. */
static struct frame_name name_of(struct message *m, const struct window_frame *f)
{
	struct process_info *process =
		f->process == UINT32_MAX ? NULL : m->w->processes[f->process];
	const struct frame_name *kept;
	struct frame_name name = { 0 };

	if (f->frame.kind == FRAME_END || (is_native(f->frame.kind) && !m->o->native_symbols))
		return name;
	kept = frame_cache_find(m->cache, &f->frame, process);
	if (kept)
		return *kept;
	if (!m->namer || !m->namer->name(m->namer->ctx, &f->frame, process, &name))
		name = (struct frame_name){ .final = name.final };
	if (name.final)
		frame_cache_put(m->cache, &f->frame, process, &name);
	return name;
}

static struct line make_line(struct message *m, const struct name_line *l)
{
	struct function f = {
		.name = builder_string(m->b, l->function),
		.system_name = builder_string(m->b, l->system_name),
		.filename = builder_string(m->b, l->file),
		.start_line = l->start_line,
	};

	return (struct line){ .line = l->line,
			      .column = l->column,
			      .function = builder_function(m->b, &f) };
}

enum { LINES_MOST = 64 }; /* of inlined functions at one address: the innermost are kept */

static struct location_index add_location(struct message *m, const struct window_frame *f,
					  struct location location, const struct frame_name *name)
{
	struct line lines[LINES_MOST];
	/* What a runtime has inlined costs nothing to know, and a method without it would be wrong.
	 */
	bool all = m->o->inlines || (f->frame.kind > FRAME_UNKNOWN && f->frame.kind < FRAME_END);
	uint32_t first = all || !name->line_count ? 0 : name->line_count - 1;
	uint32_t count = 0;

	for (uint32_t i = first; i < name->line_count && count < LINES_MOST; i++)
		lines[count++] = make_line(m, &name->lines[i]);
	if (!m->types[f->frame.kind].v) /* only types that are used: no orphans in the table */
		m->types[f->frame.kind] =
			add_text(m, "profile.frame.type", str_cstr(frame_types[f->frame.kind]));
	return builder_location(m->b, &location, lines, count, &m->types[f->frame.kind], 1);
}

static struct location_index add_marker(struct message *m, const struct window_frame *f)
{
	const char *reason = m->o->end_name ? m->o->end_name(f->frame.address) : NULL;
	char text[80];
	struct name_line line = { 0 };
	struct frame_name name = { .lines = &line, .line_count = 1 };

	if (!m->o->native_symbols || !reason) /* the reference's: a number and nothing else */
		name.line_count = 0;
	else
		snprintf(text, sizeof(text), "[stack ends: %s]", reason);
	line.function = str_cstr(name.line_count ? text : "");
	return add_location(m, f, (struct location){ .address = f->frame.address }, &name);
}

static void count_unnamed(struct message *m, const struct window_frame *f,
			  const struct frame_name *name)
{
	if ((!name->line_count || name->fallback) &&
	    (m->o->native_symbols || !is_native(f->frame.kind)))
		m->totals->unnamed += f->uses;
}

static struct location_index add_frame(struct message *m, const struct window_frame *f)
{
	struct location location = { .address = f->frame.address };
	struct name_line anonymous = { .function = STR("[anon]") };
	struct frame_name name;

	if (f->frame.kind == FRAME_END)
		return add_marker(m, f);
	name = name_of(m, f);
	count_unnamed(m, f, &name);
	switch (f->frame.kind) {
	case FRAME_KERNEL:
		location.mapping = add_kernel_mapping(m, &name);
		if (name.module_start <= location.address)
			location.address -= name.module_start;
		break;
	case FRAME_NATIVE:
	case FRAME_GO:
		if (f->frame.executable)
			location.mapping =
				add_file_mapping(m, f->frame.executable, location.address);
		break;
	case FRAME_UNKNOWN: /* code of no file: a name says at least that */
		if (!name.line_count && m->o->native_symbols)
			name = (struct frame_name){ .lines = &anonymous, .line_count = 1 };
		break;
	default: /* interpreters: what their runtime calls the place */
		location.address = name.address;
		break;
	}
	return add_location(m, f, location, &name);
}

static void add_frames(struct message *m)
{
	for (uint32_t i = 0; i < m->w->frame_count; i++)
		m->locations[i] = add_frame(m, &m->w->frames[i]);
}

static void add_stacks(struct message *m)
{
	struct location_index *stack = NULL;
	uint32_t most = 0;

	for (uint32_t i = 0; i < m->w->stack_count; i++)
		most = m->w->stacks[i].count > most ? m->w->stacks[i].count : most;
	stack = malloc((most + 1) * sizeof(*stack));
	assert(stack);
	for (uint32_t i = 0; i < m->w->stack_count; i++) {
		const struct window_stack *s = &m->w->stacks[i];

		for (uint32_t k = 0; k < s->count; k++)
			stack[k] = m->locations[m->w->stack_frames[s->first + k]];
		m->stacks[i] = builder_stack(m->b, stack, s->count);
	}
	free(stack);
}

/* ---- samples ---- */

static void put_samples_in_order(struct message *m)
{
	const struct window *w = m->w;
	uint32_t sum = 0;

	for (uint32_t i = 0; i < w->sample_count; i++)
		m->process_first[w->samples[i].process + 1]++;
	for (uint32_t i = 0; i < w->process_count; i++)
		m->process_first[i + 1] += m->process_first[i];
	for (uint32_t i = 0; i < w->sample_count; i++) {
		m->sample_order[m->process_first[w->samples[i].process]++] = i;
		m->time_first[i] = sum;
		sum += w->samples[i].event_count;
	}
	for (uint32_t i = w->process_count; i > 0; i--) /* each had moved to the next one's start */
		m->process_first[i] = m->process_first[i - 1];
	m->process_first[0] = 0;
	for (uint32_t i = 0; i < w->event_count; i++) {
		const struct window_event *e = &w->events[i];

		m->times[m->time_first[e->sample]] = e->time_unix_nano;
		m->values[m->time_first[e->sample]++] = e->value;
	}
	for (uint32_t i = 0; i < w->sample_count; i++)
		m->time_first[i] -= w->samples[i].event_count;
}

enum { SAMPLE_ATTRIBUTES = 3 };

/* The reference's key, as semantic conventions name what a process says of its own context. */
static struct attribute_index add_label(struct message *m, struct str key, struct str value)
{
	static const char prefix[] = "process.context.label.";
	char name[sizeof(prefix) + LABEL_KEY_MOST];
	size_t bytes = sizeof(prefix) - 1;

	memcpy(name, prefix, bytes);
	if (key.len > LABEL_KEY_MOST)
		key.len = LABEL_KEY_MOST;
	if (key.len)
		memcpy(name + bytes, key.ptr, key.len);
	return add_attribute(m, builder_string(m->b, str_from(name, bytes + key.len)),
			     text_value(value));
}

static void add_sample(struct message *m, uint32_t at)
{
	const struct window_sample *s = &m->w->samples[at];
	struct str comm = str_from(s->comm, strnlen(s->comm, sizeof(s->comm)));
	struct str labels = window_labels(m->w, s->labels), key, value;
	struct attribute_index attributes[SAMPLE_ATTRIBUTES + LABELS_MOST] = {
		add_attribute(m, m->thread_name, text_value(comm)),
		add_attribute(m, m->thread_id, int_value(s->tid)),
		add_attribute(m, m->cpu, int_value(s->cpu)),
	};
	bool values = origins[s->origin].values;
	uint32_t count = SAMPLE_ATTRIBUTES;

	while (count < ARRAY_LEN(attributes) && labels_next(&labels, &key, &value))
		attributes[count++] = add_label(m, key, value);
	builder_sample(m->b, m->stacks[s->stack], (struct link_index){ 0 }, attributes, count,
		       values ? m->values + m->time_first[at] : NULL, values ? s->event_count : 0,
		       m->times + m->time_first[at], s->event_count);
}

static struct value_type value_type(struct message *m, const char *type, const char *unit)
{
	return (struct value_type){ builder_string(m->b, str_cstr(type)),
				    builder_string(m->b, str_cstr(unit)) };
}

static struct profile *begin_profile(struct message *m, enum trace_origin origin)
{
	const struct origin *o = &origins[origin];
	struct profile *p = builder_begin_profile(m->b);
	uint64_t start = m->facts->start_unix_nano, end = m->facts->end_unix_nano;

	if (m->w->event_count && m->w->oldest_ns < start)
		start = m->w->oldest_ns;
	if (m->w->event_count && m->w->newest_ns >= end)
		end = m->w->newest_ns + 1;
	p->sample_type = value_type(m, o->type, o->unit);
	p->time_unix_nano = start;
	p->duration_nano = end > start ? end - start : 1;
	if (o->period_type) {
		p->period_type = value_type(m, o->period_type, o->period_unit);
		p->period = 1000000000 / (m->o->samples_per_second ? m->o->samples_per_second : 1);
	}
	return p;
}

static void begin_scope(struct message *m)
{
	struct scope_profiles *s = builder_begin_scope(m->b);

	s->name = m->o->scope_name;
	s->version = m->o->scope_version;
	s->schema_url = STR(SCHEMA_URL);
}

static void add_profiles(struct message *m, uint32_t process)
{
	for (int origin = 0; origin < TRACE_ORIGIN_COUNT; origin++) {
		bool begun = false;

		for (uint32_t i = m->process_first[process]; i < m->process_first[process + 1];
		     i++) {
			if ((int)m->w->samples[m->sample_order[i]].origin != origin)
				continue;
			if (!begun)
				begin_profile(m, (enum trace_origin)origin);
			begun = true;
			add_sample(m, m->sample_order[i]);
		}
	}
}

/* ---- resources ---- */

struct pairs {
	struct key_value *at;
	uint32_t count;
};

static void put_pair(struct pairs *p, struct str key, struct any_value value)
{
	p->at[p->count++] = (struct key_value){ .key = key, .value = value };
}

static bool has_key(const struct pairs *p, struct str key)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (str_equal(p->at[i].key, key))
			return true;
	return false;
}

/* What the process itself is known by comes before what was configured for all. */
static void put_common(struct message *m, struct pairs *p)
{
	for (uint32_t i = 0; i < m->o->attribute_count; i++)
		if (!has_key(p, m->o->attributes[i].key))
			p->at[p->count++] = m->o->attributes[i];
}

static void put_variables(struct message *m, const struct process_info *info, struct pairs *p)
{
	for (uint32_t i = 0; i < info->variable_count; i++) {
		struct str key =
			str_printf(builder_arena(m->b), "process.environment_variable.%.*s",
				   STR_ARG(info->variables[i].name));

		if (key.ptr && !has_key(p, key))
			put_pair(p, key, text_value(info->variables[i].value));
	}
}

enum { OWN_PAIRS = 6 };

static struct pairs pairs_new(const struct message *m, uint32_t more)
{
	struct pairs p = { .at = calloc(OWN_PAIRS + m->o->attribute_count + more, sizeof(*p.at)) };

	assert(p.at);
	return p;
}

static void begin_resource(struct message *m, struct pairs *p)
{
	struct resource_profiles *r = builder_begin_resource(m->b);

	r->attributes = builder_key_values(m->b, p->at, p->count);
	r->schema_url = STR(SCHEMA_URL);
	free(p->at);
	begin_scope(m);
}

static void add_process(struct message *m, uint32_t at)
{
	const struct process_info *info = m->w->processes[at];
	struct str service = info->service_name.len ? info->service_name : m->o->service_name;
	struct pairs p = pairs_new(m, info->variable_count);

	if (info->container_id.len)
		put_pair(&p, STR("container.id"), text_value(info->container_id));
	put_pair(&p, STR("process.pid"), int_value(info->pid));
	if (info->executable_path.len)
		put_pair(&p, STR("process.executable.path"), text_value(info->executable_path));
	if (info->executable_name.len)
		put_pair(&p, STR("process.executable.name"), text_value(info->executable_name));
	if (service.len)
		put_pair(&p, STR("service.name"), text_value(service));
	put_variables(m, info, &p);
	put_common(m, &p);
	begin_resource(m, &p);
	add_profiles(m, at);
}

/* ---- what was seen and lost ---- */

enum { ACCOUNT_MOST = 3 + 2 * WINDOW_REASONS };

struct account {
	struct attribute_index at[ACCOUNT_MOST];
	uint32_t count;
};

static void put_account(struct message *m, struct account *a, const char *key, uint64_t value)
{
	if (a->count < ACCOUNT_MOST)
		a->at[a->count++] = add_attribute(m, builder_string(m->b, str_cstr(key)),
						  int_value((int64_t)value));
}

static void put_reason(struct message *m, struct account *a, const char *what, const char *reason,
		       uint64_t value)
{
	char key[120];

	snprintf(key, sizeof(key), "flametap.%s.%s", what, reason);
	if (value)
		put_account(m, a, key, value);
}

static void put_cuts(struct message *m, struct account *a)
{
	char number[16];

	for (uint32_t i = 0; i < WINDOW_REASONS; i++) {
		const char *reason = m->o->end_name ? m->o->end_name(i) : NULL;

		snprintf(number, sizeof(number), "reason_%u", i);
		put_reason(m, a, "cut", reason ? reason : number, m->w->cut[i]);
	}
}

static void add_host(struct message *m)
{
	struct account a = { 0 };
	struct pairs p = pairs_new(m, 0);

	if (m->o->service_name.len)
		put_pair(&p, STR("service.name"), text_value(m->o->service_name));
	put_common(m, &p);
	begin_resource(m, &p);
	begin_profile(m, TRACE_ON_CPU);
	put_account(m, &a, "flametap.window_ns", m->facts->sampled_ns);
	put_account(m, &a, "flametap.sampled", m->w->event_count);
	put_account(m, &a, "flametap.unnamed", m->totals->unnamed);
	for (uint32_t i = 0; i < m->facts->dropped_count; i++)
		put_reason(m, &a, "dropped", m->facts->dropped[i].reason,
			   m->facts->dropped[i].count);
	put_cuts(m, &a);
	builder_profile_attributes(m->b, a.at, a.count);
}

/* ---- all of it ---- */

static void *zeroed(size_t count, size_t size)
{
	void *p = calloc(count + 1, size);

	assert(p);
	return p;
}

static void message_init(struct message *m)
{
	const struct window *w = m->w;

	m->b = builder_new(&(struct builder_options){ .copy_strings = true,
						      .limit_bytes = REPORT_MESSAGE_MOST_BYTES });
	m->locations = zeroed(w->frame_count, sizeof(*m->locations));
	m->stacks = zeroed(w->stack_count, sizeof(*m->stacks));
	m->sample_order = zeroed(w->sample_count, sizeof(*m->sample_order));
	m->process_first = zeroed(w->process_count, sizeof(*m->process_first));
	m->times = zeroed(w->event_count, sizeof(*m->times));
	m->values = zeroed(w->event_count, sizeof(*m->values));
	m->time_first = zeroed(w->sample_count, sizeof(*m->time_first));
	if (!w->sample_count)
		return;
	m->thread_name = builder_string(m->b, STR("thread.name"));
	m->thread_id = builder_string(m->b, STR("thread.id"));
	m->cpu = builder_string(m->b, STR("cpu.logical_number"));
}

static void message_release(struct message *m)
{
	free(m->locations);
	free(m->stacks);
	free(m->sample_order);
	free(m->process_first);
	free(m->times);
	free(m->values);
	free(m->time_first);
}

struct profiles *report_message(const struct window *w, const struct report_options *o,
				const struct report_facts *facts, struct frame_cache *cache,
				const struct namer *namer, struct report_totals *totals,
				struct err *err)
{
	struct message m = {
		.w = w, .o = o, .facts = facts, .cache = cache, .namer = namer, .totals = totals
	};

	*totals =
		(struct report_totals){ .samples = w->event_count, .processes = w->process_count };
	message_init(&m);
	put_samples_in_order(&m);
	add_frames(&m);
	add_stacks(&m);
	for (uint32_t i = 0; i < w->process_count; i++)
		add_process(&m, i);
	add_host(&m);
	message_release(&m);
	return builder_finish(m.b, err);
}
