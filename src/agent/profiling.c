/*
 * profiling.c - the receiver `profiling`: puts the agent's parts together and runs them.
 *
 *   agent (samples, unwound) -> reporter (counted, named, one message an interval) -> the pipeline
 */
#include "agent/profiling.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/chance.h"
#include "agent/doctor/doctor.h"
#include "agent/naming.h"
#include "agent/profiling_options.h"
#include "agent/report/reporter.h"
#include "agent/supervise/seam_wire.h"
#include "agent/supervise/supervise.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "pipeline/handover.h"

enum { HOST_ATTRIBUTES = 3 };
static const uint64_t RETRY_FIRST_NS = SECOND_NS / 2, RETRY_MOST_NS = 30 * SECOND_NS;

struct agent_losses {
	uint64_t ring_full, other_pid_namespace, bad_record;
};

struct profiling {
	struct profiling_options o; /* first: profiling_fields */

	const struct component_host *host;
	struct arena arena;
	struct key_value *attributes;
	uint32_t attribute_count;
	struct utsname system;
	struct naming *naming;
	struct reporter *reporter;

	pthread_mutex_t lock; /* guards what follows */
	struct seam *seam;
	struct agent *agent;             /* NULL: none runs now */
	struct chance *chance;           /* NULL: none runs yet */
	bool sampling;                   /* as chance has it */
	bool ending;                     /* no more sampling */
	bool clock_runs;                 /* there is an agent, and it samples */
	uint64_t clock_ns, since_ns;     /* of past spells; when the present one began, monotonic */
	struct agent_losses lost_before; /* by agents that were replaced */

	pthread_t keeper;
	bool keeper_runs, started;
	int stop_fd; /* readable: the keeper ends */
};

static bool profiling_check(void *state, struct err *err)
{
	return profiling_options_check(&((struct profiling *)state)->o, err);
}

/* ---- what all resources share ---- */

static const char *host_arch(const char *machine)
{
	if (strcmp(machine, "x86_64") == 0)
		return "amd64";
	return strcmp(machine, "aarch64") == 0 ? "arm64" : machine;
}

static void put_attribute(struct profiling *r, const char *key, const char *value)
{
	for (uint32_t i = 0; i < r->attribute_count; i++)
		if (str_is(r->attributes[i].key, key))
			return;
	r->attributes[r->attribute_count++] =
		(struct key_value){ .key = str_cstr(key),
				    .value = { .kind = ANY_STRING, .string = str_cstr(value) } };
}

/* What was configured comes first: it may say another host.name. */
static void make_attributes(struct profiling *r)
{
	uint32_t most = r->o.resource_attributes.count + HOST_ATTRIBUTES;

	r->attributes = arena_alloc_array(&r->arena, most, sizeof(*r->attributes));
	for (uint32_t i = 0; i < r->o.resource_attributes.count; i++)
		put_attribute(r, r->o.resource_attributes.items[i].name,
			      r->o.resource_attributes.items[i].value);
	if (uname(&r->system) != 0)
		return;
	put_attribute(r, "host.name", r->system.nodename);
	put_attribute(r, "host.arch", host_arch(r->system.machine));
	put_attribute(r, "os.type", "linux");
}

/* ---- the reporter's questions ---- */

static void add_losses(struct agent *agent, struct agent_losses *sum)
{
	struct agent_stats s;

	if (!agent)
		return;
	agent_stats(agent, &s);
	sum->ring_full += s.kernel.dropped_ring;
	sum->other_pid_namespace += s.kernel.dropped_ns;
	sum->bad_record += s.bad_records;
}

static uint32_t read_losses(void *ctx, struct report_count *out, uint32_t most)
{
	struct profiling *r = ctx;
	struct agent_losses sum;

	pthread_mutex_lock(&r->lock);
	sum = r->lost_before;
	add_losses(r->agent, &sum);
	pthread_mutex_unlock(&r->lock);
	const struct report_count all[] = {
		{ "ring_full", sum.ring_full },
		{ "other_pid_namespace", sum.other_pid_namespace },
		{ "bad_record", sum.bad_record },
	};
	uint32_t count = ARRAY_LEN(all) < most ? ARRAY_LEN(all) : most;

	memcpy(out, all, count * sizeof(*out));
	return count;
}

