#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/config.h"

#include <stdio.h>

#include "support/pipeline_fakes.h"

/* A configuration around the one thing that a row is about. */
#define GOOD_SERVICE                                                                        \
	"service:\n  pipelines:\n    profiles:\n      receivers: [hand]\n      exporters: " \
	"[record]\n"
#define GOOD "receivers:\n  hand:\nexporters:\n  record:\n" GOOD_SERVICE

static struct config *load(const char *yaml, struct problems *problems)
{
	struct config_source source = { CONFIG_FROM_TEXT, yaml, "c.yaml" };

	problems_init(problems);
	return config_load(&source, 1, fake_components, problems);
}

static char *problem_text(const struct problems *p)
{
	struct buf out;
	size_t len;

	buf_init(&out, 0);
	problems_write(p, true, &out);
	buf_char(&out, 0);
	return buf_take(&out, &len);
}

/* Every `want` must be in the messages. */
static const struct {
	const char *yaml;
	const char *want[4];
} bad[] = {
	{ "", { "empty configuration file" } },
	{ "[1, 2]", { "c.yaml:1:1: a configuration must be a map, got slice" } },
	{ "a: [1", { "c.yaml:2:1: not YAML: did not find expected" } },
	{ "a: 1\n---\nb: 1\n", { "c.yaml:2:1: a second YAML document" } },
	{ GOOD "foo: 1\n",
	  { "c.yaml:10:1: unknown section \"foo\"",
	    "'otelcol.configSettings' has invalid keys: foo" } },
	{ GOOD "servce: 1\n", { "(did you mean \"service\"?)" } },
	{ "receivers: 3\nexporters: {record: }\n" GOOD_SERVICE,
	  { "receivers: must be a map, got int" } },
	{ "receivers:\n  hnd:\n  hand:\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "c.yaml:2:3: receivers::hnd: there is no receiver \"hnd\" (did you mean \"hand\"?)",
	    "'receivers' unknown type: \"hnd\" for id: \"hnd\" (valid values: [hand])" } },
	{ "receivers:\n  hand:\n    slt: 1\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "c.yaml:3:5: receivers::hand: unknown key \"slt\" (did you mean \"slot\"?)",
	    "has invalid keys: slt" } },
	{ "receivers:\n  hand:\n    slot: x\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "c.yaml:3:11: receivers::hand: \"slot\" must be a whole number, got \"x\"",
	    "'slot' expected type 'int', got unconvertible type 'string'" } },
	{ "receivers:\n  hand:\n    slot: 4\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "\"slot\" is 4, must be between 0 and 3" } },
	{ "receivers:\n  hand:\n    slot: 4294967296\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "\"slot\" is 4294967296, must be at most 4294967295" } },
	{ "receivers:\n  hand:\n    slot: {a: 1}\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "must be a single value, got map" } },
	{ "receivers:\n  hand: 7\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "receivers::hand: must be a map, got int" } },
	{ "receivers:\n  hand:\n    fail_start: maybe\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "must be true or false", "expected type 'bool'" } },
	{ "receivers:\n  hand:\n    slot: 1\n    slot: 2\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "c.yaml:4:5: mapping key \"slot\" already defined at line 3" } },
	{ "receivers:\n  hand:\n    slot: 1\n    Slot_Number: 2\nexporters:\n  "
	  "record:\n" GOOD_SERVICE,
	  { "c.yaml:4:5: receivers::hand: \"Slot_Number\" is \"slot\" of line 3 again" } },
	{ "receivers:\n  hand:\n    fail_check: true\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "c.yaml:2:3: receivers::hand: 'fail_check' must not be true" } },
	{ "receivers:\n  hand/:\n  1x:\n  hand:\nexporters:\n  record:\n" GOOD_SERVICE,
	  { "receivers: invalid id \"hand/\"", "receivers: invalid id \"1x\"" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nconnectors:\n  forward:\n" GOOD_SERVICE,
	  { "'connectors' unknown type: \"forward\" for id: \"forward\"" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nservice:\n  pipelines:\n    profiles:\n     "
	  " receivers: [hand]\n      exporters: [recrd, record]\n",
	  { "c.yaml:9:19: service::pipelines::profiles: references exporter \"recrd\" which is not "
	    "configured (did you mean \"record\"?)" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nservice:\n  extensions: [zpages]\n  "
	  "pipelines:\n    profiles: {receivers: [hand], exporters: [record]}\n",
	  { "service::extensions: references extension \"zpages\" which is not configured" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nservice:\n  pipelines:\n    profile: "
	  "{receivers: [hand], exporters: [record]}\n",
	  { "(did you mean \"profiles\"?)",
	    "'service.pipelines' in \"profile\" id: unknown pipeline signal: \"profile\"" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nservice:\n  pipelines:\n    traces/2: "
	  "{receivers: [hand], exporters: [record]}\n",
	  { "service::pipelines::traces/2: this program moves profiles; it has no component for "
	    "the signal \"traces\"",
	    "telemetry type is not supported" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nservice:\n  pipelines:\n    profiles:\n",
	  { "service::pipelines::profiles: must have at least one receiver",
	    "service::pipelines::profiles: must have at least one exporter" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nprocessors: {pass: }\nservice:\n  "
	  "pipelines:\n    profiles: {receivers: [hand], exporters: [record], processors: [pass, "
	  "pass]}\n",
	  { "references processor \"pass\" multiple times" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nservice:\n  pipelines:\n",
	  { "service::pipelines: service must have at least one pipeline" } },
	{ "service:\n  pipelines:\n    profiles: {receivers: [hand], exporters: [record]}\n",
	  { "no receiver configuration specified in config",
	    "no exporter configuration specified in config" } },
	{ "receivers:\n  hand:\nexporters:\n  record:\nservice:\n  pipelins: {}\n",
	  { "service: unknown key \"pipelins\" (did you mean \"pipelines\"?)" } },
	{ GOOD "  telemetry:\n    logs: {level: inf}\n",
	  { "\"level\" is \"inf\" (did you mean \"info\"?); valid values: debug, info, warn, "
	    "error" } },
	{ GOOD "  telemetry:\n    metrics: {level: normal, readers: []}\n",
	  { "collector telemetry metrics reader should exist when metric level is not none" } },
	{ GOOD "  telemetry:\n    metrics: {address: \":8888\"}\n",
	  { "has invalid keys: address" } },
	{ GOOD "  flametap:\n    dedup_window: soon\n",
	  { "must be a duration such as 10s or 1m30s, got \"soon\"" } },
	{ "x: *nowhere\n", { "unknown anchor 'nowhere' referenced" } },
	{ "x: &a [*a]\n", { "unknown anchor 'a' referenced" } },
	{ "? [1]\n: 2\n", { "a key must be plain text" } },
	{ "<<: 3\n", { "map merge requires map or list of maps" } },
	{ "a: ${foo:bar}\n",
	  { "c.yaml:1:4: scheme \"foo\" is not supported for uri \"foo:bar\"" } },
	{ "a: ${1X}\n",
	  { "environment variable \"1X\" has invalid name: must match regex "
	    "^[a-zA-Z_][a-zA-Z0-9_]*$" } },
	{ "a: ${file:/nonexistent/x}\n", { "unable to read the file file:/nonexistent/x: open" } },
	/* All at once: two sections and the service. */
	{ "receivers:\n  hand: {slot: a}\nexporters:\n  record: {slot: b}\nservice:\n  pipelines: "
	  "{profiles: {receivers: [x], exporters: [record]}}\n",
	  { "receivers::hand: \"slot\"", "exporters::record: \"slot\"",
	    "references receiver \"x\"" } },
};

static void test_errors(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct problems problems;
		struct config *c = load(bad[i].yaml, &problems);
		char *text = problem_text(&problems);

		if (c)
			fail_msg("accepted:\n%s", bad[i].yaml);
		for (size_t k = 0; k < 4 && bad[i].want[k]; k++)
			if (!strstr(text, bad[i].want[k]))
				fail_msg("wanted: %s\ngot: %s\nof:\n%s", bad[i].want[k], text,
					 bad[i].yaml);
		free(text);
		problems_release(&problems);
	}
}

static void test_good(void **state)
{
	struct problems problems;
	struct config *c = load(GOOD, &problems);

	(void)state;
	assert_non_null(c);
	assert_int_equal(problems.count, 0);
	assert_int_equal(c->component_count, 2);
	assert_int_equal(c->pipeline_count, 1);
	assert_string_equal(c->pipelines[0].id, "profiles");
	assert_string_equal(c->pipelines[0].receivers[0]->id, "hand");
	assert_string_equal(c->telemetry.metrics.host, "localhost");
	assert_int_equal(c->telemetry.metrics.port, 8888);
	assert_int_equal(c->engine.max_inflight_bytes, 256 << 20);
	assert_true(c->engine.strict);
	assert_int_equal(c->engine.dedup_window_ns, 600 * SECOND_NS);
	assert_null(c->engine.spool.directory);
	config_free(c);
	problems_release(&problems);
}

static const struct {
	const char *yaml, *want;
} warnings[] = {
	{ "receivers:\n  byhand:\nexporters:\n  record:\nservice:\n  pipelines: {profiles: "
	  "{receivers: [byhand], exporters: [record]}}\n",
	  "\"byhand\" alias is deprecated; use \"hand\" instead" },
	{ "receivers:\n  hand: {old_slot: 1}\nexporters:\n  record:\n" GOOD_SERVICE,
	  "\"old_slot\" is deprecated; use \"slot\" instead" },
	{ "receivers:\n  hand:\nexporters:\n  record:\n  far: {timeout: 10}\n" GOOD_SERVICE,
	  "\"timeout: 10\" has no unit and counts nanoseconds; write for example \"10s\"" },
	{ "receivers:\n  hand: {slot: \"${env:FLAMETAP_TEST_UNSET}\"}\nexporters:\n  "
	  "record:\n" GOOD_SERVICE,
	  "Configuration references unset environment variable \"FLAMETAP_TEST_UNSET\"" },
	{ "receivers:\n  hand:\nexporters:\n  record:\nservice:\n  pipelines: {profiles: "
	  "{receivers: [hand, hand], exporters: [record]}}\n",
	  "references receiver \"hand\" multiple times; once is meant" },
	{ GOOD "  telemetry: {metrics: {readers: [{periodic: {}}]}}\n",
	  "only a pull reader with a prometheus exporter is served here" },
};

static void test_warnings(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(warnings); i++) {
		struct problems problems;
		struct config *c = load(warnings[i].yaml, &problems);
		char *text = problem_text(&problems);

		if (!c || !strstr(text, warnings[i].want))
			fail_msg("wanted: %s\ngot: %s\nof:\n%s", warnings[i].want, text,
				 warnings[i].yaml);
		free(text);
		config_free(c);
		problems_release(&problems);
	}
}

static struct fake_state *state_of(const struct config *c, enum component_kind kind, const char *id,
				   struct arena *arena)
{
	const struct config_component *component = config_component_find(c, kind, id);
	struct problems problems;
	void *state;

	assert_non_null(component);
	problems_init(&problems);
	state = config_component_state(component, arena, &problems);
	assert_non_null(state);
	problems_release(&problems);
	return state;
}

static void test_sources(void **state)
{
	const struct config_source sources[] = {
		{ CONFIG_FROM_SET, "exporters.far.sending_queue.queue_size=7", NULL },
		{ CONFIG_FROM_TEXT,
		  GOOD "  extensions: [ext, ext/2]\nextensions: {ext: , ext/2: }\n", "one.yaml" },
		{ CONFIG_FROM_URI,
		  "yaml:exporters::far::sending_queue: {queue_size: 5, "
		  "num_consumers: 3}",
		  NULL },
		{ CONFIG_FROM_URI, "env:FLAMETAP_TEST_CONFIG", NULL },
	};
	struct fake_state *far;
	struct problems problems;
	struct arena arena;
	struct config *c;

	(void)state;
	setenv("FLAMETAP_TEST_CONFIG", "service: {extensions: [ext/2]}", 1);
	problems_init(&problems);
	arena_init(&arena, 1024, 0);
	c = config_load(sources, ARRAY_LEN(sources), fake_components, &problems);
	assert_non_null(c);
	assert_int_equal(c->extension_count, 1); /* lists are replaced, not appended to */
	assert_string_equal(c->extensions[0]->id, "ext/2");
	far = state_of(c, COMPONENT_EXPORTER, "far", &arena); /* --set made it, and came last */
	assert_int_equal(far->sending.queue.queue_size, 7);
	assert_int_equal(far->sending.queue.num_consumers, 3);
	assert_int_equal(far->sending.retry.initial_interval_ns, 5 * SECOND_NS);
	fake_release_state(far);
	free(far);
	config_free(c);
	arena_release(&arena);
	problems_release(&problems);
}

static const struct {
	enum config_source_kind kind;
	const char *text, *want;
} bad_sources[] = {
	{ CONFIG_FROM_URI, "foo:bar", "unsupported scheme on URI \"foo:bar\"" },
	{ CONFIG_FROM_URI, "file:nope.yaml",
	  "cannot retrieve the configuration: unable to read the file file:nope.yaml: open "
	  "nope.yaml: " },
	{ CONFIG_FROM_URI, "./no:pe.yaml", "unable to read the file file:./no:pe.yaml" },
	{ CONFIG_FROM_URI, "/", "is a directory" },
	{ CONFIG_FROM_SET, "a.b=c", "at least one config flag must be provided" },
	{ CONFIG_FROM_SET, "ab", "missing equal sign" },
};

static void test_bad_sources(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_sources); i++) {
		struct config_source s = { bad_sources[i].kind, bad_sources[i].text, NULL };
		struct problems problems;
		char *text;

		problems_init(&problems);
		assert_null(config_load(&s, 1, fake_components, &problems));
		text = problem_text(&problems);
		if (!strstr(text, bad_sources[i].want))
			fail_msg("wanted: %s\ngot: %s", bad_sources[i].want, text);
		free(text);
		problems_release(&problems);
	}
}

static char *print(const struct config *c)
{
	struct buf out;
	size_t len;

	buf_init(&out, 0);
	config_print(c, &out);
	buf_char(&out, 0);
	return buf_take(&out, &len);
}

static const char *const printed[] = {
	GOOD,
	GOOD "  telemetry: {logs: {level: warn, initial_fields: {a: \"1\", b: [x, 2]}}, metrics: "
	     "{level: none}}\n  flametap: {durable: true, spool: {directory: \"/a b: c\", max_mib: "
	     "9}}\n",
	"receivers:\n  hand/ab:\n  hand/x:\n    slot: ${env:FLAMETAP_TEST_SLOT}\nexporters:\n  "
	"record:\n  far:\n    timeout: 1m30s\n    retry_on_failure: {multiplier: 1.1, "
	"max_elapsed_time: 0s}\n    sending_queue: {storage: \"a$$b ${FLAMETAP_TEST_SLOT}\"}\n"
	"service:\n  pipelines: {profiles/2: {receivers: [hand/x], exporters: [far, record]}}\n",
};

/* Loading what was printed and printing it again gives the same bytes. */
static void test_print(void **state)
{
	(void)state;
	setenv("FLAMETAP_TEST_SLOT", "2", 1);
	for (size_t i = 0; i < ARRAY_LEN(printed); i++) {
		struct problems problems, again;
		struct config *c = load(printed[i], &problems), *d;
		char *first, *second;

		if (!c)
			fail_msg("%s\n%s", printed[i], problem_text(&problems));
		first = print(c);
		d = load(first, &again);
		if (!d)
			fail_msg("%s\n%s", first, problem_text(&again));
		second = print(d);
		assert_string_equal(first, second);
		if (i == 2) {
			assert_non_null(strstr(first, "slot: ${env:FLAMETAP_TEST_SLOT}"));
			assert_non_null(strstr(first, "storage: a$$b ${FLAMETAP_TEST_SLOT}"));
			assert_non_null(strstr(first, "timeout: 1m30s"));
			assert_non_null(strstr(first, "multiplier: 1.1"));
		}
		free(first);
		free(second);
		config_free(c);
		config_free(d);
		problems_release(&problems);
		problems_release(&again);
	}
}

/* Nodes and depth are bounded; an alias counts as all that it stands for. */
static void test_limits(void **state)
{
	struct problems problems;
	struct buf b;
	char *text;

	(void)state;
	buf_init(&b, 0);
	buf_lit(&b, "a: &a [1,1,1,1,1,1,1,1,1,1]\n");
	for (char c = 'b'; c <= 'i'; c++)
		buf_printf(&b, "%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c - 1,
			   c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
	buf_char(&b, 0);
	assert_null(load(b.ptr, &problems));
	text = problem_text(&problems);
	assert_non_null(strstr(text, "too large: a configuration may hold 100000 values"));
	free(text);
	problems_release(&problems);

	buf_reset(&b);
	for (int i = 0; i < 100; i++)
		buf_char(&b, '[');
	buf_char(&b, 0);
	assert_null(load(b.ptr, &problems));
	text = problem_text(&problems);
	assert_non_null(strstr(text, "nested more than 64 deep"));
	free(text);
	problems_release(&problems);
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors),      cmocka_unit_test(test_good),
		cmocka_unit_test(test_warnings),    cmocka_unit_test(test_sources),
		cmocka_unit_test(test_bad_sources), cmocka_unit_test(test_print),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
