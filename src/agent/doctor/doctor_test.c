#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/capability.h>
#include <stdlib.h>

#include "agent/doctor/doctor.h"
#include "agent/doctor/privileges.h"
#include "base/cleanup.h"

static const struct doctor_report limited = {
	.findings = { { .name = "kernel", .found = "Linux 6" },
		      { .name = "kallsyms",
			.state = FINDING_LIMITS,
			.found = "without \"addresses\"",
			.costs = "no names",
			.fix = "CAP_SYSLOG" } },
	.count = 2,
};

static const struct doctor_report refused = {
	.findings = { { .name = "kallsyms", .state = FINDING_LIMITS, .found = "x", .costs = "y" },
		      { .name = "cap_bpf",
			.state = FINDING_MISSING,
			.found = "not held",
			.costs = "no BPF program can be loaded",
			.fix = "run as root" } },
	.count = 2,
};

static void test_text(void **state)
{
	AUTO(buf_release) struct buf text = { 0 };

	(void)state;
	doctor_write_text(&limited, &text);
	buf_char(&text, '\0');
	assert_string_equal(text.ptr, "ok       kernel                  Linux 6\n"
				      "limits   kallsyms                without \"addresses\"\n"
				      "         costs: no names\n"
				      "         fix:   CAP_SYSLOG\n"
				      "Profiling works, with 1 limit.\n");
	buf_reset(&text);
	doctor_write_text(&refused, &text);
	buf_char(&text, '\0');
	assert_non_null(strstr(text.ptr, "\nmissing  cap_bpf"));
	assert_non_null(strstr(text.ptr, "Profiling cannot start here"));
}

static void test_json(void **state)
{
	AUTO(buf_release) struct buf text = { 0 };

	(void)state;
	doctor_write_json(&limited, &text);
	buf_char(&text, '\0');
	assert_string_equal(
		text.ptr,
		"{\"can_profile\":true,\"findings\":[\n"
		" {\"name\":\"kernel\",\"state\":\"ok\",\"found\":\"Linux 6\",\"costs\":null,"
		"\"fix\":null},\n"
		" {\"name\":\"kallsyms\",\"state\":\"limits\",\"found\":\"without "
		"\\\"addresses\\\"\","
		"\"costs\":\"no names\",\"fix\":\"CAP_SYSLOG\"}\n]}\n");
}

static void test_refusal(void **state)
{
	char why[240] = "";

	(void)state;
	assert_false(doctor_refusal(&limited, why, sizeof(why)));
	assert_true(doctor_can_profile(&limited));
	assert_true(doctor_refusal(&refused, why, sizeof(why)));
	assert_false(doctor_can_profile(&refused));
	assert_string_equal(why, "cap_bpf: not held, so no BPF program can be loaded; 'flametap "
				 "doctor' says what to do");
}

#define BIT(n) (UINT64_C(1) << (n))
#define SIX                                                                                 \
	(BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | \
	 BIT(CAP_CHECKPOINT_RESTORE) | BIT(CAP_SYSLOG))

/* What a sampler keeps of what it was started with. */
static void test_capabilities_of_sampler(void **state)
{
	static const struct {
		uint64_t permitted, kept;
		bool perf_admin;
	} cases[] = {
		{ UINT64_MAX, SIX, false }, /* root: SYS_ADMIN is not needed, and goes */
		{ SIX, SIX, false },
		{ 0, 0, false },
		{ SIX & ~BIT(CAP_SYSLOG), SIX & ~BIT(CAP_SYSLOG), false },
		/* the systemd unit of the seeds */
		{ BIT(CAP_SYS_ADMIN) | BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE),
		  BIT(CAP_SYS_ADMIN) | BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE), false },
		{ BIT(CAP_NET_ADMIN) | BIT(CAP_BPF), BIT(CAP_BPF), false },
		/* Debian's default of kernel.perf_event_paranoid */
		{ UINT64_MAX, SIX | BIT(CAP_SYS_ADMIN), true },
		{ SIX, SIX, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(capabilities_of_sampler(cases[i].permitted, cases[i].perf_admin),
				 cases[i].kept);
}

static void test_admin_stands_for(void **state)
{
	(void)state;
	for (int i = 0; i < SAMPLER_CAPABILITIES; i++) {
		const struct sampler_capability *c = &sampler_capabilities[i];
		bool memory_or_files =
			c->number == CAP_SYS_PTRACE || c->number == CAP_DAC_READ_SEARCH;

		assert_true(capability_is_in(c, BIT(c->number)));
		assert_false(capability_is_in(c, ~(BIT(c->number) | BIT(CAP_SYS_ADMIN))));
		assert_int_equal(capability_is_in(c, BIT(CAP_SYS_ADMIN)), !memory_or_files);
	}
}

/* On any machine and with any privileges: each thing is looked at, and what is not fine says what
 * it costs. */
static void test_look(void **state)
{
	static const char *const names[] = {
		"kernel",
		"cap_bpf",
		"cap_syslog",
		"bpf",
		"btf",
		"perf_event",
		"sampler",
		"memlock",
		"kallsyms",
		"map_files",
		"pid_namespace",
		"tracefs",
		"uprobes",
		"kprobes",
		"fentry",
		"lockdown",
		"seccomp",
		"hardware_counters",
		"perf_event_paranoid",
	};
	struct doctor_report r;

	(void)state;
	doctor_look(&r);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		uint32_t at = 0;

		while (at < r.count && strcmp(r.findings[at].name, names[i]) != 0)
			at++;
		if (at == r.count)
			fail_msg("no finding %s", names[i]);
		assert_true(r.findings[at].found[0]);
		assert_int_equal(r.findings[at].state != FINDING_FINE,
				 r.findings[at].costs != NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_refusal),
		cmocka_unit_test(test_capabilities_of_sampler),
		cmocka_unit_test(test_admin_stands_for),
		cmocka_unit_test(test_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
