#include "agent/report/traces_for_tests.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/report/deliveries.h"
#include "agent/report/reporter.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/builder.h"

/* A pipeline's end: keeps each batch's sample count and answers as it is told. */
struct sink {
	struct consumer consumer;
	pthread_mutex_t lock;
	pthread_cond_t came;
	struct outcome answers[8]; /* of the first ones; then OK */
	uint32_t count;
	uint64_t samples[64];
	struct batch *batches[64];
	bool hold; /* answers wait for release_held() */
	struct completion *held[64];
};

static void sink_consume(struct consumer *self, struct batch *batch, struct completion *done)
{
	struct sink *s = (struct sink *)self;
	struct outcome o = outcome_ok();
	bool hold;

	pthread_mutex_lock(&s->lock);
	if (s->count == ARRAY_LEN(s->samples)) { /* more than any test looks at */
		pthread_mutex_unlock(&s->lock);
		batch_unref(batch);
		completion_done(done, &o);
		return;
	}
	if (s->count < ARRAY_LEN(s->answers))
		o = s->answers[s->count];
	s->samples[s->count] = batch_sample_count(batch);
	s->batches[s->count] = batch;
	s->held[s->count] = done;
	s->count++;
	hold = s->hold;
	pthread_cond_broadcast(&s->came);
	pthread_mutex_unlock(&s->lock);
	if (!hold)
		completion_done(done, &o);
}

static void sink_init(struct sink *s)
{
	*s = (struct sink){ .consumer.consume = sink_consume,
			    .lock = PTHREAD_MUTEX_INITIALIZER,
			    .came = PTHREAD_COND_INITIALIZER };
}

static void sink_release(struct sink *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		batch_unref(s->batches[i]);
}

static void sink_wait(struct sink *s, uint32_t count)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&s->lock);
	while (s->count < count)
		if (pthread_cond_timedwait(&s->came, &s->lock, &until))
			fail_msg("%u batches came, not %u", s->count, count);
	pthread_mutex_unlock(&s->lock);
}

struct setup {
	struct sink sink;
	struct metrics *metrics;
	struct test_namer namer;
	struct reporter_options o;
	struct process_info *process;
	struct executable *executable;
	uint64_t lost_before, sampled_ns;
	struct report_totals totals;
};

static uint32_t losses(void *ctx, struct report_count *out, uint32_t most)
{
	struct setup *s = ctx;

	assert_true(most > 0);
	out[0] = (struct report_count){ "ring_full", s->lost_before };
	return 1;
}

static void reported(void *ctx, const struct report_totals *totals)
{
	((struct setup *)ctx)->totals = *totals;
}

static uint64_t sampling_ns(void *ctx)
{
	return ((struct setup *)ctx)->sampled_ns;
}

static void setup_init(struct setup *s)
{
	*s = (struct setup){ 0 };
	sink_init(&s->sink);
	test_namer_init(&s->namer);
	s->metrics = metrics_new();
	s->process = test_process(100, "/usr/bin/prog", "prog");
	s->executable = test_executable("prog");
	s->o = (struct reporter_options){
		.report = { .samples_per_second = 20, .native_symbols = true },
		.interval_ns = 3600 * SECOND_NS, /* only what a test asks for */
		.naming_budget_ns = 77,
		.namer = &s->namer.namer,
		.losses = losses,
		.reported = reported,
		.ctx = s,
		.id = "profiling",
		.next = &s->sink.consumer,
		.metrics = s->metrics,
	};
}

static void setup_release(struct setup *s)
{
	sink_release(&s->sink);
	process_info_unref(s->process);
	executable_unref(s->executable);
	metrics_free(s->metrics);
}

static struct reporter *begin(const struct setup *s)
{
	struct reporter *r = reporter_new(&s->o);

	reporter_begins(r);
	return r;
}

static void add(struct setup *s, struct reporter *r, uint32_t count)
{
	struct trace_frame frame = { .kind = FRAME_NATIVE,
				     .executable = s->executable,
				     .address = 0x1200 };

	for (uint32_t i = 0; i < count; i++) {
		struct trace t = test_trace(s->process, clock_realtime_ns(), &frame, 1);

		t.tid = i; /* each a sample of its own */
		reporter_sink(r).trace(reporter_sink(r).ctx, &t);
	}
}

