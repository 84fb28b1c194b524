/*
 * doctor.h - what this kernel and these privileges allow the agent, found by trying.
 *
 * Each finding says what was found, what its lack costs, and what to do about it. `flametap doctor`
 * prints them; every refusal of agent, record and up quotes them. Looking changes nothing on the
 * machine and takes some 50 ms. Threads: one at a time.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"

enum finding_state {
	FINDING_FINE,
	FINDING_LIMITS,  /* profiling works, something of it does not */
	FINDING_MISSING, /* without it there is no profiling */
};

struct finding {
	const char *name; /* static: "cap_bpf" */
	enum finding_state state;
	char found[200];
	const char *costs; /* static; what its lack costs; NULL when nothing is lost */
	const char *fix;   /* static; NULL: there is nothing to do */
};

enum { DOCTOR_FINDINGS_MOST = 32 };

struct doctor_report {
	struct finding findings[DOCTOR_FINDINGS_MOST];
	uint32_t count;
};

void doctor_look(struct doctor_report *out);
bool doctor_can_profile(const struct doctor_report *r);
/* One line per finding, with cost and fix below those that are not fine, and a verdict. */
void doctor_write_text(const struct doctor_report *r, struct buf *out);
void doctor_write_json(const struct doctor_report *r, struct buf *out);
/* "no CAP_BPF (run as root, ...)": of the first that is missing, in one sentence; false when
 * nothing is. */
bool doctor_refusal(const struct doctor_report *r, char *out, size_t room);
/* Looks, and puts what is missing in front of why something did not start. */
struct err;
void doctor_explain(struct err *err);
