/* otlp_grpc and otlp_http as the pipeline uses them: options, start, consume, stop; against peers
 * made of sockets alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <libdeflate.h>
#include <semaphore.h>

#define compress \
	zlib_compress /* zlib's, which the fixtures' header brings in, is not net/compress.h's */
#include "components/exporters/fixtures_for_tests.h"
#undef compress
#include "base/cleanup.h"
#include "base/clock.h"
#include "components/exporters/exporters.h"
#include "net/loops.h"
#include "net/server.h"
#include "pipeline/node.h"
#include "pipeline/options.h"
#include "support/http_peer.h"

enum { WAIT_S = 60 }; /* none of what is tested takes that long */

/* An instance as the pipeline makes one. */
struct instance {
	const struct component_ops *ops;
	void *state;
	struct arena arena;
	struct problems problems;
	struct err err;
};

/* False: problems or err say what is wrong. */
static bool instance_make(struct instance *i, const struct component_ops *ops, const char *yaml)
{
	uint32_t left = NODES_MOST;
	struct config_node *node;

	*i = (struct instance){ .ops = ops, .state = calloc(1, ops->state_size) };
	arena_init(&i->arena, 0, 0);
	problems_init(&i->problems);
	node = node_parse(&i->arena, str_cstr(yaml), "test.yaml", &left, &i->problems);
	options_fill(ops->fields, i->state, node, ops->type, &i->arena, &i->problems);
	return !i->problems.error_count && ops->check(i->state, &i->err);
}

static void instance_free(struct instance *i)
{
	if (i->ops->release)
		i->ops->release(i->state);
	free(i->state);
	problems_release(&i->problems);
	arena_release(&i->arena);
}

static const struct {
	const struct component_ops *ops;
	const char *yaml;
	const char *says; /* NULL = it is good */
} options[] = {
	{ &otlp_grpc_exporter, "endpoint: localhost:4317", NULL },
	{ &otlp_grpc_exporter,
	  "{endpoint: 'https://a:1', compression: zstd, tls: {ca_file: x, reload_interval: 1m}, "
	  "headers: {a: b}, "
	  "keepalive: {time: 30s}, wait_for_ready: true, authority: x, user_agent: y, "
	  "wire_version: 1.9, timeout: 3s, "
	  "balancer_name: round_robin, read_buffer_size: 1, write_buffer_size: 524288, "
	  "compression_params: {level: 3}, "
	  "retry_on_failure: {enabled: false}, sending_queue: {enabled: false}}",
	  NULL },
	{ &otlp_grpc_exporter, "", "requires a non-empty \"endpoint\"" },
	{ &otlp_grpc_exporter, "endpoint: ''", "requires a non-empty \"endpoint\"" },
	{ &otlp_grpc_exporter, "endpoint: localhost", "has no port" },
	{ &otlp_grpc_exporter, "{endpoint: 'a:1', wire_version: 1.4}",
	  "wire_version 1.4 is not written" },
	{ &otlp_grpc_exporter, "{endpoint: 'a:1', compression: brotli}", "brotli" },
	{ &otlp_grpc_exporter, "{endpoint: 'a:1', tls: {cert_file: x}}",
	  "only the certificate is given" },
	{ &otlp_grpc_exporter, "{endpoint: 'a:1', tls: {key_file: x}}", "only the key is given" },
	{ &otlp_grpc_exporter, "{endpoint: 'a:1', tls: {ca_file: x, ca_pem: y}}",
	  "either ca_file or ca_pem" },
	{ &otlp_grpc_exporter, "{endpoint: 'a:1', tls: {min_version: '1.1'}}",
	  "min_version is \"1.1\"" },
	{ &otlp_grpc_exporter, "{endpoint: 'a:1', tls: {min_version: '1.3', max_version: '1.2'}}",
	  "above max_version" },
	{ &otlp_grpc_exporter, "{endpoint: 'a:1', nosuch: 1}", "nosuch" },
	{ &otlp_http_exporter, "endpoint: http://localhost:4318", NULL },
	{ &otlp_http_exporter, "profiles_endpoint: https://localhost/x", NULL },
	{ &otlp_http_exporter,
	  "{endpoint: 'http://a', encoding: json, compression: none, proxy_url: 'http://p:3128', "
	  "max_idle_conns: 3, "
	  "idle_conn_timeout: 1s, force_attempt_http2: false, timeout: 3s, traces_endpoint: "
	  "'http://t'}",
	  NULL },
	{ &otlp_http_exporter, "", "at least one endpoint must be specified" },
	{ &otlp_http_exporter, "endpoint: localhost:4318", "must begin with http:// or https://" },
	{ &otlp_http_exporter, "profiles_endpoint: 'ftp://a/'",
	  "must begin with http:// or https://" },
	{ &otlp_http_exporter, "{endpoint: 'http://a', encoding: json, wire_version: 1.9}",
	  "newest wire_version only" },
};