static int64_t account(const struct batch *b, const char *key)
{
	const struct profiles *p = b->profiles;
	const struct any_value *v =
		profiles_attribute(p, p->profiles[p->profile_count - 1].attributes, str_cstr(key));

	return v ? v->integer : -1;
}

static uint64_t in_a_minute(void)
{
	return clock_monotonic_ns() + 60 * SECOND_NS;
}

static void test_flush_and_stop(void **state)
{
	struct setup s;
	struct reporter *r;

	(void)state;
	setup_init(&s);
	r = begin(&s);
	add(&s, r, 3);
	reporter_flush(r);
	sink_wait(&s.sink, 1);
	add(&s, r, 2);
	reporter_stop(r, in_a_minute());
	assert_int_equal(s.sink.count, 2);
	assert_int_equal(s.sink.samples[0], 3);
	assert_int_equal(s.sink.samples[1], 2);
	assert_string_equal(s.sink.batches[0]->transport, "agent");
	assert_int_equal(s.totals.samples, 2);
	assert_int_equal(s.namer.begun, 2);
	assert_int_equal(s.namer.budget_ns, 77);
	reporter_free(r);
	setup_release(&s);
}

static void test_interval(void **state)
{
	struct setup s;
	struct reporter *r;

	(void)state;
	setup_init(&s);
	s.o.interval_ns = MILLI_NS;
	s.o.jitter = 0.2;
	r = begin(&s);
	sink_wait(&s.sink, 3); /* also when nothing was sampled */
	pthread_mutex_lock(&s.sink.lock);
	assert_true(account(s.sink.batches[1], "flametap.window_ns") >= 800000);
	pthread_mutex_unlock(&s.sink.lock);
	s.o.interval_ns = 3600 * SECOND_NS;
	reporter_stop(r, in_a_minute());
	reporter_free(r);
	setup_release(&s);
}

static void test_idle_is_not_sent(void **state)
{
	(void)state;
	for (int send = 0; send < 2; send++) {
		struct process_info *idle = test_process(0, "", "swapper");
		struct trace_frame frame = { .kind = FRAME_KERNEL, .address = 0xffff1000 };
		struct trace t = test_trace(idle, clock_realtime_ns(), &frame, 1);
		struct setup s;
		struct reporter *r;

		setup_init(&s);
		s.o.send_idle_frames = send;
		r = begin(&s);
		reporter_add(r, &t);
		reporter_stop(r, in_a_minute());
		assert_int_equal(s.sink.samples[0], send);
		reporter_free(r);
		process_info_unref(idle);
		setup_release(&s);
	}
}

static void test_young_processes(void **state)
{
	struct setup s;
	struct reporter *r;
	struct trace t;

	(void)state;
	setup_init(&s);
	s.o.min_process_age_ns = 1000;
	r = begin(&s);
	t = test_trace(s.process, 1000, NULL, 0); /* it started at 1 */
	reporter_add(r, &t);
	t.time_unix_nano = 1001;
	reporter_add(r, &t);
	reporter_stop(r, in_a_minute());
	assert_int_equal(s.sink.samples[0], 1);
	reporter_free(r);
	setup_release(&s);
}

/* Losses are told as what was lost since the report before. */
static void test_losses(void **state)
{
	struct setup s;
	struct reporter *r;

	(void)state;
	setup_init(&s);
	s.lost_before = 5;
	r = begin(&s);
	reporter_flush(r);
	sink_wait(&s.sink, 1);
	s.lost_before = 7;
	reporter_stop(r, in_a_minute());
	assert_int_equal(account(s.sink.batches[0], "flametap.dropped.ring_full"), 5);
	assert_int_equal(account(s.sink.batches[1], "flametap.dropped.ring_full"), 2);
	reporter_free(r);
	setup_release(&s);
}

/* Of a window only what was sampled counts; the clock of sampling never makes it longer. */
static void test_sampled_time(void **state)
{
	struct setup s;
	struct reporter *r;

	(void)state;
	setup_init(&s);
	s.o.sampling_ns = sampling_ns;
	s.sampled_ns = 1;
	r = begin(&s);
	reporter_flush(r);
	sink_wait(&s.sink, 1);
	s.sampled_ns = UINT64_MAX / 2;
	reporter_stop(r, in_a_minute());
	assert_int_equal(account(s.sink.batches[0], "flametap.window_ns"), 1);
	assert_true(account(s.sink.batches[1], "flametap.window_ns") < 60 * (int64_t)SECOND_NS);
	reporter_free(r);
	setup_release(&s);
}

