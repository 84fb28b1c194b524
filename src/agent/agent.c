#include "agent/agent.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>

#include "agent/process/cgroups.h"
#include "agent/process/table.h"
#include "agent/resolve.h"
#include "agent/runtimes/attach.h"
#include "agent/sample/counters.h"
#include "agent/sample/online.h"
#include "agent/sample/rings.h"
#include "agent/sample/side_band.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/vec.h"
enum {
	TRACE_NICE = -10, /* of the trace thread, where the system allows it */
	SAMPLES_PER_ROUND = 4096,
	SIDE_RECORDS_PER_ROUND = 65536,
	WRAPPED_BYTES_MOST = 1 << 20,
};
/* How long samples and records wait, at most, where nothing that BPF meets wakes us. */
#define POLL_NS          (250 * MILLI_NS)
#define POLL_FIRST_NS    (50 * MILLI_NS)  /* during the first seconds */
#define POLL_REPLACED_NS (20 * MILLI_NS)  /* after plugins changed: BPF walks by what was there */
#define POLL_QUIET_NS    (500 * MILLI_NS) /* no process came, went or mapped anything for as long */
#define POLL_IDLE_NS     SECOND_NS        /* and no sample came */
#define FIRST_NS         (3 * SECOND_NS)
/* What runs already is looked at before the first sample for so long, while the programs load. */
#define SCAN_NS       (250 * MILLI_NS)
#define ATTACH_NS     (350 * MILLI_NS) /* both from the agent's start */
#define BUILD_NS      (2 * MILLI_NS)  /* between two rounds, for rows that none has asked for yet */
#define ROUND_SCAN_NS (10 * MILLI_NS) /* as well, for processes that none has asked for yet */
#define SYNC_NS       (3 * MINUTE_NS)
#define MEMORY_BYTES  (UINT64_C(128) << 20)

struct sample_item {
	uint64_t time_ns;
	struct str record, stack, labels;
};

struct side_item {
	uint64_t time_ns;
	struct side_record record;
};

struct agent {
	struct agent_options options;
	struct seam *seam;
	struct trace_sink sink;
	struct seam_maps maps;
	const struct sample_counters *counters;

	pthread_mutex_t lock; /* everything below, but for a round's lists */
	struct unwind_store store;
	struct mapping_sets sets;
	struct modules modules;
	struct process_table table;
	struct resolver resolver;
	struct runtime_tables *tables;
	struct filter *filter;
	struct cgroups *cgroups;
	char **variables;

	struct sample_ring ring;
	struct side_ring sides[SEAM_CPUS_MAX];
	uint32_t side_count;
	struct online_cpus online;
	int epoll_fd, wake_fd;
	pthread_t thread;
	bool threaded, attached;
	_Atomic bool stopping, pausing, wanted_on;
	bool on, nice_refused;
	bool building; /* there is more to do between rounds */
	bool scanned;  /* all of /proc */

	/* one round */
	struct sample_item *samples;
	uint32_t sample_count;
	struct side_item *records;
	uint32_t record_count, record_cap;
	/* By CPU: what waits for its sample. */
	struct str stack_of[SEAM_CPUS_MAX], labels_of[SEAM_CPUS_MAX];
	struct arena wrapped;

	uint64_t started_ns, synced_ns, realtime_offset_ns;
	uint64_t changed_ns; /* when the last record of the side band came */
	uint64_t traces, frames, side_lost, side_records, bad_records;
};

/* ---- the clock --------------------------------------------------------------------------------
 */

static void sync_clock(struct agent *a, uint64_t now)
{
	uint64_t every = a->options.clock_sync_ns ? a->options.clock_sync_ns : SYNC_NS;

	if (a->synced_ns && now - a->synced_ns < every)
		return;
	a->synced_ns = now;
	a->realtime_offset_ns = clock_realtime_offset_ns();
}

/* ---- reading the rings ------------------------------------------------------------------------
 */

