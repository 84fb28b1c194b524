#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/graph.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "support/pipeline_fakes.h"

struct fixture {
	struct graph *graph;
	struct budget budget;
	struct metrics *metrics;
	atomic_int failures;
};

static void on_fail(void *arg, const struct err *err)
{
	struct fixture *f = arg;

	(void)err;
	atomic_fetch_add(&f->failures, 1);
}

static struct config *config_of(const char *yaml, struct problems *problems)
{
	struct config_source source = { CONFIG_FROM_TEXT, yaml, "g.yaml" };

	return config_load(&source, 1, fake_components, problems);
}

static void setup(struct fixture *f, const char *yaml)
{
	struct graph_env env = { .fail = on_fail, .fail_arg = f };
	struct problems problems;
	struct config *c;
	struct buf text;

	*f = (struct fixture){ 0 };
	for (size_t i = 0; i < 3; i++)
		fake_reset(&fake_record[i]);
	fake_reset(&fake_far);
	fake_trace[0] = 0;
	budget_init(&f->budget, 64 << 20);
	f->metrics = metrics_new();
	env.budget = &f->budget;
	env.metrics = f->metrics;
	problems_init(&problems);
	c = config_of(yaml, &problems);
	if (c)
		f->graph = graph_new(c, &env, &problems);
	buf_init(&text, 0);
	problems_write(&problems, false, &text);
	if (!f->graph)
		fail_msg("%.*s", STR_ARG(buf_view(&text)));
	buf_release(&text);
	problems_release(&problems);
}

static void start(struct fixture *f)
{
	struct err err = { 0 };

	if (!graph_start(f->graph, &err))
		fail_msg("%s", err.msg);
}

static void teardown(struct fixture *f)
{
	graph_stop(f->graph, clock_monotonic_ns() + 60 * SECOND_NS);
	graph_free(f->graph);
	metrics_free(f->metrics);
	assert_int_equal(budget_used(&f->budget), 0); /* nothing is left behind */
}

static int64_t metric(struct fixture *f, const char *line)
{
	const char *at, *want;
	long long value = -1;
	struct buf b;

	buf_init(&b, 0);
	metrics_write(f->metrics, &b);
	buf_char(&b, 0);
	want = line;
	at = strstr(b.ptr, want);
	if (at)
		sscanf(at + strlen(want), " %lld", &value);
	buf_release(&b);
	return value;
}

#define SINKS "exporters: {record: , record/1: {slot: 1}, record/2: {slot: 2}, far: }\n"

/* Exporters first, receivers last; the other way round at the end; processors one for each
 * pipeline. */
static void test_life_cycle(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f,
	      "receivers: {hand: , hand/unused: {slot: 1}}\nprocessors: {pass: , pass/2: }\n" SINKS
	      "extensions: {ext: }\nservice:\n  extensions: [ext]\n  pipelines:\n    profiles: "
	      "{receivers: [hand], processors: [pass, pass/2], exporters: [record]}\n    "
	      "profiles/2: {receivers: [hand], processors: [pass], exporters: [record]}\n");
	start(&f);
	assert_string_equal(fake_trace, "start ext,start record,start pass/2,start pass,start "
					"pass,start hand");
	fake_trace[0] = 0;
	graph_stop(f.graph, clock_monotonic_ns() + 60 * SECOND_NS);
	assert_string_equal(fake_trace,
			    "stop hand,stop pass,stop pass,stop pass/2,stop record,stop "
			    "ext");
	teardown(&f);
}

static void test_start_fails(void **state)
{
	struct fixture f;
	struct err err;

	(void)state;
	setup(&f, "receivers: {hand: , hand/bad: {slot: 1, fail_start: true}}\n" SINKS
		  "service: {pipelines: {profiles: {receivers: [hand, hand/bad], exporters: "
		  "[record]}}}\n");
	assert_false(graph_start(f.graph, &err));
	assert_string_equal(err.msg, "failed to start \"hand/bad\" receiver: listen tcp "
				     "127.0.0.1:1: bind: address already in use");
	assert_string_equal(fake_trace, "start record,start hand,stop hand,stop record");
	assert_false(graph_running(f.graph));
	teardown(&f);
}