static uint64_t read_sampling_ns(void *ctx)
{
	struct profiling *r = ctx;
	uint64_t ns;

	pthread_mutex_lock(&r->lock);
	ns = r->clock_ns + (r->clock_runs ? clock_monotonic_ns() - r->since_ns : 0);
	pthread_mutex_unlock(&r->lock);
	return ns;
}

/* lock held */
static void turn_clock(struct profiling *r, bool on)
{
	uint64_t now = clock_monotonic_ns();

	if (on == r->clock_runs)
		return;
	if (r->clock_runs)
		r->clock_ns += now - r->since_ns;
	r->since_ns = now;
	r->clock_runs = on;
}

/* lock held; what the clock depends on has changed. */
static void set_clock(struct profiling *r)
{
	turn_clock(r, r->agent && r->sampling && !r->ending);
}

/* ---- own metrics, brought up to date with each report ---- */

static void set_series(struct profiling *r, enum metric_kind kind, const char *name,
		       const char *help, const char *what, uint64_t value)
{
	static const char *const labels[] = { "receiver", "what", NULL };
	const struct str values[] = { str_cstr(r->host->id), str_cstr(what) };

	metric_set(
		metric_get(metrics_family(r->host->metrics, kind, name, help, labels, 0), values),
		(int64_t)value);
}

static void set_state(struct profiling *r, const char *what, uint64_t value)
{
	set_series(r, METRIC_GAUGE, "flametap_agent_state", "What the agent holds now", what,
		   value);
}

static void set_events(struct profiling *r, const char *what, uint64_t value)
{
	set_series(r, METRIC_GAUGE, "flametap_agent_events",
		   "What happened since the present sampler was started", what, value);
}

static void set_metrics(struct profiling *r)
{
	struct agent_stats s;
	bool runs;

	pthread_mutex_lock(&r->lock);
	runs = r->agent != NULL;
	if (runs)
		agent_stats(r->agent, &s);
	pthread_mutex_unlock(&r->lock);
	if (!runs)
		return;
	set_state(r, "processes", s.processes);
	set_state(r, "mappings", s.mappings);
	set_state(r, "executables", s.executables);
	set_state(r, "row_blocks", s.row_blocks);
	set_state(r, "symbol_bytes", naming_bytes(r->naming));
	set_state(r, "sample_ns_native", s.native_ns);
	set_state(r, "sample_ns_runtime", s.runtime_ns);
	set_events(r, "side_band_lost", s.side_band_lost);
	set_events(r, "resyncs", s.resyncs);
	set_events(r, "files_refused", s.files_refused);
	set_events(r, "pages_refused", s.pages_refused);
	set_events(r, "pages_evicted", s.pages_evicted);
	set_events(r, "walks_resumed", s.resumed);
	set_events(r, "stacks_copied", s.kernel.captured);
	set_events(r, "stacks_over_limit", s.kernel.capture_limit);
	set_events(r, "stacks_without_room", s.kernel.capture_ring);
	set_events(r, "samples_without_walker", s.kernel.no_walker);
	set_events(r, "samples_late", s.ring_late);
	set_events(r, "samples_filtered", s.held_dropped);
	set_events(r, "runtimes_attached", s.runtimes_attached);
	set_events(r, "runtimes_refused", s.runtimes_refused);
	set_events(r, "labels_too_many", s.labels_lost[LABEL_LOST_MANY]);
	set_events(r, "labels_cut", s.labels_lost[LABEL_LOST_CUT]);
	set_events(r, "labels_unreadable", s.labels_lost[LABEL_LOST_UNREADABLE]);
	set_events(r, "labels_without_room", s.labels_lost[LABEL_LOST_RING]);
}

static void log_report(void *ctx, const struct report_totals *t)
{
	char line[96];

	set_metrics(ctx);
	snprintf(line, sizeof(line), "Captured %llu stack traces from %u processes",
		 (unsigned long long)t->samples, t->processes);
	LOG(t->samples ? LOG_INFO : LOG_DEBUG, line);
}

static const char *unwind_end_name(uint64_t reason)
{
	static const char *const names[] = {
#define X(name, text, help) [UNWIND_END_##name] = (text),
		UNWIND_ENDS(X)
#undef X
	};

	return reason < ARRAY_LEN(names) ? names[reason] : NULL;
}

/* ---- start and stop ---- */

