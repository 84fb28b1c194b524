#include "agent/report/traces_for_tests.h"

#include "agent/report/message.h"
#include "wire/check.h"
#include "wire/otlp.h"

static const uint64_t START = 1700000000000000000, WINDOW_NS = 5000000000;

struct setup {
	struct window window;
	struct frame_cache *cache;
	struct test_namer namer;
	struct report_options options;
	struct report_facts facts;
	struct report_totals totals;
	struct executable *executable;
	struct process_info *a, *b;
};

static void setup_init(struct setup *s, bool keep_end_markers)
{
	static const struct key_value host[] = { { .key = { "host.name", 9 },
						   .value = { .kind = ANY_STRING,
							      .string = { "here", 4 } } } };

	*s = (struct setup){ 0 };
	window_init(&s->window, 1 << 20, keep_end_markers);
	s->cache = frame_cache_new(64);
	test_namer_init(&s->namer);
	s->options = (struct report_options){ .samples_per_second = 20,
					      .native_symbols = true,
					      .inlines = true,
					      .attributes = host,
					      .attribute_count = 1,
					      .scope_name = STR("flametap"),
					      .scope_version = STR("0"),
					      .end_name = test_end_name };
	s->facts.start_unix_nano = START;
	s->facts.end_unix_nano = START + WINDOW_NS;
	s->facts.sampled_ns = WINDOW_NS;
	s->executable = test_executable("prog");
	s->a = test_process(100, "/usr/bin/prog", "prog");
	s->b = test_process(200, "/usr/bin/other", "other");
}

static void setup_release(struct setup *s)
{
	window_release(&s->window);
	frame_cache_free(s->cache);
	executable_unref(s->executable);
	process_info_unref(s->a);
	process_info_unref(s->b);
}

static void add(struct setup *s, struct process_info *p, uint64_t time_ns,
		const struct trace_frame *frames, uint32_t count)
{
	struct trace t = test_trace(p, time_ns, frames, count);

	assert_true(window_add(&s->window, &t));
}

/* The message, once the conformance rules had no finding in its bytes. */
static struct profiles *make(struct setup *s)
{
	AUTO(buf_release) struct buf bytes = { 0 };
	struct check_result found;
	struct profiles *p;
	struct blob *body;
	struct err err;

	p = report_message(&s->window, &s->options, &s->facts, s->cache, &s->namer.namer,
			   &s->totals, &err);
	if (!p)
		fail_msg("%s", err.msg);
	assert_true(otlp_encode(p, WIRE_NEWEST, &bytes, &err));
	body = blob_copy(buf_view(&bytes));
	assert_true(otlp_check(body, WIRE_AUTO, 0, &found, &err));
	for (uint32_t i = 0; i < found.count; i++)
		fail_msg("%s: %.*s %.*s", found.findings[i].rule, STR_ARG(found.findings[i].path),
			 STR_ARG(found.findings[i].message));
	check_result_release(&found);
	blob_unref(body);
	return p;
}

static struct str resource_text(const struct profiles *p, uint32_t resource, const char *key)
{
	const struct any_value *v =
		key_values_find(p->resources[resource].attributes, str_cstr(key));

	return v && v->kind == ANY_STRING ? v->string : STR("");
}

static int64_t account(const struct profiles *p, const char *key)
{
	const struct profile *last = &p->profiles[p->profile_count - 1];
	const struct any_value *v = profiles_attribute(p, last->attributes, str_cstr(key));

	assert_int_equal(last->samples.count, 0);
	return v ? v->integer : -1;
}

static const struct location *frame_at(const struct profiles *p, uint32_t sample, uint32_t at)
{
	const struct stack *s = &p->dict.stacks[p->samples[sample].stack.v];

	assert_true(at < s->locations.count);
	return &p->dict.locations[p->dict.stack_locations[s->locations.first + at].v];
}

