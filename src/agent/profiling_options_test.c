#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "agent/profiling_options.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "pipeline/node.h"

struct filled {
	struct arena arena;
	struct profiling_options o;
};

static void fill(struct filled *f, const char *yaml)
{
	uint32_t nodes_left = NODES_MOST;
	struct problems problems;
	struct config_node *node;

	*f = (struct filled){ 0 };
	arena_init(&f->arena, 4096, 0);
	problems_init(&problems);
	node = node_parse(&f->arena, str_cstr(yaml), "test", &nodes_left, &problems);
	options_fill(profiling_fields, &f->o, node, "receivers::profiling", &f->arena, &problems);
	if (problems.error_count)
		fail_msg("options: %s", yaml);
	problems_release(&problems);
}

static void test_tracer_lists(void **state)
{
	static const struct {
		const char *list, *set, *named; /* set, named: as tracers_append() has them */
	} cases[] = {
		{ "", "", "" },
		{ "native", "", "" },
		{ " Python , GO,,", "python,go", "python,go" },
		{ "all", "perl,php,python,hotspot,ruby,v8,dotnet,go,labels,beam,luajit", "" },
		{ "all,perl", "perl,php,python,hotspot,ruby,v8,dotnet,go,labels,beam,luajit",
		  "perl" },
		{ "cobol", NULL, NULL },
		{ "python go", NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_release) struct buf set_text = { 0 };
		AUTO(buf_release) struct buf named_text = { 0 };
		uint32_t set, named;
		struct err err;

		if (tracers_parse(str_cstr(cases[i].list), &set, &named, &err) !=
		    (cases[i].set != NULL))
			fail_msg("\"%s\"", cases[i].list);
		if (!cases[i].set)
			continue;
		tracers_append(&set_text, set);
		tracers_append(&named_text, named);
		if (!str_is(buf_view(&set_text), cases[i].set) ||
		    !str_is(buf_view(&named_text), cases[i].named))
			fail_msg("\"%s\" is %.*s, named %.*s", cases[i].list,
				 STR_ARG(buf_view(&set_text)), STR_ARG(buf_view(&named_text)));
	}
}

static void test_cpus(void **state)
{
	static const struct {
		const char *wanted, *online, *possible;
		const char *absent; /* NULL: refused */
	} cases[] = {
		{ "", "0-1", "0-1", "" },
		{ "1", "0-1\n", "0-1\n", "" },
		{ "0-1", "0", "0-3", "1" },
		{ "2-3", "0-1", "0-3", "2, 3" }, /* they may be plugged in */
		{ "0-5", "0-1", "0-3", "2, 3, 4, 5" },
		{ "99", "0-1", "0-1", NULL },
		{ "4-6,99", "0-1", "0-3", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_release) struct buf absent = { 0 };
		struct profiling_options o = { .pin_cpu_ids = cases[i].wanted };
		struct err err;
		bool ok = profiling_cpus_check(&o, str_cstr(cases[i].online),
					       str_cstr(cases[i].possible), &absent, &err);

		if (ok != (cases[i].absent != NULL) ||
		    (ok && !str_is(buf_view(&absent), cases[i].absent)))
			fail_msg("\"%s\": %d, \"%.*s\"", cases[i].wanted, ok,
				 STR_ARG(buf_view(&absent)));
		if (!ok && !strstr(err.msg, cases[i].possible))
			fail_msg("%s", err.msg);
	}
}

static void test_switches(void **state)
{
	struct filled f;
	uint32_t set, named;
	struct err err;

	(void)state;
	fill(&f,
	     "{tracers: \"python,go,labels,perl\", interpreters: {python: {disabled: true}, go: "
	     "{labels: {disabled: true}}}}");
	assert_true(profiling_tracers(&f.o, &set, &named, &err));
	assert_int_equal(set, 1u << TRACER_GO | 1u << TRACER_PERL);
	assert_int_equal(named, set);
	arena_release(&f.arena);
	fill(&f, "{interpreters: {go: {disabled: true}}}");
	assert_true(profiling_tracers(&f.o, &set, &named, &err));
	assert_false(set & (1u << TRACER_GO | 1u << TRACER_LABELS));
	assert_true(set & 1u << TRACER_PYTHON);
	arena_release(&f.arena);
}

