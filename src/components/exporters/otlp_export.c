#include "components/exporters/otlp_export.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/subset.h"
#include "wire/otlp_json.h"

enum {
	SURELY_SMALL_BYTES = 64 * 1024
}; /* a single sample refused below this is not refused for its size */

struct export_op {
	struct client_call call;
	struct otlp_export *x;
	struct batch *batch;
	struct completion *done;
	struct leftover left;
	struct range current;
	size_t current_bytes;
};

bool otlp_export_version(const char *text, enum wire_version *out, struct err *err)
{
	enum wire_version v = WIRE_NEWEST;

	if (text && !wire_version_parse(str_cstr(text), &v, err))
		return false;
	if (v < WIRE_V1_7)
		return err_set(err, ERR_UNSUPPORTED,
			       "wire_version %s is not written, 1.7, 1.8, 1.9 and 1.10 are",
			       wire_version_name(v));
	*out = v;
	return true;
}

void otlp_export_start(struct otlp_export *x, const struct component_host *host)
{
	static const char *const labels[] = { "exporter", NULL };
	struct str id = str_cstr(host->id);
	struct metrics *m = host->metrics;
	pthread_condattr_t attr;

	leftovers_init(&x->leftovers);
	x->splits = metric_get(
		metrics_family(m, METRIC_COUNTER, "flametap_exporter_split_requests_total",
			       "Requests cut in two because the peer refused them for their size.",
			       labels, 0),
		&id);
	x->lost_samples = metric_get(
		metrics_family(m, METRIC_COUNTER, "flametap_exporter_split_lost_samples_total",
			       "Samples that the peer refused even in the smallest request.",
			       labels, 0),
		&id);
	x->rejected_profiles = metric_get(
		metrics_family(m, METRIC_COUNTER, "flametap_exporter_rejected_profiles_total",
			       "Profiles that the peer rejected in a partial success.", labels, 0),
		&id);
	otlp_unwritten_init(&x->unwritten, host);
	pthread_mutex_init(&x->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&x->idle, &attr);
	pthread_condattr_destroy(&attr);
	x->stopping = false;
}

void otlp_export_release(struct otlp_export *x)
{
	leftovers_release(&x->leftovers);
	pthread_mutex_destroy(&x->lock);
	pthread_cond_destroy(&x->idle);
}

/* The body. */

static bool body_is_reusable(const struct otlp_export *x, const struct batch *b)
{
	enum batch_encoding wanted = x->json ? BATCH_BODY_JSON : BATCH_BODY_PROTOBUF;

	return b->body && b->encoding == wanted && b->wire_version == x->version &&
	       !b->profiles->refused_profile_count;
}

static struct blob *encode(struct otlp_export *x, const struct profiles *p, struct err *err)
{
	struct buf out;
	size_t len;
	char *bytes;
	bool ok;

	buf_init(&out, 0);
	ok = x->json ? otlp_json_encode(p, &out, err) : otlp_encode(p, x->version, &out, err);
	if (!ok || out.failed) {
		buf_release(&out);
		if (ok)
			err_set(err, ERR_LIMIT, "the encoded request passes a limit of %zu bytes",
				out.limit_bytes);
		return NULL;
	}
	otlp_unwritten_note(&x->unwritten, p, x->version, x->json);
	bytes = buf_take(&out, &len);
	return blob_adopt(bytes, len);
}

static struct blob *part_body(struct otlp_export *x, const struct batch *b, struct range part,
			      struct err *err)
{
	struct profiles *p = profiles_subset(b->profiles, part.first, part.count, err);
	struct blob *body = p ? encode(x, p, err) : NULL;

	profiles_free(p);
	return body;
}

static struct blob *op_body(struct export_op *op, struct err *err)
{
	const struct batch *b = op->batch;

	if (op->left.split)
		return part_body(op->x, b, op->current, err);
	if (body_is_reusable(op->x, b))
		return blob_ref(b->body);
	return encode(op->x, b->profiles, err);
}

/* The end. */

