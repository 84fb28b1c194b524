#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#define compress \
	zlib_compress /* zlib's, which the fixtures' header brings in, is not net/compress.h's */
#include "components/exporters/fixtures_for_tests.h"
#undef compress
#include "components/exporters/otlp_export.h"
#include "net/server.h"
#include "support/metric_text.h"

enum { REQUESTS_MOST = 5000 };

/* A peer that is asked in words: what it answers is the case's rule, what it took is kept. */
struct peer {
	struct otlp_export export; /* first */
	struct client_call *call;  /* waits for its answer */
	struct blob *body;
	unsigned requests;
	uint64_t *seen; /* timestamps of all samples that were accepted */
	size_t seen_count;
	unsigned accepted;
	bool reused; /* the last body was the batch's own */
	const struct blob *original;
};

static void peer_send(struct otlp_export *x, struct blob *body, struct client_call *call)
{
	struct peer *p = (struct peer *)x;

	assert_null(p->call); /* one request at a time */
	p->call = call;
	p->body = blob_ref(body);
	p->reused = body == p->original;
	assert_true(p->requests++ < REQUESTS_MOST);
}

static void peer_judge(struct otlp_export *x, const struct client_result *r, struct verdict *out)
{
	(void)x;
	verdict_of_grpc(r, out);
}

static struct profiles *decode(struct blob *body)
{
	const struct otlp_decode_options options = { .strict = true };
	struct otlp_decode_report report;
	struct profiles *p = NULL;
	struct err err = { 0 };

	if (!otlp_decode(body, &options, &p, &report, NULL, &err))
		fail_msg("what was sent cannot be read: %s", err.msg);
	assert_int_equal(p->refused_profile_count, 0);
	return p;
}

static void see(struct peer *p, const struct profiles *message)
{
	for (uint32_t i = 0; i < message->timestamp_count; i++)
		p->seen[p->seen_count++] = message->timestamps[i];
}

static void peer_answer(struct peer *p, int status, struct str body)
{
	struct client_call *call = p->call;
	struct blob *request = p->body;
	struct client_result r = { .ok = status == GRPC_OK,
				   .sent = true,
				   .grpc_status = status,
				   .message = STR("no"),
				   .body = body };

	if (r.ok) {
		struct profiles *message = decode(request);

		see(p, message);
		profiles_free(message);
		p->accepted++;
	}
	p->call = NULL;
	p->body = NULL;
	blob_unref(request);
	call->done(call, &r);
}

struct answer {
	struct completion completion;
	struct outcome outcome;
	unsigned times;
};

static void answer_done(struct completion *c, const struct outcome *o)
{
	struct answer *a = CONTAINER_OF(c, struct answer, completion);

	a->outcome = *o;
	a->times++;
}

struct bench {
	struct peer peer;
	struct metrics *metrics;
	struct batch *batch;
	uint64_t *want;
	size_t want_count;
};

static void bench_start(struct bench *b, const char *fixture, enum wire_version version)
{
	struct component_host host = { .id = "otlp_grpc" };
	struct blob *body = fixture_body(fixture);
	struct profiles *p = fixture_profiles(fixture);
	struct err err;

	*b = (struct bench){ .metrics = metrics_new() };
	b->want_count = p->timestamp_count;
	assert_true(b->want_count > 0);
	b->want = malloc(b->want_count * sizeof(*b->want));
	b->peer.seen = malloc(2 * b->want_count * sizeof(*b->want));
	memcpy(b->want, p->timestamps, b->want_count * sizeof(*b->want));
	b->batch = batch_new(p, body, NULL, &err);
	assert_non_null(b->batch);
	b->batch->encoding = BATCH_BODY_PROTOBUF;
	b->batch->wire_version = p->source_version;
	batch_set_request_hash(b->batch, hash128(blob_view(body)));
	b->peer.original = body;
	host.metrics = b->metrics;
	b->peer.export.version = version;
	b->peer.export.send = peer_send;
	b->peer.export.judge = peer_judge;
	otlp_export_start(&b->peer.export, &host);
	blob_unref(body);
}

static void bench_stop(struct bench *b)
{
	otlp_export_stop(&b->peer.export, clock_monotonic_ns());
	otlp_export_release(&b->peer.export);
	batch_unref(b->batch);
	metrics_free(b->metrics);
	free(b->want);
	free(b->peer.seen);
}

static void begin(struct bench *b, struct answer *a)
{
	*a = (struct answer){ .completion.done = answer_done };
	otlp_export_consume(&b->peer.export, batch_ref(b->batch), &a->completion);
}

static int by_value(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return a < b ? -1 : a > b;
}

