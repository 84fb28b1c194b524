#include "agent/sample/events.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"

/* Of all clocks' starts. */
#define SPREAD_NS (20 * MILLI_NS)

struct cpu_events {
	int clock_fd, side_fd; /* -1: not open */
	bool enabled, handed_out;
};

struct events {
	int program_fd; /* -1: not yet */
	uint64_t period_ns;
	uint32_t pinned_count;
	bool enabled;
	bool pinned[SEAM_CPUS_MAX];
	struct cpu_events cpus[SEAM_CPUS_MAX];
};

static int perf_event_open(struct perf_event_attr *attr, uint32_t cpu)
{
	return (int)syscall(SYS_perf_event_open, attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool refused(struct err *err, const char *what, uint32_t cpu)
{
	if (errno == EACCES || errno == EPERM)
		return err_set(err, ERR_PERMISSION,
			       "%s on CPU %u: not permitted; the capability PERFMON is needed, or "
			       "SYS_ADMIN where kernel.perf_event_paranoid is above 2",
			       what, cpu);
	return err_set_errno(err, "%s on CPU %u", what, cpu);
}

static bool bind_clock(const struct events *e, int fd, uint32_t cpu, struct err *err)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_BPF, e->program_fd) == 0 ||
	       refused(err, "attaching the sampling program", cpu);
}

static bool open_clock(struct events *e, uint32_t cpu, struct err *err)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = e->period_ns,
		.disabled = 1,
	};
	int fd = perf_event_open(&attr, cpu);

	if (fd < 0)
		return refused(err, "the sampling clock", cpu);
	if (e->program_fd >= 0 && !bind_clock(e, fd, cpu, err)) {
		close(fd);
		return false;
	}
	e->cpus[cpu].clock_fd = fd;
	e->cpus[cpu].enabled = false;
	return true;
}

static bool open_side_band(struct events *e, uint32_t cpu, struct err *err)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.build_id = 1,
		.ksymbol = 1,
		.bpf_event = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = SIDE_BAND_BYTES / 2,
	};
	int fd = perf_event_open(&attr, cpu);

	if (fd < 0 && errno == EINVAL) { /* build_id came with Linux 5.12 */
		attr.build_id = 0;
		fd = perf_event_open(&attr, cpu);
	}
	if (fd < 0)
		return refused(err, "the side band", cpu);
	e->cpus[cpu].side_fd = fd;
	e->cpus[cpu].handed_out = false;
	return true;
}

static void close_cpu(struct cpu_events *c)
{
	if (c->clock_fd >= 0)
		close(c->clock_fd);
	if (c->side_fd >= 0)
		close(c->side_fd);
	c->clock_fd = c->side_fd = -1;
	c->enabled = c->handed_out = false;
}

bool cpu_list_parse(struct str text, uint32_t *cpus, uint32_t cap, uint32_t *count, struct err *err)
{
	struct str rest = str_trim(text), item;
	uint32_t n = 0;

	while (rest.len && str_split(&rest, ',', &item)) {
		ptrdiff_t dash = str_find(item, '-');
		struct str first = dash < 0 ? item : str_head(item, (size_t)dash);
		struct str last = dash < 0 ? item : str_skip(item, (size_t)dash + 1);
		uint64_t from, to;

		if (!str_to_u64(str_trim(first), &from) || !str_to_u64(str_trim(last), &to) ||
		    from > to)
			return err_set(err, ERR_INVALID,
				       "CPU list \"%.*s\": \"%.*s\" is no CPU or range",
				       STR_ARG(text), STR_ARG(item));
		if (to >= SEAM_CPUS_MAX)
			return err_set(err, ERR_LIMIT, "CPU %llu in \"%.*s\": the highest is %d",
				       (unsigned long long)to, STR_ARG(text), SEAM_CPUS_MAX - 1);
		for (; from <= to; from++) {
			if (n == cap)
				return err_set(err, ERR_LIMIT,
					       "CPU list \"%.*s\" names more than %u",
					       STR_ARG(text), cap);
			cpus[n++] = (uint32_t)from;
		}
	}
	*count = n;
	return true;
}

static bool online_cpus(uint32_t *cpus, uint32_t *count, struct err *err)
{
	char text[4096];
	AUTO(fd_close) int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n < 0)
		return err_set_errno(err, "/sys/devices/system/cpu/online");
	return cpu_list_parse(str_from(text, (size_t)n), cpus, SEAM_CPUS_MAX, count, err);
}

static bool wanted(const struct events *e, uint32_t cpu)
{
	return !e->pinned_count || e->pinned[cpu];
}

/* Starts the clocks that should run, one after another: spread over a period, or what a start can
 * take. */
