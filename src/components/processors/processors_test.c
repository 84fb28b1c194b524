#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "components/processors/processors.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "components/extensions/extensions.h"
#include "pipeline/graph.h"
#include "support/pipeline_fakes.h"

static const struct component_ops *const known[] = {
	&fake_hand_receiver,     &fake_record_exporter,
	&fake_far_exporter,      &memory_limiter_processor,
	&batch_processor,        &queuebatch_processor,
	&file_storage_extension, NULL,
};

static char storage[64]; /* the file_storage directory of this run */

struct fixture {
	struct graph *graph;
	struct budget budget;
	struct metrics *metrics;
};

static struct graph *graph_of(struct fixture *f, const char *processor, const char *exporter,
			      struct buf *problems_text)
{
	struct config_source source = { CONFIG_FROM_TEXT, NULL, "p.yaml" };
	struct graph_env env = { .budget = &f->budget, .metrics = f->metrics };
	struct problems problems;
	struct graph *g = NULL;
	struct config *c;
	char yaml[2048];
	const char *colon = strchr(processor, ':');

	snprintf(yaml, sizeof(yaml),
		 "receivers: {hand: }\nprocessors:\n  %s\nexporters:\n  record:\n  far: %s\n"
		 "service:\n  extensions: [file_storage]\n  pipelines: {profiles: {receivers: "
		 "[hand], "
		 "processors: [%.*s], exporters: [%s]}}\nextensions: {file_storage: {directory: "
		 "%s}}\n",
		 processor, exporter ? exporter : "", (int)(colon - processor), processor,
		 exporter ? "far" : "record", storage);
	source.text = yaml;
	problems_init(&problems);
	c = config_load(&source, 1, known, &problems);
	if (c)
		g = graph_new(c, &env, &problems);
	problems_write(&problems, false, problems_text);
	buf_char(problems_text, 0);
	problems_release(&problems);
	return g;
}

static void setup(struct fixture *f, const char *processor)
{
	struct buf text;
	struct err err = { 0 };

	*f = (struct fixture){ .metrics = metrics_new() };
	budget_init(&f->budget, 0);
	fake_reset(&fake_record[0]);
	buf_init(&text, 0);
	f->graph = graph_of(f, processor, NULL, &text);
	if (!f->graph)
		fail_msg("%s", text.ptr);
	buf_release(&text);
	if (!graph_start(f->graph, &err))
		fail_msg("%s", err.msg);
}

static void teardown(struct fixture *f)
{
	graph_stop(f->graph, clock_monotonic_ns() + 60 * SECOND_NS);
	graph_free(f->graph);
	metrics_free(f->metrics);
	assert_int_equal(budget_used(&f->budget), 0);
}

static int64_t metric(struct fixture *f, const char *line)
{
	const char *at;
	long long value = -1;
	struct buf b;

	buf_init(&b, 0);
	metrics_write(f->metrics, &b);
	buf_char(&b, 0);
	at = strstr(b.ptr, line);
	if (at)
		sscanf(at + strlen(line), " %lld", &value);
	buf_release(&b);
	return value;
}

static struct outcome send(struct fixture *f, uint32_t samples, uint32_t seed)
{
	return feed(fake_hands[0]->next, fake_batch(samples, seed, &f->budget));
}

static const struct {
	const char *processor, *want;
} bad[] = {
	{ "memory_limiter: {limit_mib: 10}",
	  "processors::memory_limiter: 'check_interval' must be greater than zero" },
	{ "memory_limiter: {check_interval: 1s}",
	  "'limit_mib' or 'limit_percentage' must be greater than zero" },
	{ "memory_limiter: {check_interval: 1s, limit_mib: 10, spike_limit_mib: 10}",
	  "'spike_limit_mib' must be smaller than 'limit_mib'" },
	{ "memory_limiter: {check_interval: 1s, limit_percentage: 200}",
	  "must be between 0 and 100" },
	{ "batch: {send_batch_max_size: 10}",
	  "send_batch_max_size must be greater or equal to send_batch_size" },
	{ "batch: {metadata_keys: [a]}", "\"metadata_keys\" cannot be kept apart here" },
	{ "queuebatch: {batch: {max_size: 10}}", "must be greater or equal to \"min_size\"" },
	{ "queuebatch: {batch: {partition: {metadata_keys: [a]}}}", "cannot be kept apart here" },
	{ "queuebatch: {wait_for_result: true}", "\"wait_for_result\" is not offered here" },
	{ "queuebatch: {storage: file_storage}", "give it to the exporter's sending_queue" },
	{ "queuebatch: {queue_size: 0}", "must be between 1 and" },
	{ "queuebatch: {batch: {sizer: bytes}}", "sizer" },
};

