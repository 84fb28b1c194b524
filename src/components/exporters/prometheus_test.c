/* prometheus_test.c - the three counters, read as Prometheus reads them: over HTTP. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "components/exporters/exporters.h"
#define compress \
	zlib_compress /* zlib's, which the fixtures' header brings in, is not net/compress.h's */
#include "components/exporters/fixtures_for_tests.h"
#undef compress
#include "components/exporters/component_for_tests.h"
#include "model/builder.h"
#include "net/loops.h"

#define CONTAINER "b1eba9dfaeba29d8b80532a574a03ea3cac29384327f339c26da13649e2120df"

static struct batch *batch_of(struct profiles *p)
{
	struct err err = { 0 };
	struct batch *b = batch_new(p, NULL, NULL, &err);

	assert_non_null(b);
	return b;
}

/* A port that is free now: the exporter's own is not told to tests. */
static uint16_t free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	AUTO(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	return ntohs(a.sin_port);
}

static void fetch(uint16_t port, const char *path, struct buf *out)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	AUTO(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char request[256];
	ssize_t n;

	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	n = snprintf(request, sizeof(request),
		     "GET %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", path);
	assert_int_equal(write(fd, request, (size_t)n), n);
	buf_reset(out);
	do {
		char *p = buf_reserve(out, 1 << 16);

		assert_non_null(p);
		n = read(fd, p, 1 << 16);
		assert_true(n >= 0);
		buf_advance(out, (size_t)n);
	} while (n > 0);
}

struct exporter {
	struct test_component component;
	struct net_loops *loops;
	uint16_t port;
	struct buf text;
};

static void exporter_start(struct exporter *e, const char *more)
{
	struct err err = { 0 };
	char yaml[256];

	e->loops = net_loops_new(&(struct net_loops_options){ .count = 1 }, &err);
	assert_non_null(e->loops);
	e->port = free_port();
	snprintf(yaml, sizeof(yaml), "endpoint: 127.0.0.1:%u\n%s", e->port, more);
	assert_true(test_component_init(&e->component, &prometheus_exporter, yaml, &err));
	e->component.host.loops = e->loops;
	if (!prometheus_exporter.start(e->component.state, &e->component.host, &err))
		fail_msg("%s", err.msg);
	buf_init(&e->text, 0);
}

static void exporter_stop(struct exporter *e)
{
	test_component_stop(&e->component);
	net_loops_free(e->loops);
	buf_release(&e->text);
}

static void assert_line(struct exporter *e, const char *line)
{
	if (str_search(buf_view(&e->text), str_cstr(line)) < 0)
		fail_msg("not there: %s\n%.*s", line, STR_ARG(buf_view(&e->text)));
}

static void test_counters(void **state)
{
	struct exporter e;

	(void)state;
	exporter_start(&e, "");
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			test_consume(&e.component,
				     batch_of(fixture_profiles("v1.11.0-synthetic-offcpu-links")))
				.kind,
			OUTCOME_OK);
	fetch(e.port, "/metrics", &e.text);
	assert_line(&e, "HTTP/1.1 200");
	assert_line(&e, "text/plain; version=0.0.4");
	assert_line(&e, "# TYPE lazybackend_received_profiles_total counter\n");
	assert_line(&e,
		    "\nlazybackend_received_profiles_total{container_id=\"" CONTAINER "\"} 6\n");
	assert_line(&e, "\nlazybackend_received_profiles_total{container_id=\"unknown\"} 2\n");
	assert_line(&e, "\nlazybackend_received_samples_total{container_id=\"" CONTAINER
			"\",process_executable_name=\"checkout\"} 14\n");
	assert_line(&e, "\nlazybackend_received_samples_total{container_id=\"unknown\","
			"process_executable_name=\"gateway\"} 4\n");
	assert_line(&e, "\nlazybackend_received_locations_total{container_id=\"" CONTAINER
			"\",process_executable_name=\"checkout\",language=\"native\"} 28\n");
	assert_line(&e, "\nlazybackend_received_locations_total{container_id=\"unknown\","
			"process_executable_name=\"gateway\",language=\"v8js\"} 2\n");
	fetch(e.port, "/", &e.text);
	assert_line(&e, "HTTP/1.1 404");
	exporter_stop(&e);
}

static struct attribute_index text_attribute(struct builder *b, struct str key, struct str value)
{
	const struct attribute a = { .key = builder_string(b, key),
				     .value = { .kind = ANY_STRING, .string = value } };

	return builder_attribute(b, &a);
}