static void log_tracers(uint32_t set, uint32_t named)
{
	AUTO(buf_release) struct buf line = { 0 };
	AUTO(buf_release) struct buf missing = { 0 };

	buf_lit(&line, "Interpreter tracers: ");
	if (set & tracers_offered())
		tracers_append(&line, set & tracers_offered());
	else
		buf_lit(&line, "none");
	buf_char(&line, '\0');
	LOG(LOG_INFO, line.ptr);
	if (!(named & ~tracers_offered()))
		return;
	tracers_append(&missing, named & ~tracers_offered());
	LOG(LOG_WARN, "Not offered yet; their frames are shown as native code",
	    LOG_STR("tracers", buf_view(&missing)));
}

static bool wants(const struct profiling_options *o, enum tracer tracer)
{
	uint32_t set, named;
	struct err err;

	return profiling_tracers(o, &set, &named, &err) && set & 1u << tracer;
}

static struct reporter *make_reporter(struct profiling *r)
{
	const struct profiling_options *o = &r->o;
	struct reporter_options options = {
		.report = { .samples_per_second = o->samples_per_second,
			    .native_symbols = o->native_symbols,
			    .inlines = o->inlines,
			    .service_name = str_cstr(o->service_name),
			    .attributes = r->attributes,
			    .attribute_count = r->attribute_count,
			    .scope_name = STR("flametap"),
			    .scope_version = STR(FLAMETAP_VERSION),
			    .end_name = unwind_end_name },
		.interval_ns = o->reporter_interval_ns,
		.jitter = o->reporter_jitter,
		.frame_cache_size = o->frame_cache_size,
		.send_error_frames = o->send_error_frames,
		.send_idle_frames = o->send_idle_frames,
		.go_as_native = !wants(o, TRACER_GO),
		.min_process_age_ns = o->filter_min_process_age_ns,
		.namer = naming_namer(r->naming),
		.naming_budget_ns = o->naming_budget_ns,
		.losses = read_losses,
		.sampling_ns = read_sampling_ns,
		.reported = log_report,
		.ctx = r,
		.id = r->host->id,
		.next = r->host->next,
		.budget = r->host->budget,
		.metrics = r->host->metrics,
	};

	return reporter_new(&options);
}

/* ---- the agent, which may be replaced ---- */

static void on_kernel_changed(void *ctx)
{
	struct profiling *r = ctx;

	naming_kernel_changed(r->naming);
}

static void tell_cgroups(const struct profiling *r, struct agent *agent)
{
	struct agent_stats s;

	if (!r->o.cgroups.count)
		return;
	agent_stats(agent, &s);
	if (s.cgroups_in_kernel)
		LOG(LOG_INFO, "Control groups are told apart by the kernel, at each sample",
		    LOG_U("found", s.cgroups));
	else
		LOG(LOG_WARN,
		    "Control groups are told apart when a process is first seen: the cgroup file "
		    "systems that are mounted here do not show all of them");
}

/* Silence that may be a slip of the pen. */
static void tell_absent(struct agent *agent)
{
	AUTO(buf_release) struct buf pids = { 0 };
	AUTO(buf_release) struct buf cgroups = { 0 };

	agent_list_absent(agent, &pids, &cgroups);
	if (pids.len)
		LOG(LOG_WARN, "No such process runs now: nothing of it is sampled until one does",
		    LOG_STR("pids", buf_view(&pids)));
	if (cgroups.len)
		LOG(LOG_WARN,
		    "No such control group is here now: nothing of it is sampled until it is made",
		    LOG_STR("cgroups", buf_view(&cgroups)));
}

/* ---- an agent that outlives a configuration ---- */

/* Paused: its samples wait for the next receiver. */
struct left_agent {
	struct agent *agent;
	struct seam *seam;
	struct buf key; /* of the options that it runs with */
};

static void left_agent_free(void *what)
{
	struct left_agent *left = what;

	agent_free(left->agent);
	seam_free(left->seam);
	buf_release(&left->key);
	free(left);
}

/* False: it stays where it is. */
static bool leave_agent(struct profiling *r)
{
	struct left_agent *left = calloc(1, sizeof(*left));

	if (!left)
		return false;
	*left = (struct left_agent){ .agent = r->agent, .seam = r->seam };
	profiling_sampler_key(&r->o, &left->key);
	if (!handover_leave(r->host->handover, &profiling_receiver, r->host->id, left,
			    left_agent_free)) {
		buf_release(&left->key);
		free(left);
		return false;
	}
	naming_bind(r->naming, NULL, NULL);
	pthread_mutex_lock(&r->lock);
	r->agent = NULL;
	r->seam = NULL;
	pthread_mutex_unlock(&r->lock);
	return true;
}