static void test_bad(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct fixture f = { .metrics = metrics_new() };
		struct buf text;

		buf_init(&text, 0);
		if (graph_of(&f, bad[i].processor, NULL, &text) || !strstr(text.ptr, bad[i].want))
			fail_msg("%s: %s", bad[i].processor, text.ptr);
		buf_release(&text);
		metrics_free(f.metrics);
	}
}

/* This process holds more than 1 MiB, and less than the machine has. */
static void test_memory_limiter(void **state)
{
	struct outcome o;
	struct fixture f;

	(void)state;
	setup(&f, "memory_limiter: {check_interval: 1s, limit_mib: 1}");
	o = send(&f, 5, 1);
	assert_int_equal(o.kind, OUTCOME_RETRY);
	assert_string_equal(o.err.msg, "data refused due to high memory usage");
	assert_int_equal(o.retry_after_ns, SECOND_NS);
	assert_int_equal(metric(&f, "otelcol_processor_refused_profile_samples{processor=\"memory_"
				    "limiter\"}"),
			 5);
	teardown(&f);

	setup(&f, "memory_limiter: {check_interval: 1s, limit_percentage: 90, "
		  "spike_limit_percentage: 10}");
	assert_int_equal(send(&f, 5, 1).kind, OUTCOME_OK);
	assert_int_equal(fake_record[0].kept, 1);
	teardown(&f);
}

/* By size, by time, at the stop; how many requests of how many samples come out. */
static const struct {
	const char *processor;
	uint32_t requests, samples_each;
	uint32_t want_requests_least, want_requests_most;
} batches[] = {
	{ "batch: {timeout: 1h, send_batch_size: 100}", 20, 10, 2, 2 },
	{ "batch: {timeout: 1h, send_batch_size: 100000}", 20, 10, 1, 1 }, /* at the stop */
	{ "batch: {timeout: 1ms, send_batch_size: 100000}", 20, 10, 1, 20 },
	{ "batch: {timeout: 1h, send_batch_size: 40, send_batch_max_size: 40}", 4, 30, 3, 4 },
	{ "batch: {timeout: 1h, send_batch_size: 0}", 5, 10, 5, 5 },
	{ "batch: {timeout: 1h, send_batch_size: 100, send_batch_max_size: 100}", 1, 1050, 11, 11 },
	{ "queuebatch: {num_consumers: 9, batch: {flush_timeout: 1h, min_size: 100}}", 20, 10, 2,
	  2 },
	{ "queuebatch: {batch: {flush_timeout: 1h, min_size: 100, max_size: 100}}", 1, 1050, 11,
	  11 },
	{ "queuebatch: {enabled: false}", 5, 10, 5, 5 },
};

static void test_batch(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
		struct fixture f;

		setup(&f, batches[i].processor);
		for (uint32_t k = 0; k < batches[i].requests; k++)
			assert_int_equal(send(&f, batches[i].samples_each, k).kind, OUTCOME_OK);
		teardown(&f);
		assert_int_equal(fake_record[0].samples,
				 batches[i].requests * batches[i].samples_each);
		if (fake_record[0].kept < batches[i].want_requests_least ||
		    fake_record[0].kept > batches[i].want_requests_most)
			fail_msg("%s: %u requests", batches[i].processor, fake_record[0].kept);
	}
}

static const char full_sends[] =
	"otelcol_processor_batch_batch_size_trigger_send{processor=\"batch\"}";
static const char timeout_sends[] =
	"otelcol_processor_batch_timeout_trigger_send{processor=\"batch\"}";
static const char sent_samples[] =
	"otelcol_processor_batch_batch_send_size_sum{processor=\"batch\"}";

/* What made a batch go out is counted, and what was in it. */
static void test_batch_counts(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "batch: {timeout: 1h, send_batch_size: 10}");
	assert_int_equal(send(&f, 10, 1).kind, OUTCOME_OK);
	fake_wait(&fake_record[0], &fake_record[0].requests, 1);
	assert_int_equal(send(&f, 3, 2).kind, OUTCOME_OK);
	graph_stop(f.graph, clock_monotonic_ns() + 60 * SECOND_NS); /* the rest goes with the end */
	assert_int_equal(metric(&f, full_sends), 1);
	assert_int_equal(metric(&f, timeout_sends), 1);
	assert_int_equal(metric(&f, sent_samples), 13);
	teardown(&f);

	setup(&f, "batch: {timeout: 1ms, send_batch_size: 1000}");
	assert_int_equal(send(&f, 7, 1).kind, OUTCOME_OK);
	fake_wait(&fake_record[0], &fake_record[0].requests, 1);
	assert_int_equal(metric(&f, full_sends), 0);
	assert_int_equal(metric(&f, timeout_sends), 1);
	teardown(&f);
}