static void test_fail_callback(void **state)
{
	struct err err = { .kind = ERR_INTERNAL, .msg = "broken" };
	struct fixture f;

	(void)state;
	setup(&f, "receivers: {hand: }\n" SINKS
		  "service: {pipelines: {profiles: {receivers: [hand], exporters: [record]}}}\n");
	start(&f);
	(fake_hands[0]->fail)(fake_hands[0],
			      &err); /* in brackets: cmocka has a macro of that name */
	assert_int_equal(f.failures, 1);
	teardown(&f);
}

/* A mutating pipeline changes its own copy; the other sees what came. */
static void test_copies(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "receivers: {hand: }\nprocessors: {change: }\n" SINKS
		  "service:\n  pipelines:\n    profiles: {receivers: [hand], processors: [change], "
		  "exporters: [record]}\n    profiles/2: {receivers: [hand], exporters: "
		  "[record/1]}\n");
	start(&f);
	assert_int_equal(feed(fake_hands[0]->next, fake_batch(5, 1, &f.budget)).kind, OUTCOME_OK);
	assert_int_equal(fake_record[0].samples, 5);
	assert_int_equal(fake_record[1].samples, 5);
	/* The copy keeps the identity of the request. */
	assert_memory_equal(&fake_record[0].hashes[0], &fake_record[1].hashes[0],
			    sizeof(struct hash128));
	assert_int_equal(metric(&f, "otelcol_processor_incoming_items{processor=\"change\","
				    "otel_signal=\"profiles\"}"),
			 5);
	assert_int_equal(metric(&f, "otelcol_processor_outgoing_items{processor=\"change\","
				    "otel_signal=\"profiles\"}"),
			 5);
	assert_int_equal(metric(&f, "otelcol_exporter_sent_profile_samples{exporter=\"record\"}"),
			 5);
	teardown(&f);
}

/* What three sinks answer to a request and to its repetitions, and who then has it. */
static const struct {
	enum outcome_kind first[3], second[3];
	enum outcome_kind want_first, want_second;
	uint32_t kept[3], requests[3];
} fanouts[] = {
	{ { 0, 0, 0 }, { 0, 0, 0 }, OUTCOME_OK, OUTCOME_OK, { 2, 2, 2 }, { 2, 2, 2 } },
	{ { 0, OUTCOME_RETRY, 0 },
	  { 0, 0, 0 },
	  OUTCOME_RETRY,
	  OUTCOME_OK,
	  { 1, 1, 1 },
	  { 1, 2, 1 } },
	{ { OUTCOME_RETRY, OUTCOME_RETRY, OUTCOME_RETRY },
	  { 0, 0, OUTCOME_RETRY },
	  OUTCOME_RETRY,
	  OUTCOME_RETRY,
	  { 1, 1, 0 },
	  { 2, 2, 2 } },
	{ { 0, OUTCOME_PERMANENT, 0 },
	  { 0, OUTCOME_PERMANENT, 0 },
	  OUTCOME_PERMANENT,
	  OUTCOME_PERMANENT,
	  { 2, 0, 2 },
	  { 2, 2, 2 } },
	{ { 0, OUTCOME_PERMANENT, OUTCOME_RETRY },
	  { 0, 0, 0 },
	  OUTCOME_RETRY,
	  OUTCOME_PERMANENT,
	  { 1, 0, 1 },
	  { 1, 1, 2 } },
};

static void test_fanout(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fanouts); i++) {
		struct fixture f;

		setup(&f, "receivers: {hand: }\n" SINKS
			  "service: {pipelines: {profiles: {receivers: [hand], exporters: [record, "
			  "record/1, record/2]}}}\n");
		for (size_t k = 0; k < 3; k++) {
			uint32_t n = 0;

			/* The second answer is only given when the sink is asked again. */
			fake_record[k].answers[n++] = fanouts[i].first[k];
			fake_record[k].answers[n++] = fanouts[i].second[k];
			fake_record[k].answer_count = n;
		}
		start(&f);
		assert_int_equal(feed(fake_hands[0]->next, fake_batch(3, 7, &f.budget)).kind,
				 fanouts[i].want_first);
		assert_int_equal(feed(fake_hands[0]->next, fake_batch(3, 7, &f.budget)).kind,
				 fanouts[i].want_second);
		for (size_t k = 0; k < 3; k++) {
			if (fake_record[k].kept != fanouts[i].kept[k] ||
			    fake_record[k].requests != fanouts[i].requests[k])
				fail_msg("row %zu sink %zu: kept %u of %u", i, k,
					 fake_record[k].kept, fake_record[k].requests);
		}
		teardown(&f);
	}
}

