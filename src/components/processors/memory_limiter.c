/*
 * memory_limiter: refuses while the process holds too much memory, so that senders come again
 * later.
 *
 * As the Collector's: soft limit = limit - spike limit. It looks at the resident memory of the
 * process, BPF maps and caches of libraries included, where the Collector sees its Go heap only;
 * nothing here needs a garbage collection, so one refusal threshold is all there is.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysinfo.h>

#include "base/clock.h"
#include "base/log.h"
#include "components/processors/processors.h"
#include "pipeline/telemetry.h"

struct memory_limiter {
	uint64_t check_interval_ns;
	uint64_t limit_bytes, spike_limit_bytes;
	uint32_t limit_percentage, spike_limit_percentage;
	uint64_t gc_soft_ns, gc_hard_ns, gc_soft_max_ns, gc_hard_max_ns; /* read, without effect */

	const struct component_host *host;
	struct metric *refused;
	uint64_t soft_bytes;
	_Atomic bool above;
	_Atomic uint64_t check_due_ns;
};

#define OFF(member) .offset = offsetof(struct memory_limiter, member)

/* clang-format off */
static const struct config_field memory_limiter_fields[] = {
	{ .name = "check_interval", .kind = CONFIG_DURATION, OFF(check_interval_ns), .default_text = "0s",
	  .help = "how often the memory is looked at; 1s is a good value" },
	{ .name = "limit_mib", .kind = CONFIG_SIZE_MIB, OFF(limit_bytes), .default_text = "0", .help = "hard limit" },
	{ .name = "spike_limit_mib", .kind = CONFIG_SIZE_MIB, OFF(spike_limit_bytes), .default_text = "0",
	  .help = "the soft limit is so much below; 0 = a fifth of the limit" },
	{ .name = "limit_percentage", .kind = CONFIG_UINT32, OFF(limit_percentage), .default_text = "0", .min = 0, .max = 100,
	  .help = "hard limit in percent of the memory of the cgroup or machine" },
	{ .name = "spike_limit_percentage", .kind = CONFIG_UINT32, OFF(spike_limit_percentage), .default_text = "0",
	  .min = 0, .max = 100, .help = "the same of the spike limit" },
	{ .name = "min_gc_interval_when_soft_limited", .kind = CONFIG_DURATION, OFF(gc_soft_ns), .default_text = "10s",
	  .help = "accepted; there is no garbage collection here" },
	{ .name = "min_gc_interval_when_hard_limited", .kind = CONFIG_DURATION, OFF(gc_hard_ns), .default_text = "0s",
	  .help = "accepted, without effect" },
	{ .name = "max_gc_interval_when_soft_limited", .kind = CONFIG_DURATION, OFF(gc_soft_max_ns), .default_text = "30s",
	  .help = "accepted, without effect" },
	{ .name = "max_gc_interval_when_hard_limited", .kind = CONFIG_DURATION, OFF(gc_hard_max_ns), .default_text = "30s",
	  .help = "accepted, without effect" },
	{ 0 },
};
/* clang-format on */

static bool memory_limiter_check(void *state, struct err *err)
{
	const struct memory_limiter *m = state;

	if (m->check_interval_ns == 0)
		return err_set(err, ERR_INVALID, "'check_interval' must be greater than zero");
	if (m->limit_bytes == 0 && m->limit_percentage == 0)
		return err_set(err, ERR_INVALID,
			       "'limit_mib' or 'limit_percentage' must be greater than zero");
	if (m->limit_bytes && m->spike_limit_bytes >= m->limit_bytes)
		return err_set(err, ERR_INVALID,
			       "'spike_limit_mib' must be smaller than 'limit_mib'");
	if (m->limit_percentage && m->spike_limit_percentage >= m->limit_percentage)
		return err_set(err, ERR_INVALID,
			       "'spike_limit_percentage' must be smaller than 'limit_percentage'");
	return true;
}

