#include "pipeline/instance.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "pipeline/sender_metrics.h"

/* A batch on its way through a local exporter. */
struct exporter_call {
	struct completion completion;
	struct completion *done;
	struct instance *instance;
	uint64_t samples;
};

/* Who runs this program sees the whole error here; senders are told what concerns them. */
static void log_failure(const struct instance *i, const struct exporter_call *call,
			const struct outcome *o)
{
	static struct log_gate gate;
	uint64_t skipped;

	if (!log_gate_open(&gate, SECOND_NS, &skipped))
		return;
	LOG(LOG_ERROR,
	    o->kind == OUTCOME_RETRY ? "Exporting failed. The sender is asked to try again."
				     : "Exporting failed. Rejecting data.",
	    LOG_S("exporter", i->component->id), LOG_S("error", o->err.msg),
	    LOG_U("rejected_items", call->samples), LOG_U("like_lines_skipped", skipped));
}

/* A sender learns that a disk is full, not where on this machine the files lie. */
static struct outcome outcome_for_sender(const struct instance *i, const struct outcome *o)
{
	struct outcome told = *o;
	char reason[80];

	err_set(&told.err, o->err.kind, "exporter \"%s\" can't keep the profiles: %s",
		i->component->id, strerror_r(o->err.number, reason, sizeof(reason)));
	return told;
}

static void exporter_done(struct completion *c, const struct outcome *o)
{
	struct exporter_call *call = CONTAINER_OF(c, struct exporter_call, completion);
	struct instance *i = call->instance;
	struct completion *done = call->done;

	metric_add(o->kind == OUTCOME_OK ? i->sent : i->failed, (int64_t)call->samples);
	if (o->kind != OUTCOME_OK)
		log_failure(i, call, o);
	free(call);
	if (o->kind != OUTCOME_OK && o->err.number) {
		struct outcome told = outcome_for_sender(i, o);

		completion_done(done, &told);
		return;
	}
	completion_done(done, o);
}

static void exporter_consume(struct consumer *self, struct batch *batch, struct completion *done)
{
	struct instance *i = CONTAINER_OF(self, struct instance, in);
	struct exporter_call *call = malloc(sizeof(*call));

	assert(call);
	*call = (struct exporter_call){ { exporter_done }, done, i, batch_sample_count(batch) };
	i->ops->consume(i->state, batch, &call->completion);
}

static void processor_consume(struct consumer *self, struct batch *batch, struct completion *done)
{
	struct instance *i = CONTAINER_OF(self, struct instance, in);
	struct batch *own = batch;
	struct outcome o;
	struct err err;

	metric_add(i->incoming, (int64_t)batch_sample_count(batch));
	if (i->ops->mutates)
		own = batch_make_own(batch, &err);
	if (own) {
		i->ops->consume(i->state, own, done);
		return;
	}
	o = outcome_of(&err);
	batch_unref(batch);
	completion_done(done, &o);
}

static void processor_out(struct consumer *self, struct batch *batch, struct completion *done)
{
	struct instance *i = CONTAINER_OF(self, struct instance, out);

	metric_add(i->outgoing, (int64_t)batch_sample_count(batch));
	consumer_consume(i->next, batch, done);
}

static void instance_fail(const struct component_host *host, const struct err *err)
{
	const struct instance *i = CONTAINER_OF(host, struct instance, host);

	LOG(LOG_ERROR, "Component failed", LOG_S("kind", component_kind_name(i->ops->kind)),
	    LOG_S("id", i->component->id), LOG_S("error", err->msg));
	if (i->env->fail)
		i->env->fail(i->env->fail_arg, err);
}

struct instance *instance_new(const struct config_component *component, void *state,
			      const struct graph_env *env)
{
	struct instance *i = calloc(1, sizeof(*i));

	assert(i);
	i->component = component;
	i->ops = component->ops;
	i->state = state;
	i->env = env;
	i->in.consume = i->ops->kind == COMPONENT_EXPORTER ? exporter_consume : processor_consume;
	i->out.consume = processor_out;
	i->host.id = component->id;
	i->host.loops = env->loops;
	i->host.budget = env->budget;
	i->host.metrics = env->metrics;
	i->host.handover = env->handover;
	i->host.fail = instance_fail;
	return i;
}

static struct metric *items(struct metrics *m, const char *name, const char *help, const char *id)
{
	static const char *const labels[] = { "processor", "otel_signal", NULL };
	struct str values[] = { str_cstr(id), STR("profiles") };

	return metric_get(metrics_family(m, METRIC_COUNTER, name, help, labels, 0), values);
}

void instance_metrics(struct instance *i)
{
	struct metrics *m = i->env->metrics;

	if (i->ops->kind == COMPONENT_PROCESSOR) {
		i->incoming = items(m, "otelcol_processor_incoming_items",
				    "Samples handed to a processor.", i->component->id);
		i->outgoing = items(m, "otelcol_processor_outgoing_items",
				    "Samples a processor handed on.", i->component->id);
	}
	if (i->ops->kind == COMPONENT_EXPORTER && !i->ops->remote) {
		i->sent =
			exporter_samples(m, "otelcol_exporter_sent_profile_samples",
					 "Samples an exporter delivered.", i->component->id, NULL);
		i->failed = exporter_samples(m, "otelcol_exporter_send_failed_profile_samples",
					     "Samples an exporter failed to deliver.",
					     i->component->id, NULL);
	}
}

struct consumer *instance_consumer(struct instance *i)
{
	return i->sender ? sender_consumer(i->sender) : &i->in;
}

bool instance_start(struct instance *i, struct err *err)
{
	if (i->ops->start && !i->ops->start(i->state, &i->host, err))
		return err_prefix(err, "failed to start \"%s\" %s", i->component->id,
				  component_kind_name(i->ops->kind));
	if (i->sender && !sender_start(i->sender, err)) {
		if (i->ops->stop)
			i->ops->stop(i->state, 0);
		return err_prefix(err, "failed to start \"%s\" exporter", i->component->id);
	}
	i->started = true;
	return true;
}

void instance_stop(struct instance *i, uint64_t deadline_ns)
{
	if (!i->started)
		return;
	i->started = false;
	if (i->sender)
		sender_drain(i->sender, deadline_ns);
	if (i->ops->stop)
		i->ops->stop(i->state, deadline_ns);
	if (i->sender)
		sender_finish(i->sender);
}

void instance_free(struct instance *i)
{
	if (!i)
		return;
	sender_free(i->sender);
	fanout_free(i->fanout);
	if (i->ops->release)
		i->ops->release(i->state);
	free(i->state);
	free(i);
}