static void op_end(struct export_op *op, const struct outcome *o)
{
	struct otlp_export *x = op->x;

	completion_done(op->done, o);
	batch_unref(op->batch);
	free(op);
	pthread_mutex_lock(&x->lock);
	if (--x->pending == 0)
		pthread_cond_broadcast(&x->idle);
	pthread_mutex_unlock(&x->lock);
}

static void op_end_retry(struct export_op *op, const struct verdict *v)
{
	struct outcome o = { .kind = OUTCOME_RETRY,
			     .err = v->err,
			     .retry_after_ns = v->retry_after_ns };

	if (op->left.split) {
		op->left.parts[op->left.part_count++] = op->current;
		leftovers_put(&op->x->leftovers, batch_request_hash(op->batch), &op->left);
	}
	op_end(op, &o);
}

static uint64_t batch_event_count(const struct batch *b)
{
	uint64_t events = 0;

	for (uint32_t i = 0; i < b->profiles->sample_count; i++) {
		uint32_t times = b->profiles->samples[i].timestamps.count;

		events += times ? times : 1;
	}
	return events;
}

/* The words are the ones that the eBPF profiler's users look for. */
static void op_log_sent(const struct export_op *op)
{
	char line[300];

	snprintf(line, sizeof(line), "Sent profile batch to %s (%llu samples)", op->x->peer,
		 (unsigned long long)batch_event_count(op->batch));
	LOG(LOG_INFO, line);
}

/* All parts have their verdict. */
static void op_end_summed(struct export_op *op)
{
	const struct leftover *left = &op->left;
	struct outcome o = outcome_ok();

	if (op->x->log_sent && left->any_accepted && op->batch->profiles->sample_count)
		op_log_sent(op);

	metric_add(op->x->lost_samples, (int64_t)left->lost_samples);
	metric_add(op->x->rejected_profiles, (int64_t)left->rejected_profiles);
	if (left->lost_parts && !left->any_accepted) {
		o = (struct outcome){ .kind = OUTCOME_PERMANENT, .err = left->first_loss };
	} else {
		o.rejected_profiles = left->rejected_profiles + left->lost_parts;
		o.lost_samples = left->lost_samples;
		snprintf(o.warning, sizeof(o.warning), "%s",
			 left->lost_parts ? left->first_loss.msg : left->warning);
	}
	op_end(op, &o);
}

/* One part after another. */

static void op_next(struct export_op *op);

static uint64_t samples_in(const struct batch *b, struct range part)
{
	return part.count == b->profiles->sample_count ? batch_sample_count(b) : part.count;
}

static void op_lose(struct export_op *op, struct range part, const struct err *why)
{
	if (!op->left.lost_parts++)
		op->left.first_loss = *why;
	op->left.lost_samples += samples_in(op->batch, part);
}

static void op_lose_rest(struct export_op *op)
{
	while (op->left.part_count)
		op_lose(op, op->left.parts[--op->left.part_count], &op->left.first_loss);
	op_end_summed(op);
}

/* The peer will not take this part. What is wrong with it may be right with the next, unless it is
 * us whom the peer refuses. */
static void op_part_refused(struct export_op *op, const struct err *why)
{
	op_lose(op, op->current, why);
	if (why->kind == ERR_INVALID || why->kind == ERR_LIMIT)
		op_next(op);
	else
		op_lose_rest(op);
}

static void op_part_too_large(struct export_op *op, const struct err *why)
{
	struct range r = op->current;
	uint32_t half = r.count / 2;

	if (r.count <= 1) {
		op_lose(op, r, why);
		/* A quota, not a size: asking for each sample would only be more of what the peer
		 * does not want. */
		if (!op->left.any_accepted && op->current_bytes < SURELY_SMALL_BYTES)
			op_lose_rest(op);
		else
			op_next(op);
		return;
	}
	metric_add(op->x->splits, 1);
	op->left.split = true;
	assert(op->left.part_count + 2 <= LEFTOVER_PARTS_MOST);
	op->left.parts[op->left.part_count++] = (struct range){ r.first + half, r.count - half };
	op->left.parts[op->left.part_count++] = (struct range){ r.first, half };
	op_next(op);
}