static struct str function_at(const struct profiles *p, const struct location *l, uint32_t line)
{
	const struct line *at = &p->dict.lines[l->lines.first + line];

	assert_true(line < l->lines.count);
	return profiles_string(p, p->dict.functions[at->function.v].name);
}

#define ASSERT_STR(got, want)                                                    \
	do {                                                                     \
		struct str got_ = (got);                                         \
		if (!str_is(got_, want))                                         \
			fail_msg("\"%.*s\" is not \"%s\"", STR_ARG(got_), want); \
	} while (0)

static void test_shape(void **state)
{
	struct setup s;
	struct profiles *p;
	const struct mapping *m;
	const struct location *l;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frames[] = {
		{ .kind = FRAME_KERNEL, .address = 0xffff1001, .return_address = true },
		{ .kind = FRAME_NATIVE,
		  .executable = s.executable,
		  .address = 0x1201,
		  .return_address = true },
		{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x7010 },
		{ .kind = FRAME_UNKNOWN, .address = 0x7f0000001000 },
	};

	add(&s, s.a, START + 5, frames, 4);
	add(&s, s.b, START + 6, frames + 1, 3);
	add(&s, s.a, START + 1, frames, 4);
	p = make(&s);
	assert_int_equal(p->resource_count, 3);
	ASSERT_STR(resource_text(p, 0, "process.executable.path"), "/usr/bin/prog");
	ASSERT_STR(resource_text(p, 1, "process.executable.name"), "other");
	ASSERT_STR(resource_text(p, 1, "host.name"), "here");
	ASSERT_STR(resource_text(p, 2, "process.executable.name"), "");
	ASSERT_STR(resource_text(p, 2, "host.name"), "here");
	ASSERT_STR(p->scopes[0].name, "flametap");
	assert_int_equal(p->sample_count, 2);
	assert_int_equal(p->samples[0].timestamps.count, 2); /* one sample, two events */
	assert_int_equal(p->samples[0].values.count, 0);
	assert_int_equal(p->timestamps[p->samples[0].timestamps.first + 1], START + 1);
	ASSERT_STR(profiles_string(p, p->profiles[0].sample_type.type), "samples");
	ASSERT_STR(profiles_string(p, p->profiles[0].period_type.unit), "nanoseconds");
	assert_int_equal(p->profiles[0].period, 50000000);
	assert_int_equal(p->profiles[0].time_unix_nano, START);
	assert_int_equal(p->profiles[0].duration_nano, WINDOW_NS);
	ASSERT_STR(profiles_attribute(p, p->samples[0].attributes, STR("thread.name"))->string,
		   "worker");
	assert_int_equal(profiles_attribute(p, p->samples[0].attributes, STR("thread.id"))->integer,
			 101);
	assert_int_equal(
		profiles_attribute(p, p->samples[0].attributes, STR("cpu.logical_number"))->integer,
		3);

	l = frame_at(p, 0, 0);
	ASSERT_STR(location_frame_type(p, l), "kernel");
	ASSERT_STR(function_at(p, l, 0), "do_work");
	assert_int_equal(l->address, 0x1000); /* less one, less the start of the kernel */
	m = &p->dict.mappings[l->mapping.v];
	ASSERT_STR(profiles_string(p, m->filename), "vmlinux");
	assert_int_equal(m->memory_limit, 0);

	l = frame_at(p, 0, 1);
	ASSERT_STR(location_frame_type(p, l), "native");
	assert_int_equal(l->address, 0x1200);
	assert_int_equal(l->lines.count, 2);
	ASSERT_STR(function_at(p, l, 0), "inner");
	ASSERT_STR(function_at(p, l, 1), "outer()");
	m = &p->dict.mappings[l->mapping.v];
	ASSERT_STR(profiles_string(p, m->filename), "prog");
	assert_int_equal(m->memory_start, 0x1000);
	assert_int_equal(m->memory_limit, 0x5000);
	ASSERT_STR(profiles_attribute(p, m->attributes, STR("process.executable.build_id.gnu"))
			   ->string,
		   TEST_GNU_ID);
	ASSERT_STR(profiles_attribute(p, m->attributes, STR("process.executable.build_id.htlhash"))
			   ->string,
		   TEST_HASH);
	m = &p->dict.mappings[frame_at(p, 0, 2)->mapping.v];
	assert_int_equal(m->memory_start, 0x7000);
	assert_int_equal(m->file_offset, 0x6000);
	ASSERT_STR(function_at(p, frame_at(p, 0, 3), 0), "[anon]");
	profiles_free(p);
	setup_release(&s);
}