static void let_time_pass(void)
{
	uint64_t begin = clock_realtime_ns();

	while (clock_realtime_ns() - begin < 2 * MILLI_NS)
		;
}

/* A start that takes long, or fails. */
static void test_nothing_before_it_begins(void **state)
{
	struct reporter *r;
	struct setup s;

	(void)state;
	setup_init(&s);
	s.o.interval_ns = MILLI_NS / 10;
	r = reporter_new(&s.o);
	let_time_pass();
	reporter_stop(r, in_a_minute());
	assert_int_equal(s.sink.count, 0);
	reporter_free(r);
	setup_release(&s);
}

/* Neither what it takes to start sampling nor to end it is time that a report covers. */
static void test_begin_and_end(void **state)
{
	const struct profiles *p;
	const struct profile *first, *last;
	uint64_t start, middle, end;
	struct reporter *r;
	struct setup s;

	(void)state;
	setup_init(&s);
	r = reporter_new(&s.o);
	let_time_pass();
	start = clock_realtime_ns();
	reporter_begins(r);
	add(&s, r, 1);
	reporter_flush(r);
	sink_wait(&s.sink, 1);
	middle = clock_realtime_ns();
	add(&s, r, 1);
	reporter_ends(r);
	end = clock_realtime_ns();
	let_time_pass();
	reporter_stop(r, in_a_minute());
	p = s.sink.batches[0]->profiles;
	first = &p->profiles[p->profile_count - 1];
	p = s.sink.batches[1]->profiles;
	last = &p->profiles[p->profile_count - 1];
	assert_true(first->time_unix_nano >= start);
	assert_true(last->time_unix_nano <= middle && last->time_unix_nano >= start);
	assert_int_equal(first->time_unix_nano + first->duration_nano, last->time_unix_nano);
	assert_true(last->time_unix_nano + last->duration_nano <= end);
	assert_true(account(s.sink.batches[1], "flametap.window_ns") <=
		    (int64_t)last->duration_nano);
	reporter_free(r);
	setup_release(&s);
}

/* A full window is sent at once; what does not fit meanwhile is counted, none is lost in silence.
 */
static void test_full_window(void **state)
{
	struct setup s;
	struct reporter *r;
	uint64_t arrived = 0, dropped = 0;

	(void)state;
	setup_init(&s);
	s.o.window_bytes = 64 << 10;
	r = begin(&s);
	add(&s, r, 5000);
	sink_wait(&s.sink, 1); /* nobody asked for it */
	reporter_stop(r, in_a_minute());
	for (uint32_t i = 0; i < s.sink.count; i++) {
		int64_t lost = account(s.sink.batches[i], "flametap.dropped.report_full");

		arrived += s.sink.samples[i];
		dropped += lost > 0 ? (uint64_t)lost : 0;
	}
	assert_true(dropped > 0);
	assert_int_equal(arrived + dropped, 5000);
	reporter_free(r);
	setup_release(&s);
}

static bool counted(const struct setup *s, const char *series, int64_t value)
{
	AUTO(buf_release) struct buf text = { 0 };
	char line[160];
	bool there;

	snprintf(line, sizeof(line), "\n%s %lld\n", series, (long long)value);
	metrics_write(s->metrics, &text);
	buf_char(&text, '\0');
	there = strstr(text.ptr, line) != NULL;
	if (!there)
		fprintf(stderr, "no %s in:\n%s\n", line, text.ptr);
	return there;
}

