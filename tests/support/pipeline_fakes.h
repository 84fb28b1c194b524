/*
 * pipeline_fakes.h - components of the pipeline's own tests: a receiver to feed by hand, sinks that
 * do what a test says.
 *
 * Include after cmocka and the pipeline's headers. State that a test looks at is in the globals
 * below, one test program each.
 */
#pragma once
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/cleanup.h"
#include "base/clock.h"
#include "model/builder.h"
#include "pipeline/component.h"
#include "pipeline/config.h"
#include "pipeline/sending.h"

/* A request of `samples` samples; `seed` makes it different from others. */
static inline struct batch *fake_batch(uint32_t samples, uint32_t seed, struct budget *budget)
{
	struct builder_options o = { .copy_strings = true };
	struct builder *b = builder_new(&o);
	struct key_value pair = { .key = STR("service.name") };
	struct profile *profile;
	struct profiles *p;
	struct batch *batch;
	struct err err;
	char name[32];

	snprintf(name, sizeof(name), "service-%u", seed);
	pair.value = (struct any_value){ .kind = ANY_STRING, .string = str_cstr(name) };
	builder_begin_resource(b)->attributes = builder_key_values(b, &pair, 1);
	builder_begin_scope(b);
	profile = builder_begin_profile(b);
	profile->sample_type.type = builder_string(b, STR("samples"));
	profile->sample_type.unit = builder_string(b, STR("count"));
	for (uint32_t i = 0; i < samples; i++) {
		int64_t value = seed + i;

		builder_sample(b, (struct stack_index){ 0 }, (struct link_index){ 0 }, NULL, 0,
			       &value, 1, NULL, 0);
	}
	p = builder_finish(b, &err);
	assert(p);
	batch = batch_new(p, NULL, budget, &err);
	assert(batch);
	return batch;
}

/* Waits for an answer. */
struct waiter {
	struct completion completion;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool answered;
	struct outcome outcome;
};