static void take_samples(struct agent *a)
{
	struct sample_record s;
	struct stack_record stack;
	struct labels_record labels;
	struct str record;

	a->sample_count = 0;
	while (a->sample_count < SAMPLES_PER_ROUND && sample_ring_next(&a->ring, &record)) {
		uint16_t kind = 0;

		if (record.len >= sizeof(kind))
			memcpy(&kind, record.ptr, sizeof(kind));
		if (kind == RECORD_STACK && record.len >= sizeof(stack)) {
			memcpy(&stack, record.ptr, sizeof(stack));
			if (stack.cpu < SEAM_CPUS_MAX)
				a->stack_of[stack.cpu] = record;
		} else if (kind == RECORD_LABELS && record.len >= sizeof(labels)) {
			memcpy(&labels, record.ptr, sizeof(labels));
			if (labels.cpu < SEAM_CPUS_MAX)
				a->labels_of[labels.cpu] = record;
		} else if (kind == RECORD_SAMPLE && record.len >= sizeof(s)) {
			struct sample_item *item = &a->samples[a->sample_count++];

			memcpy(&s, record.ptr, sizeof(s));
			*item = (struct sample_item){ .time_ns = s.time_ns, .record = record };
			if (s.flags & SAMPLE_STACK && s.cpu < SEAM_CPUS_MAX) {
				item->stack = a->stack_of[s.cpu];
				a->stack_of[s.cpu] = STR("");
			}
			if (s.flags & SAMPLE_LABELS && s.cpu < SEAM_CPUS_MAX) {
				item->labels = a->labels_of[s.cpu];
				a->labels_of[s.cpu] = STR("");
			}
		} else {
			a->bad_records++;
		}
	}
}

static void keep_side_record(struct agent *a, const struct side_record *r)
{
	VEC_ROOM(a->records, a->record_count, a->record_cap);
	a->records[a->record_count++] = (struct side_item){ r->time_ns, *r };
}

/* True: the kernel dropped some. */
static bool take_side_band(struct agent *a)
{
	struct side_record r;
	struct str record;
	bool lost = false, bad = false;

	a->record_count = 0;
	arena_reset(&a->wrapped);
	for (uint32_t i = 0; i < a->side_count; i++) {
		while (a->record_count < SIDE_RECORDS_PER_ROUND &&
		       side_ring_next(&a->sides[i], &a->wrapped, &record, &bad)) {
			a->side_records++;
			if (!side_record_parse(record, &r)) {
				a->bad_records++;
				continue;
			}
			if (r.kind == SIDE_LOST) {
				a->side_lost += r.lost;
				lost = true;
			} else if (r.kind != SIDE_OTHER) {
				keep_side_record(a, &r);
			}
		}
	}
	a->bad_records += bad;
	return lost || bad;
}