static void test_counters(void **state)
{
	struct process_info *idle = test_process(0, "", "swapper");
	struct setup s;
	struct reporter *r;

	(void)state;
	setup_init(&s);
	s.lost_before = 5;
	s.o.min_process_age_ns = 1000;
	s.o.report.end_name = test_end_name;
	s.sink.answers[0] = (struct outcome){ .kind = OUTCOME_PERMANENT };
	struct trace_frame frames[] = {
		{ .kind = FRAME_NATIVE, .executable = s.executable, .address = 0x1400 },
		{ .kind = FRAME_END, .address = 2 },
		{ .kind = FRAME_END, .address = 40 },
	};
	struct trace of_idle = test_trace(idle, 1, NULL, 0);
	struct trace young = test_trace(s.process, 5, NULL, 0);
	struct trace cut = test_trace(s.process, 5000, frames, 2);
	struct trace cut_else = test_trace(s.process, 5000, frames + 2, 1);

	r = begin(&s);
	reporter_add(r, &of_idle);
	reporter_add(r, &young);
	reporter_add(r, &cut);
	reporter_add(r, &cut);
	reporter_add(r, &cut_else);
	reporter_flush(r);
	sink_wait(&s.sink, 1);
	reporter_stop(r, in_a_minute());
	assert_true(counted(&s, "flametap_agent_reports_total{receiver=\"profiling\"}", 2));
	assert_true(counted(&s, "flametap_agent_samples_total{receiver=\"profiling\"}", 3));
	assert_true(counted(&s, "flametap_agent_unnamed_frames_total{receiver=\"profiling\"}", 2));
#define OF(reason) "{receiver=\"profiling\",reason=\"" reason "\"}"
	assert_true(counted(&s, "flametap_agent_skipped_samples_total" OF("idle"), 1));
	assert_true(counted(&s, "flametap_agent_skipped_samples_total" OF("young"), 1));
	assert_true(counted(&s, "flametap_agent_cut_stacks_total" OF("no_rows"), 2));
	assert_true(counted(&s, "flametap_agent_cut_stacks_total" OF("reason_40"), 1));
	assert_true(counted(&s, "flametap_agent_dropped_samples_total" OF("ring_full"), 5));
	assert_true(counted(&s, "flametap_agent_dropped_samples_total" OF("report_full"), 0));
	assert_true(counted(&s, "flametap_agent_dropped_samples_total" OF("report_failed"), 0));
	assert_true(counted(&s, "flametap_agent_dropped_samples_total" OF("no_memory"), 0));
	assert_true(counted(&s, "flametap_agent_dropped_samples_total" OF("not_delivered"), 3));
	reporter_free(r);
	process_info_unref(idle);
	setup_release(&s);
}

/* No room for the message: the pipeline's memory is spent. */
static void test_no_memory(void **state)
{
	struct budget budget;
	struct setup s;
	struct reporter *r;

	(void)state;
	setup_init(&s);
	budget_init(&budget, 16);
	s.o.budget = &budget;
	r = begin(&s);
	add(&s, r, 9);
	reporter_flush(r);
	reporter_stop(r, in_a_minute());
	assert_int_equal(s.sink.count, 0);
	assert_true(counted(&s, "flametap_agent_dropped_samples_total" OF("no_memory"), 9));
	s.o.budget = NULL;
	reporter_free(r);
	setup_release(&s);
}

/* What is logged while it is on, as text. */
struct heard {
	int fd;
	char text[8192];
};

static void listen_to_log(struct heard *h)
{
	h->fd = memfd_create("log", MFD_CLOEXEC);
	assert_true(h->fd >= 0);
	log_setup(LOG_WARN, LOG_TEXT, h->fd);
}

static void hear(struct heard *h)
{
	ssize_t n = pread(h->fd, h->text, sizeof(h->text) - 1, 0);

	assert_true(n >= 0);
	h->text[n] = 0;
	log_setup(LOG_ERROR, LOG_TEXT, STDERR_FILENO);
	close(h->fd);
}

static void assert_heard(const struct heard *h, const char *part)
{
	if (!strstr(h->text, part))
		fail_msg("\"%s\" is not in:\n%s", part, h->text);
}

/* "Not now" is offered again, the same message; "never" is counted in the next report. */
static void test_answers(void **state)
{
	struct setup s;
	struct reporter *r;
	struct heard heard;
	struct err err = { .kind = ERR_BUSY, .msg = "no room" };

	(void)state;
	setup_init(&s);
	listen_to_log(&heard);
	s.sink.answers[0] = outcome_of(&err);
	assert_int_equal(s.sink.answers[0].kind, OUTCOME_RETRY);
	s.sink.answers[2] = outcome_of(&err);
	s.sink.answers[2].kind = OUTCOME_PERMANENT;
	r = begin(&s);
	add(&s, r, 4);
	reporter_flush(r);
	sink_wait(&s.sink, 2);
	assert_ptr_equal(s.sink.batches[0], s.sink.batches[1]);
	add(&s, r, 6);
	reporter_flush(r);
	sink_wait(&s.sink, 3);
	reporter_stop(r, in_a_minute());
	assert_int_equal(account(s.sink.batches[3], "flametap.dropped.not_delivered"), 6);
	reporter_free(r);
	hear(&heard);
	assert_heard(&heard, "Samples are lost: their reports could not be delivered  reports=1 "
			     "samples=6 error=\"no room\"");
	setup_release(&s);
}