static void op_accepted(struct export_op *op, const struct verdict *v)
{
	op->left.any_accepted = true;
	op->left.rejected_profiles += v->rejected_profiles;
	if (v->warning[0] && !op->left.warning[0])
		snprintf(op->left.warning, sizeof(op->left.warning), "%s", v->warning);
	op_next(op);
}

static void op_judged(struct export_op *op, const struct verdict *v)
{
	switch (v->kind) {
	case VERDICT_OK:
		op_accepted(op, v);
		break;
	case VERDICT_RETRY:
		op_end_retry(op, v);
		break;
	case VERDICT_PERMANENT:
		op_part_refused(op, &v->err);
		break;
	case VERDICT_TOO_LARGE:
		op_part_too_large(op, &v->err);
		break;
	}
}

static void op_answered(struct client_call *call, const struct client_result *r)
{
	struct export_op *op = CONTAINER_OF(call, struct export_op, call);
	struct verdict v;

	op->x->judge(op->x, r, &v);
	op_judged(op, &v);
}

/* False once the exporter stops: nothing may be sent any more. */
static bool sending_begin(struct otlp_export *x)
{
	bool allowed;

	pthread_mutex_lock(&x->lock);
	allowed = !x->stopping;
	x->sending += allowed;
	pthread_mutex_unlock(&x->lock);
	return allowed;
}

static void sending_end(struct otlp_export *x)
{
	pthread_mutex_lock(&x->lock);
	if (--x->sending == 0)
		pthread_cond_broadcast(&x->idle);
	pthread_mutex_unlock(&x->lock);
}

static void op_send(struct export_op *op)
{
	struct verdict v = { .kind = VERDICT_PERMANENT };
	struct otlp_export *x = op->x;
	struct blob *body = op_body(op, &v.err);

	if (!body) {
		op_judged(op, &v);
		return;
	}
	op->current_bytes = body->len;
	op->call = (struct client_call){ .done = op_answered };
	x->send(x, body, &op->call); /* op may be gone when it returns */
	blob_unref(body);
}

static void op_next(struct export_op *op)
{
	struct verdict stop = { .kind = VERDICT_RETRY,
				.err = { .kind = ERR_CANCELLED, .msg = "shutting down" } };
	struct otlp_export *x = op->x;

	if (!op->left.part_count) {
		op_end_summed(op);
		return;
	}
	op->current = op->left.parts[--op->left.part_count];
	if (!sending_begin(x)) {
		op_end_retry(op, &stop);
		return;
	}
	op_send(op);
	sending_end(x);
}

/* Of this very message? Two decodings of one body may differ in how many samples they keep. */
static bool leftover_fits(const struct leftover *left, const struct profiles *p)
{
	for (uint32_t i = 0; i < left->part_count; i++)
		if (left->parts[i].first > p->sample_count ||
		    left->parts[i].count > p->sample_count - left->parts[i].first)
			return false;
	return left->part_count > 0;
}

void otlp_export_consume(struct otlp_export *x, struct batch *batch, struct completion *done)
{
	struct export_op *op = calloc(1, sizeof(*op));

	assert(op);
	op->x = x;
	op->batch = batch;
	op->done = done;
	pthread_mutex_lock(&x->lock);
	x->pending++;
	pthread_mutex_unlock(&x->lock);
	if (!leftovers_take(&x->leftovers, batch_request_hash(batch), &op->left) ||
	    !leftover_fits(&op->left, batch->profiles))
		op->left = (struct leftover){ .parts = { { 0, batch->profiles->sample_count } },
					      .part_count = 1 };
	op_next(op);
}

void otlp_export_stop(struct otlp_export *x, uint64_t deadline_ns)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / SECOND_NS),
				  .tv_nsec = (long)(deadline_ns % SECOND_NS) };

	pthread_mutex_lock(&x->lock);
	x->stopping = true;
	while (x->pending && pthread_cond_timedwait(&x->idle, &x->lock, &until) != ETIMEDOUT)
		;
	while (x->sending)
		pthread_cond_wait(&x->idle, &x->lock);
	pthread_mutex_unlock(&x->lock);
}