static int by_sample_time(const void *x, const void *y)
{
	const struct sample_item *a = x, *b = y;

	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

static int by_side_time(const void *x, const void *y)
{
	const struct side_item *a = x, *b = y;

	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

/* ---- a round ------------------------------------------------------------------------------------
 */

static void hand_on(struct agent *a, const struct sample_item *item)
{
	struct trace trace;

	if (!resolve_sample(&a->resolver, item->record, item->stack, item->labels, &trace))
		return;
	trace.time_unix_nano = item->time_ns + a->realtime_offset_ns;
	a->traces++;
	a->frames += trace.frame_count;
	/* The sink may ask for executables, which takes the lock. */
	pthread_mutex_unlock(&a->lock);
	a->sink.trace(a->sink.ctx, &trace);
	pthread_mutex_lock(&a->lock);
}

static void apply(struct agent *a, const struct side_record *r)
{
	if (r->kind == SIDE_KSYMBOL && a->options.kernel_changed)
		a->options.kernel_changed(a->options.kernel_changed_ctx);
	process_table_apply(&a->table, r);
}

/*
 * Samples first, then the side band: what happened to a process before one of its samples is
 * then surely among the records. Both stay in their rings until all is done.
 */
static bool run_round(struct agent *a)
{
	uint32_t next = 0;
	bool lost;

	take_samples(a);
	lost = take_side_band(a);
	if (a->sample_count)
		qsort(a->samples, a->sample_count, sizeof(*a->samples), by_sample_time);
	if (a->record_count)
		qsort(a->records, a->record_count, sizeof(*a->records), by_side_time);
	if (lost)
		process_table_resync(&a->table);
	for (uint32_t i = 0; i < a->sample_count; i++) {
		while (next < a->record_count && a->records[next].time_ns <= a->samples[i].time_ns)
			apply(a, &a->records[next++].record);
		hand_on(a, &a->samples[i]);
	}
	while (next < a->record_count)
		apply(a, &a->records[next++].record);
	process_table_publish(&a->table);
	/* What its sample has not come for yet would be lost with its room. */
	for (uint32_t i = 0; i < SEAM_CPUS_MAX; i++)
		a->stack_of[i] = a->labels_of[i] = STR("");
	sample_ring_consume(&a->ring);
	for (uint32_t i = 0; i < a->side_count; i++)
		side_ring_consume(&a->sides[i]);
	return a->sample_count == SAMPLES_PER_ROUND || a->record_count >= SIDE_RECORDS_PER_ROUND;
}

static bool watch(struct agent *a, int fd, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ||
	       err_set_errno(err, "watching a ring");
}

/* Rings of CPUs that came online; those of CPUs that went are let go. */
static bool take_new_cpus(struct agent *a, struct err *err)
{
	struct seam_side_band band;
	struct side_ring ring;

	while (a->seam->ops->side_band(a->seam, &band, err)) {
		uint32_t i = 0;

		if (!side_ring_open(&ring, band.fd, band.cpu, a->maps.side_band_bytes, err))
			return false;
		while (i < a->side_count && a->sides[i].cpu != band.cpu)
			i++;
		if (i == SEAM_CPUS_MAX) {
			side_ring_close(&ring);
			return err_set(err, ERR_LIMIT, "more than %d CPUs", SEAM_CPUS_MAX);
		}
		if (i < a->side_count)
			side_ring_close(&a->sides[i]);
		else
			a->side_count++;
		a->sides[i] = ring;
		if (!watch(a, ring.fd, err))
			return false;
	}
	return err->kind == ERR_NONE;
}

static void follow_cpus(struct agent *a, uint64_t now)
{
	struct err err;

	if (!online_cpus_changed(&a->online, now) || take_new_cpus(a, &err))
		return;
	a->bad_records++;
	online_cpus_forget(&a->online);
}

static uint64_t usual_interval(const struct agent *a, uint64_t now)
{
	if (a->options.poll_ns)
		return a->options.poll_ns;
	if (now - a->started_ns < FIRST_NS)
		return POLL_FIRST_NS;
	if (now - a->table.replaced_ns < FIRST_NS)
		return POLL_REPLACED_NS;
	if (now - a->changed_ns < FIRST_NS)
		return POLL_NS;
	return a->sample_count ? POLL_QUIET_NS : POLL_IDLE_NS;
}

static uint64_t poll_interval(const struct agent *a, uint64_t now)
{
	uint64_t interval = usual_interval(a, now), due = runtimes_due_ns(&a->table);

	if (a->building)
		return 0;
	if (!due || due > now + interval)
		return interval;
	return due > now + MILLI_NS ? due - now : MILLI_NS;
}

static void wait_for_work(const struct agent *a, uint64_t now)
{
	struct epoll_event events[8];
	uint64_t ignored;
	int n;

	n = epoll_wait(a->epoll_fd, events, ARRAY_LEN(events),
		       (int)(poll_interval(a, now) / MILLI_NS));
	for (int i = 0; i < n; i++)
		if (events[i].data.fd == a->wake_fd &&
		    read(a->wake_fd, &ignored, sizeof(ignored)) < 0)
			return;
}

static void wake(struct agent *a)
{
	while (write(a->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t)) < 0 && errno == EINTR)
		;
}

static void switch_sampling(struct agent *a)
{
	bool on = a->wanted_on && !a->stopping;
	struct err err;

	if (on != a->on && a->seam->ops->enable(a->seam, on, &err))
		a->on = on;
}

/* What the start left, on a machine of many processes or one that is busy: some of it between two
 * rounds. Samples come first; whose process they are of is looked up if need be. */
static void scan_on(struct agent *a)
{
	uint64_t until = clock_monotonic_ns() + ROUND_SCAN_NS;
	struct err err;

	if (a->scanned)
		return;
	if (!process_table_scan_until(&a->table, until, &a->scanned, &err))
		a->table.refused++;
	if (a->scanned)
		process_table_publish_runtimes(&a->table, until + ROUND_SCAN_NS);
}

static void publish_cgroups(struct agent *a, const struct cgroups *was)
{
	cgroups_publish(a->cgroups, was, a->maps.cgroups, a->store.counters, a->maps.cpu_count,
			clock_monotonic_ns());
}

static void *trace_thread(void *arg)
{
	struct agent *a = arg;

	pthread_setname_np(pthread_self(), "agent");
	/* A busy machine is the one to be looked at: we need little time, but in time. */
	if (setpriority(PRIO_PROCESS, (id_t)gettid(), TRACE_NICE))
		a->nice_refused = true;
	while (!a->stopping && !a->pausing) {
		uint64_t now = clock_monotonic_ns();

		wait_for_work(a, now);
		pthread_mutex_lock(&a->lock);
		now = clock_monotonic_ns();
		sync_clock(a, now);
		unwind_store_tick(&a->store, now);
		switch_sampling(a);
		runtimes_retry(&a->table, now);
		while (run_round(a))
			switch_sampling(a);
		if (a->record_count)
			a->changed_ns = now;
		process_table_bury(&a->table, now);
		modules_sweep(&a->modules, now);
		follow_cpus(a, now);
		publish_cgroups(a, NULL);
		unwind_store_make_room(&a->store);
		scan_on(a);
		a->building = runtimes_build(&a->table, BUILD_NS) || !a->scanned;
		pthread_mutex_unlock(&a->lock);
	}
	return NULL;
}

/* ---- start and end ------------------------------------------------------------------------------
 */

/* What the kernel decides, the filter need not. */
static bool make_filter(const struct agent_filter *wanted, struct filter **filter,
			struct cgroups **cgroups, struct err *err)
{
	struct agent_filter rest = *wanted;

	*cgroups = cgroups_new(wanted->cgroups, wanted->cgroup_count, err);
	if (!*cgroups)
		return false;
	rest.cgroups = cgroups_paths(*cgroups);
	if (cgroups_in_kernel(*cgroups))
		rest.cgroup_count = 0;
	*filter = filter_new(&rest, err);
	if (*filter)
		return true;
	cgroups_free(*cgroups);
	*cgroups = NULL;
	return false;
}

static bool copy_options(struct agent *a, const struct agent_options *options, struct err *err)
{
	a->options = *options;
	a->options.filter = (struct agent_filter){ 0 };
	a->variables = calloc(options->variable_count + 1, sizeof(*a->variables));
	assert(a->variables);
	for (uint32_t i = 0; i < options->variable_count; i++) {
		a->variables[i] = strdup(options->variables[i]);
		assert(a->variables[i]);
	}
	if (!make_filter(&options->filter, &a->filter, &a->cgroups, err))
		return false;
	a->tables = runtime_tables_load(options->runtime_tables, err);
	return a->tables;
}

static void set_up_tables(struct agent *a)
{
	a->sets = (struct mapping_sets){ .run_free = unwind_store_retire_run, .ctx = &a->store };
	modules_init(&a->modules, &a->store, a->seam, &a->sets);
	a->modules.steps = a->options.sampling.steps;
	a->modules.tables = a->tables;
	a->table = (struct process_table){
		.seam = a->seam,
		.store = &a->store,
		.modules = &a->modules,
		.sets = &a->sets,
		.filter = a->filter,
		.variables = (const char *const *)a->variables,
		.variable_count = a->options.variable_count,
	};
	process_table_init(&a->table);
	resolver_init(&a->resolver, &a->table, &a->modules, &a->store);
	a->resolver.frames_of_ends = a->options.frames_of_ends;
}

static bool attach(struct agent *a, struct err *err)
{
	uint64_t memory =
		a->options.unwind_memory_bytes ? a->options.unwind_memory_bytes : MEMORY_BYTES;
	int ring_fd;

	if (!a->seam->ops->attach(a->seam, &a->options.sampling, &a->maps, err))
		return false;
	a->attached = true;
	if (!unwind_store_open(&a->store, a->seam, &a->maps, memory, err))
		return false;
	unwind_store_tick(&a->store, clock_monotonic_ns());
	publish_cgroups(a, NULL);
	set_up_tables(a);
	online_cpus_open(&a->online, ONLINE_CPUS_PATH);
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	a->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->epoll_fd < 0 || a->wake_fd < 0)
		return err_set_errno(err, "the agent's event descriptors");
	ring_fd = a->maps.ring;
	a->maps.ring = -1;
	a->counters = counters_map(a->maps.counters, a->maps.cpu_count, err);
	return sample_ring_open(&a->ring, ring_fd, a->maps.ring_bytes, err) && a->counters &&
	       watch(a, ring_fd, err) && watch(a, a->wake_fd, err) && take_new_cpus(a, err);
}