/* The end, and there is still no room: the last reports are said, not only counted. */
static void test_lost_at_the_end(void **state)
{
	struct err err = { .kind = ERR_BUSY, .msg = "the spool is full: 9 of 9 bytes are in use" };
	struct heard heard;
	struct reporter *r;
	struct setup s;

	(void)state;
	setup_init(&s);
	for (size_t i = 0; i < ARRAY_LEN(s.sink.answers); i++)
		s.sink.answers[i] = outcome_of(&err);
	r = begin(&s);
	add(&s, r, 4);
	reporter_flush(r);
	sink_wait(&s.sink, 1);
	add(&s, r, 3);
	listen_to_log(&heard);
	reporter_stop(r, in_a_minute());
	reporter_free(r);
	hear(&heard);
	assert_heard(&heard,
		     "Samples are lost at the end: their reports could not be delivered  "
		     "reports=2 samples=7 error=\"the spool is full: 9 of 9 bytes are in use\"");
	assert_true(counted(&s, "flametap_agent_dropped_samples_total" OF("not_delivered"), 7));
	setup_release(&s);
}

/* Of a pipeline that takes nothing the newest reports are kept, the older ones are counted. */
static void test_deliveries_are_bounded(void **state)
{
	struct metric lost = { 0 };
	struct setup s;
	struct deliveries *d;
	struct heard heard;
	struct err err;

	(void)state;
	setup_init(&s);
	s.sink.hold = true;
	d = deliveries_new(&s.sink.consumer, s.metrics, "profiling", &lost);
	for (int i = 0; i < DELIVERIES_MOST + 3; i++) {
		struct builder *message = builder_new(&(struct builder_options){ 0 });
		struct batch *b = batch_new(builder_finish(message, &err), NULL, NULL, &err);

		assert_non_null(b);
		deliveries_offer(d, b, 2);
	}
	listen_to_log(&heard);
	assert_int_equal(deliveries_take_lost(d), 3 * 2);
	assert_int_equal(deliveries_take_lost(d), 0); /* said once */
	assert_int_equal(s.sink.count, DELIVERIES_MOST);
	assert_int_equal(lost.value, 3 * 2); /* all others are on their way, and may be kept */
	err = (struct err){ .kind = ERR_BUSY, .msg = "no room" };
	for (uint32_t i = 0; i < s.sink.count; i++) {
		struct outcome o = outcome_of(&err);

		completion_done(s.sink.held[i], &o);
	}
	assert_true(deliveries_run(d, 0) != UINT64_MAX); /* all wait */
	deliveries_finish(d, clock_monotonic_ns()); /* offered a last time, not answered in time */
	assert_int_equal(s.sink.count, 2 * DELIVERIES_MOST);
	hear(&heard);
	assert_heard(&heard, "reports=3 samples=6 error=\"16 reports are on their way and none is "
			     "answered\"");
	assert_heard(&heard, "The end comes while reports are on their way: they may be lost  "
			     "reports=16 samples=32");
	deliveries_free(d);
	for (uint32_t i = DELIVERIES_MOST; i < s.sink.count; i++) {
		struct outcome o = outcome_ok();

		completion_done(s.sink.held[i], &o); /* the last one frees */
	}
	setup_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flush_and_stop),
		cmocka_unit_test(test_interval),
		cmocka_unit_test(test_idle_is_not_sent),
		cmocka_unit_test(test_young_processes),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_sampled_time),
		cmocka_unit_test(test_nothing_before_it_begins),
		cmocka_unit_test(test_begin_and_end),
		cmocka_unit_test(test_full_window),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_lost_at_the_end),
		cmocka_unit_test(test_deliveries_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