/* -native-symbols=false: what the reference sends. */
static void test_without_native_symbols(void **state)
{
	struct setup s;
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frames[] = {
		{ .kind = FRAME_KERNEL, .address = 0xffff1000 },
		{ .kind = FRAME_UNKNOWN, .address = 0x7f0000001000 },
		{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x1200 },
		{ .kind = FRAME_GO, .executable = s.executable, .address = 0x1200 },
		{ .kind = FRAME_CPYTHON, .address = 0x7f00deadbeef },
	};

	s.options.native_symbols = false;
	add(&s, s.a, START, frames, ARRAY_LEN(frames));
	p = make(&s);
	ASSERT_STR(function_at(p, frame_at(p, 0, 0), 0), "do_work");
	assert_int_equal(frame_at(p, 0, 1)->lines.count, 0);
	assert_int_equal(frame_at(p, 0, 2)->lines.count, 0);
	assert_int_equal(frame_at(p, 0, 2)->address, 0x1200);
	assert_int_equal(frame_at(p, 0, 3)->lines.count, 2); /* Go's names it sends */
	assert_int_equal(frame_at(p, 0, 4)->mapping.v, 0);
	assert_int_equal(frame_at(p, 0, 4)->address, 24); /* the place in the byte code */
	assert_int_equal(account(p, "flametap.unnamed"), 0);
	profiles_free(p);
	setup_release(&s);
}

static void test_go_as_native(void **state)
{
	struct setup s;
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frames[] = {
		{ .kind = FRAME_GO, .executable = s.executable, .address = 0x1200 },
		{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x1200 },
	};

	s.window.go_as_native = true;
	add(&s, s.a, START, frames, 2);
	assert_int_equal(s.window.frame_count, 1);
	p = make(&s);
	ASSERT_STR(location_frame_type(p, frame_at(p, 0, 0)), "native");
	profiles_free(p);
	window_reset(&s.window);
	assert_true(s.window.go_as_native);
	setup_release(&s);
}

static void test_without_inlines(void **state)
{
	struct setup s;
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frame = { .kind = FRAME_NATIVE,
				     .executable = s.executable,
				     .address = 0x1200 };

	s.options.inlines = false;
	add(&s, s.a, START, &frame, 1);
	p = make(&s);
	assert_int_equal(frame_at(p, 0, 0)->lines.count, 1);
	ASSERT_STR(function_at(p, frame_at(p, 0, 0), 0), "outer()");
	profiles_free(p);
	setup_release(&s);
}

/* Samples that differ in labels alone are kept apart, equal ones are one; also in a window that was
 * used before. */