/* cgroup v2, then v1, then the machine. "max" reads as no number. */
static uint64_t memory_total(void)
{
	static const char *const files[] = { "/sys/fs/cgroup/memory.max",
					     "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
	unsigned long long bytes = 0;
	struct sysinfo info;
	uint64_t machine = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;

	for (size_t i = 0; i < 2; i++) {
		FILE *f = fopen(files[i], "re");
		bool read = f && fscanf(f, "%llu", &bytes) == 1;

		if (f)
			fclose(f);
		if (read && bytes && (!machine || bytes < machine))
			return bytes;
	}
	return machine;
}

static uint64_t soft_limit(const struct memory_limiter *m)
{
	uint64_t limit = m->limit_bytes, spike = m->spike_limit_bytes, total = 0;

	if (limit == 0) { /* percentages only where there is no limit_mib, as in the Collector */
		total = memory_total();
		limit = total / 100 * m->limit_percentage;
		spike = total / 100 * m->spike_limit_percentage;
	}
	return limit - (spike ? spike : limit / 5);
}

static bool memory_limiter_start(void *state, const struct component_host *host, struct err *err)
{
	static const char *const labels[] = { "processor", NULL };
	struct memory_limiter *m = state;
	struct str id = str_cstr(host->id);

	m->host = host;
	m->soft_bytes = soft_limit(m);
	if (m->soft_bytes == 0)
		return err_set(err, ERR_INTERNAL, "the memory of this machine cannot be told");
	m->refused = metric_get(
		metrics_family(host->metrics, METRIC_COUNTER,
			       "otelcol_processor_refused_profile_samples",
			       "Samples refused while memory is above the soft limit.", labels, 0),
		&id);
	LOG(LOG_INFO, "Memory limiter configured", LOG_S("processor", host->id),
	    LOG_U("soft_limit_bytes", m->soft_bytes));
	return true;
}

static void memory_look(struct memory_limiter *m)
{
	uint64_t rss = process_rss_bytes();
	bool above = rss >= m->soft_bytes;

	if (atomic_exchange(&m->above, above) == above)
		return;
	if (above)
		LOG(LOG_WARN, "Memory usage is above soft limit. Refusing data.",
		    LOG_S("processor", m->host->id), LOG_U("rss_bytes", rss),
		    LOG_U("soft_limit_bytes", m->soft_bytes));
	else
		LOG(LOG_INFO, "Memory usage back within limits. Resuming normal operation.",
		    LOG_S("processor", m->host->id), LOG_U("rss_bytes", rss));
}

/* By whoever comes first once the interval is over: no thread of its own, and none looks while
 * nothing comes. */
static void memory_look_when_due(struct memory_limiter *m)
{
	uint64_t now_ns = clock_monotonic_ns(), due_ns = atomic_load(&m->check_due_ns);

	if (now_ns >= due_ns && atomic_compare_exchange_strong(&m->check_due_ns, &due_ns,
							       now_ns + m->check_interval_ns))
		memory_look(m);
}

static void memory_limiter_consume(void *state, struct batch *batch, struct completion *done)
{
	struct memory_limiter *m = state;
	struct outcome o = { .kind = OUTCOME_RETRY };

	memory_look_when_due(m);
	if (!atomic_load(&m->above)) {
		consumer_consume(m->host->next, batch, done);
		return;
	}
	metric_add(m->refused, (int64_t)batch_sample_count(batch));
	batch_unref(batch);
	err_set(&o.err, ERR_BUSY, "data refused due to high memory usage");
	o.retry_after_ns = m->check_interval_ns;
	completion_done(done, &o);
}

const struct component_ops memory_limiter_processor = {
	.type = "memory_limiter",
	.summary = "refuses data while the process holds too much memory",
	.kind = COMPONENT_PROCESSOR,
	.state_size = sizeof(struct memory_limiter),
	.fields = memory_limiter_fields,
	.check = memory_limiter_check,
	.start = memory_limiter_start,
	.consume = memory_limiter_consume,
};