static void test_options(void **state)
{
	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(options); k++) {
		struct instance i;
		bool ok = instance_make(&i, options[k].ops, options[k].yaml);
		const char *said = i.problems.count ? i.problems.items[0].text : i.err.msg;

		if (ok != !options[k].says || (!ok && !strstr(said, options[k].says)))
			fail_msg("%s %s: %s", options[k].ops->type, options[k].yaml, said);
		instance_free(&i);
	}
}

/* A running exporter. */
struct bench {
	struct instance instance;
	struct net_loops *loops;
	struct metrics *metrics;
	struct component_host host;
	struct batch *batch;
	struct blob *body;
};

static void bench_start(struct bench *b, const struct component_ops *ops, const char *yaml)
{
	struct profiles *p = fixture_profiles("v1.11.0-oncpu-mixed");
	struct err err = { 0 };

	*b = (struct bench){ .metrics = metrics_new(),
			     .body = fixture_body("v1.11.0-oncpu-mixed") };
	b->loops = net_loops_new(&(struct net_loops_options){ .count = 1 }, &err);
	b->host = (struct component_host){ .id = ops->type,
					   .loops = b->loops,
					   .metrics = b->metrics };
	b->batch = batch_new(p, b->body, NULL, &err);
	assert_non_null(b->batch);
	b->batch->encoding = BATCH_BODY_PROTOBUF;
	b->batch->wire_version = p->source_version;
	batch_set_request_hash(b->batch, hash128(blob_view(b->body)));
	if (!instance_make(&b->instance, ops, yaml) ||
	    !ops->start(b->instance.state, &b->host, &err))
		fail_msg("%s: %s%s", yaml, b->instance.err.msg, err.msg);
}

static void bench_stop(struct bench *b, uint64_t wait_ns)
{
	b->instance.ops->stop(b->instance.state, clock_monotonic_ns() + wait_ns);
	instance_free(&b->instance);
	net_loops_free(b->loops);
	batch_unref(b->batch);
	blob_unref(b->body);
	metrics_free(b->metrics);
}

struct answer {
	struct completion completion;
	struct outcome outcome;
	atomic_uint times;
	sem_t done;
};

static void answer_done(struct completion *c, const struct outcome *o)
{
	struct answer *a = CONTAINER_OF(c, struct answer, completion);

	a->outcome = *o;
	a->times++;
	sem_post(&a->done);
}

static void begin(struct bench *b, struct answer *a)
{
	*a = (struct answer){ .completion.done = answer_done };
	sem_init(&a->done, 0, 0);
	b->instance.ops->consume(b->instance.state, batch_ref(b->batch), &a->completion);
}

static void wait_answer(struct answer *a)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	assert_int_equal(sem_timedwait(&a->done, &until), 0);
	assert_int_equal(a->times, 1);
	sem_destroy(&a->done);
}

/* What a peer saw last. */
static struct {
	char head[8192];
	char *body;
	size_t len;
} seen;