static void test_labels(void **state)
{
	static const char x[] = "\x08\0\x02\0endpoint/x", y[] = "\x08\0\x02\0endpoint/y",
			  both[] = "\x01\0\0\0a\x08\0\x02\0endpoint/x";
	const struct str texts[] = { str_from(x, sizeof(x) - 1),       STR(""),
				     str_from(y, sizeof(y) - 1),       str_from(x, sizeof(x) - 1),
				     str_from(both, sizeof(both) - 1), STR("") };
	static const struct {
		const char *endpoint, *a; /* NULL: it has no such label */
		uint32_t events;
	} want[] = { { "/x", NULL, 2 }, { NULL, NULL, 2 }, { "/y", NULL, 1 }, { "/x", "", 1 } };
	struct trace_frame frame = { .kind = FRAME_KERNEL, .address = 0xffff1000 };
	struct setup s;

	(void)state;
	setup_init(&s, false);
	for (int round = 0; round < 2; round++) {
		struct profiles *p;

		for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
			struct trace t = test_trace(s.a, START + i, &frame, 1);

			t.labels = texts[i];
			assert_true(window_add(&s.window, &t));
		}
		p = make(&s);
		assert_int_equal(p->sample_count, ARRAY_LEN(want));
		for (size_t i = 0; i < ARRAY_LEN(want); i++) {
			const struct any_value *endpoint, *a;

			endpoint = profiles_attribute(p, p->samples[i].attributes,
						      STR("process.context.label.endpoint"));
			a = profiles_attribute(p, p->samples[i].attributes,
					       STR("process.context.label.a"));
			assert_int_equal(p->samples[i].timestamps.count, want[i].events);
			assert_int_equal(endpoint != NULL, want[i].endpoint != NULL);
			assert_int_equal(a != NULL, want[i].a != NULL);
			if (endpoint)
				ASSERT_STR(endpoint->string, want[i].endpoint);
			if (a)
				ASSERT_STR(a->string, want[i].a);
		}
		profiles_free(p);
		window_reset(&s.window);
	}
	setup_release(&s);
}

/* A call and a sample taken in it are one location, and so one stack and one sample. */
static void test_call_and_leaf_are_one(void **state)
{
	struct setup s;
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	struct trace_frame leaf = { .kind = FRAME_NATIVE,
				    .executable = s.executable,
				    .address = 0x1200 };
	struct trace_frame call = leaf;

	call.address = 0x1201;
	call.return_address = true;
	add(&s, s.a, START, &leaf, 1);
	add(&s, s.a, START, &call, 1);
	p = make(&s);
	assert_int_equal(p->sample_count, 1);
	assert_int_equal(p->samples[0].timestamps.count, 2);
	profiles_free(p);
	setup_release(&s);
}