/* Whoever is sampled first shall be known. Clocks do not wait long for it: what is not known yet is
 * copied, and looked up then. */
static bool look_around(struct agent *a, struct err *err)
{
	if (!process_table_scan_until(&a->table, a->started_ns + SCAN_NS, &a->scanned, err))
		return false;
	process_table_publish_runtimes(&a->table, a->started_ns + ATTACH_NS);
	return true;
}

static bool start_thread(struct agent *a, struct err *err)
{
	int code = pthread_create(&a->thread, NULL, trace_thread, a);

	if (code) {
		errno = code;
		return err_set_errno(err, "the agent's thread");
	}
	a->threaded = true;
	wake(a);
	return true;
}

struct agent *agent_start(const struct agent_options *options, struct seam *seam,
			  const struct trace_sink *sink, struct err *err)
{
	struct agent *a = calloc(1, sizeof(*a));

	assert(a);
	a->seam = seam;
	a->sink = *sink;
	a->ring.fd = a->epoll_fd = a->wake_fd = a->online.fd = -1;
	a->wanted_on = true;
	pthread_mutex_init(&a->lock, NULL);
	arena_init(&a->wrapped, 4096, WRAPPED_BYTES_MOST);
	a->samples = malloc(SAMPLES_PER_ROUND * sizeof(*a->samples));
	assert(a->samples);
	a->started_ns = clock_monotonic_ns();
	sync_clock(a, a->started_ns);
	/* The side band is on before /proc is read: whatever happens meanwhile is told. */
	if (!copy_options(a, options, err) || !attach(a, err) || !look_around(a, err) ||
	    !seam->ops->enable(seam, true, err))
		goto refused;
	a->on = true;
	if (!start_thread(a, err))
		goto refused;
	return a;
refused:
	agent_free(a);
	return NULL;
}