static void see(const char *head, const void *body, size_t len)
{
	snprintf(seen.head, sizeof(seen.head), "%s", head);
	free(seen.body);
	seen.body = malloc(len + 1);
	memcpy(seen.body, body, len);
	seen.len = len;
}

static void assert_gzip_of(const struct blob *want)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	char *out = malloc(want->len + 1);
	size_t len = 0;

	assert_int_equal(
		libdeflate_gzip_decompress(d, seen.body, seen.len, out, want->len + 1, &len),
		LIBDEFLATE_SUCCESS);
	assert_int_equal(len, want->len);
	assert_memory_equal(out, want->ptr, len);
	libdeflate_free_decompressor(d);
	free(out);
}

/* The n-th request gets the n-th answer. */
static void grpc_script(struct h2_peer_stream *s, void *ctx)
{
	(void)ctx;
	see(s->headers, s->body + 5, s->len - 5);
	switch (s->ordinal) {
	case 0:
		h2_peer_ok(s, "", 0);
		break;
	case 1: /* partial success: 2 rejected, "odd" */
		h2_peer_ok(s, "\x0a\x07\x08\x02\x12\x03odd", 9);
		break;
	case 2: /* with RetryInfo of 2 s, as in otlp_verdict_test.c */
		h2_peer_error(s, "14", "busy",
			      "CAgSAW0aMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIE"
			      "CgIIAg");
		break;
	case 3:
		h2_peer_error(s, "12", "unknown service", NULL);
		break;
	default:
		break; /* no answer */
	}
}

static void test_grpc(void **state)
{
	struct h2_peer peer = { .script = grpc_script };
	struct bench b;
	struct answer a;
	char yaml[200];

	(void)state;
	h2_peer_start(&peer);
	snprintf(yaml, sizeof(yaml),
		 "{endpoint: '127.0.0.1:%u', tls: {insecure: true}, headers: {x-tenant: seven}, "
		 "timeout: 10s}",
		 peer.port);
	bench_start(&b, &otlp_grpc_exporter, yaml);
	begin(&b, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_OK);
	assert_non_null(strstr(seen.head, "grpc-encoding: gzip\n"));
	assert_non_null(strstr(seen.head, "x-tenant: seven\n"));
	assert_non_null(strstr(
		seen.head,
		":path: "
		"/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export\n"));
	assert_gzip_of(b.body);
	begin(&b, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_OK);
	assert_int_equal(a.outcome.rejected_profiles, 2);
	assert_string_equal(a.outcome.warning, "odd");
	begin(&b, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_RETRY);
	assert_int_equal(a.outcome.retry_after_ns, 2 * SECOND_NS);
	begin(&b, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_PERMANENT);
	assert_int_equal(a.outcome.err.kind, ERR_UNSUPPORTED);
	begin(&b, &a); /* stopped while it waits: answered, once */
	bench_stop(&b, 20 * MILLI_NS);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_RETRY);
	assert_int_equal(a.outcome.err.kind, ERR_CANCELLED);
	h2_peer_stop(&peer);
}

static bool http_script(struct http_peer_request *r, void *ctx)
{
	char byte;

	(void)ctx;
	see(r->head, r->body, r->len);
	switch (r->ordinal) {
	case 0:
		return http_peer_reply(r, 200, "", "", 0);
	case 1:
		return http_peer_reply(r, 503, "Retry-After: 3\r\n", "", 0);
	case 2:
		return http_peer_reply(r, 400, "", "\x08\x03\x12\x05never", 9);
	default: /* no answer */
		while (recv(r->fd, &byte, 1, 0) > 0)
			;
		return false;
	}
}

