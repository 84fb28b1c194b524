#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/metrics.h"

static const char *const no_labels[] = { NULL };
static const char *const two_labels[] = { "receiver", "transport", NULL };

static void assert_text(struct metrics *m, const char *want)
{
	struct buf b;

	buf_init(&b, 0);
	metrics_write(m, &b);
	buf_char(&b, '\0');
	assert_false(b.failed);
	assert_string_equal(b.ptr, want);
	buf_release(&b);
}

static int64_t read_answer(void *arg)
{
	return *(int64_t *)arg;
}

static void test_exposition(void **state)
{
	struct metrics *m = metrics_new();
	struct metric_family *f = metrics_family(m, METRIC_COUNTER, "z_total",
						 "What z\\ did,\nin lines.", two_labels, 0);
	struct metric_family *g =
		metrics_family(m, METRIC_GAUGE, "a_bytes", "Bytes.", no_labels, 0);
	int64_t answer = 42, busy_us = 12000345;

	(void)state;
	metrics_family(m, METRIC_COUNTER, "never_used_total", "Not shown.", NULL, 0);
	metric_add(metric_get(f, (struct str[]){ STR("otlp/b"), STR("grpc") }), 3);
	metric_add(metric_get(f, (struct str[]){ STR("otlp"), STR("q\"\\\n\xff") }), 1);
	metric_add(metric_get(f, (struct str[]){ STR("otlp/b"), STR("grpc") }), 4);
	metric_set(metric_get(g, NULL), -7);
	metric_add(metric_get(f, (struct str[]){ STR(""), STR("grpc") }), 5);
	metric_add(metric_get(f, (struct str[]){ STR(""), STR("") }), 6);
	metrics_gauge_fn(m, "m_live", "Asked for.", read_answer, &answer);
	metrics_seconds_fn(m, "n_seconds", "Time.", read_answer, &busy_us);
	assert_text(m, "# HELP a_bytes Bytes.\n# TYPE a_bytes gauge\na_bytes -7\n"
		       "# HELP m_live Asked for.\n# TYPE m_live gauge\nm_live 42\n"
		       "# HELP n_seconds Time.\n# TYPE n_seconds counter\nn_seconds 12.000345\n"
		       "# HELP z_total What z\\\\ did,\\nin lines.\n# TYPE z_total counter\n"
		       "z_total 6\nz_total{transport=\"grpc\"} 5\n"
		       "z_total{receiver=\"otlp\",transport=\"q\\\"\\\\\\n\xef\xbf\xbd\"} 1\n"
		       "z_total{receiver=\"otlp/b\",transport=\"grpc\"} 7\n");
	metrics_free(m);
	metrics_free(NULL);
}

static void test_identity(void **state)
{
	/* Values that differ only in where one ends and the next begins are different series. */
	struct metrics *m = metrics_new();
	struct metric_family *f = metrics_family(m, METRIC_COUNTER, "x_total", "X.", two_labels, 0);
	struct metric *ab_c = metric_get(f, (struct str[]){ STR("ab"), STR("c") });
	struct metric *a_bc = metric_get(f, (struct str[]){ STR("a"), STR("bc") });

	(void)state;
	assert_ptr_not_equal(ab_c, a_bc);
	for (int i = 0; i < 900; i++) {
		char text[16];
		int n = snprintf(text, sizeof(text), "%d", i);

		metric_add(metric_get(f, (struct str[]){ str_from(text, (size_t)n), STR("") }), 1);
	}
	assert_ptr_equal(metric_get(f, (struct str[]){ STR("ab"), STR("c") }), ab_c);
	assert_ptr_equal(metric_get(f, (struct str[]){ STR("a"), STR("bc") }), a_bc);
	assert_ptr_equal(metrics_family(m, METRIC_COUNTER, "x_total", "X.", two_labels, 0), f);
	metrics_free(m);
}

static void test_series_limit(void **state)
{
	static const char *const names[] = { "k", NULL };
	struct metrics *m = metrics_new();
	struct metric_family *f = metrics_family(m, METRIC_COUNTER, "x_total", "X.", names, 2);

	(void)state;
	for (int i = 0; i < 5; i++) {
		char text[16];
		struct str value = str_from(text, (size_t)snprintf(text, sizeof(text), "v%d", i));

		metric_add(metric_get(f, &value), 1);
	}
	assert_text(m,
		    "# HELP flametap_metric_series_dropped_total Label sets counted in the series "
		    "\"other\" as their metric has too many.\n"
		    "# TYPE flametap_metric_series_dropped_total counter\n"
		    "flametap_metric_series_dropped_total{metric=\"x_total\"} 3\n"
		    "# HELP x_total X.\n# TYPE x_total counter\n"
		    "x_total{k=\"other\"} 3\nx_total{k=\"v0\"} 1\nx_total{k=\"v1\"} 1\n");
	metrics_free(m);
}

static void *count_up(void *arg)
{
	struct metric_family *f = arg;

	for (int i = 0; i < 2000; i++) {
		char text[16];
		struct str values[2] = {
			str_from(text, (size_t)snprintf(text, sizeof(text), "%d", i % 50)), STR("t")
		};

		metric_add(metric_get(f, values), 1);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct metrics *m = metrics_new();
	struct metric_family *f = metrics_family(m, METRIC_COUNTER, "x_total", "X.", two_labels, 0);
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_up, f), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 50; i++) {
		char text[16];
		struct str values[2] = {
			str_from(text, (size_t)snprintf(text, sizeof(text), "%d", i)), STR("t")
		};

		assert_int_equal(metric_get(f, values)->value, 4 * 2000 / 50);
	}
	metrics_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exposition),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_series_limit),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