/* One that was left, if it does what is wanted now. NULL: a new one is needed. */
static struct agent *take_agent(struct profiling *r, const struct agent_options *options,
				struct trace_sink *sink, struct seam **seam)
{
	struct left_agent *left =
		handover_take(r->host->handover, &profiling_receiver, r->host->id);
	AUTO(buf_release) struct buf key = { 0 };
	struct agent_losses before = { 0 };
	struct agent *agent = NULL;
	struct err err;

	if (!left)
		return NULL;
	profiling_sampler_key(&r->o, &key);
	if (str_equal(buf_view(&key), buf_view(&left->key)) &&
	    agent_resume(left->agent, options, sink, &err)) {
		agent = left->agent;
		*seam = left->seam;
		left->agent = NULL;
		left->seam = NULL;
		add_losses(agent, &before); /* were reported by who left it */
		r->lost_before = (struct agent_losses){
			.ring_full = -before.ring_full,
			.other_pid_namespace = -before.other_pid_namespace,
			.bad_record = -before.bad_record,
		};
	}
	left_agent_free(left);
	return agent;
}

/* ---- */

static struct agent *make_agent(const struct agent_options *options, struct trace_sink *sink,
				struct seam **seam, struct err *err)
{
	struct agent *agent;

	*seam = supervise_seam(err);
	if (!*seam)
		return NULL;
	agent = agent_start(options, *seam, sink, err);
	if (!agent)
		seam_free(*seam);
	return agent;
}

static bool start_agent(struct profiling *r, struct err *err)
{
	struct trace_sink sink = reporter_sink(r->reporter);
	struct agent_options options;
	struct agent *agent = NULL;
	struct arena scratch;
	struct seam *seam;

	arena_init(&scratch, 1024, 0);
	if (profiling_agent_options(&r->o, &scratch, &options, err)) {
		options.kernel_changed = on_kernel_changed;
		options.kernel_changed_ctx = r;
		agent = take_agent(r, &options, &sink, &seam);
		if (!agent)
			agent = make_agent(&options, &sink, &seam, err);
	}
	arena_release(&scratch);
	if (!agent)
		return false;
	tell_cgroups(r, agent);
	tell_absent(agent);
	pthread_mutex_lock(&r->lock);
	r->seam = seam;
	r->agent = agent;
	agent_enable(agent, r->sampling);
	set_clock(r);
	pthread_mutex_unlock(&r->lock);
	naming_bind(r->naming, agent, seam);
	return true;
}

/* The reporter goes on without it. */
static void drop_agent(struct profiling *r)
{
	struct agent *agent;
	struct seam *seam;

	naming_bind(r->naming, NULL, NULL);
	pthread_mutex_lock(&r->lock);
	add_losses(r->agent, &r->lost_before);
	agent = r->agent;
	seam = r->seam;
	r->agent = NULL;
	r->seam = NULL;
	pthread_mutex_unlock(&r->lock);
	agent_free(agent);
	seam_free(seam);
}

/* ---- the keeper: a thread that waits for the sampler's end, and gets another one ---- */

/* True: the time has come; false: to stop. */
static bool pause_keeper(struct profiling *r, uint64_t ns)
{
	struct pollfd stop = { r->stop_fd, POLLIN, 0 };

	return poll(&stop, 1, (int)(ns / MILLI_NS)) == 0;
}

static bool replace_agent(struct profiling *r)
{
	uint64_t pause_ns = RETRY_FIRST_NS;
	struct err err;

	LOG(LOG_ERROR, "The sampler is gone; asking for another one");
	pthread_mutex_lock(&r->lock);
	turn_clock(r, false);
	if (r->agent)
		agent_stop(r->agent);
	pthread_mutex_unlock(&r->lock);
	drop_agent(r);
	while (!start_agent(r, &err)) {
		LOG(LOG_ERROR, "No sampler yet", LOG_S("error", err.msg));
		if (!pause_keeper(r, pause_ns))
			return false;
		pause_ns = pause_ns * 2 < RETRY_MOST_NS ? pause_ns * 2 : RETRY_MOST_NS;
	}
	LOG(LOG_INFO, "Sampling again");
	return true;
}