static void test_http(void **state)
{
	struct http_peer peer = { .answer = http_script };
	struct bench b;
	struct answer a;
	char yaml[200], want[200];

	(void)state;
	http_peer_start(&peer);
	snprintf(
		yaml, sizeof(yaml),
		"{endpoint: 'http://127.0.0.1:%u/base/', headers: {X-Tenant: seven}, timeout: 10s}",
		peer.port);
	bench_start(&b, &otlp_http_exporter, yaml);
	begin(&b, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_OK);
	assert_non_null(strstr(seen.head, "POST /base/v1development/profiles HTTP/1.1\r\n"));
	assert_non_null(strstr(seen.head, "Content-Type: application/x-protobuf\r\n"));
	assert_non_null(strstr(seen.head, "Content-Encoding: gzip\r\n"));
	assert_non_null(strstr(seen.head, "X-Tenant: seven\r\n"));
	assert_gzip_of(b.body);
	begin(&b, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_RETRY);
	assert_int_equal(a.outcome.retry_after_ns, 3 * SECOND_NS);
	begin(&b, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_PERMANENT);
	snprintf(want, sizeof(want),
		 "request to http://127.0.0.1:%u/base/v1development/profiles responded with HTTP "
		 "Status Code 400, Message=never",
		 peer.port);
	assert_string_equal(a.outcome.err.msg, want);
	begin(&b, &a);
	bench_stop(&b, 20 * MILLI_NS);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_RETRY);
	http_peer_stop(&peer);
}

static void test_http_json(void **state)
{
	struct http_peer peer = { .answer = http_script };
	struct bench b;
	struct answer a;
	char yaml[200];

	(void)state;
	http_peer_start(&peer);
	snprintf(yaml, sizeof(yaml),
		 "{profiles_endpoint: 'http://127.0.0.1:%u/x', encoding: json, compression: none}",
		 peer.port);
	bench_start(&b, &otlp_http_exporter, yaml);
	begin(&b, &a);
	wait_answer(&a);
	assert_int_equal(a.outcome.kind, OUTCOME_OK);
	assert_non_null(strstr(seen.head, "POST /x HTTP/1.1\r\n"));
	assert_non_null(strstr(seen.head, "Content-Type: application/json\r\n"));
	assert_memory_equal(seen.body, "{\"", 2);
	bench_stop(&b, WAIT_S * SECOND_NS);
	http_peer_stop(&peer);
}

/* Started without a peer, with a certificate that is not there: said at once. */
static void test_start_fails(void **state)
{
	static const struct {
		const struct component_ops *ops;
		const char *yaml, *says;
	} cases[] = {
		{ &otlp_grpc_exporter, "{endpoint: 'a:1', tls: {ca_file: /nonexistent.pem}}",
		  "/nonexistent.pem" },
		{ &otlp_grpc_exporter, "{endpoint: 'a:1', tls: {insecure: true}, headers: {te: x}}",
		  "belongs to gRPC" },
		{ &otlp_http_exporter,
		  "{endpoint: 'https://a:1', tls: {ca_file: /nonexistent.pem}}",
		  "/nonexistent.pem" },
		{ &otlp_http_exporter, "{endpoint: 'http://a:1', headers: {Content-Length: x}}",
		  "belongs to the protocol" },
	};
	struct err err = { 0 };
	struct net_loops *loops = net_loops_new(&(struct net_loops_options){ .count = 1 }, &err);
	struct component_host host = { .id = "x", .loops = loops, .metrics = metrics_new() };

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
		struct instance i;

		assert_true(instance_make(&i, cases[k].ops, cases[k].yaml));
		assert_false(cases[k].ops->start(i.state, &host, &err));
		if (!strstr(err.msg, cases[k].says))
			fail_msg("%s: %s", cases[k].yaml, err.msg);
		instance_free(&i);
	}
	net_loops_free(loops);
	metrics_free(host.metrics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),     cmocka_unit_test(test_grpc),
		cmocka_unit_test(test_http),        cmocka_unit_test(test_http_json),
		cmocka_unit_test(test_start_fails),
	};
	int failed;

	setenv("no_proxy", "*", 1); /* the peers are here, whatever this machine's way out is */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(seen.body);
	return failed;
}