static inline void waiter_done(struct completion *c, const struct outcome *o)
{
	struct waiter *w = CONTAINER_OF(c, struct waiter, completion);

	pthread_mutex_lock(&w->lock);
	assert(!w->answered); /* exactly once */
	w->answered = true;
	w->outcome = *o;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static inline void waiter_init(struct waiter *w)
{
	*w = (struct waiter){ .completion = { waiter_done },
			      .lock = PTHREAD_MUTEX_INITIALIZER,
			      .cond = PTHREAD_COND_INITIALIZER };
}

static inline struct outcome waiter_wait(struct waiter *w)
{
	struct outcome o;

	pthread_mutex_lock(&w->lock);
	while (!w->answered)
		pthread_cond_wait(&w->cond, &w->lock);
	o = w->outcome;
	pthread_mutex_unlock(&w->lock);
	return o;
}

static inline bool waiter_answered(struct waiter *w)
{
	bool answered;

	pthread_mutex_lock(&w->lock);
	answered = w->answered;
	pthread_mutex_unlock(&w->lock);
	return answered;
}

/* Hands a batch on and waits for the answer. */
static inline struct outcome feed(struct consumer *c, struct batch *batch)
{
	struct waiter w;

	waiter_init(&w);
	consumer_consume(c, batch, &w.completion);
	return waiter_wait(&w);
}

static inline struct outcome fake_outcome(enum outcome_kind kind)
{
	struct outcome o = { .kind = kind };

	if (kind == OUTCOME_RETRY)
		err_set(&o.err, ERR_UNAVAILABLE, "the fake is away");
	else if (kind == OUTCOME_PERMANENT)
		err_set(&o.err, ERR_INVALID, "the fake does not want it");
	return o;
}

/* A sink: records what came, answers as told. Threads: any. */
struct fake_sink {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum outcome_kind answers[64]; /* of the next requests; past answer_count: OK */
	uint32_t answer_count, answers_given;
	uint64_t retry_after_ns;
	bool hold; /* keeps requests until fake_release() or stop */
	struct completion *held[64];
	struct batch *held_batches[64];
	uint32_t held_count;
	uint32_t requests, kept;
	uint64_t samples;
	struct hash128 hashes[4096]; /* of those kept, in their order */
	uint32_t in_flight_most;
	uint32_t shared_seen; /* batches that others held, too */
	uint32_t read_back;   /* out of a spool */
	bool stopped;
};

#define FAKE_SINK_INIT                                                                 \
	{                                                                              \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

static inline void fake_take(struct fake_sink *f, struct batch *batch, struct completion *done)
{
	struct outcome o = fake_outcome(OUTCOME_OK);

	pthread_mutex_lock(&f->lock);
	f->requests++;
	if (atomic_load(&batch->refs) > 1)
		f->shared_seen++;
	if (batch->transport && strcmp(batch->transport, "spool") == 0)
		f->read_back++;
	if (f->hold && f->held_count < 64) {
		f->held[f->held_count] = done;
		f->held_batches[f->held_count++] = batch;
		if (f->held_count > f->in_flight_most)
			f->in_flight_most = f->held_count;
		pthread_cond_broadcast(&f->changed);
		pthread_mutex_unlock(&f->lock);
		return;
	}
	if (f->answers_given < f->answer_count)
		o = fake_outcome(f->answers[f->answers_given++]);
	o.retry_after_ns = f->retry_after_ns;
	if (o.kind == OUTCOME_OK) {
		if (f->kept < 4096)
			f->hashes[f->kept] = batch_request_hash(batch);
		f->kept++;
		f->samples += batch_sample_count(batch);
	}
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	batch_unref(batch);
	completion_done(done, &o);
}

/* Answers all that is held, and holds no more. */
static inline void fake_release(struct fake_sink *f, enum outcome_kind kind)
{
	struct outcome o = fake_outcome(kind);
	struct completion *held[64];
	uint32_t count;

	pthread_mutex_lock(&f->lock);
	f->hold = false;
	count = f->held_count;
	f->held_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		held[i] = f->held[i];
		if (kind == OUTCOME_OK) {
			f->hashes[f->kept++] = batch_request_hash(f->held_batches[i]);
			f->samples += batch_sample_count(f->held_batches[i]);
		}
		batch_unref(f->held_batches[i]);
	}
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	for (uint32_t i = 0; i < count; i++)
		completion_done(held[i], &o);
}

/* Waits until a counter of the sink is at least n; a test that waits for ever is ended by its
 * timeout. */
static inline void fake_wait(struct fake_sink *f, const uint32_t *counter, uint32_t n)
{
	pthread_mutex_lock(&f->lock);
	while (*counter < n)
		pthread_cond_wait(&f->changed, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

static inline void fake_reset(struct fake_sink *f)
{
	*f = (struct fake_sink)FAKE_SINK_INIT;
}

/* ---- components over them: exporters "record" (local), "far" (remote), receiver "hand",
 * processors ---- */

static struct fake_sink fake_record[3] = { FAKE_SINK_INIT, FAKE_SINK_INIT, FAKE_SINK_INIT };
static struct fake_sink fake_far = FAKE_SINK_INIT;
static const struct component_host *fake_hands[4]; /* by the receiver's `slot` */
static char fake_trace[1024];                      /* "start far,start hand,..." */

static inline void fake_note(const char *what, const char *id)
{
	size_t len = strlen(fake_trace);

	snprintf(fake_trace + len, sizeof(fake_trace) - len, "%s%s %s", len ? "," : "", what, id);
}

struct fake_state {
	const struct component_host *host;
	uint32_t slot;
	bool fail_start, fail_check, fail_reload;
	char *checked; /* made by check(), freed by release(): leaks show in ASan */
	struct sending_options sending;
};

#define FAKE_FIELDS                                                    \
	{ .name = "slot",                                              \
	  .kind = CONFIG_UINT32,                                       \
	  .offset = offsetof(struct fake_state, slot),                 \
	  .default_text = "0",                                         \
	  .min = 0,                                                    \
	  .max = 3,                                                    \
	  .help = "which global",                                      \
	  .aliases = { "Slot_Number", "!old_slot" } },                 \
		{ .name = "fail_start",                                \
		  .kind = CONFIG_BOOL,                                 \
		  .offset = offsetof(struct fake_state, fail_start) }, \
		{ .name = "fail_check",                                \
		  .kind = CONFIG_BOOL,                                 \
		  .offset = offsetof(struct fake_state, fail_check) }, \
	{                                                              \
		.name = "fail_reload", .kind = CONFIG_BOOL,            \
		.offset = offsetof(struct fake_state, fail_reload)     \
	}

static const struct config_field fake_fields[] = { FAKE_FIELDS, { 0 } };
static const struct config_field fake_far_fields[] = {
	FAKE_FIELDS, SENDING_FIELDS(struct fake_state, sending, "5s"), { 0 }
};

static inline bool fake_check(void *state, struct err *err)
{
	struct fake_state *s = state;

	s->checked = strdup("checked");
	return !s->fail_check || err_set(err, ERR_INVALID, "'fail_check' must not be true");
}

static inline bool fake_start(void *state, const struct component_host *host, struct err *err)
{
	struct fake_state *s = state;

	s->host = host;
	if (s->fail_start)
		return err_set(err, ERR_IO, "listen tcp 127.0.0.1:1: bind: address already in use");
	fake_note("start", host->id);
	return true;
}

static inline bool fake_hand_start(void *state, const struct component_host *host, struct err *err)
{
	struct fake_state *s = state;

	fake_hands[s->slot] = host;
	return fake_start(state, host, err);
}

static inline void fake_stop(void *state, uint64_t deadline_ns)
{
	struct fake_state *s = state;

	(void)deadline_ns;
	fake_note("stop", s->host->id);
}

static inline void fake_far_stop(void *state, uint64_t deadline_ns)
{
	fake_release(&fake_far, OUTCOME_RETRY);
	fake_stop(state, deadline_ns);
}

static inline bool fake_reload(void *state, struct err *err)
{
	struct fake_state *s = state;

	fake_note("reload", s->host->id);
	return !s->fail_reload || err_set(err, ERR_INVALID, "bad certificate");
}

static inline void fake_release_state(void *state)
{
	free(((struct fake_state *)state)->checked);
}

static inline void fake_record_consume(void *state, struct batch *batch, struct completion *done)
{
	fake_take(&fake_record[((struct fake_state *)state)->slot], batch, done);
}

static inline void fake_far_consume(void *state, struct batch *batch, struct completion *done)
{
	(void)state;
	fake_take(&fake_far, batch, done);
}

static inline void fake_pass(void *state, struct batch *batch, struct completion *done)
{
	consumer_consume(((struct fake_state *)state)->host->next, batch, done);
}

/* Changes the message: every profile gets another period. */
static inline void fake_change(void *state, struct batch *batch, struct completion *done)
{
	for (uint32_t i = 0; i < batch->profiles->profile_count; i++)
		batch->profiles->profiles[i].period = 4711;
	fake_pass(state, batch, done);
}

#define FAKE_COMMON                                                                      \
	.state_size = sizeof(struct fake_state), .check = fake_check, .stop = fake_stop, \
	.release = fake_release_state

static const struct component_ops fake_hand_receiver = {
	.type = "hand",
	.kind = COMPONENT_RECEIVER,
	.fields = fake_fields,
	FAKE_COMMON,
	.start = fake_hand_start,
	.reload = fake_reload,
	.aliases = { "manual", "!byhand" },
};
static const struct component_ops fake_record_exporter = {
	.type = "record",
	.kind = COMPONENT_EXPORTER,
	.fields = fake_fields,
	FAKE_COMMON,
	.start = fake_start,
	.consume = fake_record_consume,
};
static const struct component_ops fake_far_exporter = {
	.type = "far",
	.kind = COMPONENT_EXPORTER,
	.fields = fake_far_fields,
	.state_size = sizeof(struct fake_state),
	.check = fake_check,
	.release = fake_release_state,
	.start = fake_start,
	.stop = fake_far_stop,
	.consume = fake_far_consume,
	.remote = true,
	.sending_offset = offsetof(struct fake_state, sending),
};
static const struct component_ops fake_pass_processor = {
	.type = "pass",
	.kind = COMPONENT_PROCESSOR,
	.fields = fake_fields,
	FAKE_COMMON,
	.start = fake_start,
	.consume = fake_pass,
};
static const struct component_ops fake_change_processor = {
	.type = "change",
	.kind = COMPONENT_PROCESSOR,
	.fields = fake_fields,
	FAKE_COMMON,
	.start = fake_start,
	.consume = fake_change,
	.mutates = true,
};
static const struct component_ops fake_extension = {
	.type = "ext",
	.kind = COMPONENT_EXTENSION,
	.fields = fake_fields,
	FAKE_COMMON,
	.start = fake_start,
};

static const struct component_ops *const fake_components[] = {
	&fake_hand_receiver,
	&fake_record_exporter,
	&fake_far_exporter,
	&fake_pass_processor,
	&fake_change_processor,
	&fake_extension,
	NULL,
};