static void join_thread(struct agent *a)
{
	wake(a);
	pthread_join(a->thread, NULL);
	a->threaded = false;
}

void agent_pause(struct agent *a)
{
	if (!a->threaded)
		return;
	a->pausing = true;
	join_thread(a);
	a->pausing = false;
}

bool agent_resume(struct agent *a, const struct agent_options *options,
		  const struct trace_sink *sink, struct err *err)
{
	if (!agent_set_filter(a, &options->filter, err))
		return false;
	a->options.kernel_changed = options->kernel_changed;
	a->options.kernel_changed_ctx = options->kernel_changed_ctx;
	a->sink = *sink;
	return start_thread(a, err);
}

void agent_stop(struct agent *a)
{
	if (!a->threaded)
		return;
	a->stopping = true;
	join_thread(a);
	pthread_mutex_lock(&a->lock);
	switch_sampling(a);
	while (run_round(a))
		;
	pthread_mutex_unlock(&a->lock);
}

static void close_maps(struct seam_maps *m)
{
	int fds[] = { m->ring,  m->processes, m->mappings, m->executables, m->pages,
		      m->rules, m->runtimes,  m->counters, m->cgroups };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void agent_free(struct agent *a)
{
	if (!a)
		return;
	agent_stop(a);
	for (uint32_t i = 0; i < a->side_count; i++)
		side_ring_close(&a->sides[i]);
	if (a->ring.consumer)
		sample_ring_close(&a->ring);
	if (a->modules.buckets) {
		resolver_release(&a->resolver);
		process_table_release(&a->table);
		modules_release(&a->modules);
		unwind_store_close(&a->store);
	}
	counters_unmap(a->counters, a->maps.cpu_count);
	if (a->attached)
		close_maps(&a->maps);
	online_cpus_close(&a->online);
	fd_close(&a->epoll_fd);
	fd_close(&a->wake_fd);
	runtime_tables_free(a->tables);
	filter_free(a->filter);
	cgroups_free(a->cgroups);
	for (uint32_t i = 0; a->variables && a->variables[i]; i++)
		free(a->variables[i]);
	free(a->variables);
	free(a->samples);
	free(a->records);
	arena_release(&a->wrapped);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* ---- what others ask ----------------------------------------------------------------------------
 */

bool agent_set_filter(struct agent *a, const struct agent_filter *filter, struct err *err)
{
	struct cgroups *cgroups, *old_cgroups;
	struct filter *made, *old;

	if (!make_filter(filter, &made, &cgroups, err))
		return false;
	pthread_mutex_lock(&a->lock);
	old = a->filter;
	a->filter = made;
	a->table.filter = made;
	old_cgroups = a->cgroups;
	a->cgroups = cgroups;
	publish_cgroups(a, old_cgroups);
	process_table_judge_again(&a->table);
	pthread_mutex_unlock(&a->lock);
	wake(a);
	filter_free(old);
	cgroups_free(old_cgroups);
	return true;
}

void agent_list_absent(struct agent *a, struct buf *pids, struct buf *cgroups)
{
	const char *const *paths;
	const uint32_t *wanted;
	uint32_t count;

	pthread_mutex_lock(&a->lock);
	wanted = filter_pids(a->filter, &count);
	for (uint32_t i = 0; i < count; i++)
		if (!process_table_find(&a->table, wanted[i]))
			buf_printf(pids, "%s%u", pids->len ? ", " : "", wanted[i]);
	paths = cgroups_in_kernel(a->cgroups) ? cgroups_paths(a->cgroups) : NULL;
	for (uint32_t i = 0; paths && paths[i]; i++)
		if (!cgroups_has(a->cgroups, i))
			buf_printf(cgroups, "%s%s", cgroups->len ? ", " : "", paths[i]);
	pthread_mutex_unlock(&a->lock);
}

void agent_enable(struct agent *a, bool on)
{
	a->wanted_on = on;
	wake(a);
}

void agent_stats(struct agent *a, struct agent_stats *out)
{
	struct err err;

	*out = (struct agent_stats){ 0 };
	counters_sum(a->counters, a->maps.cpu_count, &out->kernel);
	pthread_mutex_lock(&a->lock);
	out->traces = a->traces;
	out->frames = a->frames;
	memcpy(out->ended, a->resolver.ended, sizeof(out->ended));
	out->resumed = a->resolver.resumed;
	out->held_dropped = a->resolver.held_dropped;
	out->side_band_records = a->side_records;
	out->side_band_lost = a->side_lost;
	out->resyncs = a->table.resyncs;
	out->bad_records = a->bad_records + a->resolver.bad_records;
	out->pages_built = a->modules.built;
	out->pages_empty = a->modules.empty;
	out->pages_refused = a->modules.pages_refused;
	out->pages_evicted = a->modules.evicted;
	out->build_ns = a->modules.build_ns;
	out->files_opened = a->modules.opened;
	out->files_refused = a->modules.refused;
	out->processes = a->table.count;
	out->executables = a->modules.count;
	out->mappings = a->store.mapping_runs.used;
	out->runtimes_attached = a->table.attach.attached;
	out->runtimes_refused = a->table.attach.refused;
	memcpy(out->labels_lost, a->resolver.labels.lost, sizeof(out->labels_lost));
	out->native_ns = sample_costs_quantile(&a->resolver.costs, COST_NATIVE, 0.5);
	out->runtime_ns = sample_costs_quantile(&a->resolver.costs, COST_RUNTIME, 0.5);
	out->row_blocks = a->store.block_count;
	out->rules = a->store.rules.count;
	out->cgroups_in_kernel = cgroups_in_kernel(a->cgroups);
	out->cgroups = cgroups_found(a->cgroups);
	if (!a->seam->ops->run_time(a->seam, &out->bpf_ns, &out->bpf_runs, &err))
		out->bpf_ns = out->bpf_runs = 0;
	pthread_mutex_unlock(&a->lock);
}

bool agent_open_executable(struct agent *a, const struct executable *e, int *fd, struct err *err)
{
	const struct module *m;
	bool ok = false;

	pthread_mutex_lock(&a->lock);
	m = modules_by_executable(&a->modules, e);
	if (m)
		ok = module_open_again(m, fd, err);
	else
		err_set(err, ERR_NOT_FOUND, "%.*s is mapped no more", STR_ARG(e->filename));
	pthread_mutex_unlock(&a->lock);
	return ok;
}
