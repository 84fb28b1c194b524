#include "agent/report/reporter.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/report/deliveries.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

enum { WINDOW_USUAL_BYTES = 32 << 20 };

/* What is lost here, rather than before. */
enum own_loss {
	LOSS_REPORT_FULL,
	LOSS_REPORT_FAILED,
	LOSS_NO_MEMORY,
	LOSS_NOT_DELIVERED,
	OWN_LOSSES
};
static const char *const loss_reasons[OWN_LOSSES] = { "report_full", "report_failed", "no_memory",
						      "not_delivered" };

/* What is left out as was asked for. */
enum skip { SKIP_IDLE, SKIP_YOUNG, SKIPS };
static const char *const skip_reasons[SKIPS] = { "idle", "young" };

struct reporter {
	struct reporter_options o;
	struct frame_cache *cache;
	struct deliveries *deliveries;
	struct metric_family *dropped_family, *cut_family;
	struct metric *own_dropped[OWN_LOSSES];
	struct metric *samples, *unnamed, *reports, *skipped[SKIPS];
	pthread_t thread;
	unsigned seed; /* of the jitter */

	/* the reporter's thread */
	struct window closed;
	uint64_t reported_losses[REPORT_LOSSES_MOST]; /* by place in what losses() gives */
	uint64_t reported_sampling_ns;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct window open;            /* lock */
	uint64_t open_start_ns;        /* lock; unix; 0: sampling has not begun */
	uint64_t ended_ns;             /* lock; unix; 0: sampling goes on */
	uint64_t own_lost[OWN_LOSSES]; /* lock; since the last report */
	bool hurry, stopping;          /* lock */
	bool thread_runs;
};

/* ---- the trace thread ---- */

static bool is_too_young(const struct reporter *r, const struct trace *t)
{
	return t->time_unix_nano < t->process->start_unix_nano + r->o.min_process_age_ns;
}

/* Runtimes' frames that came into the window with this trace. r->lock is held, so that the window
 * stays what it is. */
static void prepare_names(struct reporter *r, struct process_info *process, uint32_t first)
{
	const struct namer *namer = r->o.namer;

	for (uint32_t i = first; i < r->open.frame_count; i++) {
		const struct trace_frame *f = &r->open.frames[i].frame;

		if (f->kind > FRAME_UNKNOWN && f->kind < FRAME_END)
			namer->prepare(namer->ctx, f, process);
	}
}

void reporter_add(struct reporter *r, const struct trace *trace)
{
	uint32_t first;

	if (trace->pid == 0 && !r->o.send_idle_frames) {
		metric_add(r->skipped[SKIP_IDLE], 1);
		return;
	}
	if (r->o.min_process_age_ns && is_too_young(r, trace)) {
		metric_add(r->skipped[SKIP_YOUNG], 1);
		return;
	}
	pthread_mutex_lock(&r->lock);
	first = r->open.frame_count;
	if (!window_add(&r->open, trace)) {
		r->own_lost[LOSS_REPORT_FULL]++;
		metric_add(r->own_dropped[LOSS_REPORT_FULL], 1);
	}
	if (r->o.namer && r->o.namer->prepare)
		prepare_names(r, trace->process, first);
	if (!r->hurry && r->open.bytes > r->open.limit_bytes / 4 * 3) {
		r->hurry = true;
		pthread_cond_signal(&r->wake);
	}
	pthread_mutex_unlock(&r->lock);
}

static void sink_trace(void *ctx, const struct trace *trace)
{
	reporter_add(ctx, trace);
}

struct trace_sink reporter_sink(struct reporter *r)
{
	return (struct trace_sink){ sink_trace, r };
}

/* ---- one report ---- */

static void lose(struct reporter *r, enum own_loss why, uint64_t samples)
{
	pthread_mutex_lock(&r->lock);
	r->own_lost[why] += samples;
	pthread_mutex_unlock(&r->lock);
	metric_add(r->own_dropped[why], (int64_t)samples);
}

static struct metric *dropped_series(struct reporter *r, const char *reason)
{
	const struct str labels[] = { str_cstr(r->o.id), str_cstr(reason) };

	return metric_get(r->dropped_family, labels);
}

/* Adds up by name: what both sides call alike is one reason. */
static void put_loss(struct report_count *out, uint32_t *count, const char *reason, uint64_t lost)
{
	if (!lost)
		return;
	for (uint32_t i = 0; i < *count; i++)
		if (strcmp(out[i].reason, reason) == 0) {
			out[i].count += lost;
			return;
		}
	if (*count < REPORT_LOSSES_MOST + OWN_LOSSES)
		out[(*count)++] = (struct report_count){ reason, lost };
}

/* What was lost since the last report. */
static uint32_t collect_losses(struct reporter *r, uint64_t own[OWN_LOSSES],
			       struct report_count *out)
{
	struct report_count before[REPORT_LOSSES_MOST];
	uint32_t count = 0, before_count = 0;