/* Another request in between is not taken for the repetition, and skips are counted. */
static void test_fanout_counts(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "receivers: {hand: }\n" SINKS
		  "service: {pipelines: {profiles: {receivers: [hand], exporters: [record, "
		  "record/1]}}}\n");
	fake_record[1].answers[0] = OUTCOME_RETRY;
	fake_record[1].answer_count = 1;
	start(&f);
	assert_int_equal(feed(fake_hands[0]->next, fake_batch(3, 7, &f.budget)).kind,
			 OUTCOME_RETRY);
	assert_int_equal(
		metric(&f, "otelcol_exporter_send_failed_profile_samples{exporter=\"record/1\"}"),
		3);
	assert_int_equal(feed(fake_hands[0]->next, fake_batch(3, 8, &f.budget)).kind, OUTCOME_OK);
	assert_int_equal(feed(fake_hands[0]->next, fake_batch(3, 7, &f.budget)).kind, OUTCOME_OK);
	assert_int_equal(fake_record[0].kept, 2);
	assert_int_equal(fake_record[1].kept, 2);
	assert_int_equal(
		metric(&f, "flametap_fanout_skipped_total{fanout=\"pipelines::profiles\"}"), 1);
	/* Once all have it, the same bytes are a new request. */
	assert_int_equal(feed(fake_hands[0]->next, fake_batch(3, 7, &f.budget)).kind, OUTCOME_OK);
	assert_int_equal(fake_record[0].kept, 3);
	teardown(&f);
}

/* More half-kept requests than are remembered: the oldest is forgotten, and counted. */
static void test_fanout_forgets(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "receivers: {hand: }\n" SINKS
		  "service: {pipelines: {profiles: {receivers: [hand], exporters: [record, "
		  "record/1]}}}\n");
	fake_record[1].answer_count = 64;
	start(&f);
	for (uint32_t i = 0; i < 1024 + 10; i++) {
		fake_record[1].answers_given = 0;
		fake_record[1].answers[0] = OUTCOME_RETRY;
		feed(fake_hands[0]->next, fake_batch(1, i, &f.budget));
	}
	assert_int_equal(
		metric(&f, "flametap_fanout_forgotten_total{fanout=\"pipelines::profiles\"}"), 10);
	teardown(&f);
}

static const struct {
	const char *service, *sending;
	const char *want; /* error, or NULL */
} storages[] = {
	{ "", "{storage: ext}",
	  "storage \"ext\" is not an extension listed in service::extensions" },
	{ "extensions: [ext], ", "{storage: ext}", "non-storage extension found" },
	{ "", "{num_consumers: 2}", NULL },
};

static void test_storage(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(storages); i++) {
		struct metrics *m = metrics_new();
		struct graph_env env = { .metrics = m };
		struct problems problems;
		struct graph *g = NULL;
		struct config *c;
		struct buf yaml, text;

		buf_init(&yaml, 0);
		buf_init(&text, 0);
		problems_init(&problems);
		buf_printf(
			&yaml,
			"receivers: {hand: }\nexporters: {far: {sending_queue: %s}}\nextensions: "
			"{ext: }\nservice: {%s pipelines: {profiles: {receivers: [hand], "
			"exporters: [far]}}}\n",
			storages[i].sending, storages[i].service);
		buf_char(&yaml, 0);
		c = config_of(yaml.ptr, &problems);
		assert_non_null(c);
		g = graph_new(c, &env, &problems);
		problems_write(&problems, false, &text);
		buf_char(&text, 0);
		if (storages[i].want) {
			assert_null(g);
			assert_non_null(strstr(text.ptr, storages[i].want));
		} else {
			assert_non_null(g);
		}
		graph_free(g);
		metrics_free(m);
		buf_release(&yaml);
		buf_release(&text);
		problems_release(&problems);
	}
}

#define RELOAD(hand)                          \
	"receivers: {hand: " hand "}\n" SINKS \
	"service: {pipelines: {profiles: {receivers: [hand], exporters: [record]}}}\n"