/* While its one consumer is at work, two requests may wait; then a free consumer takes them. */
static void test_queuebatch_full(void **state)
{
	struct outcome o;
	struct fixture f;

	(void)state;
	setup(&f, "queuebatch: {queue_size: 2, batch: {flush_timeout: 1ms, min_size: 10}}");
	fake_record[0].hold = true;
	assert_int_equal(send(&f, 10, 1).kind, OUTCOME_OK);
	fake_wait(&fake_record[0], &fake_record[0].requests, 1);
	assert_int_equal(send(&f, 10, 2).kind, OUTCOME_OK);
	assert_int_equal(send(&f, 10, 3).kind, OUTCOME_OK);
	o = send(&f, 10, 4);
	assert_int_equal(o.kind, OUTCOME_RETRY);
	assert_int_equal(o.err.kind, ERR_BUSY);
	fake_release(&fake_record[0], OUTCOME_OK);
	fake_wait(&fake_record[0], &fake_record[0].kept, 3);
	assert_int_equal(send(&f, 10, 5).kind, OUTCOME_OK);
	teardown(&f);
	assert_int_equal(fake_record[0].samples, 40);
}

static void test_batch_refused(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "batch: {timeout: 1h, send_batch_size: 10}");
	fake_record[0].answers[0] = OUTCOME_PERMANENT;
	fake_record[0].answer_count = 1;
	assert_int_equal(send(&f, 10, 1).kind, OUTCOME_OK); /* success on taking in */
	fake_wait(&fake_record[0], &fake_record[0].requests, 1);
	graph_stop(f.graph, clock_monotonic_ns() + 60 * SECOND_NS);
	assert_int_equal(metric(&f, "flametap_batch_dropped_samples_total{processor=\"batch\","
				    "reason=\"refused\"}"),
			 10);
	assert_int_equal(send(&f, 10, 2).err.kind, ERR_UNAVAILABLE); /* stopped */
	teardown(&f);
}

/* Merged, it finds no memory: lost, and counted. */
static void test_batch_no_memory(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f, "batch: {timeout: 1h, send_batch_size: 1000}");
	assert_int_equal(send(&f, 10, 1).kind, OUTCOME_OK);
	assert_int_equal(send(&f, 10, 2).kind, OUTCOME_OK);
	f.budget.limit_bytes = 1; /* nothing touches the budget now */
	graph_stop(f.graph, clock_monotonic_ns() + 60 * SECOND_NS);
	assert_int_equal(metric(&f, "flametap_batch_dropped_samples_total{processor=\"batch\","
				    "reason=\"failed\"}"),
			 20);
	teardown(&f);
}

/* A queue kept in an extension's directory is a spool. */
static void test_file_storage(void **state)
{
	struct fixture f = { .metrics = metrics_new() };
	struct err err = { 0 };
	struct buf text;
	struct graph *g;
	char path[128];

	(void)state;
	fake_reset(&fake_far);
	buf_init(&text, 0);
	g = graph_of(&f, "memory_limiter: {check_interval: 1s, limit_percentage: 90}",
		     "{sending_queue: {storage: file_storage}}", &text);
	if (!g)
		fail_msg("%s", text.ptr);
	if (!graph_start(g, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(feed(fake_hands[0]->next, fake_batch(3, 1, NULL)).kind, OUTCOME_OK);
	fake_wait(&fake_far, &fake_far.kept, 1);
	snprintf(path, sizeof(path), "%s/exporter_far/LOCK", storage);
	assert_int_equal(access(path, R_OK), 0);
	graph_stop(g, clock_monotonic_ns() + 60 * SECOND_NS);
	graph_free(g);
	buf_release(&text);
	metrics_free(f.metrics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad),           cmocka_unit_test(test_memory_limiter),
		cmocka_unit_test(test_batch),         cmocka_unit_test(test_batch_counts),
		cmocka_unit_test(test_batch_refused), cmocka_unit_test(test_batch_no_memory),
		cmocka_unit_test(test_file_storage),  cmocka_unit_test(test_queuebatch_full),
	};

	char command[128];
	int failed;

	log_setup(LOG_ERROR, LOG_TEXT, open("/dev/null", O_WRONLY));
	snprintf(storage, sizeof(storage), "/tmp/flametap-storage-test-XXXXXX");
	if (!mkdtemp(storage))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf '%s'", storage);
	return system(command) ? 1 : failed;
}