static void test_end_markers(void **state)
{
	const struct {
		bool send, native_symbols;
		uint32_t frames, kept;
		const char *marker;
	} cases[] = {
		{ false, true, 2, 1, NULL },
		{ false, true, 1, 1, "[stack ends: no_rows]" }, /* nothing else is there */
		{ true, true, 2, 2, "[stack ends: no_rows]" },
		{ true, false, 2, 2, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct setup s;
		struct profiles *p;
		const struct location *l;

		setup_init(&s, cases[i].send);
		struct trace_frame frames[] = {
			{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x1200 },
			{ .kind = FRAME_END, .address = 2 },
		};

		s.options.native_symbols = cases[i].native_symbols;
		add(&s, s.a, START, frames + (2 - cases[i].frames), cases[i].frames);
		p = make(&s);
		assert_int_equal(account(p, "flametap.cut.no_rows"), 1);
		assert_int_equal(p->dict.stacks[p->samples[0].stack.v].locations.count,
				 cases[i].kept);
		l = frame_at(p, 0, cases[i].kept - 1);
		if (cases[i].marker) {
			ASSERT_STR(function_at(p, l, 0), cases[i].marker);
			ASSERT_STR(location_frame_type(p, l), "abort-marker");
		} else if (cases[i].send) {
			assert_int_equal(l->lines.count, 0);
			assert_int_equal(l->address, 2);
		}
		profiles_free(p);
		setup_release(&s);
	}
}

static void test_account(void **state)
{
	static const struct report_count dropped[] = { { "ring_full", 12 }, { "nothing", 0 } };
	struct setup s;
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frames[] = {
		{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x1400 },
		{ .kind = FRAME_END, .address = 9 },
		{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x1200 },
		{ .kind = FRAME_END, .address = 1000 },
	};

	s.facts.dropped = dropped;
	s.facts.dropped_count = 2;
	add(&s, s.a, START, frames, 2);
	add(&s, s.a, START + 1, frames, 2);
	add(&s, s.a, START + 2, frames + 2, 2);
	p = make(&s);
	assert_int_equal(account(p, "flametap.window_ns"), WINDOW_NS);
	assert_int_equal(account(p, "flametap.sampled"), 3);
	assert_int_equal(account(p, "flametap.unnamed"), 2);
	assert_int_equal(account(p, "flametap.dropped.ring_full"), 12);
	assert_int_equal(account(p, "flametap.dropped.nothing"), -1);
	assert_int_equal(account(p, "flametap.cut.reason_9"), 2);
	assert_int_equal(account(p, "flametap.cut.reason_63"), 1);
	assert_int_equal(s.totals.processes, 1);
	profiles_free(p);
	setup_release(&s);
}

static void test_nothing_was_sampled(void **state)
{
	struct setup s;
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	p = make(&s);
	assert_int_equal(p->resource_count, 1);
	assert_int_equal(account(p, "flametap.sampled"), 0);
	assert_int_equal(account(p, "flametap.window_ns"), WINDOW_NS);
	profiles_free(p);
	setup_release(&s);
}

/* Samples that came late or early widen the profile, so that none lies outside of it. */
static void test_times_outside_the_window(void **state)
{
	struct setup s;
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frame = { .kind = FRAME_NATIVE,
				     .executable = s.executable,
				     .address = 0x1200 };

	add(&s, s.a, START - 70, &frame, 1);
	add(&s, s.a, START + WINDOW_NS + 30, &frame, 1);
	p = make(&s);
	assert_int_equal(p->profiles[0].time_unix_nano, START - 70);
	assert_int_equal(p->profiles[0].duration_nano, WINDOW_NS + 101);
	profiles_free(p);
	setup_release(&s);
}

static void test_resource_attributes(void **state)
{
	static const struct process_variable variables[] = { { { "REGION", 6 }, { "eu", 2 } } };
	static const struct key_value common[] = {
		{ .key = { "host.name", 9 },
		  .value = { .kind = ANY_STRING, .string = { "here", 4 } } },
		{ .key = { "container.id", 12 },
		  .value = { .kind = ANY_STRING, .string = { "mine", 4 } } },
	};
	const struct process_info own = { .pid = 1,
					  .executable_path = STR("/x"),
					  .executable_name = STR("x"),
					  .container_id = STR("abc"),
					  .service_name = STR("said-by-itself"),
					  .variables = variables,
					  .variable_count = 1 };
	struct process_info *p1 = process_info_new(&own);
	struct setup s;
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frame = { .kind = FRAME_NATIVE,
				     .executable = s.executable,
				     .address = 0x1200 };

	s.options.service_name = STR("by-flag");
	s.options.attributes = common;
	s.options.attribute_count = 2;
	add(&s, p1, START, &frame, 1);
	add(&s, s.a, START, &frame, 1);
	p = make(&s);
	ASSERT_STR(resource_text(p, 0, "container.id"), "abc"); /* its own, not the agent's */
	ASSERT_STR(resource_text(p, 0, "service.name"), "said-by-itself");
	ASSERT_STR(resource_text(p, 0, "process.environment_variable.REGION"), "eu");
	ASSERT_STR(resource_text(p, 1, "service.name"), "by-flag");
	ASSERT_STR(resource_text(p, 1, "container.id"), "mine");
	ASSERT_STR(resource_text(p, 2, "service.name"), "by-flag");
	profiles_free(p);
	process_info_unref(p1);
	setup_release(&s);
}

/* Two images of one pid, made anew by exec or a resync, are one resource when nothing differs. */
static void test_equal_processes_are_one(void **state)
{
	struct setup s;
	struct process_info *again = test_process(100, "/usr/bin/prog", "prog");
	struct process_info *renamed = test_process(100, "/usr/bin/prog2", "prog2");
	struct profiles *p;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frame = { .kind = FRAME_NATIVE,
				     .executable = s.executable,
				     .address = 0x1200 };

	add(&s, s.a, START, &frame, 1);
	add(&s, again, START, &frame, 1);
	add(&s, renamed, START, &frame, 1);
	p = make(&s);
	assert_int_equal(p->resource_count, 3);
	assert_int_equal(p->sample_count, 2);
	profiles_free(p);
	process_info_unref(again);
	process_info_unref(renamed);
	setup_release(&s);
}

/* What is final is asked for once, over reports; what may be known later is asked for again. */
static void test_names_are_kept(void **state)
{
	struct setup s;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frames[] = {
		{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x1200 },
		{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x1300 },
	};

	for (int i = 0; i < 3; i++) {
		add(&s, s.a, START, frames, 2);
		profiles_free(make(&s));
		window_reset(&s.window);
	}
	assert_int_equal(s.namer.asked, 1 + 3);
	setup_release(&s);
}

/* A frame of a process means nothing in another one. */
static void test_frames_of_a_process_are_its_own(void **state)
{
	struct setup s;

	(void)state;
	setup_init(&s, false);
	struct trace_frame frame = { .kind = FRAME_CPYTHON, .address = 0x5000 };

	add(&s, s.a, START, &frame, 1);
	add(&s, s.b, START, &frame, 1);
	assert_int_equal(s.window.frame_count, 2);
	profiles_free(make(&s));
	assert_int_equal(s.namer.asked, 2);
	setup_release(&s);
}

static void test_window_is_bounded(void **state)
{
	struct window w;
	struct process_info *p = test_process(1, "/x", "x");
	struct trace_frame frames[100];
	uint32_t added = 0;

	(void)state;
	window_init(&w, 64 << 10, false);
	for (uint64_t i = 0; i < 10000; i++) {
		struct trace t = test_trace(p, i, frames, ARRAY_LEN(frames));

		for (uint32_t k = 0; k < ARRAY_LEN(frames); k++)
			frames[k] = (struct trace_frame){ .kind = FRAME_UNKNOWN,
							  .address = i * 1000 + k };
		if (!window_add(&w, &t))
			break;
		added++;
		assert_true(w.bytes <= 64 << 10);
	}
	assert_true(added > 0 && added < 10000);
	assert_int_equal(w.event_count, added);
	window_reset(&w);
	assert_int_equal(w.event_count, 0);
	struct trace t = test_trace(p, 1, frames, 1);
	assert_true(window_add(&w, &t));
	window_release(&w);
	process_info_unref(p);
}

/* The hash of the reference's captures: the kernel that made them. */
static void test_kernel_hash(void **state)
{
	static const struct {
		const char *id, *hash;
	} cases[] = {
		{ "", "6c62272e07bb014262b821756295c58d" },
		{ "a", "d228cb696f1a8caf78912b704e4a8964" }, /* FNV's published test vector */
		{ "foobar", "343e1662793c64bf6f0d3597ba446f18" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char hash[33];

		report_kernel_hash(str_cstr(cases[i].id), hash);
		assert_string_equal(hash, cases[i].hash);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_without_native_symbols),
		cmocka_unit_test(test_go_as_native),
		cmocka_unit_test(test_without_inlines),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_call_and_leaf_are_one),
		cmocka_unit_test(test_end_markers),
		cmocka_unit_test(test_account),
		cmocka_unit_test(test_nothing_was_sampled),
		cmocka_unit_test(test_times_outside_the_window),
		cmocka_unit_test(test_resource_attributes),
		cmocka_unit_test(test_equal_processes_are_one),
		cmocka_unit_test(test_names_are_kept),
		cmocka_unit_test(test_frames_of_a_process_are_its_own),
		cmocka_unit_test(test_window_is_bounded),
		cmocka_unit_test(test_kernel_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