static bool reload(struct fixture *f, const char *yaml, uint64_t grace_ns, struct err *err)
{
	struct problems problems;
	struct config *c;
	bool ok;

	problems_init(&problems);
	c = config_of(yaml, &problems);
	assert_non_null(c);
	ok = graph_reload(f->graph, c, clock_monotonic_ns() + grace_ns, err);
	problems_release(&problems);
	return ok;
}

static void test_reload(void **state)
{
	struct fixture f;
	struct err err;

	(void)state;
	setup(&f, RELOAD("{slot: 0}"));
	start(&f);
	/* Unchanged: components are asked to look again, nothing restarts. */
	fake_trace[0] = 0;
	assert_true(reload(&f, RELOAD("{slot: 0}"), 60 * SECOND_NS, &err));
	assert_string_equal(fake_trace, "reload hand");
	/* Changed: the old one stops, the new one starts. */
	fake_trace[0] = 0;
	assert_true(reload(&f, RELOAD("{slot: 1}"), 60 * SECOND_NS, &err));
	assert_string_equal(fake_trace, "stop hand,stop record,start record,start hand");
	assert_int_equal(feed(fake_hands[1]->next, fake_batch(1, 1, &f.budget)).kind, OUTCOME_OK);
	/* The new one does not start: the old one runs again. */
	assert_false(reload(&f, RELOAD("{slot: 2, fail_start: true}"), 60 * SECOND_NS, &err));
	assert_non_null(strstr(err.msg, "failed to start \"hand\" receiver"));
	assert_true(graph_running(f.graph));
	assert_int_equal(feed(fake_hands[1]->next, fake_batch(1, 2, &f.budget)).kind, OUTCOME_OK);
	assert_int_equal(fake_record[0].kept, 2);
	teardown(&f);
}

static void test_reload_refused(void **state)
{
	struct fixture f;
	struct err err;

	(void)state;
	setup(&f, RELOAD("{fail_reload: true}"));
	start(&f);
	assert_false(reload(&f, RELOAD("{fail_reload: true}"), 60 * SECOND_NS, &err));
	assert_string_equal(err.msg, "bad certificate");
	assert_true(graph_running(f.graph));
	assert_int_equal(feed(fake_hands[0]->next, fake_batch(1, 1, &f.budget)).kind, OUTCOME_OK);
	teardown(&f);
}

static char *directory(void)
{
	char *path = strdup("/tmp/flametap-graph-test-XXXXXX");

	assert_non_null(mkdtemp(path));
	return path;
}

static void remove_tree(char *path)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf '%s'", path);
	assert_int_equal(system(command), 0);
	free(path);
}

/* A durable graph: the far sink is away, the local one works; the sender is answered, nothing is
 * kept twice. */
static void test_durable_fanout(void **state)
{
	char *dir = directory();
	char yaml[1024];
	struct fixture f;

	(void)state;
	snprintf(yaml, sizeof(yaml),
		 "receivers: {hand: }\nexporters:\n  record:\n  far: {retry_on_failure: "
		 "{initial_interval: 1ms, max_interval: 2ms}}\nservice:\n  pipelines: {profiles: "
		 "{receivers: [hand], exporters: [record, far]}}\n  flametap: {durable: true, "
		 "spool: {directory: %s/spool}}\n",
		 dir);
	setup(&f, yaml);
	for (uint32_t i = 0; i < 5; i++)
		fake_far.answers[fake_far.answer_count++] = OUTCOME_RETRY;
	start(&f);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(feed(fake_hands[0]->next, fake_batch(2, i, &f.budget)).kind,
				 OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 3);
	assert_int_equal(fake_far.kept, 3);
	assert_int_equal(fake_far.requests, 8);
	assert_int_equal(fake_record[0].kept, 3);
	assert_int_equal(fake_record[0].requests, 3);
	teardown(&f);
	remove_tree(dir);
}

/* What the far sink had not taken when the process stopped is sent after the next start. */
static void test_durable_restart(void **state)
{
	char *dir = directory();
	char yaml[1024];
	struct fixture f;

	(void)state;
	snprintf(yaml, sizeof(yaml),
		 "receivers: {hand: }\nexporters: {far: }\nservice:\n  pipelines: {profiles: "
		 "{receivers: [hand], exporters: [far]}}\n  flametap: {durable: true, spool: "
		 "{directory: %s/spool}}\n",
		 dir);
	setup(&f, yaml);
	fake_far.answer_count = 64;
	for (uint32_t i = 0; i < 64; i++)
		fake_far.answers[i] = OUTCOME_RETRY;
	start(&f);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(feed(fake_hands[0]->next, fake_batch(2, i, &f.budget)).kind,
				 OUTCOME_OK);
	teardown(&f);
	assert_int_equal(fake_far.kept, 0);

	setup(&f, yaml);
	start(&f);
	fake_wait(&fake_far, &fake_far.kept, 20);
	teardown(&f);
	assert_int_equal(fake_far.kept, 20);
	assert_int_equal(fake_far.samples, 40);
	remove_tree(dir);
}