static void test_for_the_agent(void **state)
{
	struct agent_options a;
	struct filled f;
	struct err err;

	(void)state;
	fill(&f,
	     "{samples_per_second: 97, pin_cpu_ids: \"2,0-1\", pids: [7, \"9\"], cgroups: [/a], "
	     "process_filter: x, send_idle_frames: true, map_scale_factor: 2, unwind_memory: "
	     "1MiB, include_env_vars: \"A,B\", clock_sync_interval: 1m}");
	assert_true(profiling_options_check(&f.o, &err));
	assert_true(profiling_agent_options(&f.o, &f.arena, &a, &err));
	assert_int_equal(a.sampling.samples_per_second, 97);
	assert_int_equal(a.sampling.cpu_count, 3);
	assert_true(a.sampling.send_idle);
	assert_int_equal(a.sampling.scale, 2);
	assert_int_equal(a.filter.pid_count, 2);
	assert_int_equal(a.filter.pids[1], 9);
	assert_string_equal(a.filter.process_regex, "x");
	assert_int_equal(a.filter.cgroup_count, 1);
	assert_string_equal(a.filter.cgroups[0], "/a");
	assert_int_equal(a.unwind_memory_bytes, 1 << 20);
	assert_int_equal(a.variable_count, 2);
	assert_string_equal(a.variables[1], "B");
	assert_int_equal(a.clock_sync_ns, MINUTE_NS);
	arena_release(&f.arena);
	fill(&f, "{}");
	assert_true(profiling_options_check(&f.o, &err));
	assert_true(profiling_agent_options(&f.o, &f.arena, &a, &err));
	assert_int_equal(a.sampling.cpu_count, 0); /* all */
	assert_int_equal(a.filter.pid_count + a.filter.cgroup_count, 0);
	arena_release(&f.arena);
}

/* What a running agent can go on with, and what it cannot. */
static void test_sampler_key(void **state)
{
	static const struct {
		const char *one, *other;
		bool same;
	} cases[] = {
		{ "{}", "{}", true },
		{ "{process_filter: a}", "{process_filter: b}", true },
		{ "{service_name: a, reporter_interval: 1s}", "{inlines: true}", true },
		{ "{samples_per_second: 20}", "{samples_per_second: 21}", false },
		{ "{tracers: python}", "{tracers: hotspot}", false },
		{ "{pids: [1, 2]}", "{pids: [1, 2]}", true },
		{ "{pids: [1, 2]}", "{pids: [12]}", false },
		{ "{include_env_vars: [ab]}", "{include_env_vars: [a, b]}", false },
		{ "{pin_cpu_ids: \"0\"}", "{}", false },
		{ "{unwind_memory: 1MiB}", "{unwind_memory: 2MiB}", false },
		{ "{runtime_tables: /a}", "{runtime_tables: /b}", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf keys[2] = { { 0 }, { 0 } };
		struct filled f;

		fill(&f, cases[i].one);
		profiling_sampler_key(&f.o, &keys[0]);
		arena_release(&f.arena);
		fill(&f, cases[i].other);
		profiling_sampler_key(&f.o, &keys[1]);
		arena_release(&f.arena);
		if (str_equal(buf_view(&keys[0]), buf_view(&keys[1])) != cases[i].same)
			fail_msg("%s and %s", cases[i].one, cases[i].other);
		buf_release(&keys[0]);
		buf_release(&keys[1]);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *yaml, *says;
	} cases[] = {
		{ "{samples_per_second: 0}", "invalid sampling frequency: 0" },
		{ "{samples_per_second: 10001}", "invalid sampling frequency: 10001" },
		{ "{map_scale_factor: 9}", "exceeds limit (max: 8)" },
		{ "{bpf_verifier_log_level: 3}", "verifier log level: 3" },
		{ "{probabilistic_interval: 59s}", "between 1m and 5m" },
		{ "{probabilistic_threshold: 0}", "between 1 and 100" },
		{ "{reporter_interval: 1ms}", "less than 100ms" },
		{ "{off_cpu_threshold: 0.5}", "not offered yet" },
		{ "{probes: [{type: kprobe}]}", "probes are not offered yet" },
		{ "{load_probe: true}", "load_probe" },
		{ "{pids: [0]}", "no process id" },
		{ "{pids: [5000000000]}", "no process id" },
		{ "{process_filter: \"(\"}", "no regular expression" },
		{ "{tracers: x}", "unknown tracer: x" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct filled f;
		struct err err;

		fill(&f, cases[i].yaml);
		if (profiling_options_check(&f.o, &err) || !strstr(err.msg, cases[i].says))
			fail_msg("%s: %s", cases[i].yaml, err.msg);
		arena_release(&f.arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tracer_lists), cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_switches),     cmocka_unit_test(test_for_the_agent),
		cmocka_unit_test(test_sampler_key),  cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
