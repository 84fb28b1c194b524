#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pipeline/telemetry.h"

#include <malloc.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "support/metric_text.h"

static const struct {
	enum outcome_kind kind;
	const char *samples, *requests;
} rows[] = {
	{ OUTCOME_OK,
	  "otelcol_receiver_accepted_profile_samples{receiver=\"otlp\",transport=\"grpc\"} 7\n",
	  "otelcol_receiver_requests{receiver=\"otlp\",transport=\"grpc\",outcome=\"success\"} "
	  "1\n" },
	{ OUTCOME_RETRY,
	  "otelcol_receiver_refused_profile_samples{receiver=\"otlp\",transport=\"grpc\"} 7\n",
	  "otelcol_receiver_requests{receiver=\"otlp\",transport=\"grpc\",outcome=\"refused\"} "
	  "2\n" },
	{ OUTCOME_PERMANENT,
	  "otelcol_receiver_failed_profile_samples{receiver=\"otlp\",transport=\"grpc\"} 7\n",
	  "otelcol_receiver_requests{receiver=\"otlp\",transport=\"grpc\",outcome=\"failure\"} "
	  "2\n" },
};

static void test_receiver_counts(void **state)
{
	struct metrics *m = metrics_new();
	struct receiver_metrics r;
	struct buf text;

	(void)state;
	receiver_metrics_init(&r, m, "otlp", "grpc");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		receiver_metrics_count(&r, 7, &(struct outcome){ .kind = rows[i].kind });
	receiver_metrics_refused(&r);
	receiver_metrics_failed(&r);
	buf_init(&text, 0);
	metrics_write(m, &text);
	buf_char(&text, 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strstr(text.ptr, rows[i].samples) || !strstr(text.ptr, rows[i].requests))
			fail_msg("row %zu is not in\n%s", i, text.ptr);
	buf_release(&text);
	metrics_free(m);
}

/* The heap as the C library tells it, which a sanitizer's own heap is no part of. */
static void assert_heap(struct metrics *m)
{
	const char *alloc = "otelcol_process_runtime_heap_alloc_bytes";
	const char *system = "otelcol_process_runtime_total_sys_memory_bytes";
	long long before = metric_value(m, alloc);
	char *block = malloc(4 << 20);
	struct mallinfo2 info;

	memset(block, 1, 4 << 20);
	info = mallinfo2();
	if (info.hblkhd + info.uordblks) {
		assert_in_range(metric_value(m, alloc), before + (4 << 20), before + (5 << 20));
		assert_true(metric_value(m, system) >= metric_value(m, alloc));
	} else {
		assert_int_equal(metric_value(m, alloc), 0);
		assert_int_equal(metric_value(m, system), 0);
	}
	free(block);
}

/* A counter with a fraction: the loop before took 1.1 s. */
static void assert_cpu(struct metrics *m)
{
	static const char want[] = "# TYPE otelcol_process_cpu_seconds counter\n"
				   "otelcol_process_cpu_seconds ";
	const char *at;
	struct buf text;

	buf_init(&text, 0);
	metrics_write(m, &text);
	buf_char(&text, 0);
	at = strstr(text.ptr, want);
	assert_non_null(at);
	assert_true(strtod(at + strlen(want), NULL) >= 1.1);
	buf_release(&text);
}

/* The process's own figures, over a second of work. */
static void test_process(void **state)
{
	struct metrics *m = metrics_new();
	long long rss, real;

	(void)state;
	process_metrics_register(m);
	while (clock() < CLOCKS_PER_SEC * 11 / 10) /* of processor time, so of uptime too */
		;
	assert_in_range(metric_value(m, "otelcol_process_cpu_seconds"), 1, 10);
	assert_cpu(m);
	assert_in_range(metric_value(m, "otelcol_process_uptime"), 1, 300);
	rss = metric_value(m, "otelcol_process_memory_rss");
	real = (long long)process_rss_bytes();
	assert_in_range(rss, 1 << 20, 2 * real);
	assert_heap(m);
	metrics_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_receiver_counts),
		cmocka_unit_test(test_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