	if (r->o.losses)
		before_count = r->o.losses(r->o.ctx, before, REPORT_LOSSES_MOST);
	for (uint32_t i = 0; i < before_count; i++) {
		uint64_t since = before[i].count - r->reported_losses[i];

		r->reported_losses[i] = before[i].count;
		if (since)
			metric_add(dropped_series(r, before[i].reason), (int64_t)since);
		put_loss(out, &count, before[i].reason, since);
	}
	own[LOSS_NOT_DELIVERED] += deliveries_take_lost(r->deliveries);
	for (int i = 0; i < OWN_LOSSES; i++)
		put_loss(out, &count, loss_reasons[i], own[i]);
	return count;
}

static void count_cuts(struct reporter *r)
{
	char number[16];

	for (uint32_t i = 0; i < WINDOW_REASONS; i++) {
		const char *reason = r->o.report.end_name ? r->o.report.end_name(i) : NULL;

		if (!r->closed.cut[i])
			continue;
		snprintf(number, sizeof(number), "reason_%u", i);
		const struct str labels[] = { str_cstr(r->o.id),
					      str_cstr(reason ? reason : number) };

		metric_add(metric_get(r->cut_family, labels), (int64_t)r->closed.cut[i]);
	}
}

static void hand_over(struct reporter *r, struct profiles *message)
{
	uint64_t samples = r->closed.event_count;
	struct batch *batch;
	struct err err;

	batch = batch_new(message, NULL, r->o.budget, &err);
	if (!batch) {
		profiles_free(message);
		LOG(LOG_ERROR, "Samples are lost: there is no room for their report",
		    LOG_U("samples", samples), LOG_S("error", err.msg));
		lose(r, LOSS_NO_MEMORY, samples);
		return;
	}
	batch->transport = "agent";
	deliveries_offer(r->deliveries, batch, samples);
}

/* How long of the window was sampled. */
static uint64_t sampled_ns(struct reporter *r, uint64_t window_ns)
{
	uint64_t total, since;

	if (!r->o.sampling_ns)
		return window_ns;
	total = r->o.sampling_ns(r->o.ctx);
	since = total - r->reported_sampling_ns;
	r->reported_sampling_ns = total;
	return since < window_ns ? since : window_ns;
}

static void build(struct reporter *r, const struct report_facts *facts)
{
	struct report_totals totals;
	struct profiles *message;
	struct err err;

	if (r->o.namer && r->o.namer->begin)
		r->o.namer->begin(r->o.namer->ctx, r->o.naming_budget_ns);
	message = report_message(&r->closed, &r->o.report, facts, r->cache, r->o.namer, &totals,
				 &err);
	if (!message) {
		LOG(LOG_ERROR, "A report could not be made", LOG_S("error", err.msg),
		    LOG_U("samples", r->closed.event_count));
		lose(r, LOSS_REPORT_FAILED, r->closed.event_count);
		return;
	}
	metric_add(r->samples, (int64_t)totals.samples);
	metric_add(r->unnamed, (int64_t)totals.unnamed);
	metric_add(r->reports, 1);
	count_cuts(r);
	if (r->o.reported)
		r->o.reported(r->o.ctx, &totals);
	hand_over(r, message);
}

/* Closes the open window and sends it. */
static void report(struct reporter *r)
{
	struct report_count dropped[REPORT_LOSSES_MOST + OWN_LOSSES];
	uint64_t own[OWN_LOSSES], end = clock_realtime_ns();
	struct report_facts facts = { .dropped = dropped };
	struct window swap = r->closed;

	pthread_mutex_lock(&r->lock);
	if (r->ended_ns && end > r->ended_ns)
		end = r->ended_ns;
	facts.end_unix_nano = end;
	r->closed = r->open;
	r->open = swap;
	facts.start_unix_nano = r->open_start_ns < end ? r->open_start_ns : end;
	r->open_start_ns = end;
	r->hurry = false;
	memcpy(own, r->own_lost, sizeof(own));
	memset(r->own_lost, 0, sizeof(r->own_lost));
	pthread_mutex_unlock(&r->lock);
	facts.sampled_ns = sampled_ns(r, end - facts.start_unix_nano);
	facts.dropped_count = collect_losses(r, own, dropped);
	build(r, &facts);
	window_reset(&r->closed);
}

/* ---- the reporter's thread ---- */

static uint64_t next_interval_ns(struct reporter *r)
{
	double chance = (double)rand_r(&r->seed) / RAND_MAX * 2 - 1;

	return (uint64_t)((double)r->o.interval_ns * (1 + r->o.jitter * chance));
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / SECOND_NS),
				  .tv_nsec = (long)(ns % SECOND_NS) };
}

/* Until the time has come, or something asks for a report at once; false to stop. */
static bool wait_until(struct reporter *r, uint64_t ns)
{
	struct timespec until = timespec_of(ns);
	bool goes_on;

	pthread_mutex_lock(&r->lock);
	while (!r->stopping && !r->hurry && clock_monotonic_ns() < ns)
		pthread_cond_timedwait(&r->wake, &r->lock, &until);
	goes_on = !r->stopping;
	pthread_mutex_unlock(&r->lock);
	return goes_on;
}