static void add_sample(struct builder *b, struct attribute_index container,
		       struct attribute_index process)
{
	const struct attribute_index list[] = { container, process };

	builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, list, 2, NULL, 0,
		       NULL, 0);
}

/* The sample's own container and process win, an empty one is none; more of them than are counted
 * at once; a profile counts once. */
static void test_what_the_sample_says_wins(void **state)
{
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct key_value kv = { .key = STR("container.id"),
				.value = { .kind = ANY_STRING, .string = STR("of-resource") } };
	struct attribute_index a, none, shell;
	struct exporter e;
	struct err err;

	(void)state;
	a = text_attribute(b, STR("container.id"), STR("of-sample"));
	none = text_attribute(b, STR("container.id"), STR(""));
	shell = text_attribute(b, STR("process.executable.name"), STR("sh"));
	kv.value = builder_any(b, &kv.value);
	builder_begin_resource(b)->attributes = builder_key_values(b, &kv, 1);
	builder_begin_scope(b);
	builder_begin_profile(b); /* mixed: its resource's */
	add_sample(b, a, shell);
	add_sample(b, none, shell);
	builder_begin_profile(b); /* its samples' */
	add_sample(b, a, shell);
	builder_begin_profile(b);
	for (int i = 0; i < 3000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "p%d", i % 1500);
		add_sample(b, a, text_attribute(b, STR("process.executable.name"), str_cstr(name)));
	}
	exporter_start(&e, "max_series: 10000");
	test_consume(&e.component, batch_of(builder_finish(b, &err)));
	fetch(e.port, "/metrics", &e.text);
	assert_line(&e, "lazybackend_received_profiles_total{container_id=\"of-resource\"} 1\n");
	assert_line(&e, "lazybackend_received_profiles_total{container_id=\"of-sample\"} 2\n");
	assert_line(&e, "lazybackend_received_samples_total{container_id=\"of-resource\","
			"process_executable_name=\"sh\"} 1\n");
	assert_line(&e, "lazybackend_received_samples_total{container_id=\"of-sample\","
			"process_executable_name=\"sh\"} 2\n");
	assert_line(&e, "lazybackend_received_samples_total{container_id=\"of-sample\","
			"process_executable_name=\"p0\"} 2\n");
	assert_line(&e, "lazybackend_received_samples_total{container_id=\"of-sample\","
			"process_executable_name=\"p1499\"} 2\n");
	exporter_stop(&e);
}

/* More container ids than max_series: the sum is right, the series are bounded. */
static void test_cardinality(void **state)
{
	struct builder *b = builder_new(&(struct builder_options){ .copy_strings = true });
	struct str rest, line;
	struct exporter e;
	struct err err;
	uint64_t n, series = 0, sum = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		struct any_value id = { .kind = ANY_STRING };
		struct key_value kv = { .key = STR("container.id") };
		char text[16];

		snprintf(text, sizeof(text), "c%d", i);
		id.string = str_cstr(text);
		kv.value = builder_any(b, &id);
		builder_begin_resource(b)->attributes = builder_key_values(b, &kv, 1);
		builder_begin_scope(b);
		builder_begin_profile(b);
	}
	exporter_start(&e, "max_series: 10");
	test_consume(&e.component, batch_of(builder_finish(b, &err)));
	fetch(e.port, "/metrics", &e.text);
	assert_line(&e, "lazybackend_received_profiles_total{container_id=\"other\"} ");
	for (rest = buf_view(&e.text); str_split(&rest, '\n', &line);) {
		ptrdiff_t space = str_find(line, ' ');

		if (!str_has_prefix(line, STR("lazybackend_received_profiles_total{")) || space < 0)
			continue;
		series++;
		assert_true(str_to_u64(str_skip(line, (size_t)space + 1), &n));
		sum += n;
	}
	assert_true(series <= 11);
	assert_int_equal(sum, 100);
	exporter_stop(&e);
}

static void test_taken_port(void **state)
{
	struct test_component c;
	struct exporter e;
	struct err err = { 0 };
	char yaml[64];

	(void)state;
	exporter_start(&e, "");
	snprintf(yaml, sizeof(yaml), "endpoint: 127.0.0.1:%u", e.port);
	assert_true(test_component_init(&c, &prometheus_exporter, yaml, &err));
	c.host.loops = e.loops;
	assert_false(prometheus_exporter.start(c.state, &c.host, &err));
	assert_int_equal(err.kind, ERR_BUSY);
	test_component_release(&c);
	exporter_stop(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_what_the_sample_says_wins),
		cmocka_unit_test(test_cardinality),
		cmocka_unit_test(test_taken_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