struct feeder {
	struct fixture *f;
	uint32_t first;
};

/* As a sender does: again, until it is kept. */
static void *feed_many(void *arg)
{
	struct feeder *feeder = arg;

	for (uint32_t i = 0; i < 100; i++)
		while (feed(fake_hands[0]->next,
			    fake_batch(2, feeder->first + i, &feeder->f->budget))
			       .kind != OUTCOME_OK)
			;
	return NULL;
}

/* Four senders, two pipelines, one of which changes the message, a sink that fails now and then:
 * once each, everywhere. */
static void test_threads(void **state)
{
	struct feeder feeders[4];
	pthread_t threads[4];
	struct fixture f;

	(void)state;
	setup(&f, "receivers: {hand: }\nprocessors: {change: }\n" SINKS
		  "service:\n  pipelines:\n    profiles: {receivers: [hand], processors: [change], "
		  "exporters: [record, record/1]}\n    profiles/2: {receivers: [hand], exporters: "
		  "[record/2]}\n");
	for (uint32_t i = 0; i < 64; i++) {
		fake_record[1].answers[fake_record[1].answer_count++] = OUTCOME_RETRY;
		fake_record[2].answers[fake_record[2].answer_count++] =
			i % 2 ? OUTCOME_OK : OUTCOME_RETRY;
	}
	start(&f);
	for (uint32_t t = 0; t < 4; t++) {
		feeders[t] = (struct feeder){ &f, t * 1000 };
		assert_int_equal(pthread_create(&threads[t], NULL, feed_many, &feeders[t]), 0);
	}
	for (uint32_t t = 0; t < 4; t++)
		pthread_join(threads[t], NULL);
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(fake_record[k].kept, 400);
		assert_int_equal(fake_record[k].samples, 800);
	}
	assert_int_equal(fake_record[0].requests, 400); /* it kept each the first time */
	teardown(&f);
}

/* A changed configuration takes the spool over with all that waits in it. */
static void test_reload_spool(void **state)
{
	char *dir = directory();
	char yaml[2][1024];
	struct fixture f;
	struct err err;

	(void)state;
	for (int i = 0; i < 2; i++)
		snprintf(
			yaml[i], sizeof(yaml[i]),
			"receivers: {hand: }\nexporters: {far: {timeout: %ds}}\nservice:\n  "
			"pipelines: {profiles: {receivers: [hand], exporters: [far]}}\n  flametap: "
			"{durable: true, spool: {directory: %s/spool}}\n",
			i + 1, dir);
	setup(&f, yaml[0]);
	fake_far.hold = true;
	start(&f);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(feed(fake_hands[0]->next, fake_batch(2, i, &f.budget)).kind,
				 OUTCOME_OK);
	/* The old one's stop lets go what was held. */
	assert_true(reload(&f, yaml[1], 100 * MILLI_NS, &err));
	fake_wait(&fake_far, &fake_far.kept, 20);
	assert_int_equal(feed(fake_hands[0]->next, fake_batch(2, 99, &f.budget)).kind, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 21);
	teardown(&f);
	assert_int_equal(fake_far.kept, 21);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life_cycle),     cmocka_unit_test(test_start_fails),
		cmocka_unit_test(test_fail_callback),  cmocka_unit_test(test_copies),
		cmocka_unit_test(test_fanout),         cmocka_unit_test(test_fanout_counts),
		cmocka_unit_test(test_fanout_forgets), cmocka_unit_test(test_storage),
		cmocka_unit_test(test_reload),         cmocka_unit_test(test_reload_refused),
		cmocka_unit_test(test_durable_fanout), cmocka_unit_test(test_durable_restart),
		cmocka_unit_test(test_threads),        cmocka_unit_test(test_reload_spool),
	};

	log_setup(LOG_ERROR, LOG_TEXT, STDERR_FILENO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