static void *keep(void *arg)
{
	struct profiling *r = arg;

	pthread_setname_np(pthread_self(), "keeper");
	for (;;) {
		/* Only its end: answers are for others to read. */
		struct pollfd fds[] = { { seam_remote_fd(r->seam), 0, 0 },
					{ r->stop_fd, POLLIN, 0 } };

		if (poll(fds, ARRAY_LEN(fds), -1) < 0)
			continue; /* EINTR */
		if (fds[1].revents || !replace_agent(r))
			return NULL;
	}
}

/* A sampler of this very process cannot be lost. */
static bool start_keeper(struct profiling *r, struct err *err)
{
	if (seam_remote_fd(r->seam) < 0)
		return true;
	r->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (r->stop_fd < 0)
		return err_set_errno(err, "eventfd");
	r->keeper_runs = pthread_create(&r->keeper, NULL, keep, r) == 0;
	return r->keeper_runs || err_set(err, ERR_INTERNAL, "no thread for the sampler's keeper");
}

static void stop_keeper(struct profiling *r)
{
	uint64_t one = 1;

	if (r->keeper_runs && write(r->stop_fd, &one, sizeof(one)) == sizeof(one))
		pthread_join(r->keeper, NULL);
	r->keeper_runs = false;
	fd_close(&r->stop_fd);
	r->stop_fd = -1;
}

/* ---- start and stop ---- */

static void enable(void *ctx, bool on)
{
	struct profiling *r = ctx;

	pthread_mutex_lock(&r->lock);
	r->sampling = on;
	if (r->agent)
		agent_enable(r->agent, on);
	set_clock(r);
	pthread_mutex_unlock(&r->lock);
}

static void stop_all(struct profiling *r, uint64_t deadline_ns)
{
	bool leaves = r->agent && handover_is_open(r->host->handover);
	struct chance *chance = r->chance;

	stop_keeper(r);
	pthread_mutex_lock(&r->lock);
	r->ending = true;
	set_clock(r);
	pthread_mutex_unlock(&r->lock);
	if (r->reporter)
		reporter_ends(r->reporter);
	if (leaves)
		agent_pause(r->agent);
	else if (r->agent)
		agent_stop(r->agent);
	if (r->reporter) /* its last report asks the agent for files and counts */
		reporter_stop(r->reporter, deadline_ns);
	pthread_mutex_lock(&r->lock);
	r->chance = NULL;
	pthread_mutex_unlock(&r->lock);
	chance_free(chance);
	if (r->naming && !(leaves && leave_agent(r)))
		drop_agent(r);
	naming_free(r->naming);
	reporter_free(r->reporter);
	arena_release(&r->arena);
	pthread_mutex_destroy(&r->lock);
	r->reporter = NULL;
	r->naming = NULL;
}

static void start_chance(struct profiling *r)
{
	struct chance_options options = { .threshold = r->o.probabilistic_threshold,
					  .interval_ns = r->o.probabilistic_interval_ns,
					  .enable = enable,
					  .ctx = r };
	struct chance *chance = chance_new(&options);

	pthread_mutex_lock(&r->lock);
	r->chance = chance;
	pthread_mutex_unlock(&r->lock);
}

/* As elfutils has it: who sets the variable wants it. */
static const char *debuginfod_urls(const struct profiling *r)
{
	return r->o.debuginfod_urls ? r->o.debuginfod_urls : getenv("DEBUGINFOD_URLS");
}

/* Made where it is missing. Without it names are found anew each time: told, and no reason to end.
 */
static void look_at_cache(const char *folder)
{
	if (!folder || !*folder)
		return;
	if (mkdir(folder, 0700) != 0 && errno != EEXIST)
		LOG(LOG_WARN, "The cache folder cannot be made: nothing is kept over restarts",
		    LOG_S("folder", folder), LOG_S("error", strerror(errno)));
	else if (access(folder, R_OK | W_OK | X_OK) != 0)
		LOG(LOG_WARN, "The cache folder cannot be used: nothing is kept over restarts",
		    LOG_S("folder", folder), LOG_S("error", strerror(errno)));
}

static struct str read_list(const char *path, char *text, size_t room)
{
	AUTO(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room);

