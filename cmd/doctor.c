/* doctor.c - flametap doctor: can this machine be profiled, and if not, why. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/doctor/doctor.h"
#include "base/cleanup.h"
#include "command.h"
#include "flags.h"

static bool json;

static const struct flag flags[] = {
	FLAG("Flags", "json", FLAG_BOOL, &json, NULL, NULL, "for programs"),
	{ 0 },
};

static const char *const examples[] = { "flametap doctor", "flametap doctor --json", NULL };

static const struct command command = {
	.name = "doctor",
	.words = "",
	.summary = "What this kernel and these privileges allow the agent, what each lack costs, "
		   "and how to fix it.\nExit status 0: profiling works here; 1: it does not.",
	.examples = examples,
	.flags = flags,
};

int doctor_run(int argc, char **argv)
{
	AUTO(buf_release) struct buf text = { 0 };
	struct doctor_report report;
	struct words words;
	int status;

	if (!command_begin(&command, argc, argv, &words, &status))
		return status;
	free(words.items);
	doctor_look(&report);
	if (json)
		doctor_write_json(&report, &text);
	else
		doctor_write_text(&report, &text);
	if (fwrite(text.ptr, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
		return EXIT_FAILED;
	return doctor_can_profile(&report) ? EXIT_OK : EXIT_FAILED;
}