/* Each sample of the batch arrived, once. */
static void assert_all_arrived(struct bench *b)
{
	assert_int_equal(b->peer.seen_count, b->want_count);
	qsort(b->want, b->want_count, sizeof(*b->want), by_value);
	qsort(b->peer.seen, b->peer.seen_count, sizeof(*b->want), by_value);
	assert_memory_equal(b->want, b->peer.seen, b->want_count * sizeof(*b->want));
}

/* Takes requests up to a size, refuses larger ones for good. */
static void answer_with_limit(struct bench *b, size_t limit_bytes)
{
	while (b->peer.call)
		peer_answer(&b->peer,
			    b->peer.body->len <= limit_bytes ? GRPC_OK : GRPC_RESOURCE_EXHAUSTED,
			    (struct str){ 0 });
}

static void test_as_it_came(void **state)
{
	static const struct {
		const char *fixture;
		enum wire_version version;
		bool reused;
	} cases[] = {
		{ "v1.11.0-oncpu-mixed", WIRE_V1_10, true },
		{ "v1.9.0-oncpu-mixed-a", WIRE_V1_9, true },
		{ "v1.9.0-oncpu-mixed-a", WIRE_V1_10, false },
		{ "v1.11.0-oncpu-mixed", WIRE_V1_9, false },
		{ "v1.4.0-oncpu-mixed", WIRE_V1_10, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench b;
		struct answer a;

		bench_start(&b, cases[i].fixture, cases[i].version);
		begin(&b, &a);
		assert_int_equal(b.peer.reused, cases[i].reused);
		peer_answer(&b.peer, GRPC_OK, (struct str){ 0 });
		assert_int_equal(a.times, 1);
		assert_int_equal(a.outcome.kind, OUTCOME_OK);
		assert_int_equal(b.peer.requests, 1);
		assert_all_arrived(&b);
		bench_stop(&b);
	}
}

/* A batch that was changed, or that holds refused profiles, is encoded again. */
static void test_changed_is_encoded(void **state)
{
	struct bench b;
	struct answer a;

	(void)state;
	bench_start(&b, "v1.11.0-oncpu-mixed", WIRE_V1_10);
	b.batch->profiles->refused_profile_count = 1;
	begin(&b, &a);
	assert_false(b.peer.reused);
	b.batch->profiles->refused_profile_count = 0;
	peer_answer(&b.peer, GRPC_OK, (struct str){ 0 });
	b.batch->encoding = BATCH_BODY_JSON;
	b.peer.seen_count = 0;
	begin(&b, &a);
	assert_false(b.peer.reused);
	peer_answer(&b.peer, GRPC_OK, (struct str){ 0 });
	assert_all_arrived(&b);
	bench_stop(&b);
}

static void test_split(void **state)
{
	static const size_t limits[] = { 100000, 60000, 20000, 8000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct bench b;
		struct answer a;

		bench_start(&b, "v1.11.0-oncpu-big", WIRE_V1_10);
		begin(&b, &a);
		answer_with_limit(&b, limits[i]);
		assert_int_equal(a.times, 1);
		assert_int_equal(a.outcome.kind, OUTCOME_OK);
		assert_int_equal(a.outcome.lost_samples, 0);
		assert_true(b.peer.accepted >= 2);
		/* Each cut makes one part more. */
		assert_int_equal(metric_value(b.metrics, "flametap_exporter_split_requests_total"
							 "{exporter=\"otlp_grpc\"}"),
				 b.peer.accepted - 1);
		assert_all_arrived(&b);
		bench_stop(&b);
	}
}

/* The peer goes away after some parts: the next attempt sends the rest, and nothing twice. */
static void test_split_then_retry(void **state)
{
	(void)state;
	for (unsigned away_after = 0; away_after < 12; away_after++) {
		struct bench b;
		struct answer a;
		unsigned attempts = 0;

		bench_start(&b, "v1.11.0-oncpu-big", WIRE_V1_10);
		do {
			unsigned requests = b.peer.requests;

			begin(&b, &a);
			while (b.peer.call) {
				int status = b.peer.body->len <= 20000 ? GRPC_OK
								       : GRPC_RESOURCE_EXHAUSTED;

				if (b.peer.requests - requests > away_after)
					status = GRPC_UNAVAILABLE;
				peer_answer(&b.peer, status, (struct str){ 0 });
			}
			assert_int_equal(a.times, 1);
			if (a.outcome.kind == OUTCOME_RETRY)
				assert_int_equal(a.outcome.err.kind, ERR_UNAVAILABLE);
		} while (a.outcome.kind == OUTCOME_RETRY && ++attempts < 40 && away_after);
		if (away_after) {
			assert_int_equal(a.outcome.kind, OUTCOME_OK);
			assert_all_arrived(&b);
		} else {
			assert_int_equal(b.peer.seen_count, 0);
		}
		bench_stop(&b);
	}
}

/* A peer with a quota refuses single samples too: it is not asked a thousand times. */
static void test_quota(void **state)
{
	struct bench b;
	struct answer a;

	(void)state;
	bench_start(&b, "v1.11.0-oncpu-big", WIRE_V1_10);
	begin(&b, &a);
	answer_with_limit(&b, 0);
	assert_int_equal(a.outcome.kind, OUTCOME_PERMANENT);
	assert_int_equal(a.outcome.err.kind, ERR_LIMIT);
	assert_true(b.peer.requests <= 13); /* 1,200 samples are halved 11 times */
	assert_int_equal(b.peer.seen_count, 0);
	assert_int_equal(metric_value(b.metrics, "flametap_exporter_split_lost_samples_total"
						 "{exporter=\"otlp_grpc\"}"),
			 b.batch->profiles->sample_count);
	bench_stop(&b);
}

/* Parts that are bad by themselves are lost and counted, the others kept. */
static void test_some_parts_lost(void **state)
{
	struct bench b;
	struct answer a;
	uint64_t lost = 0;
	unsigned refused = 0;

	(void)state;
	bench_start(&b, "v1.11.0-oncpu-big", WIRE_V1_10);
	begin(&b, &a);
	while (b.peer.call) {
		struct profiles *message = decode(b.peer.body);
		bool small = b.peer.body->len <= 20000;
		bool bad = small && b.peer.accepted % 3 == 1 && refused < 2;

		refused += bad;
		lost += bad ? message->sample_count : 0;
		profiles_free(message);
		peer_answer(&b.peer,
			    bad     ? GRPC_INVALID_ARGUMENT
			    : small ? GRPC_OK
				    : GRPC_RESOURCE_EXHAUSTED,
			    (struct str){ 0 });
	}
	assert_int_equal(refused, 2);
	assert_int_equal(a.outcome.kind, OUTCOME_OK);
	assert_int_equal(a.outcome.lost_samples, lost);
	assert_int_equal(a.outcome.rejected_profiles, 2);
	assert_string_equal(a.outcome.warning, "INVALID_ARGUMENT: no");
	assert_int_equal(b.peer.export.lost_samples->value, lost);
	bench_stop(&b);
}

/* Whom the peer does not know it will not know with the next part. */
static void test_rejected_ourselves(void **state)
{
	struct bench b;
	struct answer a;

	(void)state;
	bench_start(&b, "v1.11.0-oncpu-big", WIRE_V1_10);
	begin(&b, &a);
	peer_answer(&b.peer, GRPC_RESOURCE_EXHAUSTED, (struct str){ 0 });
	peer_answer(&b.peer, GRPC_UNAUTHENTICATED, (struct str){ 0 });
	assert_null(b.peer.call);
	assert_int_equal(a.outcome.kind, OUTCOME_PERMANENT);
	assert_int_equal(a.outcome.err.kind, ERR_UNAUTHENTICATED);
	assert_int_equal(b.peer.requests, 2);
	bench_stop(&b);
}

static void test_partial_success_sums(void **state)
{
	struct str partial = STR("\x0a\x07\x08\x03\x12\x03odd"); /* 3 rejected, "odd" */
	struct bench b;
	struct answer a;

	(void)state;
	bench_start(&b, "v1.11.0-oncpu-big", WIRE_V1_10);
	begin(&b, &a);
	peer_answer(&b.peer, GRPC_RESOURCE_EXHAUSTED, (struct str){ 0 });
	peer_answer(&b.peer, GRPC_OK, partial);
	peer_answer(&b.peer, GRPC_OK, partial);
	assert_int_equal(a.outcome.kind, OUTCOME_OK);
	assert_int_equal(a.outcome.rejected_profiles, 6);
	assert_string_equal(a.outcome.warning, "odd");
	assert_int_equal(metric_value(b.metrics, "flametap_exporter_rejected_profiles_total"
						 "{exporter=\"otlp_grpc\"}"),
			 6);
	assert_all_arrived(&b);
	bench_stop(&b);
}

/* What another version has no place for, a body at a time. */
static void test_losses_are_counted(void **state)
{
	static const struct {
		const char *fixture;
		enum wire_version version;
		const char *reason;
		bool lost;
	} cases[] = {
		{ "v1.8.0-oncpu-mixed-a", WIRE_V1_8, "old_fields", false },
		{ "v1.3.1-experimental-oncpu-a", WIRE_V1_10, "old_fields", true },
		{ "v1.11.0-synthetic-offcpu-links", WIRE_V1_7, "event_values", true },
		{ "v1.11.0-synthetic-offcpu-links", WIRE_V1_9, "event_values", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench b;
		struct answer a;
		char series[128];

		bench_start(&b, cases[i].fixture, cases[i].version);
		begin(&b, &a);
		peer_answer(&b.peer, GRPC_OK, (struct str){ 0 });
		snprintf(series, sizeof(series),
			 "flametap_exporter_unwritten_total{exporter=\"otlp_grpc\",reason=\"%s\"}",
			 cases[i].reason);
		assert_int_equal(metric_value(b.metrics, series) > 0, cases[i].lost);
		bench_stop(&b);
	}
}

/* Once it stops, no further part goes out, and the batch can be sent again from where it was. */
static void test_stop_between_parts(void **state)
{
	struct bench b;
	struct answer a;

	(void)state;
	bench_start(&b, "v1.11.0-oncpu-big", WIRE_V1_10);
	begin(&b, &a);
	peer_answer(&b.peer, GRPC_RESOURCE_EXHAUSTED, (struct str){ 0 });
	otlp_export_stop(&b.peer.export,
			 clock_monotonic_ns()); /* the deadline is now: does not wait */
	peer_answer(&b.peer, GRPC_OK, (struct str){ 0 });
	assert_null(b.peer.call);
	assert_int_equal(a.times, 1);
	assert_int_equal(a.outcome.kind, OUTCOME_RETRY);
	begin(&b, &a);
	assert_null(b.peer.call);
	assert_int_equal(a.outcome.kind, OUTCOME_RETRY);
	bench_stop(&b);
}

static void test_no_samples(void **state)
{
	struct profiles *empty = profiles_new(0, 0);
	struct bench b;
	struct answer a;

	(void)state;
	bench_start(&b, "v1.11.0-oncpu-start", WIRE_V1_10);
	batch_unref(b.batch);
	empty->sealed = true;
	b.batch = batch_new(empty, NULL, NULL, &(struct err){ 0 });
	assert_non_null(b.batch);
	begin(&b, &a);
	peer_answer(&b.peer, GRPC_RESOURCE_EXHAUSTED, (struct str){ 0 });
	assert_int_equal(a.outcome.kind, OUTCOME_PERMANENT);
	bench_stop(&b);
}

static void test_versions(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		enum wire_version version;
	} cases[] = {
		{ NULL, true, WIRE_V1_10 },   { "1.10", true, WIRE_V1_10 },
		{ "1.11", true, WIRE_V1_10 }, { "v1.9.0", true, WIRE_V1_9 },
		{ "1.8", true, WIRE_V1_8 },   { "1.7", true, WIRE_V1_7 },
		{ "1.5", false, WIRE_AUTO },  { "2", false, WIRE_AUTO },
		{ "", false, WIRE_AUTO },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		enum wire_version v = WIRE_AUTO;
		struct err err = { 0 };
		bool ok = otlp_export_version(cases[i].text, &v, &err);

		if (ok != cases[i].ok || v != cases[i].version)
			fail_msg("\"%s\": %d, %d: %s", cases[i].text ? cases[i].text : "", ok, v,
				 err.msg);
	}
}

static void test_leftovers_are_bounded(void **state)
{
	struct leftovers l;
	struct leftover out, one = { .split = true, .part_count = 1 };

	(void)state;
	leftovers_init(&l);
	for (uint64_t i = 0; i < 100; i++) {
		one.lost_samples = i;
		leftovers_put(&l, (struct hash128){ i, 0 }, &one);
	}
	assert_int_equal(l.count, 64);
	assert_false(
		leftovers_take(&l, (struct hash128){ 35, 0 }, &out)); /* the oldest made room */
	for (uint64_t i = 99; i >= 36; i--) {
		assert_true(leftovers_take(&l, (struct hash128){ i, 0 }, &out));
		assert_int_equal(out.lost_samples, i);
		assert_false(leftovers_take(&l, (struct hash128){ i, 0 }, &out));
	}
	assert_int_equal(l.count, 0);
	leftovers_put(&l, (struct hash128){ 1, 1 },
		      &one); /* still whole after being emptied from the end */
	assert_true(leftovers_take(&l, (struct hash128){ 1, 1 }, &out));
	leftovers_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_it_came),
		cmocka_unit_test(test_changed_is_encoded),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_split_then_retry),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_some_parts_lost),
		cmocka_unit_test(test_rejected_ourselves),
		cmocka_unit_test(test_partial_success_sums),
		cmocka_unit_test(test_losses_are_counted),
		cmocka_unit_test(test_stop_between_parts),
		cmocka_unit_test(test_no_samples),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_leftovers_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