	return str_from(text, n > 0 ? (size_t)n : 0);
}

static bool look_at_cpus(const struct profiling *r, struct err *err)
{
	AUTO(buf_release) struct buf absent = { 0 };
	char here[4096], ever[4096];
	struct str online = read_list("/sys/devices/system/cpu/online", here, sizeof(here));
	struct str possible = read_list("/sys/devices/system/cpu/possible", ever, sizeof(ever));

	if (!online.len || !possible.len) /* not mounted here */
		return true;
	if (!profiling_cpus_check(&r->o, online, possible, &absent, err))
		return false;
	if (absent.len)
		LOG(LOG_WARN,
		    "CPUs of -pin-cpu-ids are not online: nothing of them is sampled until they "
		    "are",
		    LOG_STR("cpus", buf_view(&absent)), LOG_STR("online", str_trim(online)));
	return true;
}

static bool start_all(struct profiling *r, struct err *err)
{
	struct naming_options naming = { .symbol_memory_bytes = r->o.symbol_memory_bytes,
					 .cache_dir = r->o.cache_dir,
					 .inlines = r->o.inlines,
					 .debuginfod_urls = debuginfod_urls(r),
					 .debuginfod_wait_ns = r->o.debuginfod_wait_ns };

	pthread_mutex_init(&r->lock, NULL);
	arena_init(&r->arena, 4096, 0);
	r->stop_fd = -1;
	r->sampling = true;
	r->ending = r->clock_runs = false;
	r->clock_ns = 0;
	r->lost_before = (struct agent_losses){ 0 };
	make_attributes(r);
	if (!look_at_cpus(r, err))
		return false;
	look_at_cache(r->o.cache_dir);
	r->naming = naming_new(&naming);
	r->reporter = make_reporter(r);
	if (!start_agent(r, err)) {
		if (!supervised()) /* else the sampler has: we have no privileges to judge by */
			doctor_explain(err);
		return false;
	}
	reporter_begins(r->reporter);
	start_chance(r);
	return start_keeper(r, err);
}

static bool profiling_start(void *state, const struct component_host *host, struct err *err)
{
	struct profiling *r = state;
	uint32_t set, named;

	r->host = host;
	if (!profiling_tracers(&r->o, &set, &named, err))
		return false;
	log_tracers(set, named);
	r->started = start_all(r, err);
	if (r->started) {
		LOG(LOG_INFO, "eBPF tracer loaded");
		LOG(LOG_INFO, "Attached tracer program");
		return true;
	}
	stop_all(r, 0);
	if (r->o.error_mode == PROFILING_PROPAGATE)
		return false;
	LOG(LOG_ERROR, "eBPF profiler receiver failed, continuing without profiling",
	    LOG_S("error", err->msg));
	return true;
}

static void profiling_stop(void *state, uint64_t deadline_ns)
{
	struct profiling *r = state;

	if (r->started)
		stop_all(r, deadline_ns);
	r->started = false;
}

/* The filter once more: its processes may have changed their names; all are judged anew. */
static bool profiling_reload(void *state, struct err *err)
{
	struct profiling *r = state;
	struct agent_options options;
	struct arena scratch;
	bool ok;

	if (!r->started)
		return true;
	arena_init(&scratch, 1024, 0);
	pthread_mutex_lock(&r->lock);
	ok = !r->agent || (profiling_agent_options(&r->o, &scratch, &options, err) &&
			   agent_set_filter(r->agent, &options.filter, err));
	if (ok && r->agent) {
		tell_cgroups(r, r->agent);
		tell_absent(r->agent);
	}
	pthread_mutex_unlock(&r->lock);
	arena_release(&scratch);
	return ok;
}

uint64_t profiling_trace_count(void *state)
{
	struct profiling *r = state;
	struct agent_stats s = { .traces = 0 };

	pthread_mutex_lock(&r->lock);
	if (r->agent)
		agent_stats(r->agent, &s);
	pthread_mutex_unlock(&r->lock);
	return s.traces;
}

const struct component_ops profiling_receiver = {
	.type = "profiling",
	.summary = "every process of this machine, sampled by eBPF",
	.kind = COMPONENT_RECEIVER,
	.state_size = sizeof(struct profiling),
	.fields = profiling_fields,
	.check = profiling_check,
	.start = profiling_start,
	.stop = profiling_stop,
	.reload = profiling_reload,
};