static bool start_clocks(struct events *e, struct err *err)
{
	uint64_t spread = e->period_ns < SPREAD_NS ? e->period_ns : SPREAD_NS;
	uint32_t waiting = 0;

	for (uint32_t cpu = 0; cpu < SEAM_CPUS_MAX; cpu++)
		waiting += e->cpus[cpu].clock_fd >= 0 && !e->cpus[cpu].enabled;
	const struct timespec pause = { .tv_nsec = waiting ? (long)(spread / waiting) : 0 };

	for (uint32_t cpu = 0; cpu < SEAM_CPUS_MAX && waiting; cpu++) {
		struct cpu_events *c = &e->cpus[cpu];

		if (c->clock_fd < 0 || c->enabled)
			continue;
		if (ioctl(c->clock_fd, PERF_EVENT_IOC_ENABLE, 0))
			return refused(err, "starting the sampling clock", cpu);
		c->enabled = true;
		if (--waiting)
			nanosleep(&pause, NULL);
	}
	return true;
}

bool events_follow(struct events *e, const uint32_t *cpus, uint32_t count, struct err *err)
{
	uint32_t next = 0;

	for (uint32_t cpu = 0; cpu < SEAM_CPUS_MAX; cpu++) {
		struct cpu_events *c = &e->cpus[cpu];
		bool online = next < count && cpus[next] == cpu;

		next += online;
		if (!online) {
			close_cpu(c);
			continue;
		}
		/* Processes move: the side band is of every CPU, also those that are not sampled.
		 */
		if (c->side_fd >= 0)
			continue;
		if (!open_side_band(e, cpu, err) || (wanted(e, cpu) && !open_clock(e, cpu, err))) {
			close_cpu(c); /* tried again as a whole */
			return false;
		}
	}
	return !e->enabled || start_clocks(e, err);
}

bool events_refresh(struct events *e, struct err *err)
{
	uint32_t *list = malloc(SEAM_CPUS_MAX * sizeof(*list)), count = 0;
	bool ok;

	if (!list)
		return err_set(err, ERR_LIMIT, "no memory for the list of CPUs");
	ok = online_cpus(list, &count, err) && events_follow(e, list, count, err);
	free(list);
	return ok;
}

struct events *events_new(const struct seam_options *options, struct err *err)
{
	struct events *e = calloc(1, sizeof(*e));

	if (!e) {
		err_set(err, ERR_LIMIT, "no memory for the perf events");
		return NULL;
	}
	e->program_fd = -1;
	e->period_ns = SECOND_NS / (options->samples_per_second ? options->samples_per_second : 20);
	for (uint32_t i = 0; i < SEAM_CPUS_MAX; i++)
		e->cpus[i].clock_fd = e->cpus[i].side_fd = -1;
	for (uint32_t i = 0; i < options->cpu_count; i++) {
		if (options->cpus[i] >= SEAM_CPUS_MAX) {
			err_set(err, ERR_LIMIT, "CPU %u: the highest is %d", options->cpus[i],
				SEAM_CPUS_MAX - 1);
			events_free(e);
			return NULL;
		}
		e->pinned_count += !e->pinned[options->cpus[i]];
		e->pinned[options->cpus[i]] = true;
	}
	if (!events_refresh(e, err)) {
		events_free(e);
		return NULL;
	}
	return e;
}

void events_free(struct events *e)
{
	if (!e)
		return;
	for (uint32_t i = 0; i < SEAM_CPUS_MAX; i++)
		close_cpu(&e->cpus[i]);
	free(e);
}

bool events_bind(struct events *e, int program_fd, struct err *err)
{
	e->program_fd = program_fd;
	for (uint32_t cpu = 0; cpu < SEAM_CPUS_MAX; cpu++)
		if (e->cpus[cpu].clock_fd >= 0 && !bind_clock(e, e->cpus[cpu].clock_fd, cpu, err))
			return false;
	return true;
}

bool events_enable(struct events *e, bool on, struct err *err)
{
	e->enabled = on;
	if (on)
		return start_clocks(e, err);
	for (uint32_t cpu = 0; cpu < SEAM_CPUS_MAX; cpu++) {
		struct cpu_events *c = &e->cpus[cpu];

		if (c->clock_fd >= 0 && c->enabled && ioctl(c->clock_fd, PERF_EVENT_IOC_DISABLE, 0))
			return refused(err, "stopping the sampling clock", cpu);
		c->enabled = false;
	}
	return true;
}

int events_next_side_band(struct events *e, uint32_t *cpu)
{
	for (uint32_t i = 0; i < SEAM_CPUS_MAX; i++) {
		struct cpu_events *c = &e->cpus[i];

		if (c->side_fd >= 0 && !c->handed_out) {
			c->handed_out = true;
			*cpu = i;
			return c->side_fd;
		}
	}
	return -1;
}
