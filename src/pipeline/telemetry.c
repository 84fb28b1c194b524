#include "pipeline/telemetry.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

static struct metric *counter(struct metrics *m, const char *name, const char *help,
			      const char *const *labels, const struct str *values)
{
	return metric_get(metrics_family(m, METRIC_COUNTER, name, help, labels, 0), values);
}

void receiver_metrics_init(struct receiver_metrics *r, struct metrics *m, const char *id,
			   const char *transport)
{
	static const char *const labels[] = { "receiver", "transport", NULL };
	static const char *const request_labels[] = { "receiver", "transport", "outcome", NULL };
	struct str v[] = { str_cstr(id), str_cstr(transport), STR("success") };
	const char *requests = "otelcol_receiver_requests";
	const char *requests_help = "Requests by how they ended: success, refused, failure.";

	r->accepted =
		counter(m, "otelcol_receiver_accepted_profile_samples",
			"Samples taken in and handed to the pipeline with success.", labels, v);
	r->refused = counter(m, "otelcol_receiver_refused_profile_samples",
			     "Samples the pipeline did not take now; the sender may repeat them.",
			     labels, v);
	r->failed = counter(m, "otelcol_receiver_failed_profile_samples",
			    "Samples the pipeline refused for good.", labels, v);
	r->requests_ok = counter(m, requests, requests_help, request_labels, v);
	v[2] = STR("refused");
	r->requests_refused = counter(m, requests, requests_help, request_labels, v);
	v[2] = STR("failure");
	r->requests_failed = counter(m, requests, requests_help, request_labels, v);
}

void receiver_metrics_count(struct receiver_metrics *r, uint64_t samples, const struct outcome *o)
{
	switch (o->kind) {
	case OUTCOME_OK:
		metric_add(r->accepted, (int64_t)samples);
		metric_add(r->requests_ok, 1);
		break;
	case OUTCOME_RETRY:
		metric_add(r->refused, (int64_t)samples);
		metric_add(r->requests_refused, 1);
		break;
	case OUTCOME_PERMANENT:
		metric_add(r->failed, (int64_t)samples);
		metric_add(r->requests_failed, 1);
		break;
	}
}

void receiver_metrics_refused(struct receiver_metrics *r)
{
	metric_add(r->requests_refused, 1);
}

void receiver_metrics_failed(struct receiver_metrics *r)
{
	metric_add(r->requests_failed, 1);
}

uint64_t process_rss_bytes(void)
{
	unsigned long long total, resident;
	FILE *f = fopen("/proc/self/statm", "re");
	int n;

	if (!f)
		return 0;
	n = fscanf(f, "%llu %llu", &total, &resident);
	fclose(f);
	return n == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static int64_t read_rss(void *arg)
{
	(void)arg;
	return (int64_t)process_rss_bytes();
}

static int64_t read_cpu_us(void *arg)
{
	struct rusage u;

	(void)arg;
	getrusage(RUSAGE_SELF, &u);
	return (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
	       u.ru_stime.tv_usec;
}

static int64_t read_uptime(void *arg)
{
	static _Atomic uint64_t started_ns; /* at the first registration */
	uint64_t zero = 0, now_ns = clock_monotonic_ns();

	(void)arg;
	atomic_compare_exchange_strong(&started_ns, &zero, now_ns);
	return (int64_t)((now_ns - atomic_load(&started_ns)) / SECOND_NS);
}

static int64_t read_heap(void *arg)
{
	struct mallinfo2 info = mallinfo2();

	(void)arg;
	return (int64_t)(info.uordblks + info.hblkhd);
}

static int64_t read_heap_system(void *arg)
{
	struct mallinfo2 info = mallinfo2();

	(void)arg;
	return (int64_t)(info.arena + info.hblkhd);
}

void process_metrics_register(struct metrics *m)
{
	read_uptime(NULL);
	metrics_gauge_fn(m, "otelcol_process_memory_rss", "Resident memory in bytes.", read_rss,
			 NULL);
	metrics_seconds_fn(m, "otelcol_process_cpu_seconds",
			   "Processor time used, user and system, in seconds.", read_cpu_us, NULL);
	metrics_gauge_fn(m, "otelcol_process_uptime", "Seconds since the start.", read_uptime,
			 NULL);
	metrics_gauge_fn(m, "otelcol_process_runtime_heap_alloc_bytes",
			 "Bytes of heap in use (mallinfo2).", read_heap, NULL);
	metrics_gauge_fn(m, "otelcol_process_runtime_total_sys_memory_bytes",
			 "Bytes of heap taken from the system (mallinfo2).", read_heap_system,
			 NULL);
}
