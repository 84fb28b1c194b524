/*
 * CPUs that come and go: what is said to be online is sampled, and nothing else; one that comes
 * back has a side band again. Needs the capabilities BPF and PERFMON, and two CPUs; says so and
 * skips without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>
#include "agent/kernel_test.h"
#include "agent/sample/events.h"
#include "agent/sample/programs.h"
#include "base/clock.h"
#include "bpf/records.h"

enum { HZ = 1000, FIRED_ENOUGH = 25 };
#define HANG_GUARD_NS (60 * SECOND_NS)

struct rig {
	struct programs *programs;
	struct seam_maps maps;
	const struct sample_counters *counters; /* by CPU */
	struct events *events;
	uint32_t cpus[SEAM_CPUS_MAX], count;
};

static uint64_t fired(const struct rig *r, uint32_t cpu)
{
	return __atomic_load_n(&r->counters[cpu].fired, __ATOMIC_RELAXED);
}

/* Until the CPU has been sampled some more: idle ones are, too. */
static void wait_fired(const struct rig *r, uint32_t cpu)
{
	uint64_t from = fired(r, cpu), until = clock_monotonic_ns() + HANG_GUARD_NS;

	while (fired(r, cpu) - from < FIRED_ENOUGH) {
		if (clock_monotonic_ns() > until)
			fail_msg("CPU %u is not sampled", cpu);
		usleep(1000);
	}
}

static bool online(struct rig *r)
{
	char text[4096];
	FILE *f = fopen("/sys/devices/system/cpu/online", "re");
	struct err err;
	bool ok = f && fgets(text, sizeof(text), f) &&
		  cpu_list_parse(str_cstr(text), r->cpus, SEAM_CPUS_MAX, &r->count, &err);

	if (f)
		fclose(f);
	return ok && r->count >= 2;
}

/* NULL: all is set up; else why not. */
static const char *set_up(struct rig *r)
{
	const struct seam_options options = { .samples_per_second = HZ };
	const char *why_not = no_kernel_for_tests();
	struct err err;
	void *at;

	if (why_not)
		return why_not;
	if (!online(r))
		return "not two CPUs";
	r->programs = programs_load(&options, &err);
	if (!r->programs && err.kind == ERR_PERMISSION)
		return "no permission";
	if (!r->programs || !programs_maps(r->programs, &r->maps, &err))
		fail_msg("%s", err.msg);
	at = mmap(NULL, r->maps.cpu_count * sizeof(*r->counters), PROT_READ, MAP_SHARED,
		  r->maps.counters, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	r->counters = at;
	r->events = events_new(&options, &err);
	if (!r->events || !events_bind(r->events, programs_sample_fd(r->programs), &err))
		fail_msg("%s", err.msg);
	return NULL;
}

static void tear_down(struct rig *r)
{
	int fds[] = { r->maps.ring,  r->maps.processes, r->maps.mappings, r->maps.executables,
		      r->maps.pages, r->maps.rules,     r->maps.runtimes, r->maps.counters };

	events_free(r->events);
	munmap((void *)(uintptr_t)r->counters, r->maps.cpu_count * sizeof(*r->counters));
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		close(fds[i]);
	programs_free(r->programs);
}

static uint32_t hand_out(struct rig *r)
{
	uint32_t cpu, count = 0;

	while (events_next_side_band(r->events, &cpu) >= 0)
		count++;
	return count;
}

static void test_cpus_come_and_go(void **state)
{
	static struct rig r;
	const char *why = set_up(&r);
	uint32_t first, last, cpu = 0;
	uint64_t stood;
	struct err err;

	(void)state;
	if (why) {
		print_message("SKIPPED: %s\n", why);
		skip();
	}
	first = r.cpus[0];
	last = r.cpus[r.count - 1];
	assert_true(events_enable(r.events, true, &err));
	assert_int_equal(hand_out(&r), r.count);
	wait_fired(&r, first);
	wait_fired(&r, last);
	/* it goes */
	assert_true(events_follow(r.events, r.cpus, r.count - 1, &err));
	stood = fired(&r, last);
	wait_fired(&r, first);
	assert_int_equal(fired(&r, last), stood);
	assert_int_equal(hand_out(&r), 0);
	/* and comes back: sampled at once, with a new side band */
	assert_true(events_refresh(r.events, &err));
	wait_fired(&r, last);
	assert_true(events_next_side_band(r.events, &cpu) >= 0);
	assert_int_equal(cpu, last);
	assert_int_equal(hand_out(&r), 0);
	/* while sampling is off, nothing that comes is sampled */
	assert_true(events_enable(r.events, false, &err));
	stood = fired(&r, last);
	assert_true(events_follow(r.events, r.cpus, r.count - 1, &err));
	assert_true(events_refresh(r.events, &err));
	usleep(20000); /* 20 samples' time; a slow machine only makes the check weaker */
	assert_int_equal(fired(&r, last), stood);
	assert_true(events_enable(r.events, true, &err));
	wait_fired(&r, last);
	tear_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpus_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