static bool is_hurried(struct reporter *r)
{
	bool hurry;

	pthread_mutex_lock(&r->lock);
	hurry = r->hurry;
	pthread_mutex_unlock(&r->lock);
	return hurry;
}

static bool wait_for_begin(struct reporter *r)
{
	bool begun;

	pthread_mutex_lock(&r->lock);
	while (!r->stopping && !r->open_start_ns)
		pthread_cond_wait(&r->wake, &r->lock);
	begun = r->open_start_ns != 0;
	pthread_mutex_unlock(&r->lock);
	return begun;
}

static void *run(void *arg)
{
	struct reporter *r = arg;
	uint64_t report_ns, retry_ns = UINT64_MAX;

	pthread_setname_np(pthread_self(), "reporter");
	if (!wait_for_begin(r))
		return NULL;
	report_ns = clock_monotonic_ns() + next_interval_ns(r);
	while (wait_until(r, report_ns < retry_ns ? report_ns : retry_ns)) {
		uint64_t now = clock_monotonic_ns();

		if (now >= report_ns || is_hurried(r)) {
			report(r);
			report_ns = now + next_interval_ns(r);
		}
		retry_ns = deliveries_run(r->deliveries, now);
	}
	report(r);
	return NULL;
}

/* ---- life ---- */

static struct metric *series(struct reporter *r, const char *name, const char *help)
{
	static const char *const labels[] = { "receiver", NULL };
	const struct str values[] = { str_cstr(r->o.id) };

	return metric_get(metrics_family(r->o.metrics, METRIC_COUNTER, name, help, labels, 0),
			  values);
}

static struct metric *skipped_series(struct reporter *r, const char *reason)
{
	static const char *const labels[] = { "receiver", "reason", NULL };
	const struct str values[] = { str_cstr(r->o.id), str_cstr(reason) };

	return metric_get(metrics_family(r->o.metrics, METRIC_COUNTER,
					 "flametap_agent_skipped_samples_total",
					 "Samples left out as was asked for", labels, 0),
			  values);
}

static void register_metrics(struct reporter *r)
{
	static const char *const labels[] = { "receiver", "reason", NULL };

	r->samples = series(r, "flametap_agent_samples_total", "Samples put into reports");
	r->unnamed = series(r, "flametap_agent_unnamed_frames_total",
			    "Frames of samples that no name was found for");
	r->reports = series(r, "flametap_agent_reports_total", "Reports made");
	for (int i = 0; i < SKIPS; i++)
		r->skipped[i] = skipped_series(r, skip_reasons[i]);
	r->dropped_family =
		metrics_family(r->o.metrics, METRIC_COUNTER, "flametap_agent_dropped_samples_total",
			       "Samples taken but not sent", labels, 0);
	r->cut_family =
		metrics_family(r->o.metrics, METRIC_COUNTER, "flametap_agent_cut_stacks_total",
			       "Samples whose stack ends early", labels, 0);
	for (int i = 0; i < OWN_LOSSES; i++)
		r->own_dropped[i] = dropped_series(r, loss_reasons[i]);
}

struct reporter *reporter_new(const struct reporter_options *options)
{
	struct reporter *r = calloc(1, sizeof(*r));
	size_t bytes = options->window_bytes ? options->window_bytes : WINDOW_USUAL_BYTES;
	pthread_condattr_t attr;

	assert(r);
	r->o = *options;
	r->seed = (unsigned)clock_realtime_ns() ^ (unsigned)getpid();
	r->cache = frame_cache_new(options->frame_cache_size ? options->frame_cache_size
							     : FRAME_CACHE_USUAL);
	register_metrics(r);
	r->deliveries = deliveries_new(options->next, options->metrics, options->id,
				       r->own_dropped[LOSS_NOT_DELIVERED]);
	window_init(&r->open, bytes, options->send_error_frames);
	window_init(&r->closed, bytes, options->send_error_frames);
	r->open.go_as_native = r->closed.go_as_native = options->go_as_native;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->wake, &attr);
	pthread_condattr_destroy(&attr);
	r->thread_runs = pthread_create(&r->thread, NULL, run, r) == 0;
	assert(r->thread_runs);
	return r;
}

void reporter_begins(struct reporter *r)
{
	pthread_mutex_lock(&r->lock);
	r->open_start_ns = clock_realtime_ns();
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
}

void reporter_ends(struct reporter *r)
{
	pthread_mutex_lock(&r->lock);
	r->ended_ns = clock_realtime_ns();
	pthread_mutex_unlock(&r->lock);
}

void reporter_flush(struct reporter *r)
{
	pthread_mutex_lock(&r->lock);
	r->hurry = true;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
}

void reporter_stop(struct reporter *r, uint64_t deadline_ns)
{
	if (!r->thread_runs)
		return;
	pthread_mutex_lock(&r->lock);
	r->stopping = true;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	r->thread_runs = false;
	deliveries_finish(r->deliveries, deadline_ns);
}

void reporter_free(struct reporter *r)
{
	if (!r)
		return;
	reporter_stop(r, 0);
	deliveries_free(r->deliveries);
	frame_cache_free(r->cache);
	window_release(&r->open);
	window_release(&r->closed);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->wake);
	free(r);
}
